"""NumPy's .npy (one array) and .npz (a zip of them), never unpickled, never larger than the file;
and bare numbers without a header, whose sizes and type the user says (``--shape``)."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npformat

from ..cube import AXES, Encoding, find_order
from ..errors import BadFile, BadOption
from .checks import (
    check_count,
    check_cube,
    check_promise,
    count_bytes,
    explain_errors,
    format_size,
)
from .formats import Format, KeyedFormat
from .named_arrays import Load, Variable, insert_band, make_variables, open_named
from .reader import CubeReader, Described, FileFacts, ReadOptions, Stored, build_reader, map_windows
from .series import fill_member
from .writer import WriteWindow, write_mapped

MAGIC = b"\x93NUMPY"
ARRAY = "array"
"""The name of the array of a .npy file, where it is a series."""
SAID = re.compile(rb"# axes: (brc|bcr|rbc|rcb|cbr|crb)\b")
EXAMPLE = "224x512x614:uint16"
LONGEST_HEADER = 2**16
DIRECTORY = 2**20
"""Bytes of a believable directory of a zip."""


class Npy(Format):
    """One array; scale, nodata and wavelengths have no place in it. Four axes are a series."""

    name = "npy"
    suffixes = (".npy",)
    has_keys = True
    free_axes = True

    def recognise(self, path: Path, head: bytes) -> bool:
        return head.startswith(MAGIC)

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        with explain_errors(path), open(path, "rb") as file:
            first = file.read(len(MAGIC))
            if first[:1] == b"\x80":
                why = "a Python pickle, which hyperdlw never opens; save the array with numpy.save"
                raise BadFile(f"{path} is {why}")
            if first != MAGIC:
                raise BadFile(f"{path} is not a .npy file; check its name or save it again")
            file.seek(0)
            held, dtype, length, fortran = read_header(file)
            file.seek(0)
            said = SAID.search(file.read(length))
            if len(held) != 4:
                check_cube(path, held, dtype.name)
            size, needed = file.seek(0, 2) - length, count_bytes(held, dtype.str)
            if needed > size:
                raise BadFile(
                    f"{path} is cut short: {held} {dtype.name} needs {format_size(needed)}, "
                    f"it has {format_size(size)}; get a fresh copy"
                )
        if len(held) == 4:
            series = {ARRAY: Variable(held, dtype.name)}
            return open_named(path, series, lambda _: np.load(path, "r"), self.name, options)
        if options.key is not None:
            raise BadOption(f"{path} holds one image, no variables; leave out --key")
        facts = FileFacts(metadata={"stored_ndim": len(held)})
        order = options.axes or (said.group(1).decode() if said else "")
        if not order:
            stored = np.memmap(path, dtype, "r", length, held, "F" if fortran else "C")
            order, why = find_order(path, held, lambda: stored)
            if why:
                facts.notes.append(f"the order of the axes was taken for {order} by {why}")
        shape = insert_band(held, order)
        laid, letters = (shape[::-1], order[::-1]) if fortran else (shape, order)
        bands, rows, cols = (shape[order.index(a)] for a in AXES)
        window = map_windows(path, length, laid, dtype, letters)
        encoding = Encoding(dtype.name, order, format=self.name)
        made = build_reader(path, (bands, rows, cols), encoding, window, facts, options)
        made.plain = True
        return made

    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> AbstractContextManager[WriteWindow]:
        dtype = np.dtype(encoding.dtype)
        shape = tuple(like.shape[AXES.index(a)] for a in encoding.axes)
        head = io.BytesIO()
        facts = {"descr": npformat.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npformat.write_array_header_1_0(head, facts)
        said = note_axes(head.getvalue(), encoding.axes)
        return write_mapped(path, said, like.shape, dtype, encoding.axes)

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        with explain_errors(path), open(path, "rb") as file:
            shape, dtype, _, _ = read_header(file)
        return {ARRAY: Variable(shape, dtype.name)} if len(shape) == 4 else {}

    def copies(self, encoding: Encoding) -> bool:
        return encoding.key is not None and encoding.format == self.name

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        shutil.copyfile(original, path)
        np.load(path, "r+")[...] = fill_member(lambda _: np.load(original), encoding.key, stored)[1]

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        with open(path, "wb") as file:
            np.save(file, stored, allow_pickle=False)
        if stored.ndim == 3:
            with open(path, "rb+") as file:
                length = read_header(file)[2]
                file.seek(0)
                said = note_axes(file.read(length), encoding.axes)
                file.seek(0)
                file.write(said)


def note_axes(head: bytes, axes: str) -> bytes:
    """The header with the order of the axes as a comment in its padding, which readers skip."""
    words = b"# axes: " + axes.encode()
    start = len(head.rstrip()) + 2
    if start + len(words) >= len(head):  # no padding left, by chance
        return head
    return head[:start] + words + head[start + len(words) :]


class Npz(KeyedFormat):
    """The cube and its neighbours as members; compressed if the input was."""

    name = "npz"
    suffixes = (".npz",)

    def recognise(self, path: Path, head: bytes) -> bool:
        return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        return _list_members(path)[0]

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        variables, entries = _list_members(path)
        packed = any(e.compress_type != zipfile.ZIP_STORED for e in entries.values())
        load = _load_members(path, entries)
        return open_named(path, variables, load, self.name, options, {"compressed": packed})

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        key = encoding.key or ""
        name = key if re.fullmatch(r"\w[\w .-]*", key) else "cube"
        packed = cube.metadata.get("compressed", False)
        with zipfile.ZipFile(path, "w") as archive:
            for member, array in make_variables(cube, stored, encoding, name).items():
                # A bare ZipInfo has a fixed date: the same cube gives the same bytes.
                entry = zipfile.ZipInfo(f"{member}.npy")
                entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
                with archive.open(entry, "w", force_zip64=True) as file:
                    npformat.write_array(file, np.asanyarray(array), allow_pickle=False)

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        load = _load_members(original, _list_members(original)[1])
        name, whole = fill_member(load, encoding.key, stored)
        with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w") as new:
            for entry in old.infolist():
                with old.open(entry) as source, new.open(entry, "w", force_zip64=True) as file:
                    if entry.filename != f"{name}.npy":
                        shutil.copyfileobj(source, file)
                        continue
                    shape, dtype, _, fortran = read_header(source)
                    array = whole.reshape(shape).astype(dtype)
                    laid = np.asfortranarray(array) if fortran else array
                    npformat.write_array(file, laid, allow_pickle=False)


class Raw(Format):
    """Read as told; an output is ENVI with a header, in the same order if ENVI has it."""

    name = "raw"
    free_axes = True
    read_only = True

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        laid, dtype = parse_shape(options.shape or "")
        order = options.axes or AXES
        check_cube(path, laid, dtype.name)
        with explain_errors(path):
            held, needed = path.stat().st_size, count_bytes(laid, dtype.str)
        if held != needed:
            raise BadFile(
                f"{path} has {held} bytes, --shape {options.shape} needs {needed}; "
                "correct the sizes or the type"
            )
        bands, rows, cols = (laid[order.index(a)] for a in AXES)
        window = map_windows(path, 0, laid, dtype, order)
        encoding = Encoding(dtype.name, order, format="envi")
        made = build_reader(path, (bands, rows, cols), encoding, window, FileFacts(), options)
        made.plain = True
        return made


def parse_shape(text: str) -> tuple[tuple[int, int, int], np.dtype[np.generic]]:
    """Sizes in stored order and the type.

    >>> parse_shape("3x4x5:>u2")
    ((3, 4, 5), dtype('>u2'))
    """
    found = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9}):([<>]?[a-z][a-z0-9]*)", text)
    try:
        if found is None:
            raise TypeError
        a, b, c = (int(n) for n in found.groups()[:3])
        return (a, b, c), np.dtype(found[4])
    except TypeError:
        words = f"three sizes in stored order and a type, such as {EXAMPLE}"
        raise BadOption(f"--shape is {words}, not '{text}'") from None


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic], int, bool]:
    """Shape, type, length of the header, and whether the first index runs fastest (Fortran)."""
    major, minor = npformat.read_magic(file)
    if (major, minor) not in ((1, 0), (2, 0)):
        # 3.0 is only used for field names beyond Latin-1, and a cube has no fields.
        raise ValueError(f"npy version {major}.{minor}")
    field = file.read(2 * major)
    length = int.from_bytes(field, "little")
    if length > LONGEST_HEADER:  # NumPy reads it all before it looks
        raise ValueError(f"a header of {length} bytes")
    text = io.BytesIO(field + file.read(length))
    read = npformat.read_array_header_1_0 if major == 1 else npformat.read_array_header_2_0
    shape, fortran, dtype = read(text)
    return shape, dtype, npformat.MAGIC_LEN + len(field) + length, fortran


def _list_members(path: Path) -> tuple[dict[str, Variable], dict[str, zipfile.ZipInfo]]:
    """The arrays of an archive from their headers, and their entries in the zip directory."""
    variables, entries = {}, {}
    _check_directory(path)
    with explain_errors(path), zipfile.ZipFile(path) as archive:
        check_count(path, len(archive.infolist()))
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                shape, dtype, length, _ = read_header(file)
            variables[name], entries[name] = Variable(shape, dtype.name), entry
            promised = count_bytes(shape, dtype.str)
            # Pickled members have a length of their own; they are refused before being read.
            if not dtype.hasobject and promised != entry.file_size - length:
                raise BadFile(
                    f"{name} in {path} does not have the size its header promises; get a fresh copy"
                )
    return variables, entries


def _check_directory(path: Path) -> None:
    """Refuse a zip with a huge directory, which zipfile reads whole."""
    size = path.stat().st_size
    with explain_errors(path), open(path, "rb") as file:
        file.seek(max(0, size - 2**16))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    length = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    # In files beyond 4 GB the field may be full of ones.
    if length > DIRECTORY and not (length == 2**32 - 1 and size > 2**31):
        raise BadFile(f"{path} has a directory of {format_size(length)}; it is no .npz of images")


def _load_members(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> Load:
    """A function that reads one member."""

    def load(name: str) -> Stored:
        entry = entries[name]
        check_promise(f"{name} in {path}", entry.file_size, entry.compress_size)
        with explain_errors(path), zipfile.ZipFile(path) as archive, archive.open(entry) as file:
            array: Stored = npformat.read_array(file, allow_pickle=False)
            # The check sum is compared when the end is reached, one byte further.
            if file.read(1):
                raise ValueError("bytes left over")
            return array

    return load
