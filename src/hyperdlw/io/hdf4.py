"""HDF4 through pyhdf: Hyperion L1R, whose wavelengths lie in the file .AUX beside it.

The cube is searched as in HDF5 (see :mod:`hyperdlw.io.array_tree`). An output is a copy of the input in
which the numbers of that array are replaced; other HDF4 files are not written.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np

from ..cube import Encoding
from ..errors import BadFile, MissingDependency
from .array_tree import Node, Tree, open_tree
from .checks import check_count, check_promise, count_bytes, explain_errors
from .formats import KeyedFormat
from .hdf5 import fill_windows, slice_windows
from .named_arrays import Variable
from .reader import CubeReader, Described, ReadOptions, Stored
from .writer import WriteWindow

MAGIC = b"\x0e\x03\x13\x01"
TYPES = {3: "uint8", 4: "str", 5: "float32", 6: "float64", 20: "int8", 21: "uint8", 22: "int16"}
TYPES |= {23: "uint16", 24: "int32", 25: "uint32"}
"""Numbers of the types of HDF4."""
SPECTRAL = {"Spectral Center Wavelengths": "wavelength", "Spectral Bandwidths": "fwhm"}
"""Hyperion's arrays (band, col), in nm; a band gets the mean of its columns."""
TRIAL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
from pyhdf.SD import SD
file = SD(sys.argv[1])
for name in file.datasets():
    file.select(name).attributes()
file.attributes()
"""
"""On bytes that are wrong the library may run for ever or crash."""


class Item(Protocol):
    """An array of pyhdf (SDS)."""

    def info(self) -> tuple[str, int, int | list[int], int, int]: ...
    def attributes(self) -> dict[str, object]: ...
    def dimensions(self) -> dict[str, int]: ...
    def endaccess(self) -> None: ...
    def __getitem__(self, index: tuple[slice, ...]) -> Stored: ...
    def __setitem__(self, index: tuple[slice, ...], values: Stored) -> None: ...


class OpenFile(Protocol):
    """A file of pyhdf (SD)."""

    def datasets(self) -> dict[str, object]: ...
    def attributes(self) -> dict[str, object]: ...
    def select(self, name: str) -> Item: ...
    def end(self) -> None: ...


class Hdf4(KeyedFormat):
    """Arrays of HDF4 (SDS), which are read and replaced."""

    name = "hdf4"
    suffixes = (".l1r", ".hdf")
    read_only = True

    def recognise(self, path: Path, head: bytes) -> bool:
        return head.startswith(MAGIC)

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        with open_hdf4(path) as file:
            return walk_arrays(path, file).variables

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        with ExitStack() as stack:
            file = stack.enter_context(open_hdf4(path))
            tree = walk_arrays(path, file)
            beside = next((p for p in map(path.with_suffix, (".AUX", ".aux")) if p.is_file()), None)
            if beside is not None:
                more = walk_arrays(beside, stack.enter_context(open_hdf4(beside))).nodes
                found = {n: node for n, node in more.items() if n in SPECTRAL.values()}
                tree = Tree(path, {**found, **tree.nodes}, tree.groups)
            made = open_tree(
                tree,
                lambda name, order: slice_windows(path, Array(path, file.select(name)), order),
                self.name,
                options,
            )
            made.stored_bytes = path.stat().st_size
            made.closing = stack.pop_all().close
        return made

    @contextmanager
    def open_copy(
        self, path: Path, original: Path, like: Described, encoding: Encoding
    ) -> Iterator[WriteWindow]:
        shutil.copyfile(original, path)
        with open_hdf4(path, "WRITE") as file:
            item = file.select(encoding.key or "")
            yield fill_windows(Array(path, item), encoding.axes)
            item.endaccess()


class Array:
    """An array of an open file; the library serves one thread at a time."""

    lock = threading.Lock()

    def __init__(self, path: Path, item: Item) -> None:
        self.path, self.item = path, item
        _, _, sizes, kind, _ = item.info()
        self.shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        self.dtype = TYPES.get(kind, "object")

    def __getitem__(self, index: tuple[slice, ...]) -> Stored:
        with self.lock, explain_errors(self.path):
            return np.asarray(self.item[index])

    def __setitem__(self, index: tuple[slice, ...], values: Stored) -> None:
        with self.lock:
            self.item[index] = np.ascontiguousarray(values)


@lru_cache(maxsize=64)
def try_library(path: Path, size: int, changed: int) -> None:
    """Refuse a file that the library never finishes with: it is opened in another process before."""
    run = subprocess.run([sys.executable, "-c", TRIAL, str(path)], capture_output=True)
    if run.returncode < 0:  # a signal: out of time, or a crash
        raise BadFile(
            f"{path} is damaged: the HDF4 library does not get through it; get a fresh copy"
        )


@contextmanager
def open_hdf4(path: Path, mode: str = "READ") -> Iterator[OpenFile]:
    """An open file, or a sentence that says how to get the package for it."""
    try:
        sd = import_module("pyhdf.SD")
    except ImportError as error:
        words = "is HDF4, which needs an extra package: pip install 'hyperdlw[hdf4]'"
        raise MissingDependency(f"{path} {words}, or convert it with 'h4toh5'") from error
    with explain_errors(path):
        about = path.stat()
        try_library(path, about.st_size, about.st_mtime_ns)
        file: OpenFile = sd.SD(str(path), getattr(sd.SDC, mode))
    try:
        yield file
    finally:
        file.end()


def walk_arrays(path: Path, file: OpenFile) -> Tree:
    """Every array; Hyperion's wavelengths and widths by columns are lists by bands here."""
    with explain_errors(path):
        names = list(file.datasets())
        check_count(path, len(names))
        nodes = dict(_make_node(path, name, file.select(name)) for name in names)
        return Tree(path, dict(sorted(nodes.items())), {"": dict(file.attributes())})


def _make_node(path: Path, name: str, item: Item) -> tuple[str, Node]:
    array = Array(path, item)
    shape, attributes = array.shape, dict(item.attributes())
    known = SPECTRAL.get(name) if len(shape) == 2 else None

    def load() -> Stored:
        check_promise(f"{name} in {path}", count_bytes(shape, array.dtype), path.stat().st_size)
        values = array[(slice(None),) * len(shape)]
        # The mean as float32 has noise in its last digit.
        return values if known is None else values.mean(1, np.float64).round(3)

    if known is not None:
        return known, Node(Variable(shape[:1], "float64"), load, {"units": "nm"})
    names = tuple(d for d in item.dimensions() if not d.startswith("fakeDim"))
    dimensions = names if len(names) == len(shape) else ()
    return name, Node(Variable(shape, array.dtype), load, attributes, dimensions)
