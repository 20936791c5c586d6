"""MNF (Green et al. 1988): components in the order of their SNR, the noisy ones left out."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import BadInput

LEAST = 1.25
"""Variance over noise variance from which a component is kept; pure noise has 1."""


def run(y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor:
    """MNF: noise-adjusted principal components, cut where the noise begins.

    With the covariance C of the pixels and N of the noise, half that of the differences between
    neighbours, the components are v'(y - mean) with C v = s N v and v'N v = 1. Those with s above a
    threshold are kept and turned back.

    Args:
        y: noisy image (band, row, col), bands in [0, 1].
        rank: number of components kept; None: all with s > ``LEAST``.
        seed: not used, no random number is drawn.
    """
    bands, rows, cols = y.shape
    if rows < 2 or cols < 2:
        raise BadInput("mnf estimates the noise from neighbours, so it needs two rows and columns")
    image = y.double()
    flat = image.reshape(bands, -1)
    mean = flat.mean(1, keepdim=True)
    centred = flat - mean
    total = centred @ centred.T / flat.shape[1]
    noise = torch.zeros_like(total)
    for axis in (1, 2):
        step = image.diff(dim=axis).reshape(bands, -1)
        noise += step @ step.T / (4 * step.shape[1])
    # Bands without noise, or twice the same band, must not make it singular.
    noise.diagonal().add_(1e-9 * float(total.diagonal().mean()) + 1e-18)
    root = torch.linalg.cholesky(noise)
    white = torch.linalg.solve_triangular(root, total, upper=False)
    white = torch.linalg.solve_triangular(root, white.T, upper=False)
    values, vectors = torch.linalg.eigh((white + white.T) / 2)
    count = int((values > LEAST).sum()) if rank is None else min(rank, bands)
    kept = vectors[:, bands - max(1, count) :]
    scores = kept.T @ torch.linalg.solve_triangular(root, centred, upper=False)
    x: Tensor = mean + root @ (kept @ scores)
    return x.view(bands, rows, cols).to(y.dtype)
