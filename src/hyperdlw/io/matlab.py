"""MATLAB .mat: versions 5 to 7, and 7.3, which is HDF5 with the axes in reverse.

Versions 5 to 7 are read by hand: SciPy crashes the interpreter on a damaged type tag, and hands
whole doubles over as the small integers MATLAB packs them in. Only arrays of numbers and text are
read, never more bytes than the file has. Version 4 holds matrices only, so no cubes.
"""

from __future__ import annotations

import math
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile
from .checks import check_count, check_promise, check_text, explain_errors
from .formats import FLOATS, INTEGERS, KeyedFormat
from .hdf5 import MAGIC, check_readable, fill_copy, open_hdf5
from .named_arrays import Load, Variable, make_variables, open_named
from .reader import CubeReader, Described, ReadOptions, Stored
from .series import fill_member, find_member
from .writer import WriteWindow

if TYPE_CHECKING:
    import h5py

LARGEST = 2**31 - 2**16
"""Bytes a version 5 variable may have; larger ones are written as 7.3."""
DTYPES = INTEGERS | FLOATS | {"bool"}
# Numbers from the MAT-File format description: array classes, and types of stored bytes.
CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "str", 5: "sparse", 6: "float64", 7: "float32"}
CLASSES |= {8: "int8", 9: "uint8", 10: "int16", 11: "uint16", 12: "int32", 13: "uint32"}
CLASSES |= {14: "int64", 15: "uint64", 16: "function", 17: "opaque"}
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"}
STORED |= {13: "u8", 16: "u1", 17: "u2", 18: "u4"}
MATRIX, COMPRESSED, OPAQUE = 14, 15, 17
COMPLEX, LOGICAL = 0x0800, 0x0200
NAMES = {"float64": "double", "float32": "single", "bool": "logical"}


class Mat5(KeyedFormat):
    """Versions 5 to 7; written as version 7.3 if version 5 cannot hold so much."""

    name = "mat5"
    suffixes = (".mat",)
    dtypes = DTYPES

    def recognise(self, path: Path, head: bytes) -> bool:
        """Whether the header has the version and the byte order mark of a version 5 file."""
        return head[124:128] in (b"\x00\x01IM", b"\x01\x00MI")

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        return list_elements(path)[0]

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        found, elements = list_elements(path)
        return open_named(path, found, load_elements(path, elements), self.name, options)

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        from scipy.io import savemat

        key = encoding.key or ""
        name = key if re.fullmatch(r"[A-Za-z]\w{0,62}", key, re.ASCII) else "cube"
        out = make_variables(cube, stored, encoding, name)
        if stored.nbytes > LARGEST:
            write_variables(path, out)
            return
        with open(path, "wb") as file:
            savemat(file, out)
            # SciPy puts the time here: without it the same cube gives the same bytes.
            file.seek(0)
            file.write(b"MATLAB 5.0 MAT-file, written by hyperdlw".ljust(116))

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        """The new element stands where the old one was; all other bytes are copied."""
        held = list_elements(original)[1]
        name, stored = fill_member(load_elements(original, held), encoding.key, stored)
        element = held[name]
        with open(original, "rb") as old, open(path, "wb") as new:
            new.write(old.read(element.start - 8))
            new.write(replace_numbers(old, element, stored))
            grown = new.tell() - element.start - element.length
            old.seek(element.start + element.length)
            shutil.copyfileobj(old, new)
            # The header says where objects of MATLAB's classes keep their data.
            old.seek(116)
            place = old.read(8)
            where = struct.unpack(element.order + "Q", place)[0] if place.strip(b" \0") else 0
            if where > element.start:
                new.seek(116)
                new.write(struct.pack(element.order + "Q", where + grown))


class Mat73(KeyedFormat):
    """Version 7.3; its axes are in the order that MATLAB shows."""

    name = "mat73"
    suffixes = (".mat",)
    dtypes = DTYPES

    def recognise(self, path: Path, head: bytes) -> bool:
        """Whether this is HDF5 behind a MATLAB header, or HDF5 that calls itself .mat."""
        if head[512:520] == MAGIC and head.startswith(b"MATLAB"):
            return True
        return head.startswith(MAGIC) and path.suffix.lower() == ".mat"

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        return list_datasets(path)

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        return open_named(path, list_datasets(path), load_datasets(path), self.name, options)

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        write_variables(path, make_variables(cube, stored, encoding, encoding.key or "cube"))

    def open_copy(
        self, path: Path, original: Path, like: Described, encoding: Encoding
    ) -> AbstractContextManager[WriteWindow]:
        if like.metadata.get("matrix"):
            return fill_matrix(path, original, like, encoding)
        key, member = encoding.key or "", find_member(encoding.key)
        key = key if member is None else replace(member, axis=3 - member.axis).key
        return fill_copy(path, original, key, encoding.axes[::-1], like)


# --- versions 5 to 7


@dataclass(frozen=True)
class Element:
    """Where a variable lies in the file."""

    start: int
    length: int
    kind: int
    order: str
    """Byte order, "<" or ">"."""


class Inflater:
    """Reads a compressed variable piece by piece."""

    def __init__(self, file: IO[bytes], length: int) -> None:
        self.file, self.left = file, length
        self.stream = zlib.decompressobj()

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes, or as many as there are."""
        out = bytearray()
        while len(out) < count and not self.stream.eof:
            packed = self.stream.unconsumed_tail
            if not packed:
                packed = self.file.read(min(self.left, 2**16))
                self.left -= len(packed)
            piece = self.stream.decompress(packed, count - len(out))
            if not packed and not piece:
                break
            out += piece
        return bytes(out)


Read = Callable[[int], bytes]


def read_exactly(read: Read, count: int) -> bytes:
    """``count`` bytes or an error."""
    got = read(count)
    if len(got) != count:
        raise ValueError(f"{count} bytes expected, {len(got)} found")
    return got


def read_tag(read: Read, order: str) -> tuple[int, int, bytes | None]:
    """Type and length of the next part, and its bytes if they are packed into the tag."""
    word = read_exactly(read, 8)
    kind, length = struct.unpack(order + "II", word)
    if kind >> 16:
        length = kind >> 16
        if length > 4:
            raise ValueError(f"{length} bytes packed into four")
        return kind & 0xFFFF, length, word[4 : 4 + length]
    return kind, length, None


def read_part(read: Read, order: str) -> bytes:
    """A small part (flags, dimensions, name) with its padding to eight bytes passed over."""
    _, length, packed = read_tag(read, order)
    if packed is not None:
        return packed
    if length > 4096:
        raise ValueError(f"a header part of {length} bytes")
    return read_exactly(read, -(-length // 8) * 8)[:length]


def read_matrix_header(read: Read, order: str) -> tuple[str, Variable]:
    """Name, shape and type of the variable that starts here."""
    flags = struct.unpack(order + "II", read_part(read, order))[0]
    kind = CLASSES.get(flags & 0xFF, "unknown")
    if flags & 0xFF == OPAQUE:  # has no dimensions
        return read_part(read, order).decode("ascii", "replace"), Variable((), kind)
    sizes = read_part(read, order)
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes[: len(sizes) // 4 * 4])
    name = read_part(read, order).decode("ascii", "replace")
    if flags & LOGICAL:
        kind = "bool"
    return name, Variable(shape, "complex" if flags & COMPLEX else kind)


def enter_element(file: IO[bytes], element: Element) -> Read:
    """A function that reads on inside a variable, behind its first tag."""
    file.seek(element.start)
    if element.kind != COMPRESSED:
        return file.read
    read = Inflater(file, element.length).read
    if read_tag(read, element.order)[0] != MATRIX:
        raise ValueError("a compressed part that is no array")
    return read


def list_elements(path: Path) -> tuple[dict[str, Variable], dict[str, Element]]:
    """The variables from their headers, and where they lie."""
    variables, elements = {}, {}
    with explain_errors(path), open(path, "rb") as file:
        if not Mat5().recognise(path, file.read(128)):
            raise BadFile(f"{path} is no MATLAB file of version 5 to 7.3; save it with 'save -v7'")
        order = "<" if file.seek(126) and file.read(2) == b"IM" else ">"
        end = file.seek(0, 2)
        at, count = 128, 0
        while at < end:
            count += 1
            check_count(path, count)
            file.seek(at)
            kind, length, _ = read_tag(file.read, order)
            if kind not in (MATRIX, COMPRESSED):
                raise ValueError(f"part of unknown type {kind}")
            element = Element(at + 8, length, kind, order)
            at = element.start + length
            if at > end:
                raise ValueError(f"it needs {at} bytes and has {end}")
            name, variable = read_matrix_header(enter_element(file, element), order)
            if name:  # MATLAB keeps private data under no name
                variables[name], elements[name] = variable, element
    return variables, elements


def load_elements(path: Path, elements: dict[str, Element]) -> Load:
    """A function that reads one variable."""

    def load(name: str) -> Stored:
        element = elements[name]
        with explain_errors(path), open(path, "rb") as file:
            read = enter_element(file, element)
            _, variable = read_matrix_header(read, element.order)
            kind, length, packed = read_tag(read, element.order)
            stored = np.dtype(element.order + STORED[kind])
            text = variable.dtype == "str"
            if not text and length != math.prod(variable.shape) * stored.itemsize:
                raise ValueError(f"{name} has not the size its header promises")
            what = f"{name} in {path}"
            if text:
                check_text(what, length)
            else:  # bytes that are doubles to MATLAB grow
                largest = max(stored.itemsize, np.dtype(variable.dtype).itemsize)
                check_promise(what, length // stored.itemsize * largest, element.length)
            raw = packed if packed is not None else read_exactly(read, length)
            if element.kind == COMPRESSED:
                read(16)  # past the padding, where zlib compares its check sum
            values = np.frombuffer(raw, stored)
            if text:
                return np.array("".join(map(chr, values)))
            # The declared class, not the packed one: a denoised double must not be rounded.
            return values.reshape(variable.shape, order="F").astype(variable.dtype)

    return load


def replace_numbers(file: IO[bytes], element: Element, stored: Stored) -> bytes:
    """The element of a variable with other numbers: its flags, shape and name stay as they are."""
    order = element.order
    read = enter_element(file, element)
    flags, sizes, name = (read_part(read, order) for _ in range(3))
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    array = stored.reshape(shape).astype(order + stored.dtype.str[1:], copy=False)
    kind = "u1" if stored.dtype.kind == "b" else stored.dtype.str[1:]
    number = {code: k for k, code in STORED.items() if k < 16}[kind]
    parts = ((6, flags), (5, sizes), (1, name), (number, array.tobytes("F")))
    inner = b"".join(
        struct.pack(order + "II", k, len(raw)) + raw + bytes(-len(raw) % 8) for k, raw in parts
    )
    whole = struct.pack(order + "II", MATRIX, len(inner)) + inner
    if element.kind == MATRIX:
        return whole
    packed = zlib.compress(whole)
    return struct.pack(order + "II", COMPRESSED, len(packed)) + packed


# --- version 7.3


def list_datasets(path: Path) -> dict[str, Variable]:
    """The top variables, with the shapes MATLAB shows."""
    import h5py

    variables = {}
    with open_hdf5(path) as file:
        check_count(path, len(file))
        for name in file:
            # Links may lead to other files; MATLAB itself writes none.
            if name.startswith("#") or not isinstance(file.get(name, getlink=True), h5py.HardLink):
                continue
            item = file[name]
            if not isinstance(item, h5py.Dataset) or item.shape is None:
                variables[name] = Variable((), "struct")
                continue
            kind = _read_class(item)
            dtype = {"char": "str", "cell": "cell"}.get(kind, _name_type(item.dtype))
            shape = (0,) if "MATLAB_empty" in item.attrs else item.shape[::-1]
            variables[name] = Variable(shape, dtype)
    return variables


@contextmanager
def fill_matrix(
    path: Path, original: Path, like: Described, encoding: Encoding
) -> Iterator[WriteWindow]:
    """A copy of a file whose cube is a matrix of bands and pixels; it is written at the end."""
    import h5py

    held = np.zeros(like.shape, encoding.dtype)
    yield lambda bands, rows, cols, stored: held.__setitem__((bands, rows, cols), stored)
    shutil.copyfile(original, path)
    with open(path, "rb+") as raw, h5py.File(raw, "r+") as file:
        item = file[encoding.key]
        laid = held.transpose([AXES.index(a) for a in encoding.axes])
        item[...] = laid.reshape(item.shape[::-1]).T


def load_datasets(path: Path) -> Load:
    """A function that reads one variable."""

    def load(name: str) -> Stored:
        with open_hdf5(path) as file:
            item = file[name]
            check_readable(path, name, item)
            check_promise(f"{name} in {path}", item.nbytes, item.id.get_storage_size())
            text = _read_class(item) == "char"
            if text:
                check_text(f"{name} in {path}", item.size)
            array: Stored = item[()]
            if text:
                return np.array("".join(chr(int(code)) for code in array.reshape(-1)))
            return np.asarray(array).T

    return load


def _read_class(item: h5py.Dataset) -> str:
    kind = item.attrs.get("MATLAB_class", b"")
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)


def _name_type(dtype: np.dtype[np.generic]) -> str:
    """MATLAB writes complex numbers as pairs; references (cells) are objects to h5py."""
    if dtype.names == ("real", "imag"):
        return "complex"
    return "reference" if dtype.kind == "O" else dtype.name


def write_variables(path: Path, variables: Mapping[str, Stored]) -> None:
    """Write variables as MATLAB would with ``save -v7.3``."""
    import h5py

    # Through a Python file, because HDF5's own output crashes the interpreter on a full disk.
    with open(path, "wb+") as raw, h5py.File(raw, "w", userblock_size=512) as file:
        for name, value in variables.items():
            array = np.asarray(value)
            if array.dtype.kind == "U":
                codes = np.array([[ord(c)] for c in str(array)], np.uint16)
                item = file.create_dataset(name, data=codes)
                item.attrs["MATLAB_class"] = np.bytes_("char")
                item.attrs["MATLAB_int_decode"] = np.int32(2)
                continue
            kind = NAMES.get(array.dtype.name, array.dtype.name)
            matrix = np.atleast_2d(array)  # MATLAB has no fewer than two axes
            data = matrix.view(np.uint8) if kind == "logical" else matrix
            item = file.create_dataset(name, data=data.T)
            item.attrs["MATLAB_class"] = np.bytes_(kind)
            if kind == "logical":
                item.attrs["MATLAB_int_decode"] = np.int32(1)
    with open(path, "rb+") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, written by hyperdlw".ljust(116) + bytes(8) + b"\x00\x02IM")
