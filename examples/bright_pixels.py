"""Glints and flames: pixels 200 times as bright as the scene stay, and nothing spreads.

python examples/bright_pixels.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("bright200", clean, np.random.default_rng(1))
truth = noisy.find_target(clean)  # the bright pixels belong to the scene

result = hyperdlw.denoise(noisy.y)
restored = result.cube.data

bright = truth.max(axis=0) > 2
print(f"{bright.sum()} bright pixels; noted: {result.report.set_aside}")
error = np.abs(restored - truth)[:, bright] / truth[:, bright]
print(f"largest change of a bright value: {100 * error.max():.1f} %")
band, limits = 15, np.quantile(clean[15], [0.002, 0.97])
panels = {"noisy": noisy.y[band], "restored": restored[band], "clean": truth[band]}
show_bands("bright_pixels.png", panels, limits)
