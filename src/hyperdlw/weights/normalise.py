"""Weights of mean one: the scale that every weight source ends with."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 1e-4
"""Smallest weight of a valid voxel (epsilon of Lemma 1): keeps the data term strongly convex."""


def softmax_weights(logits: Tensor, valid: Tensor | None = None) -> Tensor:
    """w = M softmax(logits) + 1e-4 over the M valid voxels of each image, 0 elsewhere.

    The softmax runs over all of (band, row, col) at once; leading axes are separate images.

    >>> softmax_weights(torch.zeros(2, 2, 2)).unique()
    tensor([1.0001])
    """
    flat = logits.flatten(-3)
    if valid is None:
        w = torch.softmax(flat, -1) * flat.shape[-1] + FLOOR
        return w.view_as(logits)
    ok = valid.expand_as(logits).flatten(-3)
    w = torch.softmax(flat.masked_fill(~ok, -torch.inf), -1) * ok.sum(-1, keepdim=True) + FLOOR
    return torch.where(ok, w, torch.zeros_like(w)).view_as(logits)


def normalised(w: Tensor, valid: Tensor) -> Tensor:
    """Scale to mean one over the valid voxels, at least ``FLOOR`` there and 0 elsewhere."""
    w = torch.where(valid, w, torch.zeros_like(w))
    scale = scale_of(int(valid.sum()), sum(map(total, w)))
    return rescaled(w, scale).masked_fill_(~valid, 0.0)


def total(w: Tensor) -> float:
    """The sum of weights, in float64."""
    return float(w.sum(dtype=torch.float64))


def scale_of(count: int, total: float) -> float:
    """What makes the mean one, with 24 binary digits.

    A sum over strips ends in other digits than one over bands; in float32 both give the same weights.
    """
    mantissa, exponent = math.frexp(count / total if total > 0 else 0.0)
    return math.ldexp(round(math.ldexp(mantissa, 24)), exponent - 24)


def rescaled(w: Tensor, scale: float) -> Tensor:
    """max(w scale, FLOOR), in place of w and rounded once.

    In float64, band by band: weights and scale may be out of the range of float32, their product is not.
    """
    for band in w:
        band.copy_((band.double() * scale).clamp_min_(FLOOR))
    return w
