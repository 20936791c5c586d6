"""JPEG: read only, because writing it back would lose what was restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadOption
from .picture import open_picture
from .reader import CubeFile, Described

NAME = "jpeg"
SUFFIXES: tuple[
    str, ...
] = ()  # no ending chooses it for an output; inputs are recognised by content
HAS_KEYS = False
FREE_AXES = False
BANDS: frozenset[int] | None = frozenset({1, 3})
DTYPES: frozenset[str] | None = frozenset(["uint8"])
FOLDER = False
HOLDS: frozenset[str] | None = frozenset()


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file starts as a JPEG does."""
    return head[:3] == b"\xff\xd8\xff"


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a picture.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    return open_picture(path, "JPEG", NAME, nodata)


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Refuse, with what to do instead."""
    raise BadOption(f"{path} would be a lossy JPEG; write a .png or .tif instead")
