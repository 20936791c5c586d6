"""What PNG and TIFF share: pictures through GDAL, each channel a band."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube, Encoding
from ..errors import BadFile
from .guard import check_cube, check_promise, nbytes, reading

AXES = "brc"
"""GDAL hands out and takes (band, row, col)."""


@contextmanager
def quiet() -> Iterator[None]:
    """GDAL without side files and without the warning that a picture has no map coordinates."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings(), rasterio.Env(GDAL_PAM_ENABLED="NO"):
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def opened(path: Path, driver: str) -> Iterator[Any]:
    """An open picture whose size has been checked against its file."""
    import rasterio

    # Naming the driver keeps GDAL from trying its other hundred; a Path is never taken for a URL.
    with reading(path), quiet(), rasterio.open(path.absolute(), driver=driver) as picture:
        if picture.subdatasets:
            raise BadFile(
                f"{path} has {len(picture.subdatasets)} pages; save it as one page with all bands"
            )
        shape = (picture.count, picture.height, picture.width)
        check_cube(path, shape, picture.dtypes[0])
        check_promise(path, nbytes(shape, picture.dtypes[0]), path.stat().st_size)
        yield picture


def channels(picture: Any) -> tuple[list[int], list[str]]:
    """Numbers of the channels that are bands, and a note for one that is not."""
    from rasterio.enums import ColorInterp

    kinds = picture.colorinterp
    bands = [i for i, kind in enumerate(kinds, 1) if kind != ColorInterp.alpha]
    return bands, ["the alpha channel was dropped"] if len(bands) < len(kinds) else []


def palette(picture: Any) -> NDArray[np.uint8] | None:
    """Red, green and blue of every index of an indexed picture."""
    from rasterio.enums import ColorInterp

    if picture.count != 1 or picture.colorinterp[0] != ColorInterp.palette:
        return None
    table = np.zeros((np.iinfo(picture.dtypes[0]).max + 1, 3), np.uint8)
    for index, colour in picture.colormap(1).items():
        table[index] = colour[:3]
    return table


def pixels(path: Path, driver: str) -> tuple[NDArray[Any], dict[str, Any], list[str]]:
    """The bands (band, row, col), the encoding's facts and notes on what was changed.

    Args:
        path: the picture.
        driver: GDAL's name of the format.
    """
    with opened(path, driver) as picture:
        bands, notes = channels(picture)
        if not bands:
            raise BadFile(f"{path} has nothing but an alpha channel; there is nothing to read")
        stored = picture.read(bands)
        facts = _facts(picture, bands, notes)
        table = palette(picture)
        if table is not None:
            notes.append("the indexed colours were expanded to red, green and blue")
            stored = np.ascontiguousarray(table[stored[0]].transpose(2, 0, 1))
            facts["nodata"] = None  # it was an index
    return stored, facts, notes


def _facts(picture: Any, bands: list[int], notes: list[str]) -> dict[str, Any]:
    scales = {(picture.scales[b - 1], picture.offsets[b - 1]) for b in bands}
    scale, offset = scales.pop()
    if scales or scale == 0.0:
        notes.append("scale and offset differ between bands and were not used")
        scale, offset = 1.0, 0.0
    nodata = picture.nodata
    return {
        "scale": float(scale),
        "offset": float(offset),
        # NaN is invalid by itself, and equal to nothing.
        "nodata": None if nodata is None or np.isnan(nodata) else float(nodata),
    }


def read_picture(path: Path, driver: str, format: str, nodata: float | None) -> Cube:
    """Read a picture as a cube.

    Args:
        path: the picture.
        driver: GDAL's name of the format.
        format: ours.
        nodata: as for :func:`dlw.io.open_cube`.
    """
    stored, facts, notes = pixels(path, driver)
    if nodata is not None:
        facts["nodata"] = nodata
    encoding = Encoding(stored.dtype.name, AXES, format=format, **facts)
    return Cube.from_array(stored, encoding=encoding, metadata={"notes": tuple(notes)})


def describe_picture(path: Path, driver: str) -> dict[str, Any]:
    """Facts from the header.

    Args:
        path: the picture.
        driver: GDAL's name of the format.
    """
    with opened(path, driver) as picture:
        bands, notes = channels(picture)
        facts = _facts(picture, bands, notes) if bands else {}
        count = len(bands) if palette(picture) is None else 3
        return facts | {
            "stored_shape": (count, picture.height, picture.width),
            "dtype": picture.dtypes[0],
            "axes": AXES,
            "notes": tuple(notes),
        }


def write_picture(
    path: Path, driver: str, stored: NDArray[Any], encoding: Encoding, **options: Any
) -> None:
    """Write bands with their scale, offset and nodata value where the format has a place for them.

    The picture is made in memory: GDAL overlooks a full disk when it closes a file, Python does
    not.

    Args:
        path: the file to make.
        driver: GDAL's name of the format.
        stored: (band, row, col).
        encoding: where scale, offset and nodata come from.
        options: GDAL's creation options.
    """
    from rasterio.io import MemoryFile

    count, height, width = stored.shape
    nodata = encoding.nodata
    if nodata is not None and stored.dtype.kind in "ui":
        info = np.iinfo(stored.dtype)
        # A value that the type cannot hold marks no voxel, and GDAL refuses it.
        nodata = nodata if nodata.is_integer() and info.min <= nodata <= info.max else None
    profile = {"count": count, "height": height, "width": width, "dtype": stored.dtype}
    with quiet(), MemoryFile() as memory:
        with memory.open(driver=driver, nodata=nodata, **profile, **options) as picture:
            picture.write(stored)
            if encoding.scale != 1.0 or encoding.offset != 0.0:
                picture.scales = [encoding.scale] * count
                picture.offsets = [encoding.offset] * count
        with open(path, "wb") as file:
            file.write(memory.getbuffer())
