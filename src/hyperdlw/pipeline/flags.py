"""Flags of voxels: what is not measured, dead, an impulse, a stripe or saturated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .advice.advise import dead_lines, far_off, striped_lines
from .prepare import Range, prepare
from .run import Result

NODATA, DEAD, IMPULSE, STRIPE, SATURATED = 1, 2, 4, 8, 16
"""Bits of the flags of a voxel."""


def flags(
    data: NDArray[np.float32],
    valid: NDArray[np.bool_],
    unit: NDArray[np.float32] | None = None,
    restored: NDArray[np.float32] | None = None,
    top: float | None = None,
) -> NDArray[np.uint8]:
    """Bit flags of bands: 1 nodata, 2 dead line, 4 impulse, 8 striped line, 16 saturated.

    Args:
        data, valid: the noisy bands (band, row, col).
        unit, restored: the same on the unit interval, and restored; None for bands that were not
            denoised, which get the flags 1 and 16 only.
        top: largest value the file can hold. Without one, a band is taken for saturated where more
            than one in a thousand voxels share its largest value.

    >>> flags(np.array([[[5.0, 9.0]]]), np.array([[[False, True]]]), top=9.0).tolist()
    [[[1, 16]]]
    """
    found = np.where(valid, np.uint8(0), np.uint8(NODATA))
    for band, ok, out in zip(data, valid, found, strict=True):
        limit = top
        if limit is None and ok.any():
            most = band[ok].max()
            limit = float(most) if np.mean(band[ok] == most) > 1e-3 else None
        if limit is not None:
            out[ok & (band >= limit)] |= SATURATED
    if unit is None or restored is None:
        return found
    residual = np.where(valid, unit - restored, np.float32(0))
    for axis in (1, 2):
        dead = dead_lines(unit, valid, axis)
        striped = striped_lines(residual, dead, axis)
        for lines, bit in ((dead, DEAD), (striped, STRIPE)):
            found |= np.where(np.expand_dims(lines, 3 - axis) & valid, np.uint8(bit), np.uint8(0))
    broken = (found & (DEAD | STRIPE)) > 0
    found |= np.where(far_off(residual) & valid & ~broken, np.uint8(IMPULSE), np.uint8(0))
    return found


def flags_of(result: Result, range: Range) -> NDArray[np.uint8]:
    """Flags of all bands of a cube that was denoised in memory."""
    noisy = result.noisy
    ready = prepare(noisy, range)
    top = largest_stored(noisy.encoding)
    found = flags(noisy.data, noisy.valid, top=top)
    use = ready.use
    restored = ready.limits.to_unit(result.cube.data)[use]
    found[use] = flags(noisy.data[use], noisy.valid[use], ready.y.numpy(), restored, top)
    return found


def largest_stored(encoding: Any) -> float | None:
    """The value of the largest number an integer type can hold, in physical units."""
    dtype = np.dtype(encoding.dtype)
    if dtype.kind not in "ui":
        return None
    return float(np.float32(np.iinfo(dtype).max * encoding.scale + encoding.offset))
