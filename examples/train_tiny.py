"""Train a network: a whole run in seconds, with a tiny network, two scenes and one model.

python examples/train_tiny.py [STEPS]

It shows the parts, not the quality: the shipped networks have 16 times the filters and a hundred times
the steps.
"""

import sys
from pathlib import Path

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.train import Recipe, train

steps = int(sys.argv[1]) if len(sys.argv) == 2 else 40
recipe = Recipe(
    "tiny",
    sources=("tv",),  # the denoiser the gradient goes through
    noise=(1, 3),  # impulses; dead columns
    filters=4,
    patch=12,
    batch=2,
    steps=steps,
    rate=0.01,
    warmup=5,
    average=0.9,
    loss="log",
)
scenes = {
    f"scene{i}": hyperdlw.scenes.synthetic(8, 48, 48, rng=np.random.default_rng(i)).data
    for i in range(2)
}
network = train(recipe, scenes, Path("runs/tiny"))

clean = hyperdlw.scenes.synthetic(8, 48, 48, rng=np.random.default_rng(9))  # not trained on
noisy = hyperdlw.noise.case(1, clean.data, np.random.default_rng(1)).y
shown = {"noisy": noisy[4]}
for weights in ("uniform", network):
    result = hyperdlw.denoise(noisy, model="tv", weights=weights, range=(0, 1))
    print(f"{weights}: {hyperdlw.metrics.psnr(clean.data, result.cube.data):.2f} dB")
    shown["all trusted alike" if weights == "uniform" else "tiny network"] = result.cube.data[4]
show_bands("train_tiny.png", {**shown, "clean": clean.data[4]})
