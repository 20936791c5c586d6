"""A folder of gray PNG files, one per band (the layout of the CAVE scenes)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from .checks import reading
from .picture import AXES, open_picture, pixels
from .png import write as write_png
from .reader import CubeFile, Described, whole, with_nodata

NAME = "png-folder"
SUFFIXES: tuple[str, ...] = ()
HAS_KEYS = False
FREE_AXES = False
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = frozenset(["uint8", "uint16"])
FOLDER = True
HOLDS: frozenset[str] | None = frozenset()


def sniff(path: Path, head: bytes) -> bool:
    """Whether this is a folder at all."""
    return path.is_dir()


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts band 2 before band 10.

    >>> sorted(["ms_10.png", "ms_2.png", "ms_01.png"], key=natural)
    ['ms_01.png', 'ms_2.png', 'ms_10.png']
    """
    # \\d alone also matches digits that int() reads but other alphabets mean otherwise.
    parts = re.split(r"([0-9]+)", name)
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts)] + [(-1, name)]


def band_files(path: Path) -> list[Path]:
    """The PNG files of a folder in band order; other and hidden files are passed over."""
    with reading(path):
        files = [
            entry
            for entry in path.iterdir()
            if entry.suffix.lower() == ".png" and entry.name[0] != "." and entry.is_file()
        ]
    if not files:
        raise BadFile(f"{path} is a folder without PNG files; give the one that holds the bands")
    return sorted(files, key=lambda entry: natural(entry.name))


def read_band(path: Path) -> NDArray[Any]:
    """One band; a gray picture saved as colour (some CAVE scenes) still counts as one."""
    stored = pixels(path, "PNG")
    if any(not np.array_equal(stored[0], channel) for channel in stored[1:]):
        raise BadFile(f"{path} is a colour picture among gray bands; move it out of the folder")
    return np.asarray(stored[0])


def read_all(files: list[Path]) -> NDArray[Any]:
    """All bands (band, row, col), which must be alike."""
    first = read_band(files[0])
    bands = [first]
    for file in files[1:]:
        band = read_band(file)
        if band.shape != first.shape or band.dtype != first.dtype:
            raise BadFile(
                f"{file} is {_kind(band)} but {files[0].name} is {_kind(first)}; "
                "all bands must be alike: move the odd one out of the folder"
            )
        bands.append(band)
    return np.stack(bands)


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a folder of bands, from the names and the first band.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    files = band_files(path)
    first = open_picture(files[0], "PNG", NAME, None)
    metadata: dict[str, Any] = {"files": tuple(file.name for file in files)}
    encoding = with_nodata(Encoding(first.encoding.dtype, AXES, format=NAME), metadata, nodata)
    shape = (len(files), *first.shape[1:])
    window = whole(lambda: read_all(files))
    return CubeFile(path, shape, encoding, window, metadata=metadata, lazy=False)


def _kind(band: NDArray[Any]) -> str:
    return f"{band.shape[0]}x{band.shape[1]} {band.dtype.name}"


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Fill the folder, with the names the bands came with if there are as many."""
    names = [Path(name).name for name in cube.metadata.get("files", ())]
    if len(set(names)) != len(stored):
        digits = max(2, len(str(len(stored))))
        names = [f"band_{i:0{digits}d}.png" for i in range(1, len(stored) + 1)]
    for name, band in zip(names, stored, strict=True):
        write_png(cube, path / name, band[None], encoding)


def holds_only_bands(path: Path) -> bool:
    """Whether replacing this folder would remove nothing but PNG files."""
    with reading(path):
        return all(
            entry.suffix.lower() == ".png" and entry.is_file() and not entry.is_symlink()
            for entry in path.iterdir()
        )
