"""Open and save cubes: one small module per format, found by content first, by name second.

A format is a module with ``NAME``, ``SUFFIXES``, ``sniff``, ``read``, ``describe`` and ``write``
(see :class:`Format`); adding one means writing it and naming it in ``FORMATS``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube, Encoding
from ..errors import BadFile, BadOption, OutputExists
from . import jpeg, mat5, mat73, npy, npz, png, png_folder, tiff
from .atomic import atomic, check_output
from .guard import reading
from .named import DEFAULT_AXES

__all__ = ["FORMATS", "Format", "atomic", "check_save", "describe", "open_cube", "save_cube"]

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

    def sniff(self, path: Path, head: bytes) -> bool: ...

    def read(
        self, path: Path, *, key: str | None, axes: str | None, nodata: float | None
    ) -> Cube: ...

    def describe(self, path: Path, *, key: str | None, axes: str | None) -> dict[str, Any]: ...

    def write(self, cube: Cube, path: Path, stored: NDArray[Any], encoding: Encoding) -> None: ...


FORMATS: tuple[Format, ...] = (npy, npz, mat73, mat5, png, tiff, jpeg, png_folder)


def open_cube(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
) -> Cube:
    """Read a cube from a file or a folder of PNG bands.

    Args:
        path: .npy, .npz, .mat (any version), .png, .tif, or a folder; the content decides, the
            name only if the content says nothing.
        key: the variable to read, where a file has several.
        axes: stored order of band, row and column, if it is not (row, col, band).
        nodata: stored value that means "no measurement"; wins over what the file says.

    Raises:
        BadFile: missing, damaged, ambiguous, or no cube.
        BadOption: ``key`` or ``axes`` has no meaning for this file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> open_cube(file).shape
    (6, 20, 24)
    """
    place, form = _recognise(path, key, axes)
    return form.read(place, key=key, axes=axes, nodata=None if nodata is None else float(nodata))


def describe(
    path: str | os.PathLike[str], key: str | None = None, axes: str | None = None
) -> dict[str, Any]:
    """Facts about a file from its headers, without reading the cube.

    Args:
        path, key, axes: as for :func:`open_cube`.

    Returns:
        ``path``, ``format``, ``shape`` (bands, rows, columns), ``stored_shape``, ``axes``,
        ``dtype``, ``key``, ``variables`` (name to shape and type), ``wavelengths`` (first and last
        in nm), ``nodata``, ``scale``, ``offset`` and ``notes``. Where several variables could be
        the cube and ``key`` is None, ``shape`` is None and ``variables`` lists them.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> facts = describe(file)
    >>> facts["format"], facts["shape"], facts["dtype"]
    ('npy', (6, 20, 24), 'uint16')
    """
    place, form = _recognise(path, key, axes)
    facts: dict[str, Any] = {
        "path": os.fspath(path),
        "format": form.NAME,
        "shape": None,
        "stored_shape": None,
        "axes": None,
        "dtype": None,
        "key": None,
        "variables": {},
        "wavelengths": None,
        "nodata": None,
        "scale": 1.0,
        "offset": 0.0,
        "notes": (),
    }
    facts |= form.describe(place, key=key, axes=axes)
    stored = facts["stored_shape"]
    if stored is not None and len(stored) == 2:
        order = facts["axes"].replace("b", "")
        facts["shape"] = (1, stored[order.index("r")], stored[order.index("c")])
    elif stored is not None:
        facts["shape"] = tuple(stored[facts["axes"].index(a)] for a in "brc")
    if facts["wavelengths"] is not None:
        facts["wavelengths"] = tuple(float(facts["wavelengths"][i]) for i in (0, -1))
    return facts


def check_save(path: str | os.PathLike[str], cube: Cube) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done.

    Args:
        path: the output.
        cube: with the encoding it would be written in.
    """
    _check_fits(path, _output_format(path, cube.encoding), cube.encoding, cube.bands)


def save_cube(
    cube: Cube,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    encoding: Encoding | None = None,
) -> int:
    """Write a cube as it was stored, in the format that the ending of ``path`` names.

    The stored numbers are those of the input (type, axes, scale, nodata). npz, MATLAB and TIFF keep
    scale and nodata beside them; npy and PNG have no place for these and hold the bare numbers.

    Args:
        cube: what to write.
        path: ends in .npy, .npz, .mat, .png, .tif or .tiff; or a folder of PNG bands, if it ends
            in "/" or the cube came from one.
        overwrite: replace an existing output.
        encoding: how to store the numbers, if not as the input did.

    Returns:
        How many valid voxels were clipped to what the type can hold.

    Raises:
        OutputExists: the output is there and ``overwrite`` is False.
        BadOption: this format cannot hold such a cube.
        BadFile: the system refuses to write.

    >>> import tempfile
    >>> save_cube(Cube.from_array(np.zeros((6, 20, 24))), Path(tempfile.mkdtemp()) / "a.npz")
    0
    """
    asked = encoding or cube.encoding
    form = _output_format(path, asked)
    # The order of the axes is a habit of arrays: it is not handed from a picture to an array.
    free = form.FREE_AXES and asked.format in {f.NAME for f in FORMATS if f.FREE_AXES}
    axes = asked.axes if free else DEFAULT_AXES if form.FREE_AXES else "brc"
    chosen = replace(asked, axes=axes, format=form.NAME)
    _check_fits(path, form, chosen, cube.bands)
    folder = form.NAME == png_folder.NAME
    check_output(path, overwrite=overwrite, directory=folder)
    if folder and Path(path).is_dir() and not png_folder.holds_only_bands(Path(path)):
        raise OutputExists(f"{path} holds other files than PNG bands; choose a new folder")
    stored, clipped = cube.to_array(chosen)
    if free and cube.metadata.get("stored_ndim") == 2 and cube.bands == 1:
        stored = np.squeeze(stored, axis=axes.index("b"))
    with atomic(path, overwrite=overwrite, directory=folder) as tmp:
        form.write(cube, tmp, stored, chosen)
    return clipped


def _recognise(
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
    form = form or next((f for f in FORMATS if place.suffix.lower() in f.SUFFIXES), None)
    if form is None:
        raise BadFile(f"{path} is of no format dlw can read ({_endings()}, folder of PNG bands)")
    if key is not None and not form.HAS_KEYS:
        raise BadOption(f"{path} holds one image, no variables; leave out --key")
    if axes is not None and not form.FREE_AXES:
        raise BadOption(f"{path} is a picture, whose axes are known; leave out --axes")
    if axes is not None:
        Encoding(axes=axes)  # raises for nonsense
    return place, form


def _output_format(path: str | os.PathLike[str], encoding: Encoding) -> Format:
    suffix = Path(path).suffix.lower()
    separators = tuple(s for s in (os.sep, os.altsep) if s)
    if os.fspath(path).endswith(separators):
        return png_folder
    for form in FORMATS:
        if suffix in form.SUFFIXES:
            return form
    if encoding.format == png_folder.NAME:
        return png_folder
    raise BadOption(
        f"the ending of {path} names no format; use {_endings()}, or end it in '/' for a folder "
        "of PNG bands"
    )


def _check_fits(path: str | os.PathLike[str], form: Format, encoding: Encoding, bands: int) -> None:
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
