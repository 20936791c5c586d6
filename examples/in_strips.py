"""A file larger than memory: cut into strips, it gives the same numbers.

python examples/in_strips.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(8, 192, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y
hyperdlw.save_cube(hyperdlw.Cube.from_array(noisy), "flight.hdr", overwrite=True)

hyperdlw.denoise_file("flight.hdr", "whole.hdr", overwrite=True)
report = hyperdlw.denoise_file("flight.hdr", "strips.hdr", tile=64, overwrite=True)
whole, strips = (hyperdlw.open_cube(name).data for name in ("whole.hdr", "strips.hdr"))

print(f"whole cube against strips: largest difference {np.abs(whole - strips).max():.1g}")
panels = {"noisy": noisy, "whole": whole, "in strips": strips, "clean": clean}
show_bands("in_strips.png", {name: x[4].T for name, x in panels.items()}, columns=2)
