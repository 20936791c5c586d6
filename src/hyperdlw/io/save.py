"""Save cubes: whole or by windows, after checks that spare work in vain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube, Encoding
from ..errors import OutputExists
from . import png_folder, zarr3
from .atomic import atomic, check_output
from .checks import check_disk, nbytes
from .formats import ARRAYS, Format, check_fits, output_format
from .named_arrays import DEFAULT_AXES
from .reader import Described
from .windows import Index
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


def check_save(path: str | os.PathLike[str], cube: Cube) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done.

    Args:
        path: the output.
        cube: with the encoding it would be written in.
    """
    check_fits(path, output_format(path, cube.encoding), cube.encoding, cube.bands)


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
    check_fits(path, form, chosen, like.bands)
    return form, chosen


def _placed(
    path: str | os.PathLike[str], form: Format, overwrite: bool
) -> AbstractContextManager[Path]:
    """A temporary name that becomes the output at the end."""
    if hasattr(form, "placed"):
        pair: AbstractContextManager[Path] = form.placed(Path(path), overwrite)
        return pair
    return atomic(path, overwrite=overwrite, directory=form.FOLDER)


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
