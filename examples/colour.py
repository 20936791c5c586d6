"""A colour picture: three bands, with the model and the network that are made for them.

python examples/colour.py
"""

import numpy as np
from matplotlib.cbook import get_sample_data
from matplotlib.image import imread
from pictures import show_bands

import hyperdlw

with get_sample_data("grace_hopper.jpg") as file:  # a photograph that comes with matplotlib
    photo = imread(file, format="jpg")[:480:4, 60:460:4]
clean = (photo / 255).astype(np.float32).transpose(2, 0, 1)
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y

shown = {"noisy": noisy}
for weights in ("uniform", "colour-T"):
    result = hyperdlw.denoise(noisy, model="svtv", weights=weights, range=(0, 1), paper=True)
    shown[f"svtv, {weights}"] = result.cube.data
for name, x in shown.items():
    print(f"{name}: {hyperdlw.metrics.psnr(clean, x):.2f} dB")
shown["clean"] = clean
show_bands("colour.png", {name: x.transpose(1, 2, 0) for name, x in shown.items()}, (0, 1))
