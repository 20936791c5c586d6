"""NumPy .npy: one array; never unpickled, and never larger than its file."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npformat
from numpy.typing import NDArray

from ..cube import Cube, Encoding
from ..errors import BadFile
from .guard import check_cube, nbytes, reading, size
from .named import DEFAULT_AXES

NAME = "npy"
SUFFIXES: tuple[str, ...] = (".npy",)
HAS_KEYS = False
FREE_AXES = True
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = None
MAGIC = b"\x93NUMPY"


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a .npy does."""
    return head.startswith(MAGIC)


def header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and header length of the array that starts here.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((4, 5, 6), np.uint16))
    >>> _ = file.seek(0)
    >>> header(file)
    ((4, 5, 6), dtype('uint16'), 128)
    """
    start = file.tell()
    version = npformat.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = npformat.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = npformat.read_array_header_2_0(file)
    else:  # only used for field names beyond Latin-1, and a cube has no fields
        raise ValueError(f"npy version {version[0]}.{version[1]}")
    return shape, dtype, file.tell() - start


def checked_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of a .npy file that can be a cube and holds what its header promises."""
    with reading(path), open(path, "rb") as file:
        first = file.read(len(MAGIC))
        if first[:1] == b"\x80":
            raise BadFile(
                f"{path} is a Python pickle, which dlw never opens; save the array with numpy.save"
            )
        if first != MAGIC:
            raise BadFile(f"{path} is not a .npy file; check its name or save it again")
        file.seek(0)
        shape, dtype, length = header(file)
        check_cube(path, shape, dtype.name)
        held = file.seek(0, 2) - length
        needed = nbytes(shape, dtype.str)
        if needed > held:
            raise BadFile(
                f"{path} is cut short: {shape} {dtype.name} needs {size(needed)}, "
                f"it has {size(held)}; get a fresh copy"
            )
    return shape, dtype


def read(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> Cube:
    """Read a cube.

    Args:
        path, key, axes, nodata: as for :func:`dlw.io.open_cube`.
    """
    checked_header(path)
    with reading(path):
        stored: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    order = axes or DEFAULT_AXES
    encoding = Encoding(stored.dtype.name, order, nodata=nodata, format=NAME)
    return Cube.from_array(
        stored, axes=order, encoding=encoding, metadata={"stored_ndim": stored.ndim}
    )


def describe(path: Path, *, key: str | None, axes: str | None) -> dict[str, Any]:
    """Facts from the header."""
    shape, dtype = checked_header(path)
    return {"stored_shape": shape, "dtype": dtype.name, "axes": axes or DEFAULT_AXES}


def write(cube: Cube, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write the array; scale, nodata and wavelengths have no place in a .npy."""
    with open(path, "wb") as file:
        np.save(file, stored, allow_pickle=False)
