"""Where is a cube broken? The weight map as a product, and what was done about it.

python examples/weights_and_report.py [CUBE]
"""

import json
import sys

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.pipeline import dead_lines, heat

if len(sys.argv) == 2:
    cube = hyperdlw.open_cube(sys.argv[1])
else:
    clean = hyperdlw.scenes.synthetic(10, 48, 48, rng=np.random.default_rng(0))
    noisy = hyperdlw.noise.case(3, clean.data, np.random.default_rng(1))
    cube = clean.with_data(noisy.y)

result = hyperdlw.denoise(cube)
hyperdlw.save_cube(cube.with_data(result.weights), "trust.hdr", overwrite=True)
with open("report.json", "w") as file:
    json.dump(result.report.as_dict(), file, indent=1)

w = result.weights
print(f"{100 * result.report.down_weighted:.1f} % of the voxels have a weight below 0.1")
for band in np.argsort(w.mean(axis=(1, 2)))[:3]:
    print(f"band {band}: mean weight {w[band].mean():.2f}")
for band, columns in enumerate(dead_lines(cube.data, cube.valid)):
    if columns.any():
        print(f"band {band}: dead columns {', '.join(map(str, np.flatnonzero(columns)))}")
print("written: trust.hdr, report.json")
band = int(w.mean(axis=(1, 2)).argmin())
panels = {"weights": heat(w[band]) / 255, "restored": result.cube.data[band]}
show_bands("weights_and_report.png", {f"noisy, band {band}": cube.data[band], **panels})
