"""Save cubes: whole or by windows, after checks that spare work in vain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..cube import Cube, Encoding
from .checks import check_disk, nbytes
from .formats import Format, check_fits, choose_format
from .reader import Described
from .writer import CubeWriter, Put


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
    form, chosen = _choose_encoding(path, cube, encoding)
    form.check_place(Path(path), overwrite)
    stored, clipped = cube.to_array(chosen)
    if form.free_axes and cube.metadata.get("stored_ndim") == 2 and cube.bands == 1:
        stored = np.squeeze(stored, axis=chosen.axes.index("b"))
    with form.place_output(Path(path), overwrite) as tmp:
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
    form, chosen = _choose_encoding(path, like, encoding)
    form.check_place(Path(path), overwrite)
    check_disk(Path(os.path.realpath(path)).parent, path, nbytes(like.shape, chosen.dtype))
    shared = form.shares_strips and strip is not None
    tile = form.choose_tile(like, chosen, strip)

    @contextmanager
    def opening() -> Iterator[Put]:
        with (
            form.place_output(Path(path), overwrite) as tmp,
            form.open_writer(tmp, like, chosen, strip) as put,
        ):
            yield put

    return CubeWriter(Path(path), like.shape, chosen, opening(), tile, shared)


def check_save(path: str | os.PathLike[str], cube: Cube) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done.

    Args:
        path: the output.
        cube: with the encoding it would be written in.
    """
    check_fits(path, choose_format(path, cube.encoding), cube.encoding, cube.bands)


def check_place(
    path: str | os.PathLike[str], form: Format | None = None, overwrite: bool = False
) -> None:
    """Refuse an output that could not be written later, by its place alone.

    Args:
        path: the output.
        form: its format; None to take the ending's.
        overwrite: as for :func:`save_cube`.
    """
    (form or choose_format(path, Encoding())).check_place(Path(path), overwrite)


def _choose_encoding(
    path: str | os.PathLike[str], like: Described, encoding: Encoding | None
) -> tuple[Format, Encoding]:
    """Format and encoding of an output; refuses what the format cannot hold."""
    asked = encoding or like.encoding
    form = choose_format(path, asked)
    chosen = replace(asked, axes=form.choose_axes(Path(path), asked), format=form.name)
    check_fits(path, form, chosen, like.bands)
    return form, chosen
