"""How numbers are stored: from a file's numbers to values and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput

AXES = "brc"
"""Axis order inside hyperdlw: band, row, column."""


@dataclass(frozen=True)
class Encoding:
    """How the numbers were stored: ``value = stored * scale + offset``.

    ``axes`` is the stored order of band, row and column (``"rcb"`` is the habit of MATLAB and NumPy
    users), ``nodata`` the stored fill value.
    """

    dtype: str = "float32"
    axes: str = "rcb"
    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    format: str = "npy"
    key: str | None = None

    def __post_init__(self) -> None:
        if sorted(self.axes) != sorted(AXES):
            words = "an arrangement of b (band), r (row) and c (column)"
            raise BadInput(f"axes must be {words}, not '{self.axes}'")


def decode(
    stored: NDArray[np.generic], encoding: Encoding
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Values ``stored * scale + offset`` as float32, and where they are measurements.

    NaN, Inf and nodata are no measurements, nor is what float32 cannot hold; there the value stays
    as it was stored, so that :func:`encode` puts it back.

    >>> values, valid = decode(np.array([[[20, -1]]]), Encoding(scale=0.5, nodata=-1.0))
    >>> values.tolist(), valid.tolist()
    ([[[10.0, -1.0]]], [[[True, False]]])
    """
    ok = np.isfinite(stored)
    with np.errstate(over="ignore", invalid="ignore"):
        if encoding.nodata is not None:
            ok &= stored != encoding.nodata
        values = stored.astype(np.float32)
        ok &= np.isfinite(values)
        if encoding.scale != 1.0 or encoding.offset != 0.0:
            scaled = values * np.float32(encoding.scale) + np.float32(encoding.offset)
            values = np.where(ok, scaled, values)
    return values, ok


def encode(
    values: NDArray[np.generic], valid: NDArray[np.bool_], encoding: Encoding
) -> tuple[NDArray[np.generic], int]:
    """The stored form ``(value - offset) / scale`` of values, and how many had to be clipped.

    Integer types round, and are clipped to what they can hold; where ``valid`` is False the value
    is stored as it is (integer types that cannot hold it get nodata or 0).
    """
    dtype = np.dtype(encoding.dtype)
    stored = (values.astype(np.float64) - encoding.offset) / encoding.scale
    stored = np.where(valid, stored, values)
    clipped = 0
    if dtype.kind == "b":
        stored = (stored > 0.5).astype(np.float64)
    elif dtype.kind in "ui":
        info = np.iinfo(dtype)
        stored = np.where(np.isfinite(stored), np.rint(stored), encoding.nodata or 0.0)
        outside = (stored < float(info.min)) | (stored > float(info.max))
        clipped = int(np.count_nonzero(outside & valid))
        # The float64 nearest to a 64-bit maximum lies above it: step down before casting.
        top = float(info.max)
        below = top if int(top) <= info.max else float(np.nextafter(top, 0.0))
        stored = np.clip(stored, float(info.min), below)
    elif dtype.itemsize < 4:
        limit = float(np.finfo(dtype).max)
        clipped = int(np.count_nonzero((np.abs(stored) > limit) & valid))
        stored = np.where(valid, np.clip(stored, -limit, limit), stored)
    return stored.astype(dtype), clipped
