"""PNG pictures: one or three bands of 8 or 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..cube import Encoding
from .picture import open_picture, write_picture
from .reader import CubeFile, Described

NAME = "png"
SUFFIXES: tuple[str, ...] = (".png",)
HAS_KEYS = False
FREE_AXES = False
# Two and four channels would come back with the last one as transparency.
BANDS: frozenset[int] | None = frozenset([1, 3])
DTYPES: frozenset[str] | None = frozenset(["uint8", "uint16"])
FOLDER = False
HOLDS: frozenset[str] | None = frozenset()


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a PNG does."""
    return head.startswith(b"\x89PNG\r\n\x1a\n")


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a picture.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    return open_picture(path, "PNG", NAME, nodata)


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write a picture; scale and wavelengths have no place in a PNG."""
    write_picture(path, "PNG", stored)
