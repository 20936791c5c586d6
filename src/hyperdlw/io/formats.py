"""The formats: what a format offers, which there are, and which one a file has or an output gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile, BadOption
from . import envi, hdf5, jpeg, mat5, mat73, npy, npz, png, png_folder, tiff, zarr3
from .checks import reading
from .reader import CubeFile, Described

HEAD = 520
"""Bytes shown to ``sniff``: enough for HDF5 behind a MATLAB header."""


class Format(Protocol):
    """What a format module offers."""

    NAME: str
    """Kept in the encoding, so that an output can be like its input."""
    SUFFIXES: tuple[str, ...]
    """Endings that choose this format for an output, or for an input nothing recognises."""
    HAS_KEYS: bool
    """Whether a file holds named variables."""
    FREE_AXES: bool
    """Whether the order of the axes is up to the user (it is fixed for pictures)."""
    BANDS: frozenset[int] | None
    """Numbers of bands it can hold; None for any."""
    DTYPES: frozenset[str] | None
    """Types it can hold; None for any."""

    FOLDER: bool
    """Whether an output is a folder."""
    HOLDS: frozenset[str] | None
    """What it can hold beside the numbers (names of :func:`hyperdlw.io.metadata.items`); None for all."""

    def sniff(self, path: Path, head: bytes) -> bool: ...

    def source(
        self, path: Path, *, key: str | None, axes: str | None, nodata: float | None
    ) -> CubeFile: ...

    def write(
        self, cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding
    ) -> None: ...

    # A module may offer more: ``variables(path)`` lists what a file holds; ``writer(tmp, like,
    # encoding)`` is a context that gives a function to write windows with; ``placed``,
    # ``check_place`` and ``stored_axes`` are for formats of more than one file.


FORMATS: tuple[Format, ...] = (
    envi,
    npy,
    npz,
    mat73,
    hdf5,
    mat5,
    png,
    tiff,
    jpeg,
    zarr3,
    png_folder,
)
ARRAYS: tuple[Format, ...] = (npy, npz, mat73, mat5)
"""Formats in which users arrange the axes as they like."""


def recognise(
    path: str | os.PathLike[str], key: str | None, axes: str | None
) -> tuple[Path, Format]:
    """The format of an existing file or folder."""
    place = Path(path)
    if not place.exists():
        raise BadFile(f"there is no file {os.fspath(path)!r}; check the name and the folder")
    if not (place.is_file() or place.is_dir()):
        raise BadFile(f"{path} is neither a file nor a folder; give one that holds a cube")
    head = b""
    if place.is_file():
        with reading(place), open(place, "rb") as file:
            head = file.read(HEAD)
        if not head:
            raise BadFile(f"{path} is empty; get a fresh copy")
    form = next((f for f in FORMATS if f.sniff(place, head)), None)
    if form is None and place.is_file() and envi.header_of(place) is not None:
        form = envi  # data files may have any ending, if there is scene.ext.hdr
    form = form or next((f for f in FORMATS if place.suffix.lower() in f.SUFFIXES), None)
    if form is None:
        raise BadFile(
            f"{path} is of no format hyperdlw can read ({_endings()}, folder of PNG bands)"
        )
    if key is not None and not form.HAS_KEYS:
        raise BadOption(f"{path} holds one image, no variables; leave out --key")
    if axes is not None and not form.FREE_AXES:
        raise BadOption(f"{path} is of a format whose axes are known; leave out --axes")
    if axes is not None:
        Encoding(axes=axes)  # raises for nonsense
    return place, form


def ending_format(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of an output names, if it names one."""
    suffix = Path(path).suffix.lower()
    if os.fspath(path).endswith(tuple(s for s in (os.sep, os.altsep) if s)):
        return png_folder
    return next((form for form in FORMATS if suffix in form.SUFFIXES), None)


def output_format(path: str | os.PathLike[str], encoding: Encoding) -> Format:
    """The format of an output: its ending's, or the input's where files often have no ending."""
    form = ending_format(path)
    if form is not None:
        return form
    for kind in (png_folder, envi):  # formats whose files often have no ending
        if encoding.format == kind.NAME:
            return kind
    raise BadOption(
        f"the ending of {path} names no format; use {_endings()}, or end it in '/' for a folder "
        "of PNG bands"
    )


def check_fits(path: str | os.PathLike[str], form: Format, encoding: Encoding, bands: int) -> None:
    """Refuse an output whose format cannot hold such numbers or so many bands."""
    dtype = np.dtype(encoding.dtype).name
    if form.DTYPES is not None and dtype not in form.DTYPES:
        raise BadOption(
            f"{path} cannot hold {dtype} numbers ({form.NAME} has "
            f"{', '.join(sorted(form.DTYPES))}); choose one of these types or write .npy"
        )
    if form.BANDS is not None and bands not in form.BANDS:
        held = " or ".join(map(str, sorted(form.BANDS)))
        raise BadOption(
            f"{path} can hold {held} bands, the cube has {bands}; write .tif, .npz or a folder of "
            "PNG bands (a path ending in '/')"
        )


def _endings() -> str:
    return ", ".join(s for f in FORMATS for s in f.SUFFIXES)
