"""A standard deviation for every voxel of a result: the image is made noisy once more and restored again.

With x the result of the noisy image y, the same restoration (weights, strength, rank and blend as they were)
of  x + n  gives x'. What x' - x is to x, the error of x is to the clean image, about: it holds the noise that
comes through and what is smoothed away with it. The squares are averaged over a window of pixels,

    sd  =  factor * sqrt(mean over 7 x 7 pixels of (x' - x)^2) .

The noise n is drawn from its law where eigenimages do the work. Where the model has a part, it is y - x with
random signs: the weights know the voxels whose noise came out large, so fresh noise would not fit them, and
impulses, stripes and noise that varies over the image are in y - x as they are. The factor grows with the
part of the model, since a smooth x has less to lose than the clean image. It was fixed on scenes made by code
(``benchmarks/coverage.py --calibrate``).

Random numbers are drawn row by row, each row with a seed of its own, so they are the same in strips.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..weights import NoiseLaw

AROUND = 3
"""Pixels on either side of the middle of the window."""
ALONE, BESIDE = 1.15, 1.00
"""The factor for eigenimages alone, and what a model alone adds to it."""


def find_factor(part: float) -> float:
    """The factor for a part of the model in the result.

    >>> find_factor(0.0)
    1.15
    """
    return ALONE + BESIDE * part


def draw_rows(rows: slice, bands: int, cols: int, seed: int = 0) -> Tensor:
    """Normal numbers (band, row, col) for some rows of an image, the same however it is cut."""
    made = []
    for row in range(rows.start, rows.stop):
        stream = torch.Generator().manual_seed((seed << 32) + row)
        made.append(torch.randn(bands, cols, generator=stream))
    return torch.stack(made, 1)


def disturb_rows(y: Tensor, x: Tensor, lost: Tensor, law: NoiseLaw | None, drawn: Tensor) -> Tensor:
    """Rows of a result made noisy once more, NaN where y is.

    Args:
        y, x: before and after, (band, row, col) on the unit interval.
        lost: voxels that are no signal plus noise, which stay as they are.
        law: of the noise; None: y - x with the signs of ``drawn``.
    """
    if law is None:
        return x + (y - x) * drawn.sign()
    fresh = x + drawn * law.variance(x).sqrt()
    return torch.where(lost, y, fresh)


def average_window(square: Tensor) -> Tensor:
    """Means of (band, row, col) over the pixels of a window that the image has."""
    side = 2 * AROUND + 1
    return F.avg_pool2d(square[None], side, 1, AROUND, count_include_pad=False)[0]
