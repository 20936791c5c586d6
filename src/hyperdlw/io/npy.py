"""NumPy .npy: one array; never unpickled, and never larger than its file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npformat
from numpy.typing import NDArray

from ..cube import AXES, Encoding
from ..errors import BadFile
from .checks import check_cube, nbytes, reading, size
from .named_arrays import DEFAULT_AXES
from .reader import CubeFile, Described, mapped, with_nodata
from .writer import Put, mapped_writer

NAME = "npy"
SUFFIXES: tuple[str, ...] = (".npy",)
HAS_KEYS = False
FREE_AXES = True
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = None
FOLDER = False
HOLDS: frozenset[str] | None = frozenset()
MAGIC = b"\x93NUMPY"


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a .npy does."""
    return head.startswith(MAGIC)


def header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and header length of the array that starts here.

    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((4, 5, 6), np.uint16))
    >>> _ = file.seek(0)
    >>> header(file)
    ((4, 5, 6), dtype('uint16'), 128)
    """
    return full_header(file)[:3]


def full_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int, bool]:
    """Shape, type, header length, and whether the first index runs fastest (Fortran's order)."""
    start = file.tell()
    version = npformat.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npformat.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npformat.read_array_header_2_0(file)
    else:  # only used for field names beyond Latin-1, and a cube has no fields
        raise ValueError(f"npy version {version[0]}.{version[1]}")
    return shape, dtype, file.tell() - start, fortran


def checked_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int, bool]:
    """The header of a .npy file that can be a cube and holds what its header promises."""
    with reading(path), open(path, "rb") as file:
        first = file.read(len(MAGIC))
        if first[:1] == b"\x80":
            raise BadFile(
                f"{path} is a Python pickle, which hyperdlw never opens; save the array with numpy.save"
            )
        if first != MAGIC:
            raise BadFile(f"{path} is not a .npy file; check its name or save it again")
        file.seek(0)
        shape, dtype, length, fortran = full_header(file)
        check_cube(path, shape, dtype.name)
        held = file.seek(0, 2) - length
        needed = nbytes(shape, dtype.str)
        if needed > held:
            raise BadFile(
                f"{path} is cut short: {shape} {dtype.name} needs {size(needed)}, "
                f"it has {size(held)}; get a fresh copy"
            )
    return shape, dtype, length, fortran


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    shape, dtype, length, fortran = checked_header(path)
    order = axes or DEFAULT_AXES
    metadata: dict[str, Any] = {"stored_ndim": len(shape)}
    if len(shape) == 2:
        at = order.index("b")
        shape = (*shape[:at], 1, *shape[at:])
    laid, letters = (shape[::-1], order[::-1]) if fortran else (shape, order)
    encoding = with_nodata(Encoding(dtype.name, order, format=NAME), metadata, nodata)
    bands, rows, cols = (shape[order.index(a)] for a in AXES)
    window = mapped(path, length, laid, dtype, letters)
    return CubeFile(path, (bands, rows, cols), encoding, window, metadata=metadata, plain=True)


@contextmanager
def writer(tmp: Path, like: Described, encoding: Encoding) -> Iterator[Put]:
    """Write the header, and the numbers window by window."""
    dtype = np.dtype(encoding.dtype)
    shape = tuple(like.shape[AXES.index(a)] for a in encoding.axes)
    head = io.BytesIO()
    facts = {"descr": npformat.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npformat.write_array_header_1_0(head, facts)
    with mapped_writer(tmp, head.getvalue(), like.shape, dtype, encoding.axes) as put:
        yield put


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write the array; scale, nodata and wavelengths have no place in a .npy."""
    with open(path, "wb") as file:
        np.save(file, stored, allow_pickle=False)
