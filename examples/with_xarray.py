"""xarray: an array goes in and comes out with its coordinates. Needs the extra 'scale'.

python examples/with_xarray.py
"""

import numpy as np
import xarray
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(16, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y
scene = xarray.DataArray(
    noisy.transpose(1, 2, 0),
    dims=("y", "x", "band"),
    coords={"band": np.linspace(400, 1000, 16), "y": np.arange(64) * 30.0},
    name="reflectance",
    attrs={"place": "made up"},
)

restored = hyperdlw.denoise(scene).restored

print(restored.dims, restored.name, restored.attrs["place"])
print("band 400 to", float(restored.band[-1]))
panels = {"noisy": scene, "restored": restored}
shown = {name: x.isel(band=3).values for name, x in panels.items()}
show_bands("with_xarray.png", {**shown, "clean": clean[3]})
