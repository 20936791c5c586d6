"""The same numbers in another format, copied window by window."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .formats import choose_format
from .metadata import items
from .named_arrays import DEFAULT_AXES
from .open import open_source
from .reader import Described
from .save import create
from .windows import windows


@dataclass(frozen=True)
class Converted:
    """What was written, and what the target had no place for."""

    shape: tuple[int, int, int]
    dtype: str
    lost: tuple[str, ...]
    notes: tuple[str, ...]


def convert(
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
    >>> convert(folder / "a.npz", folder / "a.npy").lost
    ('wavelengths (400 to 600 nm)',)
    """
    with open_source(source, key=key, axes=axes, nodata=nodata) as cube:
        with create(target, cube, overwrite=overwrite) as sink:
            for rows, cols in windows(cube.shape, cube.dtype.itemsize, sink.tile):
                sink.write_stored(rows, cols, cube.read_stored(rows, cols))
        gone = lost(cube, target)
        if sink.encoding.format == "npy" and sink.encoding.axes != DEFAULT_AXES:
            order = sink.encoding.axes
            gone.append(f"order of the axes (read it with --axes {order})")
        return Converted(cube.shape, cube.dtype.name, tuple(gone), cube.notes)


def lost(cube: Described, target: str | os.PathLike[str]) -> list[str]:
    """What a cube says beside its numbers that the format of ``target`` cannot hold."""
    form = choose_format(target, cube.encoding)
    found = items(cube)
    refused = form.find_losses(cube)
    return [
        words
        for name, words in found.items()
        if name in refused or (form.holds is not None and name not in form.holds)
    ]
