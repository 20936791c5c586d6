"""Gaps: what was not measured is NaN, takes no part, and stays a gap or is filled.

python examples/gaps.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("mild", clean, np.random.default_rng(1)).y
noisy[8:14, 10:26, 20:44] = np.nan  # a block in six bands
noisy[:, 48, 30] = np.nan  # a pixel without any measurement
noisy[20, :, 5] = np.nan  # a column of one band

kept = hyperdlw.denoise(noisy).cube.data
filled = hyperdlw.denoise(noisy, fill=True).cube.data

gap = np.isnan(noisy)
print(f"gaps before: {gap.sum()}, after: {np.isnan(kept).sum()}, filled: {np.isnan(filled).sum()}")
error = np.abs(filled - clean)
print(f"mean error where filled {error[gap].mean():.3f}, elsewhere {error[~gap].mean():.3f}")
show_bands(
    "gaps.png",
    {"noisy, red: gap": noisy[10], "restored": kept[10], "filled": filled[10], "clean": clean[10]},
)
