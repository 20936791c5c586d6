"""Open and save cubes: one small module per format, found by content first, by name second.

A format is a module with ``NAME``, ``SUFFIXES``, ``sniff``, ``source`` and ``write`` (see
:class:`Format`); adding one means writing it and naming it in ``FORMATS``. :func:`open_source` and
:func:`create` read and write by windows (see :mod:`dlw.io.source`, :mod:`dlw.io.sink`), :func:`open_cube` and
:func:`save_cube` whole cubes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube, Encoding
from ..errors import BadFile, BadOption, OutputExists
from . import envi, hdf5, jpeg, mat5, mat73, npy, npz, png, png_folder, tiff, zarr3
from .atomic import atomic, check_output
from .guard import check_disk, nbytes, reading
from .named import DEFAULT_AXES, SeveralCubes
from .sink import CubeWriter, Pen, Put
from .source import CubeFile, Described
from .windows import Index

__all__ = [
    "FORMATS",
    "CubeFile",
    "CubeWriter",
    "Format",
    "Pen",
    "atomic",
    "check_place",
    "check_save",
    "create",
    "describe",
    "open_cube",
    "open_source",
    "save_cube",
]

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
    """What it can hold beside the numbers (names of :func:`dlw.io.meta.items`); None for all."""

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


def open_cube(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
) -> Cube:
    """Read a cube from a file or a folder of PNG bands.

    Args:
        path: ENVI (header or data file), GeoTIFF, HDF5, NetCDF 4, Zarr, .npy, .npz, .mat (any
            version), .png, or a folder of PNG bands; the content decides, the name only if the
            content says nothing.
        key: the variable to read, where a file has several.
        axes: stored order of band, row and column, if it is not (row, col, band) or known.
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
    with open_source(path, key=key, axes=axes, nodata=nodata) as source:
        return source.cube()


def open_source(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
) -> CubeFile:
    """Open a cube to be read by windows; only its header is read now.

    Args:
        path, key, axes, nodata: as for :func:`open_cube`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> with open_source(file) as source:
    ...     data, valid = source.read(slice(0, 4), slice(2, 7))
    >>> source.shape, source.dtype.name, data.shape
    ((6, 20, 24), 'uint16', (6, 4, 5))
    """
    place, form = _recognise(path, key, axes)
    chosen = None if nodata is None else float(nodata)
    source = form.source(place, key=key, axes=axes, nodata=chosen)
    options = {"key": key, "axes": axes, "nodata": nodata}
    source.reopening = (os.path.abspath(place), options)
    return source


def describe(
    path: str | os.PathLike[str],
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
) -> dict[str, Any]:
    """Facts about a file from its headers, without reading the cube.

    Args:
        path, key, axes, nodata: as for :func:`open_cube`.

    Returns:
        ``path``, ``format``, ``shape`` (bands, rows, columns), ``stored_shape``, ``axes``,
        ``dtype``, ``key``, ``variables`` (name to shape and type), ``wavelengths`` (first and last
        in nm), ``bad_bands`` (how many), ``nodata`` and ``nodata_from``, ``scale``, ``offset``,
        ``crs``, ``lazy`` (whether it can be read by windows) and ``notes``. Where several variables could be
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
        "bad_bands": 0,
        "nodata": None,
        "nodata_from": None,
        "scale": 1.0,
        "offset": 0.0,
        "crs": None,
        "lazy": None,
        "notes": (),
    }
    listed = getattr(form, "variables", None)
    if listed is not None:
        facts["variables"] = {name: str(v) for name, v in listed(place).items()}
    try:
        source = open_source(path, key=key, axes=axes, nodata=nodata)
    except SeveralCubes:
        return facts
    with source:
        enc = source.encoding
        stored = tuple(source.shape["brc".index(a)] for a in enc.axes)
        if source.metadata.get("stored_ndim") == 2:
            stored = tuple(n for a, n in zip(enc.axes, stored, strict=True) if a != "b")
        if source.wavelengths is not None:
            facts["wavelengths"] = tuple(float(source.wavelengths[i]) for i in (0, -1))
        return facts | {
            "shape": source.shape,
            "stored_shape": stored,
            "axes": enc.axes,
            "dtype": enc.dtype,
            "key": enc.key,
            "bad_bands": int(np.count_nonzero(~source.good_bands)),
            "nodata": enc.nodata,
            "nodata_from": source.metadata.get("nodata_from"),
            "scale": enc.scale,
            "offset": enc.offset,
            "crs": source.metadata.get("crs"),
            "lazy": source.lazy,
            "notes": source.notes,
        }


def ending_format(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of an output names, if it names one."""
    suffix = Path(path).suffix.lower()
    if os.fspath(path).endswith(tuple(s for s in (os.sep, os.altsep) if s)):
        return png_folder
    return next((form for form in FORMATS if suffix in form.SUFFIXES), None)


def check_save(path: str | os.PathLike[str], cube: Cube) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done.

    Args:
        path: the output.
        cube: with the encoding it would be written in.
    """
    _check_fits(path, output_format(path, cube.encoding), cube.encoding, cube.bands)


def save_cube(
    cube: Cube,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    encoding: Encoding | None = None,
) -> int:
    """Write a cube as it was stored, in the format that the ending of ``path`` names.

    The stored numbers are those of the input (type, axes, scale, nodata). npy and PNG have no place
    for scale, nodata, wavelengths and map coordinates and hold the bare numbers.

    Args:
        cube: what to write.
        path: ends in .hdr (or .img, .dat, .raw, .bsq, .bil, .bip: ENVI), .tif, .h5, .nc, .zarr,
            .npy, .npz, .mat or .png; or a folder of PNG bands, if it ends in "/" or the cube came
            from one. Another ending or none gives ENVI if the cube came from ENVI.
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
    form, chosen = _chosen(path, cube, encoding)
    check_place(path, form, overwrite)
    stored, clipped = cube.to_array(chosen)
    if form.FREE_AXES and cube.metadata.get("stored_ndim") == 2 and cube.bands == 1:
        stored = np.squeeze(stored, axis=chosen.axes.index("b"))
    with _placed(path, form, overwrite) as tmp:
        form.write(cube, tmp, stored, chosen)
    return clipped


def create(
    path: str | os.PathLike[str],
    like: Described,
    *,
    overwrite: bool = False,
    encoding: Encoding | None = None,
    strip: int | None = None,
) -> CubeWriter:
    """Make an output that is filled window by window and appears when it is complete.

    npy, ENVI, GeoTIFF, HDF5 and Zarr go to the disk at once; other formats are collected in memory.

    Args:
        path: as for :func:`save_cube`.
        like: a :class:`CubeFile` or :class:`Cube` whose shape, wavelengths and metadata it gets.
        overwrite: replace an existing output, when the new one is complete.
        encoding: how to store the numbers, if not as ``like`` does.
        strip: rows that will be written together, from the top. In Zarr each such strip has files
            of its own, and other processes may write them (``CubeWriter.shared``).

    >>> import tempfile
    >>> noisy = Cube.from_array(np.ones((6, 20, 24)))
    >>> with create(Path(tempfile.mkdtemp()) / "a.npy", noisy) as sink:
    ...     sink.write(slice(0, 20), slice(0, 24), noisy.data)
    >>> np.load(sink.path).shape
    (6, 20, 24)
    """
    form, chosen = _chosen(path, like, encoding)
    check_place(path, form, overwrite)
    check_disk(Path(os.path.realpath(path)).parent, path, nbytes(like.shape, chosen.dtype))
    shared = form is zarr3 and strip is not None
    more = {"strip": strip} if shared else {}
    opening = _windows(path, form, like, chosen, overwrite, **more)
    tile = form.tile(like, chosen, **more) if hasattr(form, "tile") else (1, like.shape[2])
    return CubeWriter(Path(path), like.shape, chosen, opening, tile, shared)


@contextmanager
def _windows(
    path: str | os.PathLike[str],
    form: Format,
    like: Described,
    encoding: Encoding,
    overwrite: bool,
    **more: Any,
) -> Iterator[Put]:
    writer = getattr(form, "writer", None)
    with _placed(path, form, overwrite) as tmp:
        if writer is not None:
            with writer(tmp, like, encoding, **more) as put:
                yield put
            return
        held = np.zeros(like.shape, encoding.dtype)

        def put(bands: Index, rows: slice, cols: slice, stored: NDArray[Any]) -> None:
            held[bands, rows, cols] = stored

        yield put
        back = tuple("brc".index(a) for a in encoding.axes)
        form.write(like, tmp, np.ascontiguousarray(held.transpose(back)), encoding)


def _chosen(
    path: str | os.PathLike[str], like: Described, encoding: Encoding | None
) -> tuple[Format, Encoding]:
    """Format and encoding of an output; refuses what the format cannot hold."""
    asked = encoding or like.encoding
    form = output_format(path, asked)
    # The order of the axes is a habit of arrays: it is not handed to them from other formats.
    free = form.FREE_AXES and asked.format in (form.NAME, *(f.NAME for f in ARRAYS))
    axes = asked.axes if free else DEFAULT_AXES if form.FREE_AXES else "brc"
    if hasattr(form, "stored_axes"):
        axes = form.stored_axes(Path(path), asked)
    chosen = replace(asked, axes=axes, format=form.NAME)
    _check_fits(path, form, chosen, like.bands)
    return form, chosen


def check_place(
    path: str | os.PathLike[str], form: Format | None = None, overwrite: bool = False
) -> None:
    """Refuse an output that could not be written later, by its place alone.

    Args:
        path: the output.
        form: its format; None to take the ending's.
        overwrite: as for :func:`save_cube`.
    """
    chosen = form or output_format(path, Encoding())
    if hasattr(chosen, "check_place"):
        chosen.check_place(Path(path), overwrite)
        return
    check_output(path, overwrite=overwrite, directory=chosen.FOLDER)
    if (
        chosen.NAME == png_folder.NAME
        and Path(path).is_dir()
        and not png_folder.holds_only_bands(Path(path))
    ):
        raise OutputExists(f"{path} holds other files than PNG bands; choose a new folder")


def _placed(
    path: str | os.PathLike[str], form: Format, overwrite: bool
) -> AbstractContextManager[Path]:
    """A temporary name that becomes the output at the end."""
    if hasattr(form, "placed"):
        pair: AbstractContextManager[Path] = form.placed(Path(path), overwrite)
        return pair
    return atomic(path, overwrite=overwrite, directory=form.FOLDER)


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
    if form is None and place.is_file() and envi.header_of(place) is not None:
        form = envi  # data files may have any ending, if there is scene.ext.hdr
    form = form or next((f for f in FORMATS if place.suffix.lower() in f.SUFFIXES), None)
    if form is None:
        raise BadFile(f"{path} is of no format dlw can read ({_endings()}, folder of PNG bands)")
    if key is not None and not form.HAS_KEYS:
        raise BadOption(f"{path} holds one image, no variables; leave out --key")
    if axes is not None and not form.FREE_AXES:
        raise BadOption(f"{path} is of a format whose axes are known; leave out --axes")
    if axes is not None:
        Encoding(axes=axes)  # raises for nonsense
    return place, form


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
