"""Open, save and convert cubes, whole or by windows, after checks that spare work in vain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..cube import AXES, Cube, Encoding, Given, make_cube
from ..errors import BadInput, DlwError
from .checks import check_disk, count_bytes
from .formats import Format, check_fits, choose_format, find_format
from .metadata import list_items, list_neighbours
from .named_arrays import SeveralCubes
from .reader import CubeReader, Described, ReadOptions, cut_windows
from .series import add_members, list_members
from .writer import CubeWriter, WriteWindow


def open_cube(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
    shape: str | None = None,
) -> Cube:
    """Read a cube from a file or a folder of PNG bands.

    Args:
        path: ENVI (header or data file), GeoTIFF, HDF5, NetCDF 4, Zarr, .npy, .npz, .mat (any
            version), .png, or a folder of PNG bands; the content decides, the name only if the
            content says nothing.
        key: the variable to read, where a file has several.
        axes: stored order of band, row and column, if it is not (row, col, band) or known.
        nodata: stored value that means "no measurement"; wins over what the file says.
        shape: of a file without a header, its sizes in stored order and its type, such as
            "224x512x614:uint16"; the order is (band, row, col) unless ``axes`` says otherwise.

    Raises:
        BadFile: missing, damaged, ambiguous, or no cube.
        BadOption: ``key`` or ``axes`` has no meaning for this file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> open_cube(file).shape
    (6, 20, 24)
    """
    with open_reader(path, key=key, axes=axes, nodata=nodata, shape=shape) as source:
        return source.read_cube()


def take_cube(
    given: Given | str | os.PathLike[str], axes: str | None = None, key: str | None = None
) -> Cube:
    """The cube of a file, or of what :func:`hyperdlw.cube.make_cube` takes."""
    if isinstance(given, str | os.PathLike):
        return open_cube(given, axes=axes, key=key)
    if given is None or isinstance(given, bytes | dict | set):
        what = f"cannot be made of {type(given).__name__}"
        raise BadInput(f"a cube {what}; give a path, an array, a tensor or a DataArray")
    return make_cube(given, axes)


def open_reader(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
    shape: str | None = None,
) -> CubeReader:
    """Open a cube to be read by windows; only its header is read now (see :func:`open_cube`).

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> with open_reader(file) as source:
    ...     data, valid = source.read(slice(0, 4), slice(2, 7))
    >>> source.shape, source.dtype.name, data.shape
    ((6, 20, 24), 'uint16', (6, 4, 5))
    """
    options = ReadOptions(key, axes, None if nodata is None else float(nodata), shape)
    place, form = find_format(path, options)
    reader = form.open_reader(place, options)
    reader.reopening = (os.path.abspath(place), options)
    reader.metadata = {**reader.metadata, "original": reader.reopening}
    return reader


def describe_file(
    path: str | os.PathLike[str],
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
    shape: str | None = None,
) -> dict[str, Any]:
    """Facts about a file from its headers, without reading the cube (see :func:`open_cube`).

    Returns:
        ``path``, ``format``, ``shape`` (bands, rows, columns), ``stored_shape``, ``axes``,
        ``dtype``, ``key``, ``variables`` (name to shape and type), ``wavelengths`` (first and last
        in nm), ``bad_bands`` (how many), ``nodata`` and ``nodata_from``, ``scale``, ``offset``,
        ``crs``, ``lazy`` (whether it can be read by windows) and ``notes``. Where several variables
        could be the cube and ``key`` is None, ``shape`` is None and ``variables`` lists them.
    """
    place, form = find_format(path, ReadOptions(key, axes, shape=shape))
    facts: dict[str, Any] = {"path": os.fspath(path), "format": form.name}
    facts |= dict.fromkeys(("shape", "stored_shape", "axes", "dtype", "key"))
    held = form.list_variables(place)
    held = add_members(held, list_members(held, last=form.name.startswith("mat")))
    facts["variables"] = {name: str(v) for name, v in held.items()}
    facts |= {"wavelengths": None, "bad_bands": 0, "nodata": None, "nodata_from": None}
    facts |= {"scale": 1.0, "offset": 0.0, "crs": None, "lazy": None, "notes": ()}
    try:
        source = open_reader(path, key=key, axes=axes, nodata=nodata, shape=shape)
    except SeveralCubes:
        return facts
    with source:
        order = source.encoding.axes
        if source.metadata.get("stored_ndim") == 2:
            order = order.replace("b", "")
        if source.wavelengths is not None:
            facts["wavelengths"] = tuple(float(source.wavelengths[i]) for i in (0, -1))
        facts["stored_shape"] = tuple(source.shape[AXES.index(a)] for a in order)
        facts["bad_bands"] = int(np.count_nonzero(~source.good_bands))
        facts |= {name: getattr(source, name) for name in ("shape", "lazy", "notes")}
        facts |= {name: source.metadata.get(name) for name in ("nodata_from", "crs")}
        said = ("axes", "dtype", "key", "nodata", "scale", "offset")
        return facts | {name: getattr(source.encoding, name) for name in said}


def list_series(path: str | os.PathLike[str], reading: ReadOptions) -> tuple[str, ...]:
    """The keys of the cubes of a series; none where a file holds one cube."""
    try:
        open_reader(path, **vars(reading)).close()
    except SeveralCubes as several:
        if several.series:
            return several.series
        raise
    return ()


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
    form, chosen, original = _choose_encoding(path, cube, encoding)
    form.check_place(Path(path), overwrite)
    stored, clipped = cube.to_array(chosen)
    if original is not None:
        order = tuple(chosen.axes.index(a) for a in AXES)
        bands, rows, cols = (slice(0, n) for n in cube.shape)
        with (
            form.place_output(Path(path), overwrite) as tmp,
            form.open_copy(tmp, original, cube, chosen) as put,
        ):
            put(bands, rows, cols, stored.transpose(order))
        return clipped
    if form.free_axes and cube.metadata.get("stored_ndim") == 2 and cube.bands == 1:
        stored = np.squeeze(stored, axis=chosen.axes.index("b"))
    with form.place_output(Path(path), overwrite) as tmp:
        form.write(cube, tmp, stored, chosen)
    return clipped


def open_writer(
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
        path, overwrite, encoding: as for :func:`save_cube`.
        like: a :class:`CubeReader` or :class:`Cube` whose shape, wavelengths and metadata it gets.
        strip: rows that will be written together, from the top. In Zarr each such strip has files
            of its own, and other processes may write them (``CubeWriter.shared``).

    >>> import tempfile
    >>> noisy = Cube.from_array(np.ones((6, 20, 24)))
    >>> with open_writer(Path(tempfile.mkdtemp()) / "a.npy", noisy) as sink:
    ...     sink.write(slice(0, 20), slice(0, 24), noisy.data)
    >>> np.load(sink.path).shape
    (6, 20, 24)
    """
    form, chosen, original = _choose_encoding(path, like, encoding)
    form.check_place(Path(path), overwrite)
    check_disk(Path(os.path.realpath(path)).parent, path, count_bytes(like.shape, chosen.dtype))
    shared = form.shares_strips and strip is not None and original is None
    tile = form.choose_tile(like, chosen, strip)

    @contextmanager
    def opening() -> Iterator[WriteWindow]:
        with form.place_output(Path(path), overwrite) as tmp:
            made = (
                form.open_writer(tmp, like, chosen, strip)
                if original is None
                else form.open_copy(tmp, original, like, chosen)
            )
            with made as put:
                yield put

    return CubeWriter(Path(path), like.shape, chosen, opening(), tile, shared)


def _choose_encoding(
    path: str | os.PathLike[str], like: Described, encoding: Encoding | None
) -> tuple[Format, Encoding, Path | None]:
    """Format and encoding of an output, and the file it is a copy of, if it is one.

    Refuses what the format cannot hold.
    """
    asked = encoding or like.encoding
    form = choose_format(path, asked)
    original = _find_original(form, like, asked)
    if original is not None:
        return form, asked, original
    chosen = replace(asked, axes=form.choose_axes(Path(path), asked), format=form.name)
    check_fits(path, form, chosen, like.bands)
    return form, chosen, None


def _find_original(form: Format, like: Described, asked: Encoding) -> Path | None:
    """The input, if it says today what is known of the cube: then only the numbers differ."""
    path, options = like.metadata.get("original", (None, None))
    if path is None or not form.copies(asked):
        return None
    try:
        with open_reader(path, **vars(options)) as was:
            same = (was.shape, was.encoding) == (like.shape, asked)
            said, known = list_neighbours(was), list_neighbours(like)
    except DlwError:
        return None
    same = same and said.keys() == known.keys()
    return Path(path) if same and all(np.array_equal(said[k], known[k]) for k in said) else None


def list_losses(
    like: Described, path: str | os.PathLike[str], encoding: Encoding | None = None
) -> tuple[str, ...]:
    """What a file says beside the cube that an output has no place for, a phrase each."""
    form, _, original = _choose_encoding(path, like, encoding)
    if original is not None:
        return ()
    items = list_items(like)
    gone = form.find_losses(like) | ({"siblings"} & items.keys())
    if form.holds is not None:
        gone |= items.keys() - form.holds
    lost = [words for name, words in items.items() if name in gone]
    return tuple(lost)


@dataclass(frozen=True)
class Converted:
    """What was written, and what the target had no place for."""

    shape: tuple[int, int, int]
    dtype: str
    lost: tuple[str, ...]
    notes: tuple[str, ...]


def convert_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
    shape: str | None = None,
    overwrite: bool = False,
) -> Converted:
    """Copy a cube into another format.

    The stored numbers are copied as they are, never through float32, so they are the same to the
    last bit; what the target cannot hold beside them is listed.

    Args:
        source, key, axes, nodata, shape: as for :func:`open_cube`.
        target, overwrite: as for :func:`save_cube`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", cube=np.zeros((4, 5, 3)), wavelengths=[400.0, 500.0, 600.0])
    >>> convert_file(folder / "a.npz", folder / "a.npy").lost
    ('wavelengths (400 to 600 nm)',)
    """
    with open_reader(source, key=key, axes=axes, nodata=nodata, shape=shape) as cube:
        with open_writer(target, cube, overwrite=overwrite) as sink:
            for rows, cols in cut_windows(cube.shape, cube.dtype.itemsize, sink.tile):
                sink.write_stored(rows, cols, cube.read_stored(rows, cols))
        return Converted(cube.shape, cube.dtype.name, list_losses(cube, target), cube.notes)
