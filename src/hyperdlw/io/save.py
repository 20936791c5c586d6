"""Save cubes: whole, by windows, or copied from another format, after checks that spare work in vain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..cube import Cube, Encoding
from ..errors import BadOption
from .atomic import check_output
from .checks import check_disk, count_bytes
from .formats import Format, check_fits, choose_format, find_by_ending
from .metadata import list_items
from .named_arrays import DEFAULT_AXES
from .open import open_reader
from .reader import Described, cut_windows
from .writer import CubeWriter, WriteWindow


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
        path: as for :func:`save_cube`.
        like: a :class:`CubeReader` or :class:`Cube` whose shape, wavelengths and metadata it gets.
        overwrite: replace an existing output, when the new one is complete.
        encoding: how to store the numbers, if not as ``like`` does.
        strip: rows that will be written together, from the top. In Zarr each such strip has files
            of its own, and other processes may write them (``CubeWriter.shared``).

    >>> import tempfile
    >>> noisy = Cube.from_array(np.ones((6, 20, 24)))
    >>> with open_writer(Path(tempfile.mkdtemp()) / "a.npy", noisy) as sink:
    ...     sink.write(slice(0, 20), slice(0, 24), noisy.data)
    >>> np.load(sink.path).shape
    (6, 20, 24)
    """
    form, chosen = _choose_encoding(path, like, encoding)
    form.check_place(Path(path), overwrite)
    check_disk(Path(os.path.realpath(path)).parent, path, count_bytes(like.shape, chosen.dtype))
    shared = form.shares_strips and strip is not None
    tile = form.choose_tile(like, chosen, strip)

    @contextmanager
    def opening() -> Iterator[WriteWindow]:
        with (
            form.place_output(Path(path), overwrite) as tmp,
            form.open_writer(tmp, like, chosen, strip) as put,
        ):
            yield put

    return CubeWriter(Path(path), like.shape, chosen, opening(), tile, shared)


def check_save(path: str | os.PathLike[str], cube: Cube) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done."""
    check_fits(path, choose_format(path, cube.encoding), cube.encoding, cube.bands)


def check_place(
    path: str | os.PathLike[str], form: Format | None = None, overwrite: bool = False
) -> None:
    """Refuse an output that could not be written later, by its place alone.

    ``form`` is its format; None takes that of the ending.
    """
    (form or choose_format(path, Encoding())).check_place(Path(path), overwrite)


def check_places(paths: Sequence[str | None], overwrite: bool, source: str = "") -> None:
    """Refuse outputs (None: not wanted) that could not be written, before anything is read.

    ``source`` is the input, if the outputs are cubes.
    """
    given = [p for p in paths if p is not None]
    if len({os.path.realpath(p) for p in given}) < len(given):
        raise BadOption(f"two outputs have the same name: {', '.join(given)}")
    for path in given:
        form = find_by_ending(path) if source else None
        if form is not None:
            check_place(path, form, overwrite)
            continue
        # An input that is a folder of bands is written as one, unless the ending says otherwise.
        folder = path.endswith("/") or (not Path(path).suffix and Path(source).is_dir())
        check_output(path, overwrite=overwrite, directory=folder and source != "")


def _choose_encoding(
    path: str | os.PathLike[str], like: Described, encoding: Encoding | None
) -> tuple[Format, Encoding]:
    """Format and encoding of an output; refuses what the format cannot hold."""
    asked = encoding or like.encoding
    form = choose_format(path, asked)
    chosen = replace(asked, axes=form.choose_axes(Path(path), asked), format=form.name)
    check_fits(path, form, chosen, like.bands)
    return form, chosen


# --- converting


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
    overwrite: bool = False,
) -> Converted:
    """Copy a cube into another format.

    The stored numbers are copied as they are, never through float32, so they are the same to the
    last bit; what the target cannot hold beside them is listed.

    Args:
        source, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
        target, overwrite: as for :func:`hyperdlw.io.save_cube`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", cube=np.zeros((4, 5, 3)), wavelengths=[400.0, 500.0, 600.0])
    >>> convert_file(folder / "a.npz", folder / "a.npy").lost
    ('wavelengths (400 to 600 nm)',)
    """
    with open_reader(source, key=key, axes=axes, nodata=nodata) as cube:
        with open_writer(target, cube, overwrite=overwrite) as sink:
            for rows, cols in cut_windows(cube.shape, cube.dtype.itemsize, sink.tile):
                sink.write_stored(rows, cols, cube.read_stored(rows, cols))
        gone = list_losses(cube, target)
        if sink.encoding.format == "npy" and sink.encoding.axes != DEFAULT_AXES:
            order = sink.encoding.axes
            gone.append(f"order of the axes (read it with --axes {order})")
        return Converted(cube.shape, cube.dtype.name, tuple(gone), cube.notes)


def list_losses(cube: Described, target: str | os.PathLike[str]) -> list[str]:
    """What a cube says beside its numbers that the format of ``target`` cannot hold."""
    form = choose_format(target, cube.encoding)
    found = list_items(cube)
    refused = form.find_losses(cube)
    return [
        words
        for name, words in found.items()
        if name in refused or (form.holds is not None and name not in form.holds)
    ]
