"""Many bands: 200 of them, as airborne instruments have, noisier at both ends.

python examples/many_bands.py
"""

import numpy as np
from pictures import compare

import hyperdlw
from hyperdlw.testbed import make_textured_scene

rng = np.random.default_rng(7)
clean = make_textured_scene(200, 48, 48, rng=rng)
level = 0.01 + 0.15 * np.abs(np.linspace(-1, 1, 200)) ** 4
noisy = (clean + level[:, None, None] * rng.normal(size=clean.shape)).astype(np.float32)

result = hyperdlw.denoise(noisy)

print(f"{result.report.bands_used} bands in {result.report.shape[1:]} pixels")
compare("many_bands.png", clean, noisy, result.cube.data)
