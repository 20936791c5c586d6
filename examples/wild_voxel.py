"""One wild voxel: a value of a million does not spoil the rest, and is reported.

python examples/wild_voxel.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case("even15", clean, np.random.default_rng(1)).y
spoiled = noisy.copy()
spoiled[10, 20, 30] = 1e6

without = hyperdlw.denoise(noisy).cube.data
result = hyperdlw.denoise(spoiled)
restored = result.cube.data

for note in result.report.notes:
    print("note:", note)
others = np.ones(clean.shape, bool)
others[10, 20, 30] = False
print(f"the voxel: {restored[10, 20, 30]:g}")
print(f"largest change of any other voxel: {np.abs(restored - without)[others].max():.2g}")
panels = {"noisy": spoiled[10], "restored": restored[10], "clean": clean[10]}
show_bands("wild_voxel.png", panels)
