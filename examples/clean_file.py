"""Clean a file: read, restore, write in the same form.

python examples/clean_file.py [IN OUT]
"""

import sys

import numpy as np
from pictures import show_bands

import hyperdlw

if len(sys.argv) == 3:
    source, target = sys.argv[1:]
else:  # a made-up scene, stored as many sensors do: whole numbers, bands interleaved
    source, target = "noisy.hdr", "restored.hdr"
    clean = hyperdlw.scenes.synthetic(12, 48, 56, rng=np.random.default_rng(0))
    noisy = hyperdlw.noise.case(5, clean.data, np.random.default_rng(1)).y
    counts = np.clip(np.rint(noisy * 10_000), -32_000, 32_000).astype(np.int16)
    cube = hyperdlw.Cube.from_array(counts, wavelengths=clean.wavelengths)
    hyperdlw.save_cube(cube, source, overwrite=True)

cube = hyperdlw.open_cube(source)
result = hyperdlw.denoise(cube)
clipped = result.save(target, overwrite=True)

print(f"{source}: {cube.bands} bands, {cube.shape[1]} x {cube.shape[2]} pixels")
print(f"restored with {result.report.title}, weights {result.report.weights}")
print(f"{target}: {hyperdlw.open_cube(target).encoding.dtype}, {clipped} voxels clipped")
band = cube.bands // 2
panels = {"noisy": cube.data[band], "restored": result.cube.data[band]}
show_bands("clean_file.png", panels)
