"""Pushbroom columns: every column has an offset that bands share and that drifts along the track.

python examples/pushbroom.py
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("column-offsets", clean, np.random.default_rng(1)).y

result = hyperdlw.denoise(noisy)  # columns=False would leave the columns as they are

print("set aside:", result.report.set_aside)
compare("pushbroom.png", clean, noisy, result.cube.data)
