"""How many clean values lie in the 90 % interval: result plus or minus 1.645 standard deviations.

    python benchmarks/coverage.py [--scenes 1 2 3 4] [--files FILE ...] [--calibrate]

Scenes are made by code (made:1 to made:4, 31 bands of 48x48 pixels), one draw of every noise. With
``--calibrate`` it prints what the factor of ``hyperdlw.pipeline.uncertainty`` would have to be, by the
part of the model, on scenes that the table does not use (made:11, made:12). ``--files`` takes clean cubes in
place of made ones: 31 good bands evenly spaced, the middle of the image.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from hyperdlw import denoise, open_cube
from hyperdlw.pipeline.uncertainty import find_factor
from hyperdlw.testbed import find_noise
from hyperdlw.testbed.textured import make_named_scene

NOISES = (
    *(f"case{k}" for k in range(1, 6)),
    *("emit", "tanager", "aviris-ng", "photons200", "snr50", "mild"),
)
BANDS, SIDE, NORMAL = 31, 48, 1.645


def load_clean(name: str) -> NDArray[np.float32]:
    """A scene made by code ("made:1"), or the middle of a file, every band on [0, 1]."""
    if name.startswith("made:"):
        return make_named_scene(name, BANDS, SIDE)
    cube = open_cube(name)
    x = cube.data[cube.good_bands]
    step = max(1, len(x) // BANDS)
    top, left = (max(0, n - SIDE) // 2 for n in x.shape[1:])
    x = x[: BANDS * step : step, top : top + SIDE, left : left + SIDE]
    low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
    return np.asarray((x - low) / (high - low), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, nargs="+")
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--calibrate", action="store_true")
    given = parser.parse_args()
    seeds = given.scenes or ([11, 12] if given.calibrate else [1, 2, 3, 4])
    scenes = dict.fromkeys(given.files, 99) or {f"made:{seed}": seed for seed in seeds}
    every = []
    for noise in NOISES:
        row, parts = [], []
        for name, seed in scenes.items():
            clean = load_clean(name)
            y = find_noise(noise).apply(clean, np.random.default_rng(100 * seed + 7)).y
            found = denoise(np.asarray(y, np.float32), uncertainty=True, include_invented=True)
            z = np.abs(found.cube.data - clean) / found.uncertainty
            part = float(found.report.noise["model_part"])
            scale = float(np.quantile(z, 0.9)) / NORMAL * find_factor(part)
            row.append(scale if given.calibrate else 100 * float((z < NORMAL).mean()))
            parts.append(part)
        every += row
        cells = " | ".join(
            f"{v:.2f} ({p:.2f})" if given.calibrate else f"{v:.1f}"
            for v, p in zip(row, parts, strict=True)
        )
        print(f"| {noise} | {cells} | {np.mean(row):.1f} |", flush=True)
    print(f"mean {np.mean(every):.2f}, from {np.min(every):.2f} to {np.max(every):.2f}")


if __name__ == "__main__":
    main()
