"""A model of your own: a regulariser with the weights of a network that never saw it.

python examples/own_model.py

To have it in the command line as well, give it an entry point: see the page "Add your own".
"""

import numpy as np
import torch
from pictures import show_bands

import hyperdlw
from hyperdlw import Model, Problem, Schedule, solve, term
from hyperdlw.solver import BAND, COL, GROUP, L1, ROW, gradient


def smooth_both_ways(shape, strength=1.0):
    """0.05 sum |spatial gradient| + 0.05 sum |spectral difference|."""
    return Model(
        terms=(
            term(GROUP, gradient(ROW, COL), strength=0.05 * strength),
            term(L1, gradient(BAND), strength=0.05 * strength),
        ),
        schedule=Schedule(steps=20, mu=0.1, growth=1.05),
    )


clean = hyperdlw.scenes.synthetic(12, 48, 48, rng=np.random.default_rng(0))
noisy = hyperdlw.noise.case(1, clean.data, np.random.default_rng(1)).y
y = torch.from_numpy(noisy)
print(f"noisy              {hyperdlw.metrics.psnr(clean.data, noisy):.2f} dB")
shown = {"noisy": noisy[6]}
for weights in ("uniform", "N+T+TS"):
    w = torch.from_numpy(hyperdlw.predict_weights(noisy, weights, range=(0, 1)))
    x = solve(Problem(smooth_both_ways(y.shape), y, w)).x
    print(f"own model, {weights:7s} {hyperdlw.metrics.psnr(clean.data, x.numpy()):.2f} dB")
    shown[f"own model, {weights}"] = x[6].numpy()
show_bands("own_model.png", {**shown, "clean": clean.data[6]})
