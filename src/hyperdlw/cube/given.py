"""A cube from what users have in Python, which can be given back in the same form."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadInput
from .cubes import Cube, NamedArray
from .encoding import FEW, Encoding, find_by_size, find_by_values


@runtime_checkable
class NamedArrays(Protocol):
    """Several arrays with named axes: an xarray.Dataset."""

    data_vars: Mapping[Any, NamedArray]

    def assign(self, variables: Mapping[Any, NamedArray]) -> NamedArrays: ...


Given: TypeAlias = Cube | NamedArray | NamedArrays | ArrayLike
"""What :func:`make_cube` takes; a torch tensor counts as an array."""


def make_cube(given: Given, axes: str | None = None) -> Cube:
    """A cube from what a user has: a cube, an array, a masked array, a tensor, xarray's kinds.

    Args:
        given: bare arrays and tensors have the axes (band, row, col). Of a Dataset the one variable
            that is a cube is taken.
        axes: another order of "b", "r" and "c".

    >>> masked = np.ma.masked_less(np.arange(6.0).reshape(3, 2, 1), 2)
    >>> cube = make_cube(masked, axes="rcb")
    >>> cube.shape, int(cube.valid.sum()), type(cube.to_given()).__name__
    ((1, 3, 2), 4, 'MaskedArray')
    """
    if isinstance(given, Cube):
        if axes is not None:
            raise BadInput("a Cube knows the order of its axes; leave out axes")
        return given
    if isinstance(given, NamedArrays):
        return _take_variable(given, axes)
    if isinstance(given, NamedArray):
        array = given
        made = Cube.from_xarray(array, axes)
        return _remember(made, lambda stored, _: array.copy(data=stored.reshape(array.shape)))
    order = Encoding(axes=axes or "brc").axes
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        return _take_tensor(torch, given, order)
    shape = np.shape(given)
    if axes is None:
        _warn_of_order(shape, given)
    made = Cube.from_array(given, axes=order)
    if not isinstance(given, np.ma.MaskedArray):
        return _remember(made, lambda stored, _: stored.reshape(shape))
    mask = np.ma.getmaskarray(given).copy()

    def cover(stored: NDArray[np.generic], valid: NDArray[np.bool_]) -> object:
        return np.ma.MaskedArray(stored.reshape(shape), mask & ~valid.reshape(shape))

    return _remember(made, cover)


def _warn_of_order(shape: tuple[int, ...], given: object) -> None:
    """Say that a bare array looks like (row, col, band), by its sizes and its values."""
    if len(shape) == 3 and math.prod(shape) >= FEW and find_by_size(shape) == 2:
        numbers = np.asarray(given)
        if numbers.dtype.kind in "buif" and find_by_values(numbers) == 2:
            words = (
                f"the array {shape} is taken for (band, row, col) and looks like (row, col, band)"
            )
            warnings.warn(f"{words}; say axes='rcb' or axes='brc'", stacklevel=4)


def _remember(cube: Cube, back: object) -> Cube:
    """The cube with the way back; three bands of bytes without wavelengths are a colour picture."""
    bytes_ = cube.encoding.dtype == "uint8" and cube.bands == 3 and cube.wavelengths is None
    picture = {"picture": True} if bytes_ else {}
    return replace(cube, metadata={**cube.metadata, "given": back, **picture})


def _take_variable(given: NamedArrays, axes: str | None) -> Cube:
    """The one variable of a Dataset that is a cube."""
    found = {}
    for name, array in given.data_vars.items():
        try:
            if len(array.dims) == 3:
                found[name] = Cube.from_xarray(array, axes)
        except BadInput:
            continue
    names = ", ".join(map(str, given.data_vars)) or "nothing"
    if len(found) != 1:
        why = "several cubes" if found else "no variable with rows, columns and a band axis"
        raise BadInput(
            f"the Dataset holds {why} ({names}); give one array, such as dataset['name']"
        )
    ((name, cube),) = found.items()
    array = given.data_vars[name]
    return _remember(
        cube, lambda stored, _: given.assign({name: array.copy(data=stored.reshape(array.shape))})
    )


def _take_tensor(torch: Any, given: Any, order: str) -> Cube:
    """The numbers of a tensor, whose device and type the result gets again."""
    if given.layout is not torch.strided:
        raise BadInput(
            f"a cube is a dense tensor, not one of layout {given.layout}; use .to_dense()"
        )
    plain = given.detach().cpu()
    if plain.dtype == torch.bfloat16:  # NumPy has no such type
        plain = plain.float()
    shape, device, dtype = tuple(given.shape), given.device, given.dtype
    made = Cube.from_array(plain.resolve_conj().resolve_neg().numpy(), axes=order)
    return _remember(
        made, lambda stored, _: torch.from_numpy(stored.reshape(shape)).to(device, dtype)
    )
