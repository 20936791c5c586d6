"""How often the audit errs: white noise that is flagged, and a removed image that is not.

    python benchmarks/audit.py [--trials 100] [--side 48] [--bands 12] [--power]

Every trial has a scene made by code (made:101 and up, which no constant was chosen on) and white noise of a
level drawn from 0.005 to 0.2 of the range (logarithmically even). Rows:

- noise itself: the clean scene is the result, so what was removed is exactly the noise;
- plain command: ``hyperdlw.denoise`` restores the scene;
- contrast, edges: the same result, with contrast or edges taken away as well, so that what is missing has
  half the standard deviation of the noise in every band (a fifth of the variance of what was removed).

A cube is flagged if any of its bands is. With ``--power`` the missing part runs from 0.1 to 1 standard
deviations. Figures of ``docs/guide/signal.md`` come from this script.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from hyperdlw import Cube, audit, denoise
from hyperdlw.testbed.textured import make_named_scene

F32 = NDArray[np.float32]
SIZES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def drop_contrast(x: F32, size: F32) -> F32:
    """Less of the difference from the mean, with a root mean square of ``size`` (band, 1, 1)."""
    return _drop(x, x - x.mean((1, 2), keepdims=True), size)


def drop_edges(x: F32, size: F32) -> F32:
    """Less of the difference from the blurred image."""
    return _drop(x, x - gaussian_filter(x, (0, 1, 1)), size)


def _drop(x: F32, part: F32, size: F32) -> F32:
    scale = np.sqrt(np.square(part).mean((1, 2), keepdims=True))
    return np.asarray(x - part * size / np.maximum(scale, 1e-12), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--bands", type=int, default=12)
    parser.add_argument("--power", action="store_true")
    given = parser.parse_args()
    flagged: dict[str, list[int]] = {}
    for trial in range(given.trials):
        rng = np.random.default_rng(trial)
        clean = make_named_scene(f"made:{101 + trial}", given.bands, given.side)
        level = 0.005 * 40 ** rng.random()
        y = np.asarray(clean + level * rng.standard_normal(clean.shape), np.float32)
        plain = denoise(y)
        x = plain.cube.data
        size = np.full((len(y), 1, 1), 0.5 * level, np.float32)
        ways: dict[str, Callable[[], F32]] = {
            "contrast": lambda x=x, size=size: drop_contrast(x, size),
            "edges": lambda x=x, size=size: drop_edges(x, size),
        }
        if given.power:
            ways = {
                f"{name} {s}": lambda f=f, s=s, x=x, size=size: f(x, 2 * s * size)
                for s in SIZES
                for name, f in (("contrast", drop_contrast), ("edges", drop_edges))
            }
        noisy = Cube.from_array(y)
        for band in plain.audit.bands:
            if band.structured:
                print(f"# made:{101 + trial}, level {level:.3f}, plain command: {band}", flush=True)
        found = {"plain command": len(plain.audit.structured)}
        found["noise itself"] = len(audit(noisy, Cube.from_array(clean)).structured)
        for name, make in ways.items():
            found[name] = len(audit(noisy, Cube.from_array(make())).structured)
        for name, count in found.items():
            flagged.setdefault(name, []).append(count)
        if trial % 10 == 9:
            told = ", ".join(f"{k} {np.count_nonzero(v)}" for k, v in flagged.items())
            print(f"# {trial + 1} trials: {told}", flush=True)
    print("| what was removed | cubes flagged | bands flagged, mean |\n|---|---:|---:|")
    for name, counts in flagged.items():
        hit = np.count_nonzero(counts)
        print(f"| {name} | {hit} of {len(counts)} | {np.mean(counts):.1f} of {given.bands} |")


if __name__ == "__main__":
    main()
