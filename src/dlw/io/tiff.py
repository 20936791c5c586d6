"""TIFF: any number of bands, integers or floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..cube import Cube, Encoding
from .picture import describe_picture, read_picture, write_picture

NAME = "tiff"
SUFFIXES: tuple[str, ...] = (".tif", ".tiff")
HAS_KEYS = False
FREE_AXES = False
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = frozenset(
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
)


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a TIFF or a BigTIFF does, in either byte order."""
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> Cube:
    """Read a picture.

    Args:
        path, key, axes, nodata: as for :func:`dlw.io.open_cube`.
    """
    return read_picture(path, "GTiff", NAME, nodata)


def describe(path: Path, *, key: str | None, axes: str | None) -> dict[str, Any]:
    """Facts from the header."""
    return describe_picture(path, "GTiff")


def write(cube: Cube, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write a picture with its scale, offset and nodata value."""
    colour = len(stored) == 3 and stored.dtype.kind == "u"
    write_picture(
        path,
        "GTiff",
        stored,
        encoding,
        # Left to itself GDAL calls the fourth of four byte bands transparency.
        photometric="RGB" if colour else "MINISBLACK",
        alpha="NO",
        interleave="BAND",
        BIGTIFF="IF_SAFER",
    )
