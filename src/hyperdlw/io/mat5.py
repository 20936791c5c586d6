"""MATLAB .mat of versions 5 to 7.

Read by hand: SciPy crashes the interpreter on a damaged type tag, and hands whole doubles over as
the small integers MATLAB packs them in. Only arrays of numbers and text are read, never more bytes
than the file has. Version 4 holds matrices only, so no cubes.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from . import mat73
from .checks import check_promise, reading
from .named_arrays import Load, Variable, open_named, to_write
from .reader import CubeFile, Described

NAME = "mat5"
SUFFIXES: tuple[str, ...] = (".mat",)
HAS_KEYS = True
FREE_AXES = True
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = mat73.DTYPES
FOLDER = False
LARGEST = 2**31 - 2**16
"""Bytes a version 5 variable may have; larger ones are written as 7.3."""

# Numbers from the MAT-File format description: array classes, and types of stored bytes.
CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "str", 5: "sparse", 6: "float64", 7: "float32"}
CLASSES |= {8: "int8", 9: "uint8", 10: "int16", 11: "uint16", 12: "int32", 13: "uint32"}
CLASSES |= {14: "int64", 15: "uint64", 16: "function", 17: "opaque"}
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"}
STORED |= {13: "u8", 16: "u1", 17: "u2", 18: "u4"}
MATRIX, COMPRESSED, OPAQUE = 14, 15, 17
COMPLEX, LOGICAL = 0x0800, 0x0200


def sniff(path: Path, head: bytes) -> bool:
    """Whether the header has the version and the byte order mark of a version 5 file."""
    return head[124:128] in (b"\x00\x01IM", b"\x01\x00MI")


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


def exactly(read: Read, count: int) -> bytes:
    """``count`` bytes or an error."""
    got = read(count)
    if len(got) != count:
        raise ValueError(f"{count} bytes expected, {len(got)} found")
    return got


def tag(read: Read, order: str) -> tuple[int, int, bytes | None]:
    """Type and length of the next part, and its bytes if they are packed into the tag."""
    word = exactly(read, 8)
    kind, length = struct.unpack(order + "II", word)
    if kind >> 16:
        length = kind >> 16
        if length > 4:
            raise ValueError(f"{length} bytes packed into four")
        return kind & 0xFFFF, length, word[4 : 4 + length]
    return kind, length, None


def part(read: Read, order: str) -> bytes:
    """A small part (flags, dimensions, name) with its padding to eight bytes passed over."""
    _, length, packed = tag(read, order)
    if packed is not None:
        return packed
    if length > 4096:
        raise ValueError(f"a header part of {length} bytes")
    return exactly(read, -(-length // 8) * 8)[:length]


def matrix_header(read: Read, order: str) -> tuple[str, Variable]:
    """Name, shape and type of the variable that starts here."""
    flags = struct.unpack(order + "II", part(read, order))[0]
    kind = CLASSES.get(flags & 0xFF, "unknown")
    if flags & 0xFF == OPAQUE:  # has no dimensions
        return part(read, order).decode("ascii", "replace"), Variable((), kind)
    sizes = part(read, order)
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes[: len(sizes) // 4 * 4])
    name = part(read, order).decode("ascii", "replace")
    if flags & LOGICAL:
        kind = "bool"
    return name, Variable(shape, "complex" if flags & COMPLEX else kind)


def inside(file: IO[bytes], element: Element) -> Read:
    """A function that reads on inside a variable, behind its first tag."""
    file.seek(element.start)
    if element.kind != COMPRESSED:
        return file.read
    read = Inflater(file, element.length).read
    if tag(read, element.order)[0] != MATRIX:
        raise ValueError("a compressed part that is no array")
    return read


def listed(path: Path) -> tuple[dict[str, Variable], dict[str, Element]]:
    """The variables from their headers, and where they lie."""
    variables, elements = {}, {}
    with reading(path), open(path, "rb") as file:
        if not sniff(path, file.read(128)):
            raise BadFile(f"{path} is no MATLAB file of version 5 to 7.3; save it with 'save -v7'")
        order = "<" if file.seek(126) and file.read(2) == b"IM" else ">"
        end = file.seek(0, 2)
        at = 128
        while at < end:
            file.seek(at)
            kind, length, _ = tag(file.read, order)
            if kind not in (MATRIX, COMPRESSED):
                raise ValueError(f"part of unknown type {kind}")
            element = Element(at + 8, length, kind, order)
            at = element.start + length
            if at > end:
                raise ValueError(f"it needs {at} bytes and has {end}")
            name, variable = matrix_header(inside(file, element), order)
            if name:  # MATLAB keeps private data under no name
                variables[name], elements[name] = variable, element
    return variables, elements


def loader(path: Path, elements: dict[str, Element]) -> Load:
    """A function that reads one variable."""

    def load(name: str) -> NDArray[Any]:
        element = elements[name]
        with reading(path), open(path, "rb") as file:
            read = inside(file, element)
            _, variable = matrix_header(read, element.order)
            kind, length, packed = tag(read, element.order)
            stored = np.dtype(element.order + STORED[kind])
            text = variable.dtype == "str"
            if not text and length != math.prod(variable.shape) * stored.itemsize:
                raise ValueError(f"{name} has not the size its header promises")
            check_promise(f"{name} in {path}", length, element.length)
            raw = packed if packed is not None else exactly(read, length)
            if element.kind == COMPRESSED:
                read(16)  # past the padding, where zlib compares its check sum
            values = np.frombuffer(raw, stored)
            if text:
                return np.array("".join(map(chr, values)))
            # The declared class, not the packed one: a denoised double must not be rounded.
            return values.reshape(variable.shape, order="F").astype(variable.dtype)

    return load


def variables(path: Path) -> dict[str, Variable]:
    """The variables from their headers."""
    return listed(path)[0]


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    found, elements = listed(path)
    load = loader(path, elements)
    return open_named(path, found, load, format=NAME, key=key, axes=axes, nodata=nodata)


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write the cube and its neighbours, as version 7.3 if version 5 cannot hold so much."""
    from scipy.io import savemat

    key = encoding.key or ""
    name = key if re.fullmatch(r"[A-Za-z]\w{0,62}", key, re.ASCII) else "cube"
    out = to_write(cube, stored, encoding, name)
    if stored.nbytes > LARGEST:
        mat73.write_variables(path, out)
        return
    with open(path, "wb") as file:
        target: Any = file  # SciPy's types know paths only
        savemat(target, out)
        # SciPy puts the time here: without it the same cube gives the same bytes.
        file.seek(0)
        file.write(b"MATLAB 5.0 MAT-file, written by hyperdlw".ljust(116))
