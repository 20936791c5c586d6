"""How numbers are stored: from a file's numbers to values and back, and the order of the axes."""

from __future__ import annotations

import math
from collections.abc import Callable
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

    @property
    def exact(self) -> bool:
        """Whether float32 values say every stored number to the last bit."""
        return np.can_cast(self.dtype, np.float32) and (self.scale, self.offset) == (1.0, 0.0)

    def stores_as(self, other: Encoding) -> bool:
        """Whether the same values are stored as the same numbers."""
        mine, theirs = ((e.dtype, e.scale, e.offset) for e in (self, other))
        return mine == theirs


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
    values: NDArray[np.generic],
    valid: NDArray[np.bool_],
    encoding: Encoding,
    before: NDArray[np.generic] | None = None,
) -> tuple[NDArray[np.generic], int]:
    """The stored form ``(value - offset) / scale`` of values, and how many had to be clipped.

    Integer types round, and are clipped to what they can hold; where ``valid`` is False the value
    is stored as it is (integer types that cannot hold it get nodata or 0). A measurement that would
    be stored as nodata gets the number beside it.

    Args:
        before: the numbers that were decoded, in the same encoding. A value that did not change since
            is stored as the number it came from, which float32 may not hold.
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
    with np.errstate(over="ignore"):
        out = stored.astype(dtype)
        hit = valid & (out == encoding.nodata) & (dtype.kind != "b")
    if encoding.nodata is not None and hit.any():
        out[hit] = _step_aside(encoding.nodata, dtype)
    if before is not None:
        out = np.where(_find_unchanged(values, valid, encoding, before), before, out)
    return out, clipped


def _step_aside(nodata: float, dtype: np.dtype[np.generic]) -> float:
    """A number of the type beside nodata that is not taken for it."""
    if dtype.kind == "f":
        return float(np.nextafter(np.asarray(nodata, dtype), np.asarray(np.inf, dtype)))
    step = max(1, int(np.spacing(abs(nodata))))
    fits = int(nodata) + step <= np.iinfo(dtype.name).max
    return int(nodata) + (step if fits else -step)


def _find_unchanged(
    values: NDArray[np.generic],
    valid: NDArray[np.bool_],
    encoding: Encoding,
    before: NDArray[np.generic],
) -> NDArray[np.bool_]:
    """Where values are still those that :func:`decode` gave for the stored numbers ``before``."""
    with np.errstate(over="ignore", invalid="ignore"):
        bare = before.astype(np.float32)
        scaled = bare * np.float32(encoding.scale) + np.float32(encoding.offset)
    was = np.where(valid, scaled, bare)
    return np.asarray((was == values) | (np.isnan(was) & np.isnan(values)))


# --- the order of the axes of bare arrays

CLEAR = 0.6
"""Part of the next effective rank below which the smallest one tells the axis of the bands."""
SIDE = 128
"""Numbers along an axis that are looked at."""
FEW = 1000
ORDERS = {0: "brc", 1: "rbc", 2: "rcb"}
"""Order of the axes by the place of the bands."""


def find_by_size(shape: tuple[int, ...]) -> int | None:
    """The axis of the bands by the sizes: the odd one beside two equal ones, or one that is small.

    >>> find_by_size((145, 145, 200)), find_by_size((31, 512, 480)), find_by_size((90, 100, 110))
    (2, 0, None)
    """
    odd = [i for i in range(3) if shape.count(shape[i]) == 1]
    if len(odd) == 1:
        return odd[0]
    first, second, _ = sorted(shape)
    return shape.index(first) if 2 * first <= second and first < second else None


def find_by_values(array: NDArray[np.generic]) -> int | None:
    """The axis of the bands by the values: pixels are mixtures of a few spectra, rows of nothing.

    The effective rank of an unfolding is (sum l)^2 / sum l^2 of the eigenvalues l of its Gram matrix,
    without main effects and above their median, which is noise.
    """
    cuts = tuple(slice((n - SIDE) // 2 if n > SIDE else 0, None) for n in array.shape)
    x = np.asarray(array[cuts][:SIDE, :SIDE, :SIDE], np.float64)
    x = np.where(np.isfinite(x), x, 0.0)
    for axis in range(3):
        x = x - x.mean(axis, keepdims=True)
    ranks = []
    for axis in range(3):
        flat = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        values = np.linalg.eigvalsh(flat @ flat.T)
        values = (values - np.median(values)).clip(0)
        ranks.append(float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300)))
    least, second, _ = sorted(ranks)
    return ranks.index(least) if 0 < least < CLEAR * second else None


def find_order(
    what: object, shape: tuple[int, ...], load: Callable[[], NDArray[np.generic]]
) -> tuple[str, str]:
    """The order of the axes of an array that does not say it, and the evidence ("" for the habit).

    The habit is (row, col, band). Where the sizes agree with it nothing is read; an array of a few
    numbers is no image and follows the habit.
    """
    if len(shape) != 3 or math.prod(shape) < FEW:
        return ORDERS[2], ""
    size = find_by_size(shape)
    if size == 2:
        return ORDERS[2], ""
    values = find_by_values(load())
    found = {place for place in (size, values) if place is not None}
    if found in ({0}, {2}):
        words = "sizes" if values is None else "values" if size is None else "sizes and values"
        return ORDERS[found.pop()], words
    if not found and shape[2] < min(shape[:2]):
        return ORDERS[2], ""
    raise BadInput(
        f"{what} is {'x'.join(map(str, shape))} and does not say which axis holds the bands; "
        "give the order with --axes (axes= in Python), such as brc or rcb"
    )
