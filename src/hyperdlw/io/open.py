"""Open cubes: whole, by windows, or only to see what a file holds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..cube import Cube
from .formats import find_format
from .named_arrays import SeveralCubes
from .reader import CubeReader, ReadOptions


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
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> open_cube(file).shape
    (6, 20, 24)
    """
    with open_reader(path, key=key, axes=axes, nodata=nodata) as source:
        return source.read_cube()


def open_reader(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    axes: str | None = None,
    nodata: float | None = None,
) -> CubeReader:
    """Open a cube to be read by windows; only its header is read now.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> with open_reader(file) as source:
    ...     data, valid = source.read(slice(0, 4), slice(2, 7))
    >>> source.shape, source.dtype.name, data.shape
    ((6, 20, 24), 'uint16', (6, 4, 5))
    """
    options = ReadOptions(key, axes, None if nodata is None else float(nodata))
    place, form = find_format(path, options)
    reader = form.open_reader(place, options)
    reader.reopening = (os.path.abspath(place), options)
    return reader


def describe_file(
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
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "a.npy"
    >>> np.save(file, np.zeros((20, 24, 6), np.uint16))
    >>> facts = describe_file(file)
    >>> facts["format"], facts["shape"], facts["dtype"]
    ('npy', (6, 20, 24), 'uint16')
    """
    place, form = find_format(path, ReadOptions(key, axes))
    facts: dict[str, Any] = {"path": os.fspath(path), "format": form.name}
    facts |= dict.fromkeys(("shape", "stored_shape", "axes", "dtype", "key"))
    facts["variables"] = {name: str(v) for name, v in form.list_variables(place).items()}
    facts |= {"wavelengths": None, "bad_bands": 0, "nodata": None, "nodata_from": None}
    facts |= {"scale": 1.0, "offset": 0.0, "crs": None, "lazy": None, "notes": ()}
    try:
        source = open_reader(path, key=key, axes=axes, nodata=nodata)
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
