"""A classical denoiser of grey images: local Wiener shrinkage in a translation-invariant frame."""

from __future__ import annotations

import math
from functools import lru_cache

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
ODD = 1
"""The taps that turn an image symmetric about its border into one that is antisymmetric there."""

REACH = (2 + WINDOW // 2 + 2) * 2 ** (LEVELS - 1) - 2
"""Pixels further away than this have no influence: filters and windows of all levels and their adjoints."""


@torch.no_grad()
def denoise(images: Tensor, sigma: Tensor | float, caution: float = CAUTION) -> Tensor:
    """Remove Gaussian noise from grey images (n, row, col).

    Every framelet coefficient c is multiplied by max(1 - s^2 / m, 0), where m is the mean of c^2 in a
    5x5 window and s the standard deviation of the noise in c. Beyond its border an image goes on as its
    mirror image, so rows with :data:`REACH` more on both sides are restored as in the whole image.

    Args:
        sigma: standard deviation of the noise: a number, one per image (n,), or a map (n, row, col).
        caution: factor on the noise variance.
    """
    level = torch.as_tensor(sigma, dtype=images.dtype, device=images.device)
    level = level.reshape(-1, 1, 1) if level.dim() == 1 else level
    level = level.expand_as(images)
    # One image after the other stays in the cache.
    done = [
        _shrink(x, s.square().mul_(caution).clamp_min_(1e-36), 0)
        for x, s in zip(images, level, strict=True)
    ]
    return torch.stack(done) if done else images.clone()


def _shrink(x: Tensor, variance: Tensor, level: int) -> Tensor:
    """An image (row, col) with its details of this level and those above shrunk."""
    if level == LEVELS:
        return x
    step, energy = 2**level, ENERGIES[level]
    planes = []
    for i, part in enumerate(_analyse(x, 0, step)):
        found = list(_analyse(part, 1, step))
        for j, c in enumerate(found):
            if i or j:
                _wiener(c, variance, energy[i] * energy[j], step)
            else:
                found[0] = _shrink(c, variance, level + 1)
        planes.append(_synthesise(found, 1, step))
    return _synthesise(planes, 0, step)


def _wiener(c: Tensor, variance: Tensor, energy: float, step: int) -> None:
    """c (1 - min(1, noise / local mean of c^2)) in place."""
    square = c.square()
    for dim in (0, 1):
        # Five terms in three sums: pairs, pairs of pairs, and the last one.
        n = c.shape[dim]
        wide = _extend(square, dim, 2 * step)
        pair = wide.narrow(dim, 0, n + 3 * step) + wide.narrow(dim, step, n + 3 * step)
        square = pair.narrow(dim, 0, n) + pair.narrow(dim, 2 * step, n)
        square += wide.narrow(dim, 4 * step, n)
    factor = energy * WINDOW**2
    taken = torch.div(variance, square).clamp_max_(1 / factor)
    c.addcmul_(c, taken, value=-factor)


def _analyse(x: Tensor, dim: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """The three filters along an axis; the first and the third add up to the image."""
    before, after = _neighbours(x, dim, step)
    low = (before + after).mul_(0.25).add_(x, alpha=0.5)
    return low, (after - before).mul_(TAPS[ODD][2]), x - low


def _synthesise(parts: list[Tensor], dim: int, step: int) -> Tensor:
    """The adjoint: filters 0 and 2 are symmetric, filter 1 changes its sign."""
    low, odd, high = parts
    middle = low.sub_(high)
    before, after = _neighbours(middle, dim, step)
    out = (before + after).mul_(0.25).add_(middle, alpha=0.5).add_(high)
    before, after = _neighbours(odd, dim, step, odd=True)
    return out.add_(before - after, alpha=TAPS[ODD][2])


def _neighbours(x: Tensor, dim: int, step: int, odd: bool = False) -> tuple[Tensor, Tensor]:
    """The pixels ``step`` before and after every pixel."""
    wide, n = _extend(x, dim, step, odd), x.shape[dim]
    return wide.narrow(dim, 0, n), wide.narrow(dim, 2 * step, n)


def _extend(x: Tensor, dim: int, margin: int, odd: bool = False) -> Tensor:
    """Mirror images on both sides, as often as a small image needs it; with changed sign if ``odd``."""
    edges = []
    for place, sign in _mirror(x.shape[dim], margin, x.device):
        edge = x.index_select(dim, place)
        if odd:
            edge *= sign.to(x).unsqueeze(1 - dim)
        edges.append(edge)
    return torch.cat([edges[0], x, edges[1]], dim)


@lru_cache(64)
def _mirror(n: int, margin: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Where the pixels before and after a line of n come from, and their sign if it is antisymmetric."""
    found = []
    for start in (-margin, n):
        index = torch.arange(start, start + margin, device=device)
        fold = index % (2 * n)
        found.append((torch.minimum(fold, 2 * n - 1 - fold), 1 - 2 * (index // n % 2)))
    return found


def _find_energies() -> list[tuple[float, ...]]:
    """Variance of white noise of variance 1 after the filters of every level, for one axis."""
    found, smooth = [], np.ones(1)
    for k in range(LEVELS):
        spread = [np.zeros(2 * 2**k + 1) for _ in TAPS]
        for kernel, taps in zip(spread, TAPS, strict=True):
            kernel[:: 2**k] = taps
        found.append(tuple(float(np.square(np.convolve(smooth, s)).sum()) for s in spread))
        smooth = np.convolve(smooth, spread[0])
    return found


ENERGIES = _find_energies()
