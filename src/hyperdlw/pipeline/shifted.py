"""Blocks of columns of single bands that are shifted by an offset: wide stripes.

At the edge of such a block the step from a column to the next is the same in every row, in one band and
not in the others. The scene has no such steps: its edges end somewhere along the track, and those of a road,
which do not, are in many bands at once. So the median over rows of y(col + 1) - y(col) is looked at in blocks
of rows. Steps that stand out, on which all blocks agree, and which few bands have at a place, are added up
along the columns; what is left when the usual level of the band is taken away is the offset. Steps that the
noise of a voxel hides are left to the weights, which know loud noise better.

A block of which one edge was missed would shift all columns behind it: a band with a shifted part wider than
:data:`WIDEST` is left alone.

Exact for images on disk: it reads what :mod:`hyperdlw.pipeline.columns` reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .columns import MAD, Columns, Measured

F64 = NDArray[np.float64]

SURE = 12.0
"""Size of a step over its error, and over the usual steps of its band."""
LEAST = 1.5
"""Smallest step in standard deviations of the difference of two voxels."""
AGREE = 0.3
"""How far the blocks of rows may disagree, as a part of the step."""
FEW = 0.2
"""Largest share of the bands that have a step at one place."""
CALM = 2.5
"""Size of the middle band's step at such a place, over its usual steps: an edge of the scene is larger in
most bands, though it may stand out in few."""
NARROWEST, WIDEST = 3, 24
"""Columns of a shifted block; single columns are left to the weights."""
NEAR = 16
"""Columns beside a block in which an edge must not have been missed."""
LEAST_BANDS = 4


def find_shifted(blocks: Sequence[Measured], rows: int) -> Columns:
    """The shifted blocks of columns from what was measured in blocks of rows."""
    bands, count = blocks[0].step.shape if blocks else (1, 0)
    none = Columns.none((bands, rows, count + 1))
    if bands < LEAST_BANDS or len(blocks) < 2 or count < 2 * WIDEST:
        return none
    each = np.nan_to_num(np.stack([m.step for m in blocks]))  # (block, band, col - 1)
    step = np.median(each, axis=0)
    noise = MAD * np.nanmedian([m.spread for m in blocks], axis=(0, 2))[:, None]
    error = 1.25 * np.nan_to_num(noise) / np.sqrt(rows / len(blocks))
    usual = MAD * np.median(np.abs(step), axis=1, keepdims=True)
    noise = np.nan_to_num(noise)
    least = np.maximum(SURE * np.maximum(error / np.sqrt(len(blocks)), usual), LEAST * noise)
    agreed = (np.abs(each - step) <= AGREE * np.abs(step) + 4 * error).all(axis=0)
    kept = (np.abs(step) > np.maximum(least, 1e-30)) & agreed
    kept &= kept.sum(axis=0) <= max(1, int(FEW * bands))
    own = np.maximum(np.maximum(usual, error / np.sqrt(len(blocks))), 1e-30)
    kept &= np.median(np.abs(step) / own, axis=0) <= CALM
    offsets = np.pad(np.cumsum(np.where(kept, step, 0.0), axis=1), ((0, 0), (1, 0)))
    offsets -= np.median(offsets, axis=1, keepdims=True)
    # Between two blocks the steps do not add up to nothing exactly.
    offsets = np.where(np.abs(offsets) > 0.5 * least, offsets, 0.0)
    missed = np.where(kept, 0.0, np.abs(step))
    found = [_keep_blocks(*band) for band in zip(offsets, missed, strict=True)]
    return Columns(np.stack(found)[None], rows, False)


def _keep_blocks(offset: F64, missed: F64) -> F64:
    """The offsets (col,) of a band in blocks that are neither narrow nor too wide.

    Args:
        missed: (col - 1,) size of the steps that are not believed. One within a block or beside it that may
            be its edge makes it doubtful.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], offset != 0, [0]]).astype(int)))
    out = np.zeros_like(offset)
    for first, last in edges.reshape(-1, 2):
        if last - first > WIDEST:
            return np.zeros_like(offset)
        if first == 0 or last == len(offset):
            continue  # the second edge is not seen
        doubt = missed[max(0, first - 1 - NEAR) : last + NEAR].max(initial=0.0)
        if last - first >= NARROWEST and doubt < 0.4 * np.abs(offset[first:last]).min():
            out[first:last] = offset[first:last]
    return out
