"""Blocks of pixels on a fixed grid: what limits and noise levels are read from.

An image is read a few rows at a time (:func:`gather_blocks`), so that one on disk gives the same blocks as
one in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

SIDE = 8
"""Side of a block in pixels."""
MOST = 512
"""Blocks in a sample at most; of a larger image every k-th row and column of blocks."""

MANY = 2048
"""Values from which a median need not be the mean of two."""
MOST_VOXELS = 2**21
"""Voxels in a sample at most."""


def sample_step(shape: Sequence[int], most: int = MOST) -> int:
    """Every how many-th row and column of blocks belongs to the sample of an image (band, row, col)."""
    bands, rows, cols = shape
    most = max(16, min(most, MOST_VOXELS // (bands * SIDE * SIDE)))
    count = math.ceil(rows / SIDE) * math.ceil(cols / SIDE)
    return max(1, math.ceil(math.sqrt(count / most)))


def sample_blocks(y: Tensor, valid: Tensor, step: int = 1) -> tuple[Tensor, Tensor]:
    """Blocks (band, block, 8, 8) of an image (band, row, col) on a grid, and which voxels count.

    Blocks that stick out of the image are filled with voxels that do not count.
    """

    def cut(v: Tensor) -> Tensor:
        v = torch.nn.functional.pad(v, (0, -v.shape[2] % SIDE, 0, -v.shape[1] % SIDE))
        v = v.view(v.shape[0], v.shape[1] // SIDE, SIDE, v.shape[2] // SIDE, SIDE)
        return v[:, ::step, :, ::step].transpose(2, 3).flatten(1, 2)

    ok = valid & y.isfinite()
    return cut(torch.where(ok, y, 0.0)), cut(ok)


Read = Callable[[slice], Tensor]
"""Rows -> those rows of an image (band, row, col), NaN where nothing is known."""


def gather_blocks(read: Read, shape: Sequence[int], most: int = MOST) -> tuple[Tensor, Tensor]:
    """The sample of an image of ``shape`` that is read by rows: blocks, and which voxels count."""
    step = sample_step(shape, most)
    parts = []
    for top in range(0, shape[1], SIDE * step):
        rows = read(slice(top, min(top + SIDE, shape[1])))
        parts.append(sample_blocks(rows, ~rows.isnan(), step))
    return torch.cat([b for b, _ in parts], 1), torch.cat([ok for _, ok in parts], 1)


def find_stuck(blocks: Tensor, ok: Tensor) -> Tensor:
    """Columns and rows of blocks on which one value is repeated, as a dead detector element does.

    A block of one value altogether is left: that is a flat image, or one without noise.
    """
    found = torch.zeros_like(ok)
    for axis in (-2, -1):
        low = torch.where(ok, blocks, torch.inf).amin(axis, keepdim=True)
        high = torch.where(ok, blocks, -torch.inf).amax(axis, keepdim=True)
        same = (low == high) & (ok.sum(axis, keepdim=True) > 2)
        few = same.sum((-2, -1), keepdim=True) <= SIDE // 2
        found |= (same & few).expand_as(ok)
    return found


def find_block_noise(blocks: Tensor, ok: Tensor) -> Tensor:
    """Noise level (band,) from mixed differences inside blocks: median of |d| / (2 0.6745)."""
    d = blocks[..., :-1, :-1] - blocks[..., 1:, :-1] - blocks[..., :-1, 1:] + blocks[..., 1:, 1:]
    m = ok[..., :-1, :-1] & ok[..., 1:, :-1] & ok[..., :-1, 1:] & ok[..., 1:, 1:]
    return find_medians(d.abs().flatten(1), m.flatten(1)) / (2 * 0.6745)


def sort_values(v: Tensor) -> Tensor:
    """Values in order along the last axis; NumPy sorts short rows many times as fast as torch."""
    return torch.from_numpy(np.sort(v.numpy(), -1)) if v.device.type == "cpu" else v.sort(-1).values


def find_medians(v: Tensor, seen: Tensor) -> Tensor:
    """Medians of rows over what was seen, (row,); 0 where nothing was."""
    if v.shape[-1] > MANY:
        # No sorting: the lower one of two middle values is as good among so many.
        found: Tensor = torch.where(seen, v, torch.nan).nanmedian(-1).values
        return found.nan_to_num()
    order = sort_values(torch.where(seen, v, torch.inf))
    count = seen.sum(-1, keepdim=True)
    low = order.gather(-1, ((count - 1) // 2).clamp_min(0))
    high = order.gather(-1, (count // 2).clamp_max(v.shape[-1] - 1))
    return torch.where(count > 0, (low + high) / 2, 0.0).squeeze(-1)
