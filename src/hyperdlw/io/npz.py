"""NumPy .npz: a zip of .npy members, read one by one and no larger than the zip says."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npformat
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from . import npy
from .checks import check_promise, nbytes, reading
from .named_arrays import Load, Variable, open_named, to_write
from .reader import CubeFile, Described

NAME = "npz"
SUFFIXES: tuple[str, ...] = (".npz",)
HAS_KEYS = True
FREE_AXES = True
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = None
FOLDER = False


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a zip does."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def listed(path: Path) -> tuple[dict[str, Variable], dict[str, zipfile.ZipInfo]]:
    """The arrays of the archive from their headers, and their entries in the zip directory."""
    variables, entries = {}, {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                shape, dtype, length = npy.header(file)
            variables[name], entries[name] = Variable(shape, dtype.name), entry
            promised = nbytes(shape, dtype.str)
            # Pickled members have a length of their own; they are refused before being read.
            if not dtype.hasobject and promised != entry.file_size - length:
                raise BadFile(
                    f"{name} in {path} does not have the size its header promises; get a fresh copy"
                )
    return variables, entries


def loader(path: Path, entries: dict[str, zipfile.ZipInfo]) -> Load:
    """A function that reads one member."""

    def load(name: str) -> NDArray[Any]:
        entry = entries[name]
        check_promise(f"{name} in {path}", entry.file_size, entry.compress_size)
        with reading(path), zipfile.ZipFile(path) as archive, archive.open(entry) as file:
            array: NDArray[Any] = npformat.read_array(file, allow_pickle=False)
            # The check sum is compared when the end is reached: a byte further, that is.
            if file.read(1):
                raise ValueError("bytes left over")
            return array

    return load


def variables(path: Path) -> dict[str, Variable]:
    """The arrays of the archive."""
    return listed(path)[0]


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    variables, entries = listed(path)
    packed = any(e.compress_type != zipfile.ZIP_STORED for e in entries.values())
    return open_named(
        path,
        variables,
        loader(path, entries),
        format=NAME,
        key=key,
        axes=axes,
        nodata=nodata,
        metadata={"compressed": packed},
    )


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write the cube and its neighbours, compressed if the input was."""
    key = encoding.key or ""
    name = key if re.fullmatch(r"\w[\w .-]*", key) else "cube"
    packed = cube.metadata.get("compressed", False)
    with zipfile.ZipFile(path, "w") as archive:
        for member, array in to_write(cube, stored, encoding, name).items():
            # A bare ZipInfo has a fixed date: the same cube gives the same bytes.
            entry = zipfile.ZipInfo(f"{member}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                npformat.write_array(file, np.asanyarray(array), allow_pickle=False)
