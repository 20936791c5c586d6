"""Trees of arrays (HDF5, NetCDF, Zarr): which one is the cube, and what the others say of it.

Sensors put the wavelengths elsewhere in the tree, as a variable (EMIT, NEON) or as an attribute
(PRISMA). One rule serves all: a list of numbers whose name speaks of wavelengths and whose length
is that of an axis of the cube; that axis holds the bands.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile
from .cf import OWN, read_place
from .checks import is_real
from .joined import find_pair, join_readers
from .metadata import fit_metadata, parse_metadata, simplify_value
from .named_arrays import SMALL, Variable, choose_variable, insert_band
from .reader import CubeReader, FileFacts, ReadOptions, ReadWindow, Stored, build_reader
from .series import Member, add_members, list_members
from .spectrum import CENTRES, GOOD, WIDTHS, speaks_of

SPECTRAL_DIMENSION = re.compile(r"band|wavelength|^wl|spectral|channel|lambda|^lam$")
AUXILIARY = re.compile(r"uncert|(^|_)err(or)?(_|$)|mask|flag|quality")
"""Names of arrays about the cube that are as large as it."""
LONGEST = 100_000
"""Entries of a believable list of wavelengths."""
STRUCTURE = ("DIMENSION_L", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4", "_NC")
"""Starts of the names of attributes that describe the file and not the cube."""
FILL = ("_FillValue", "missing_value", "Data_Ignore_Value", "nodata")
OURS = (*FILL, "axes", "scale_factor", "add_offset", "Scale_Factor")


@dataclass(frozen=True)
class Node:
    """One array of the tree."""

    variable: Variable
    load: Callable[[], Stored] = field(repr=False)
    attributes: Mapping[str, object] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()

    @property
    def length(self) -> int | None:
        """Number of entries of a list of numbers (axes of length 1 do not count)."""
        if not is_real(self.variable.dtype):
            return None
        long = [n for n in self.variable.shape if n != 1]
        return long[0] if len(long) == 1 else 1 if not long and self.variable.shape else None


@dataclass(frozen=True)
class Tree:
    """All arrays by path (``a/b/c``), and the attributes of the groups ("" is the root)."""

    path: Path
    nodes: Mapping[str, Node]
    groups: Mapping[str, Mapping[str, object]]

    @property
    def variables(self) -> dict[str, Variable]:
        return {name: node.variable for name, node in self.nodes.items()}


def cut_series(tree: Tree, key: str | None = None) -> Tree:
    """The tree with the cubes of a series in the place of an array of four axes."""
    names = {name: node.dimensions for name, node in tree.nodes.items()}
    members = list_members(tree.variables, key, names)
    if not members:
        return tree
    nodes: dict[str, Node] = {}
    for name, variable in add_members(tree.variables, members).items():
        member = members.get(name)
        if member is None:
            nodes[name] = tree.nodes[name]
            continue
        whole = tree.nodes[member.name]
        rest = (*whole.dimensions[: member.axis], *whole.dimensions[member.axis + 1 :])
        nodes[name] = Node(variable, partial(_load_member, whole, member), whole.attributes, rest)
    return replace(tree, nodes=nodes)


def _load_member(whole: Node, member: Member) -> Stored:
    return whole.load()[member.place()]


def choose_array(tree: Tree, key: str | None, notes: list[str]) -> str:
    """The name of the cube: the one asked for, the only large 3-D array, or ``cube``."""
    variables = tree.variables
    if key is not None:
        name = key.strip("/")
        ends = [n for n in variables if n.endswith("/" + name)]
        name = ends[0] if name not in variables and len(ends) == 1 else name
        return choose_variable(tree.path, variables, name)
    every = {name: v for name, v in variables.items() if v.is_candidate}
    found = {n: v for n, v in every.items() if not AUXILIARY.search(n.rpartition("/")[2].lower())}
    found = found or every
    if "cube" in found or not found:
        return choose_variable(tree.path, variables, None)
    largest = max(math.prod(v.shape) for v in found.values())
    large = {n: v for n, v in found.items() if math.prod(v.shape) > SMALL * largest} or found
    flat = {n: v for n, v in variables.items() if v.is_matrix}
    name = choose_variable(tree.path, large | flat, None)
    if len(found) > 1:
        others = ", ".join(n for n in found if n != name)
        notes.append(f"the largest array, {name}, was taken (there are also {others[:200]})")
    return name


@dataclass(frozen=True)
class NumberList:
    """A list of numbers found somewhere in the tree, as text; ``steps`` away from the cube."""

    name: str
    texts: list[str]
    units: str | None
    steps: int


def find_lists(
    tree: Tree, cube: str, wanted: re.Pattern[str], lengths: set[int]
) -> list[NumberList]:
    """Lists whose name and length fit, the ones nearest to the cube first."""
    found: list[NumberList] = []

    def add(name: str, place: str, values: Stored, units: object) -> None:
        said = simplify_value(units)
        # str() of a float32 is its shortest form: 400.1 and not 400.1000061.
        texts = [str(v) if values.dtype.kind == "f" else str(int(v)) for v in values.reshape(-1)]
        steps = _count_steps(place, cube)
        found.append(NumberList(name, texts, said if isinstance(said, str) else None, steps))

    for name, node in tree.nodes.items():
        if name != cube and speaks_of(name.rpartition("/")[2], wanted) and node.length in lengths:
            units = node.attributes.get("units", node.attributes.get("Units"))
            add(name, name, node.load(), units)
    holders = {cube: tree.nodes[cube].attributes, **tree.groups}
    for holder, attributes in holders.items():
        if holder and not (cube == holder or cube.startswith(holder + "/")):
            continue
        for key, value in attributes.items():
            values = np.asarray(value) if not isinstance(value, str | bytes) else np.zeros(0)
            number = values.dtype.kind in "buif" and values.ndim > 0
            if number and values.size in lengths and speaks_of(key, wanted):
                units = attributes.get(f"{key}_units", attributes.get("wavelength_units"))
                add(f"{holder}@{key}", f"{holder}/{key}", values, units)
    return sorted(found, key=lambda entry: entry.steps)


def _count_steps(name: str, cube: str) -> int:
    """Steps from one place in the tree to another."""
    a, b = name.split("/"), cube.split("/")
    shared = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return len(a) + len(b) - 2 * len(list(shared))


def find_band_axis(tree: Tree, cube: str, axes: str | None) -> tuple[str, list[NumberList]]:
    """The stored order of the axes, and the lists of wavelengths that agree with it."""
    node = tree.nodes[cube]
    shape = node.variable.shape
    if len(shape) == 2:
        return axes or "brc", []
    if axes is None:
        said = simplify_value(node.attributes.get("axes"))
        axes = said if isinstance(said, str) and sorted(said) == sorted(AXES) else None
    if axes is not None:
        bands = shape[Encoding(axes=axes).axes.index("b")]
        return axes, find_lists(tree, cube, CENTRES, {bands})
    named = [i for i, d in enumerate(node.dimensions) if SPECTRAL_DIMENSION.search(d.lower())]
    found = find_lists(tree, cube, CENTRES, set(shape))
    if len(named) == 1:
        at = named[0]
    else:
        # The nearest list decides; its length may be that of two axes.
        places = [i for i, n in enumerate(shape) if found and n == len(found[0].texts)]
        if len(places) != 1:
            why = "two axes are as long as the wavelengths" if places else "no wavelengths tell"
            raise BadFile(
                f"{cube} in {tree.path} is {'x'.join(map(str, shape))} and {why} which axis holds "
                "the bands; give the order with --axes, such as --axes rcb"
            )
        at = places[0]
    order = "rc"[:at] + "b" + "rc"[at:]
    return order, [entry for entry in found if len(entry.texts) == shape[at]]


def open_tree(
    tree: Tree, window: Callable[[str, str], ReadWindow], format: str, options: ReadOptions
) -> CubeReader:
    """Open the cube of a tree; ``window`` makes the window function of an array (name, axes)."""
    pair = find_pair(tree.nodes, options.key)
    if pair is not None:
        parts = (replace(options, key=key) for key in pair)
        return join_readers(*(open_tree(tree, window, format, part) for part in parts))
    notes: list[str] = []
    name = choose_array(tree, options.key, notes)
    node = tree.nodes[name]
    order, centres = find_band_axis(tree, name, options.axes)
    stored = insert_band(node.variable.shape, order)
    bands, rows, cols = (stored[order.index(a)] for a in AXES)
    said = FileFacts(metadata=_read_metadata(tree, name, bands, notes), notes=notes)
    said.metadata = fit_metadata(read_place(tree, name, order), bands, notes) | said.metadata
    said.metadata["stored_ndim"] = len(node.variable.shape)
    none = NumberList("", [], None, 0)
    lists = (centres, find_lists(tree, name, WIDTHS, {bands}))
    centre, width = (found[0] if found else none for found in lists)
    said.set_spectrum(centre.texts, centre.units, width.texts, width.units)
    waves = said.wavelengths
    if centres:
        notes.append(f"wavelengths are from {centre.name}")
    for entry in find_lists(tree, name, GOOD, {bands})[:1]:
        said.good_bands = np.array([float(text) for text in entry.texts]) != 0
        notes.append(f"good bands are from {entry.name}")
    if waves is not None and (waves <= 0).any():
        notes.append(f"{int((waves <= 0).sum())} bands have the wavelength 0 and were marked bad")
        said.good_bands = (waves > 0) & (True if said.good_bands is None else said.good_bands)
    said.scale, said.offset = _read_scale(node, notes)
    said.nodata, word = _read_fill(node)
    said.nodata_from = f"'{word}' of {name}"
    used = {name, centre.name, width.name, *OWN}
    said.metadata["siblings"] = tuple(n for n in tree.nodes if n not in used)
    said.notes = [n for n in notes if not (name == "cube" and " are from " in n)]
    dtype = np.dtype(node.variable.dtype).name
    encoding = Encoding(dtype, order, format=format, key=name)
    return build_reader(
        tree.path, (bands, rows, cols), encoding, window(name, order), said, options
    )


def _read_number(value: object) -> float | None:
    array = np.asarray(value)
    if array.dtype.kind not in "buif" or array.size != 1:
        return None
    return float(array.reshape(-1)[0])


def _read_scale(node: Node, notes: list[str]) -> tuple[float, float]:
    """value = stored * scale_factor + add_offset (CF), or stored / Scale_Factor (NEON)."""
    words = {"scale_factor": 1.0, "add_offset": 0.0, "Scale_Factor": 1.0}
    said = [_read_number(node.attributes.get(word, default)) for word, default in words.items()]
    factor, offset, divisor = (math.nan if value is None else value for value in said)
    if not all(map(math.isfinite, (factor, offset, divisor))) or 0.0 in (factor, divisor):
        notes.append("the scale is 0 or no number and was not used")
        return 1.0, 0.0
    return factor / divisor, offset


def _read_fill(node: Node) -> tuple[float | None, str | None]:
    said = ((_read_number(node.attributes.get(name)), name) for name in FILL)
    return next((found for found in said if found[0] is not None), (None, None))


def _read_metadata(tree: Tree, cube: str, bands: int, notes: list[str]) -> dict[str, Any]:
    """What hyperdlw stored, or else the attributes of the root and of the cube."""
    own = tree.nodes.get("metadata")
    stored = simplify_value(tree.groups.get("", {}).get("metadata"))
    if own is not None and own.variable.dtype == "str":
        stored = str(np.asarray(own.load()).reshape(-1)[0])
    if isinstance(stored, str):
        return parse_metadata(stored, bands, notes)
    kept: dict[str, object] = {}
    for where, attributes in (("", tree.groups.get("", {})), (cube, tree.nodes[cube].attributes)):
        values = {
            k: simplify_value(v)
            for k, v in attributes.items()
            if not k.startswith(STRUCTURE) and not (where and k in OURS)
        }
        # A list as long as an image is no attribute of the cube.
        small = {k: v for k, v in values.items() if v is not ... and len(str(v)) <= 20_000}
        if small:
            kept[where or "/"] = small
    return fit_metadata({"attributes": kept}, bands, notes) if kept else {}
