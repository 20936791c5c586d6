"""LRMR (Zhang et al., TGRS 2014): small patches are low rank plus sparse errors."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

SIDE, STEP = 20, 8
"""Side of a patch and distance of neighbouring ones, in pixels; a smaller image is one patch."""
THRESHOLD, STEPS = 0.15, 101
"""Soft threshold of the sparse errors, in data units; number of alternations."""
CHUNK = 1 << 17
"""Voxels of patches that are decomposed together."""


def run(y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor:
    """LRMR: every patch is a matrix of low rank plus sparse errors, and overlapping patches are averaged.

    min 1/2 ||Y - L - S||^2 + 0.15 ||S||_1 over rank(L) <= rank, for each patch of
    20 x 20 pixels, by alternation; the image is the mean of the L.

    Args:
        rank: largest rank of a patch; None: 7, or 3 for fewer than 64 bands.
        seed: of the random matrices that find the leading subspace of a patch.
    """
    bands, rows, cols = y.shape
    r = rank if rank is not None else (7 if bands >= 64 else 3)
    high, wide = min(SIDE, rows), min(SIDE, cols)
    windows = y.unfold(1, high, 1).unfold(2, wide, 1)
    tops, lefts = corner_positions(rows, high, STEP), corner_positions(cols, wide, STEP)
    corners = list(itertools.product(tops, lefts))
    total, count = torch.zeros_like(y), y.new_zeros(rows, cols)
    shape = (STEPS, bands, min(r, bands))
    size = max(1, CHUNK // (high * wide * bands))
    for start in range(0, len(corners), size):
        some = torch.tensor(corners[start : start + size])
        sketches = _sketches(seed, start, len(some), shape).to(y)
        patches = windows[:, some[:, 0], some[:, 1]].permute(1, 2, 3, 0)
        matrices = patches.reshape(len(some), high * wide, bands)
        low = decompose(matrices, sketches).view_as(patches).permute(0, 3, 1, 2)
        for (i, j), patch in zip(some.tolist(), low, strict=True):
            total[:, i : i + high, j : j + wide] += patch
            count[i : i + high, j : j + wide] += 1
    return total / count


def decompose(x: Tensor, sketches: Tensor) -> Tensor:
    """The low-rank part of a stack of matrices (patch, pixel, band).

    Alternates L = A Q Q' with A = X - S, where Q nearly spans the leading right singular vectors of
    A, and S = soft(X - L, THRESHOLD). One formula gives the next A: L + clip(X - L).

    Args:
        sketches: normal matrices W, (step, patch, band, rank), or (step, band, rank) for all patches:
            the columns of Q span A'A W.
    """
    a, low = x, x
    for k in range(STEPS):
        q = torch.linalg.qr(a.mT @ (a @ sketches[k])).Q
        low = (a @ q) @ q.mT
        a = low + (x - low).clamp(-THRESHOLD, THRESHOLD)
    return low


def _sketches(seed: int, first: int, count: int, shape: tuple[int, ...]) -> Tensor:
    """Random matrices of some patches; each patch has its own stream, whatever is done together."""
    drawn = [
        torch.randn(shape, generator=torch.Generator().manual_seed(seed * 1_000_003 + i))
        for i in range(first, first + count)
    ]
    return torch.stack(drawn, 1)


def corner_positions(length: int, side: int, step: int) -> list[int]:
    """First pixels of the patches along one axis: every ``step``, then every one to the end.

    >>> corner_positions(30, 20, 8)
    [0, 8, 9, 10]
    """
    regular = list(range(0, length - side + 1, step))
    return regular + list(range(regular[-1] + 1, length - side + 1))
