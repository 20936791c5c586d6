"""Stripes: Gaussian noise in all bands, stripes in a third of them.

python examples/stripes.py
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(2, clean, np.random.default_rng(1))
striped = int(np.abs(noisy.truth.stripe).mean(axis=(1, 2)).argmax())

result = hyperdlw.denoise(noisy.y)

print("noise:", result.report.describe_noise())
compare("stripes.png", clean, noisy.y, result.cube.data, band=striped)
