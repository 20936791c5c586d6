"""A classical denoiser of grey images: local Wiener shrinkage in a translation-invariant frame."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor

LEVELS = 4
WINDOW = 5
"""Side of the square over which the energy of the coefficients is averaged, in their spacing."""
CAUTION = 1.5
"""Factor on the noise variance."""

TAPS = ((0.25, 0.5, 0.25), (-math.sqrt(2) / 4, 0.0, math.sqrt(2) / 4), (-0.25, 0.5, -0.25))
"""Piecewise linear framelets: their undecimated transform is a tight frame."""


REACH = 4 * 2**LEVELS
"""Pixels further away than this have no influence: filters and windows of all levels and their adjoints."""


def denoise(images: Tensor, sigma: Tensor | float, caution: float = CAUTION) -> Tensor:
    """Remove Gaussian noise from grey images (n, row, col).

    Every framelet coefficient c is multiplied by max(1 - s^2 / m, 0), where m is the mean of c^2 in a
    5x5 window and s the standard deviation of the noise in c.

    Args:
        sigma: standard deviation of the noise: a number, one per image (n,), or a map (n, row, col).
        caution: factor on the noise variance.
    """
    rows, cols = images.shape[-2:]
    level = torch.as_tensor(sigma, dtype=images.dtype, device=images.device)
    level = level.reshape(-1, 1, 1) if level.dim() == 1 else level
    level = level.expand_as(images)
    # Extended by reflection, because the shifts below are periodic.
    margin = 2**LEVELS
    smooth, variance = _extend(images, margin), _extend(level, margin).square()
    details = []
    for k, energy in enumerate(_energies()):
        smooth, kept = _shrink_details(smooth, variance, 2**k, energy)
        details.append(kept)
    for k in reversed(range(LEVELS)):
        smooth = _apply(smooth, 0, 0, 2**k, adjoint=True) + details[k]
    return smooth[..., margin : margin + rows, margin : margin + cols]


def _shrink_details(
    x: Tensor, variance: Tensor, step: int, energy: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """The smooth part of a level, and what its shrunk details contribute to the image."""
    kept = torch.zeros_like(x)
    for i, j in list(itertools.product(range(3), repeat=2))[1:]:
        c = _apply(x, i, j, step)
        mean = _local_mean(c.square(), step)
        noise = variance * (energy[i] * energy[j])
        c = c * (1 - noise / mean.clamp_min(1e-30)).clamp_min(0)
        kept += _apply(c, i, j, step, adjoint=True)
    return _apply(x, 0, 0, step), kept


def _local_mean(x: Tensor, step: int) -> Tensor:
    """Mean over a square of pixels as far apart as the coefficients are independent."""
    for dim in (-2, -1):
        total = x.clone()
        for k in range(1, WINDOW // 2 + 1):
            total += x.roll(k * step, dim) + x.roll(-k * step, dim)
        x = total / WINDOW
    return x


def _apply(x: Tensor, i: int, j: int, step: int, adjoint: bool = False) -> Tensor:
    """Filter rows with taps i and columns with taps j, ``step`` pixels apart (or the adjoint)."""
    for dim, taps in ((-2, TAPS[i]), (-1, TAPS[j])):
        shifts = (-step, 0, step) if adjoint else (step, 0, -step)
        parts = [x.roll(s, dim) * t for s, t in zip(shifts, taps, strict=True) if t]
        x = torch.stack(parts).sum(0)
    return x


def _extend(x: Tensor, margin: int) -> Tensor:
    """Reflection on every side, as often as a small image needs it."""
    for dim in (-2, -1):
        n = x.shape[dim]
        index = torch.arange(-margin, n + margin, device=x.device) % (2 * n)
        x = x.index_select(dim, torch.minimum(index, 2 * n - 1 - index))
    return x


def _energies() -> list[tuple[float, ...]]:
    """Variance of white noise of variance 1 after the filters of every level, for one axis."""
    found, smooth = [], np.ones(1)
    for k in range(LEVELS):
        spread = [np.zeros(2 * 2**k + 1) for _ in TAPS]
        for kernel, taps in zip(spread, TAPS, strict=True):
            kernel[:: 2**k] = taps
        found.append(tuple(float(np.square(np.convolve(smooth, s)).sum()) for s in spread))
        smooth = np.convolve(smooth, spread[0])
    return found
