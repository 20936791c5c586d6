"""A colour picture: three bands, with the model and the network that are made for them.

python examples/colour.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 96, 96, rng=np.random.default_rng(3))[[25, 15, 5]]
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y

shown = {"noisy": noisy}
for weights in ("uniform", "colour-T"):
    result = hyperdlw.denoise(noisy, model="svtv", weights=weights, range=(0, 1), paper=True)
    shown[f"svtv, {weights}"] = result.cube.data
for name, x in shown.items():
    print(f"{name}: {hyperdlw.metrics.psnr(clean, x):.2f} dB")
shown["clean"] = clean
show_bands("colour.png", {name: x.transpose(1, 2, 0) for name, x in shown.items()}, (0, 1))
