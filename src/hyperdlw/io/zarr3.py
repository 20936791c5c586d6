"""Zarr: a group with the array ``cube`` (band, row, col); other layouts are searched like HDF5."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile, MissingDependency, OutputExists
from .array_tree import Node, Tree, cut_series, open_tree
from .checks import check_count, check_promise, count_bytes, explain_errors
from .formats import FLOATS, INTEGERS, KeyedFormat
from .hdf5 import fill_windows, slice_windows
from .joined import fill_both
from .metadata import list_neighbours, list_scale
from .named_arrays import Variable
from .reader import CubeReader, Described, Index, ReadOptions, ReadWindow, Stored
from .series import name_array, view_member
from .writer import WriteWindow

MARKS = ("zarr.json", ".zgroup", ".zarray")
UNITS = {"wavelengths": "wavelength_units", "fwhm": "fwhm_units"}
CHUNK, SHARD = (64, 64, 64), 256
"""Voxels of a chunk; pixels along a side of a shard, which is one file."""


class Zarr(KeyedFormat):
    """A group with the array ``cube`` (band, row, col): chunks make other orders pointless."""

    name = "zarr"
    suffixes = (".zarr",)
    is_folder = True
    shares_strips = True
    dtypes = INTEGERS | FLOATS | {"bool", "float16"}

    def recognise(self, path: Path, head: bytes) -> bool:
        return is_store(path)

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        return walk_store(path).variables

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        zarr = import_zarr()
        tree = walk_store(path, options.key)
        with explain_errors(path):
            root = zarr.open(str(path), mode="r")

            def window(name: str, order: str) -> ReadWindow:
                item = root if isinstance(root, zarr.Array) else root[name_array(name)]
                check_readable(path, name, item)
                return slice_windows(path, view_member(item, name), order)

            made = open_tree(tree, window, self.name, options)
            made.stored_bytes = count_stored(path)
            return made

    def choose_axes(self, path: Path, asked: Encoding) -> str:
        return AXES

    def check_place(self, path: Path, overwrite: bool) -> None:
        """Only a Zarr store is ever replaced by one."""
        import_zarr()
        super().check_place(path, overwrite)
        if path.is_dir() and not is_store(path):
            raise OutputExists(f"{path} is a folder but no Zarr store; choose a new name")

    def choose_tile(
        self, like: Described, encoding: Encoding, strip: int | None
    ) -> tuple[int, int]:
        """Rows and columns of a file: a part of one is written by reading it back."""
        chunks, shards = choose_layout(like, strip)
        _, rows, cols = shards or chunks
        return rows, cols

    @contextmanager
    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> Iterator[WriteWindow]:
        """Write what is known about the cube, and the numbers window by window."""
        chunks, shards = choose_layout(like, strip)
        group = import_zarr().create_group(store=str(path), overwrite=False)
        for name, value in list_neighbours(like).items():
            group.attrs[name] = value if isinstance(value, str) else np.multiply(value, 1).tolist()
            if name in UNITS:
                group.attrs[UNITS[name]] = "nm"
        attributes: dict[str, object] = {"axes": AXES, **list_scale(encoding)}
        if encoding.nodata is not None and np.isfinite(encoding.nodata):
            attributes["_FillValue"] = encoding.nodata
        layout = {"shape": like.shape, "chunks": chunks, "shards": shards}
        names = ("band", "row", "col")
        group.create_array(
            "cube", dtype=encoding.dtype, dimension_names=names, attributes=attributes, **layout
        )
        yield StoreWriter(path)
        # What a process that was killed left behind.
        for file in path.rglob("*.partial"):
            file.unlink()

    @contextmanager
    def open_copy(
        self, path: Path, original: Path, like: Described, encoding: Encoding
    ) -> Iterator[WriteWindow]:
        shutil.copytree(original, path, dirs_exist_ok=True)
        key, joined = encoding.key or "", like.metadata.get("joined")
        if joined is None:
            yield StoreWriter(path, key, encoding.axes)
        else:
            yield fill_both(lambda name: StoreWriter(path, name, encoding.axes), key, joined)


def import_zarr() -> Any:
    """The package zarr, or a sentence that says how to get it."""
    try:
        return import_module("zarr")
    except ImportError as error:
        words = "Zarr needs an extra package; install it with: pip install 'hyperdlw[scale]'"
        raise MissingDependency(words) from error


def is_store(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return path.is_dir() and any((path / mark).is_file() for mark in MARKS)


def walk_store(path: Path, key: str | None = None) -> Tree:
    """Every array and group of the store."""
    zarr = import_zarr()
    if not is_store(path):
        raise BadFile(f"{path} is no Zarr store (it has no zarr.json); check the name")
    nodes: dict[str, Node] = {}
    groups: dict[str, dict[str, object]] = {}
    with explain_errors(path):
        root = zarr.open(str(path), mode="r")
        if isinstance(root, zarr.Array):
            alone = Tree(path, {"array": _make_node(path, "array", root)}, {"": {}})
            return cut_series(alone, key)
        groups[""] = dict(root.attrs)
        for count, (name, item) in enumerate(root.members(max_depth=8)):
            check_count(path, count)
            if isinstance(item, zarr.Array):
                nodes[name] = _make_node(path, name, item)
            else:
                groups[name] = dict(item.attrs)
    return cut_series(Tree(path, dict(sorted(nodes.items())), groups), key)


def _make_node(path: Path, name: str, item: Any) -> Node:
    kind = "object" if item.dtype.kind in "OV" else item.dtype.name
    dimensions = tuple(str(d or "") for d in getattr(item.metadata, "dimension_names", None) or ())
    dimensions = dimensions or tuple(map(str, item.attrs.get("_ARRAY_DIMENSIONS", ())))

    def load() -> Stored:
        check_readable(path, name, item)
        promised = count_bytes(item.shape, item.dtype.str)
        check_promise(f"{name} in {path}", promised, count_stored(path))
        return np.asarray(item[...])

    return Node(Variable(tuple(item.shape), kind), load, dict(item.attrs), dimensions)


def check_readable(path: Path, name: str, item: Any) -> None:
    """Refuse chunks that run code when they are decoded, or that no memory can hold."""
    # The old version 2 may name a filter that unpickles.
    if "pickle" in json.dumps(item.metadata.to_dict(), default=str):
        why = "pickled, which hyperdlw never opens; save plain numbers"
        raise BadFile(f"{name} in {path} is {why}")
    chunk = count_bytes(item.chunks, item.dtype.str)
    check_promise(f"a chunk of {name} in {path}", chunk, count_stored(path))


def count_stored(path: Path) -> int:
    """Bytes of all files of the store."""
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def choose_layout(
    like: Described, strip: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shapes of chunks and of shards (None for a small image).

    Args:
        strip: rows that are written together; shards are then as high, so that no two strips
            share a file.
    """
    chunks = tuple(max(1, min(n, c)) for n, c in zip(like.shape, CHUNK, strict=True))
    if strip is not None:
        # A shard holds whole chunks.
        heights = [n for n in range(CHUNK[1] // 4, CHUNK[1] + 1) if strip % n == 0]
        chunks = (chunks[0], max(heights, default=strip), chunks[2])
    elif max(like.shape[1:]) <= SHARD:
        return chunks, None
    # All bands and a square of pixels in one file: a cube is not a million files.
    whole = -(-like.shape[0] // chunks[0]) * chunks[0]
    _, rows, cols = (c * max(1, SHARD // c) for c in chunks)
    return chunks, (whole, strip or rows, cols)


class StoreWriter:
    """Writes windows of an array of a store. Other processes open the store anew.

    Several may write at once as long as no two of them write to one shard.
    """

    def __init__(self, path: Path, name: str = "cube", axes: str = AXES) -> None:
        self.place = path, name, axes
        self.lock = threading.Lock()  # two windows of this process may share a chunk
        zarr = import_zarr()
        root = zarr.open(str(path), mode="r+")
        item = root if isinstance(root, zarr.Array) else root[name_array(name)]
        self.put = fill_windows(view_member(item, name), axes)

    def __call__(self, bands: Index, rows: slice, cols: slice, stored: Stored) -> None:
        with self.lock:
            self.put(bands, rows, cols, stored)

    def __reduce__(self) -> tuple[type[StoreWriter], tuple[Path, str, str]]:
        return StoreWriter, self.place
