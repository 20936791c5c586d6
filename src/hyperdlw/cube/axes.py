"""Which axis of a bare array holds the bands: what its sizes and its values say."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput

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
