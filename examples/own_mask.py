"""A mask of your own: what you know about a scene times what the network sees.

python examples/own_mask.py
"""

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.pipeline import heat
from hyperdlw.testbed import make_textured_scene

clean = make_textured_scene(31, 64, 64, rng=np.random.default_rng(7))
noisy = hyperdlw.noise.case(1, clean, np.random.default_rng(1)).y
noisy[12:18, 10:40, 16:44] += 0.25  # a smear that only you know of

mask = np.ones(clean.shape, np.float32)
mask[12:18, 10:40, 16:44] = 0.01  # hardly trusted
network = hyperdlw.predict_weights(noisy, range=(0, 1))

shown, smear = {"noisy": noisy[14]}, (slice(12, 18), slice(10, 40), slice(16, 44))
for name, weights in (("network alone", network), ("network times mask", network * mask)):
    x = hyperdlw.denoise(noisy, model="lrtfdfr", weights=weights, range=(0, 1)).cube.data
    print(f"{name}: error in the smear {np.abs(x - clean)[smear].mean():.3f}")
    shown[name] = x[14]
shown |= {"your mask": mask[14], "weights": heat((network * mask)[14]) / 255, "clean": clean[14]}
show_bands("own_mask.png", shown)
