"""AVIRIS-NG: the noise law of the airborne instrument, on a dark scene.

python examples/aviris_ng.py
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("aviris-ng", clean, np.random.default_rng(1)).y  # a tenth of the sun

result = hyperdlw.denoise(noisy)  # nothing is told: the noise is measured

print("noise:", result.report.describe_noise())
compare("aviris_ng.png", clean, noisy, result.cube.data)
