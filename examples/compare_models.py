"""Which model is best? Make a clean cube like yours noisy, and measure.

python examples/compare_models.py [CLEAN_CUBE]
"""

import sys

import numpy as np
from pictures import show_bands

import hyperdlw
from hyperdlw.cube import minmax_range

MODELS = ("nn", "tv", "tvs", "lrtv", "e3dtv", "lrtfdfr", "ctv")

if len(sys.argv) == 2:
    cube = hyperdlw.open_cube(sys.argv[1])
    unit = minmax_range(cube.data, cube.valid).to_unit(cube.data)
else:
    unit = hyperdlw.scenes.synthetic(12, 48, 48, rng=np.random.default_rng(0)).data

noisy = hyperdlw.noise.case(5, unit, np.random.default_rng(1)).y
learned = hyperdlw.predict_weights(noisy, range=(0, 1))  # the same for every model
print(f"noisy: {hyperdlw.metrics.psnr(unit, noisy):.2f} dB")
shown = {"noisy": noisy[6]}
print("model      uniform  N+T+TS   PSNR in dB")
for model in MODELS:
    scores = []
    for weights in ("uniform", learned):
        result = hyperdlw.denoise(noisy, model=model, weights=weights, range=(0, 1))
        scores.append(hyperdlw.metrics.psnr(unit, result.cube.data))
    print(f"{model:10s} {scores[0]:7.2f} {scores[1]:7.2f}")
    shown[model] = result.cube.data[6]
show_bands("compare_models.png", {**shown, "clean": unit[6]})
