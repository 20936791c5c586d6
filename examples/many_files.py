"""A folder of scenes: one command restores all, and names those it could not read.

python examples/many_files.py

The same as ``hyperdlw denoise incoming/*.hdr cleaned``; files that fail are named, the others are made.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

Path("incoming").mkdir(exist_ok=True)
for day in range(3):
    clean = make_textured_scene(16, 48, 48, rng=np.random.default_rng(day))
    noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(day)).y
    cube = hyperdlw.Cube.from_array(noisy)
    hyperdlw.save_cube(cube, f"incoming/day{day}.hdr", overwrite=True)
Path("incoming/broken.hdr").write_text("ENVI\n")  # one of them cannot be read

command = [sys.executable, "-m", "hyperdlw.app.cli.main", "denoise", "incoming", "cleaned"]
done = subprocess.run([*command, "--overwrite", "--quiet"], capture_output=True, text=True)
print(f"exit code {done.returncode}")
print(done.stderr.strip())
print(*sorted(path.name for path in Path("cleaned").iterdir()))
panels = {}
for folder in ("incoming", "cleaned"):
    for day in range(3):
        panels[f"{folder}, day {day}"] = hyperdlw.open_cube(f"{folder}/day{day}.hdr").data[8]
show_bands("many_files.png", panels, columns=3)
