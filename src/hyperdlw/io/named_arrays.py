"""Files of named variables (npz, MATLAB): which one is the cube, and what its neighbours say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..cube import AXES, ORDERS, Encoding, Metadata, find_order
from ..errors import BadFile, unknown_name
from .checks import check_cube, is_real
from .metadata import list_neighbours, parse_metadata
from .reader import (
    CubeReader,
    Described,
    FileFacts,
    ReadOptions,
    Stored,
    build_reader,
    load_windows,
)
from .series import add_members, list_members, load_members, name_array
from .spectrum import CENTRES, GOOD, WIDTHS, speaks_of

DEFAULT_AXES = "rcb"
LAYERS = 4
"""Layers of a picture or a map; a cube has more bands than that, if a larger matrix is beside it."""
SMALL = 0.1
"""A 3-D array below this part of the largest one is a preview, not a second cube."""
UNITS = ("wavelength_units", "wavelength_unit", "wavelengths_units", "wl_units")
NEIGHBOURS = ("wavelengths", "good_bands", "scale", "offset", "nodata", "axes", "metadata")
"""Variables that describe the cube; written beside it when they say something."""


class SeveralCubes(BadFile):
    """More than one variable could be the cube; ``series``: the keys of cubes that belong together."""

    def __init__(self, message: str, series: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.series = series


@dataclass(frozen=True)
class Variable:
    """Shape and type of a stored variable, known without reading it."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_candidate(self) -> bool:
        return len(self.shape) == 3 and is_real(self.dtype)

    @property
    def is_matrix(self) -> bool:
        """Whether it could be the spectra of all pixels: one axis is far longer than a picture's."""
        if len(self.shape) != 2 or not is_real(self.dtype):
            return False
        few, many = sorted(self.shape)
        return few > LAYERS and many > 4 * few

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


def insert_band(shape: tuple[int, ...], axes: str) -> tuple[int, ...]:
    """The shape with three axes; two axes are one band.

    >>> insert_band((4, 5), "rcb")
    (4, 5, 1)
    """
    if len(shape) != 2:
        return shape
    at = axes.index("b")
    return (*shape[:at], 1, *shape[at:])


Load = Callable[[str], Stored]


def choose_variable(path: Path, variables: Mapping[str, Variable], key: str | None) -> str:
    """The name of the variable to read: ``key``, or the only 3-D array of real numbers."""
    if key is not None:
        _check_series(path, [name for name in variables if name_array(name) == key != name])
        if key not in variables:
            raise unknown_name(f"variable in {path}", key, variables)
        check_cube(f"{key} in {path}", variables[key].shape, variables[key].dtype)
        return key
    found = {name: v for name, v in variables.items() if v.is_candidate}
    if "cube" in found:  # the name hyperdlw writes; a preview beside it does not make it ambiguous
        return "cube"
    size = max((math.prod(v.shape) for v in found.values()), default=0)
    found = {n: v for n, v in found.items() if math.prod(v.shape) >= SMALL * size}
    # A series is larger than any other array, so these are maps beside it.
    found = {n: v for n, v in found.items() if name_array(n) != n} or found
    if len({name_array(n) for n in found}) == 1 < len(found):
        _check_series(path, list(found))
    flat = {n: v for n, v in variables.items() if v.is_matrix and math.prod(v.shape) > size}
    if flat and all(min(v.shape) <= LAYERS for v in found.values()):
        listed = _format_variables(found | flat)
        raise SeveralCubes(
            f"{path} holds no cube but {listed}; a matrix of bands and pixels needs the numbers nRow "
            "and nCol beside it, and --key chooses a variable as it is"
        )
    if len(found) == 1:
        return choose_variable(path, variables, next(iter(found)))
    if found:
        listed = _format_variables(found)
        raise SeveralCubes(f"{path} holds several cubes ({listed}); choose one with --key")
    if not variables:
        raise BadFile(f"{path} holds no variables; check that it is the right file")
    raise BadFile(
        f"{path} holds no 3-D array of real numbers, only {_format_variables(variables)}; "
        "a 2-D one can be read as a single band with --key"
    )


def _check_series(path: Path, keys: list[str]) -> None:
    """Refuse a series of more than one cube where one is wanted."""
    if len(keys) > 1:
        raise SeveralCubes(
            f"{path} holds a series of {len(keys)} cubes; 'hyperdlw denoise' cleans them all, "
            f"--key '{keys[0]}' to '{keys[-1]}' chooses one",
            tuple(keys),
        )


def _format_variables(variables: Mapping[str, Variable]) -> str:
    shown = [f"{name}: {v}" for name, v in variables.items()]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:12], f"and {len(shown) - 12} more"])


def read_neighbours(
    path: Path, variables: Mapping[str, Variable], load: Load, name: str, axes: str | None
) -> tuple[str, FileFacts]:
    """The order of the axes, and what the small variables beside the cube ``name`` say about it.

    What does not fit the cube becomes a note.
    """
    said = FileFacts(nodata_from="'nodata' in the file")

    def read_text(neighbour: str) -> str:
        variable = variables.get(neighbour)
        if variable is None or neighbour == name or is_real(variable.dtype):
            return ""
        return "".join(map(str, load(neighbour).reshape(-1)))

    def read_numbers(neighbour: str, count: int) -> NDArray[np.float64] | None:
        variable = variables.get(neighbour)
        if variable is None or neighbour == name or not is_real(variable.dtype):
            return None
        if math.prod(variable.shape) != count:
            said.notes.append(f"{neighbour} ({variable}) does not fit the cube and was not used")
            return None
        values = np.asarray(load(neighbour), np.float64).reshape(-1)
        if not np.isfinite(values).all() and neighbour != "nodata":
            said.notes.append(f"{neighbour} is not finite and was not used")
            return None
        return values

    def read_number(neighbour: str, default: float | None) -> float | None:
        values = read_numbers(neighbour, 1)
        return default if values is None else float(values[0])

    shape = variables[name].shape
    text = "" if axes else read_text("axes")
    order = axes or (text if sorted(text) == sorted(AXES) else "")
    if not order:
        order, why = _find_order(path, variables, load, name)
        if why:
            words = ", ".join({"b": "band", "r": "row", "c": "col"}[a] for a in order)
            said.notes.append(f"the axes of {name} were taken for ({words}) by {why}")
    order = Encoding(axes=order).axes  # raises for nonsense
    bands = shape[order.index("b")] if len(shape) == 3 else 1

    def find_list(wanted: re.Pattern[str], ours: str) -> NDArray[np.float64] | None:
        """The list of our own name, or the first one that fits by name and length."""
        if ours in variables:
            used.add(ours)
            return read_numbers(ours, bands)
        for other, variable in variables.items():
            long = math.prod(variable.shape) == max(variable.shape, default=0) == bands
            if other != name and long and is_real(variable.dtype) and speaks_of(other, wanted):
                said.notes.append(f"{ours.replace('_', ' ')} are from {other}")
                used.add(other)
                return read_numbers(other, bands)
        return None

    used = {name, *NEIGHBOURS}
    said.wavelengths = find_list(CENTRES, "wavelengths")
    good = find_list(GOOD, "good_bands")
    said.good_bands = None if good is None else good != 0
    widths = find_list(WIDTHS, "fwhm")
    if "wavelengths" not in variables:
        units = next((read_text(u) for u in UNITS if read_text(u)), None)
        centres, wide = (
            None if v is None else [repr(float(n)) for n in v] for v in (said.wavelengths, widths)
        )
        said.set_spectrum(centres, units, wide)
    elif widths is not None:
        said.metadata["fwhm"] = tuple(widths.tolist())
    said.metadata["siblings"] = tuple(v for v in variables if v not in used)
    said.scale = read_number("scale", 1.0) or 0.0
    said.offset = read_number("offset", 0.0) or 0.0
    said.nodata = read_number("nodata", None)
    stored = read_text("metadata")
    if stored:
        said.metadata |= parse_metadata(stored, bands, said.notes)
    if said.scale == 0.0:
        raise BadFile(f"scale in {path} is 0, so the values are lost; correct or remove it")
    return order, said


def _find_order(
    path: Path, variables: Mapping[str, Variable], load: Load, name: str
) -> tuple[str, str]:
    """The order of the axes of a variable that does not say it, and the evidence.

    A list of wavelengths has the length of the band axis, and a map beside the cube that of the other
    two; else the array itself is looked at.
    """
    shape = variables[name].shape
    for other, variable in variables.items():
        long = [n for n in variable.shape if n != 1]
        real = other != name and is_real(variable.dtype) and len(shape) == 3
        if real and len(long) == 1 and speaks_of(other, CENTRES):
            places = [i for i, n in enumerate(shape) if n == long[0]]
        elif real and len(long) == 2:
            rest = {0: (1, 2), 1: (0, 2), 2: (0, 1)}.items()
            places = [i for i, (j, k) in rest if [shape[j], shape[k]] == long]
        else:
            continue
        if len(places) == 1:
            return ORDERS[places[0]], "" if places[0] == 2 else other
    return find_order(f"{name} in {path}", shape, lambda: load(name))


@dataclass(frozen=True)
class Matrix:
    """A cube that is stored as a matrix of bands and pixels."""

    name: str
    shape: tuple[int, int, int]
    axes: str


SIDES = ({"nrow", "nrows", "rows", "lines"}, {"ncol", "ncols", "cols", "samples"})
"""Names of the numbers of rows and columns beside a matrix of bands and pixels."""


def find_matrix(
    variables: Mapping[str, Variable], load: Load, key: str | None, order: str
) -> Matrix | None:
    """The matrix whose pixels are as many as the rows times the columns that the file names.

    Args:
        order: "F" if the pixels go down the columns, as MATLAB's do, or "C".
    """
    sides = []
    for names in SIDES:
        one = (n for n, v in variables.items() if n.lower() in names and math.prod(v.shape) == 1)
        found = next((n for n in one if is_real(variables[n].dtype)), None)
        if found is None:
            return None
        sides.append(float(load(found).reshape(-1)[0]))
    if not all(n.is_integer() and n > 0 for n in sides):
        return None
    rows, cols = map(int, sides)
    pixels, letters = ((cols, rows), "cr") if order == "F" else ((rows, cols), "rc")
    fits = {
        name: v
        for name, v in variables.items()
        if len(v.shape) == 2 and is_real(v.dtype) and rows * cols in v.shape and min(v.shape) > 1
    }
    # A picture of the scene or a map of a few layers is not larger than the spectra.
    flat = {n: v for n, v in fits.items() if key in (None, n)}
    largest = max(flat, key=lambda n: math.prod(flat[n].shape), default=None)
    if largest is None or (key is None and "cube" in variables):
        return None
    size = math.prod(flat[largest].shape)
    if key is None and any(
        v.is_candidate and math.prod(v.shape) >= size for v in variables.values()
    ):
        return None
    many, few = flat[largest].shape[::-1]
    if few == rows * cols:  # pixels x bands
        return Matrix(largest, (*pixels, many), f"{letters}b")
    return Matrix(largest, (few, *pixels), f"b{letters}")


def open_named(
    path: Path,
    variables: Mapping[str, Variable],
    load: Load,
    format: str,
    options: ReadOptions,
    metadata: Metadata | None = None,
) -> CubeReader:
    """Open the cube of a file of named variables; it is read whole when it is first needed."""
    order = "F" if format.startswith("mat") else "C"
    members = list_members(variables, options.key, last=order == "F")
    variables, load = add_members(variables, members), load_members(load, members)
    matrix = find_matrix(variables, load, options.key, order)
    name = matrix.name if matrix else choose_variable(path, variables, options.key)
    promised, looked = variables[name], variables
    if matrix is not None:
        looked = {**variables, name: Variable(matrix.shape, promised.dtype)}
    asked = matrix.axes if matrix else options.axes
    axes, facts = read_neighbours(path, looked, load, name, asked)
    shape = insert_band(looked[name].shape, axes)
    if matrix is not None:
        facts.notes.append(f"{name} ({promised}) is the cube as a matrix of bands and pixels")
    back = tuple(axes.index(a) for a in AXES)

    def stored() -> Stored:
        array = load(name)
        check_cube(f"{name} in {path}", array.shape, array.dtype.name)
        if (array.shape, array.dtype.name) != (promised.shape, promised.dtype):
            raise BadFile(f"{name} in {path} is not what its header promises; get a fresh copy")
        return array.reshape(shape).transpose(back)

    facts.metadata |= {**(metadata or {}), "stored_ndim": len(looked[name].shape)}
    facts.metadata |= {"matrix": True} if matrix else {}
    encoding = Encoding(promised.dtype, axes, format=format, key=name)
    bands, rows, cols = (shape[i] for i in back)
    window = load_windows(stored)
    made = build_reader(path, (bands, rows, cols), encoding, window, facts, options)
    made.lazy = False
    return made


def make_variables(
    cube: Described, stored: Stored, encoding: Encoding, name: str
) -> dict[str, Stored]:
    """The variables to write: the cube first, then those neighbours that say something."""
    said: dict[str, object] = list_neighbours(cube)
    if encoding.scale != 1.0 or encoding.offset != 0.0:
        said |= {"scale": encoding.scale, "offset": encoding.offset}
    if encoding.nodata is not None:
        said["nodata"] = encoding.nodata
    if stored.ndim == 3:  # bare arrays are in either order
        said["axes"] = encoding.axes
    beside = {word: np.asarray(said[word]) for word in NEIGHBOURS if word in said}
    return {"cube" if name in NEIGHBOURS else name: stored} | beside
