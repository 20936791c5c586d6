"""A small scene for oracles that solve it exactly."""

from __future__ import annotations

import numpy as np


def make_noisy_steps(shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
    """A piecewise constant scene (band, row, col) with noise."""
    scene = np.zeros(shape)
    scene[:, : shape[1] // 2] += rng.random((shape[0], 1, 1))
    scene[:, :, : shape[2] // 2] += rng.random((shape[0], 1, 1))
    return scene + 0.3 * rng.standard_normal(shape)
