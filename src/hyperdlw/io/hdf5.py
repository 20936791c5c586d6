"""HDF5 and NetCDF 4 through h5py: the cube is searched in the tree (see :mod:`hyperdlw.io.array_tree`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile
from .array_tree import Node, Tree, cut_series, open_tree
from .cf import BARE, write_dimensions
from .checks import check_count, check_promise, count_bytes, explain_errors
from .formats import FLOATS, INTEGERS, KeyedFormat
from .joined import fill_both
from .metadata import list_scale
from .named_arrays import Variable
from .pictures import fit_nodata
from .reader import CubeReader, Described, Index, ReadOptions, ReadWindow, Stored
from .series import name_array, view_member
from .writer import WriteWindow

if TYPE_CHECKING:
    import h5py

MAGIC = b"\x89HDF\r\n\x1a\n"
CHUNK, CHUNKED = 64, 2**24
"""Sides of a chunk, and bytes from which an output has chunks: windows are then read quickly."""
CACHE = 2**26
"""Bytes of chunks that are held until they are full: each is then packed once."""

CLASSIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
OLD = dict.fromkeys(CLASSIC, "NetCDF classic; convert it with 'nccopy -k nc4'")


class Hdf5(KeyedFormat):
    """HDF5 and NetCDF 4; the older NetCDF is recognised and refused."""

    name = "hdf5"
    suffixes = (".h5", ".hdf5", ".he5", ".nc", ".nc4")
    dtypes = INTEGERS | FLOATS | {"bool", "float16"}

    def recognise(self, path: Path, head: bytes) -> bool:
        return MAGIC in (head[:8], head[512:520]) or head[:4] in OLD

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        with open_hdf5(path) as file:
            return walk_file(path, file).variables

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        with ExitStack() as stack:
            file = stack.enter_context(open_hdf5(path))
            tree = walk_file(path, file, options.key)

            def window(name: str, order: str) -> ReadWindow:
                item = file[name_array(name)]
                check_readable(path, name, item)
                return slice_windows(path, view_member(item, name), order)

            made = open_tree(tree, window, self.name, options)
            item, *rest = (file[key] for key in split_key(made))
            made.stored_bytes = sum(i.id.get_storage_size() for i in (item, *rest))
            packing = {k: getattr(item, k) for k in ("compression", "compression_opts", "shuffle")}
            if packing["compression"] in ("gzip", "lzf"):
                made.metadata = {**made.metadata, "hdf5_layout": packing}
            made.closing = stack.pop_all().close
        return made

    def choose_axes(self, path: Path, asked: Encoding) -> str:
        """Readers of NetCDF expect the map axes last."""
        netcdf = path.suffix.lower() in (".nc", ".nc4")
        return AXES if netcdf else super().choose_axes(path, asked)

    def choose_tile(
        self, like: Described, encoding: Encoding, strip: int | None
    ) -> tuple[int, int]:
        return (CHUNK, CHUNK) if _needs_chunks(like, encoding) else (1, like.shape[2])

    @contextmanager
    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> Iterator[WriteWindow]:
        """Write what is known about the cube, and the numbers window by window."""
        import h5py

        axes = encoding.axes
        shape = tuple(like.shape[AXES.index(a)] for a in axes)
        options: dict[str, object] = dict(like.metadata.get("hdf5_layout", {}))
        if _needs_chunks(like, encoding):
            options["chunks"] = tuple(min(n, CHUNK) for n in shape)
        # Through a Python file, because HDF5's own output crashes the interpreter on a full disk.
        with open(path, "wb+") as raw, h5py.File(raw, "w") as file:
            item = file.create_dataset("cube", shape, encoding.dtype, **options)
            write_description(file, item, like, encoding)
            yield fill_windows(item, axes)

    def open_copy(
        self, path: Path, original: Path, like: Described, encoding: Encoding
    ) -> AbstractContextManager[WriteWindow]:
        return fill_copy(path, original, encoding.key or "", encoding.axes, like)


@contextmanager
def fill_copy(
    path: Path, original: Path, key: str, axes: str, like: Described
) -> Iterator[WriteWindow]:
    """A copy of a file; windows go into its array ``key``, whose chunks and filters stay."""
    import h5py

    shutil.copyfile(original, path)
    with open(path, "rb+") as raw, h5py.File(raw, "r+", rdcc_nbytes=CACHE) as file:
        joined = like.metadata.get("joined")
        if joined is None:
            yield fill_windows(view_member(file[name_array(key)], key), axes)
        else:
            yield fill_both(lambda name: fill_windows(file[name], axes), key, joined)


def split_key(like: Described) -> list[str]:
    """The arrays that hold the cube."""
    key = name_array(like.encoding.key or "")
    return key.split("+") if "joined" in like.metadata else [key]


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An open file."""
    import h5py

    with explain_errors(path):
        with open(path, "rb") as raw:
            old = OLD.get(raw.read(4))
        if old is not None:
            raise BadFile(f"{path} is {old}")
        with h5py.File(path, "r", locking=False) as file:
            yield file


def walk_file(path: Path, file: h5py.File, key: str | None = None) -> Tree:
    """Every array and group once; links to other places and files are not followed."""
    import h5py

    nodes: dict[str, Node] = {}
    groups: dict[str, dict[str, object]] = {"": _read_attributes(file)}
    waiting: list[tuple[str, h5py.Group]] = [("", file)]
    seen = {file["/"].id}  # compared by the address in the file
    count = 0
    while waiting:
        prefix, group = waiting.pop()
        for name in group:
            count += 1
            check_count(path, count)
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            count += len(item.attrs)
            where = f"{prefix}/{name}" if prefix else name
            if isinstance(item, h5py.Group):
                if item.id not in seen:
                    seen.add(item.id)
                    groups[where] = _read_attributes(item)
                    waiting.append((where, item))
            elif isinstance(item, h5py.Dataset) and item.shape is not None:
                if BARE.encode() in bytes(np.bytes_(item.attrs.get("NAME", b""))):
                    continue
                nodes[where] = _make_node(path, where, item)
    return cut_series(Tree(path, dict(sorted(nodes.items())), groups), key)


def _read_attributes(item: h5py.Group | h5py.Dataset) -> dict[str, object]:
    """Attributes that are numbers or text; references and whatever cannot be read are left out."""
    found: dict[str, object] = {}
    for name in list(item.attrs)[:1000]:
        try:
            value = item.attrs[name]
        except Exception:  # types that h5py has no word for
            continue
        array = np.asarray(value)
        if array.dtype.kind in "buifSU" or isinstance(value, str):
            found[name] = value
    return found


def _make_node(path: Path, where: str, item: h5py.Dataset) -> Node:
    import h5py

    text = h5py.check_string_dtype(item.dtype) is not None
    kind = "str" if text else "object" if item.dtype.kind in "OV" else item.dtype.name

    def load() -> Stored:
        check_readable(path, where, item)
        check_promise(f"{where} in {path}", item.nbytes, item.id.get_storage_size())
        return np.asarray(item.asstr()[()] if text else item[()])

    return Node(Variable(item.shape, kind), load, _read_attributes(item), _name_dimensions(item))


def _name_dimensions(item: h5py.Dataset) -> tuple[str, ...]:
    """Names of the axes, from labels or from NetCDF's dimension variables.

    They are read off the attributes: the library's own walk over dimension scales ends the process on
    some damaged files.
    """
    try:
        labels, scales = (item.attrs.get(f"DIMENSION_{word}") for word in ("LABELS", "LIST"))
        names = []
        for k in range(item.ndim):
            label = "" if labels is None else labels[k]
            own = [] if scales is None else list(scales[k])
            text = label.decode() if isinstance(label, bytes) else str(label)
            near = str(item.file[own[0]].name).rpartition("/")[2] if len(own) else ""
            names.append(text or near)
        return tuple(names)
    except Exception:  # references to objects that are gone
        return ()


def check_readable(path: Path, where: str, item: h5py.Dataset) -> None:
    """Refuse arrays of other files, and chunks that no memory can hold."""
    if item.is_virtual or item.external:
        raise BadFile(f"{where} in {path} lies in another file; save it in one file")
    if item.chunks is not None:
        chunk = count_bytes(item.chunks, item.dtype.str)
        check_promise(f"a chunk of {where} in {path}", chunk, item.id.get_storage_size())


def slice_windows(path: Path, item: Any, axes: str) -> ReadWindow:
    """Windows of an array that slices as NumPy's do, with band numbers in rising order."""
    order = tuple(axes.index(a) for a in AXES)
    flat = len(item.shape) == 2
    letters = axes.replace("b", "") if flat else axes

    def window(bands: Index, rows: slice, cols: slice) -> Stored:
        index, back = bands, bands if flat else slice(None)
        if not flat and not isinstance(bands, slice):
            index = slice(min(bands), max(bands) + 1) if bands else slice(0, 0)
            back = [b - min(bands) for b in bands]
        each = {"b": index, "r": rows, "c": cols}
        with explain_errors(path):
            cut = np.asarray(item[tuple(each[a] for a in letters)])
            laid = np.expand_dims(cut, axes.index("b")) if flat else cut
            native = laid.astype(cut.dtype.newbyteorder("="), copy=False).transpose(order)
            return np.asarray(native[back])

    return window


def fill_windows(item: Any, axes: str) -> WriteWindow:
    """The way back of :func:`slice_windows`: windows are put into an array."""
    flat = len(item.shape) == 2
    letters = axes.replace("b", "") if flat else axes
    back = tuple(AXES.index(a) for a in axes)

    def put(bands: Index, rows: slice, cols: slice, stored: Stored) -> None:
        if not isinstance(bands, slice):
            for i, band in enumerate(bands):
                put(slice(band, band + 1), rows, cols, stored[i : i + 1])
            return
        each = {"b": bands, "r": rows, "c": cols}
        laid = stored.transpose(back)
        item[tuple(each[a] for a in letters)] = laid.squeeze(axes.index("b")) if flat else laid

    return put


def _needs_chunks(like: Described, encoding: Encoding) -> bool:
    large = count_bytes(like.shape, encoding.dtype) > CHUNKED
    return large or bool(like.metadata.get("hdf5_layout"))


def write_description(
    file: h5py.File, item: h5py.Dataset, like: Described, encoding: Encoding
) -> None:
    """Everything beside the numbers, in CF's words where it has them."""
    item.attrs.update({"axes": encoding.axes} | list_scale(encoding))
    fill = np.nan if like.metadata.get("nodata_is_nan") else encoding.nodata
    if fill is not None:  # CF wants it in the type of the cube
        fits = fit_nodata(encoding) is not None and item.dtype.kind != "b"
        item.attrs["_FillValue"] = item.dtype.type(fill) if fits else np.float64(fill)
    write_dimensions(file, item, like, encoding.axes)
