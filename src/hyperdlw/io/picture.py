"""What PNG, JPEG and TIFF share: pictures through GDAL, each channel a band."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from .checks import check_cube, check_promise, nbytes, reading
from .reader import CubeFile, Window, whole, with_nodata
from .windows import Index

AXES = "brc"
"""GDAL hands out and takes (band, row, col)."""


CACHE = 64
"""Megabytes GDAL may keep of what it read and wrote; left to itself it takes a part of all memory."""


@contextmanager
def quiet() -> Iterator[None]:
    """GDAL without side files and without the warning that a picture has no map coordinates."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings(), rasterio.Env(GDAL_PAM_ENABLED="NO", GDAL_CACHEMAX=CACHE):
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


def _facts(picture: Any, bands: list[int], notes: list[str]) -> dict[str, Any]:
    """Scale, offset and nodata, and metadata where bands differ."""
    metadata: dict[str, Any] = {}
    each = [(float(picture.scales[b - 1]), float(picture.offsets[b - 1])) for b in bands]
    scale, offset = each[0]
    if len(set(each)) > 1 or scale == 0.0:
        notes.append("scale and offset differ between bands and were not used")
        metadata["band_scales"] = tuple(s for s, _ in each)
        metadata["band_offsets"] = tuple(o for _, o in each)
        scale, offset = 1.0, 0.0
    nodata = picture.nodata
    if nodata is not None:
        metadata["nodata_from"] = "the file's nodata tag"
        if np.isnan(nodata):  # invalid by itself, and equal to nothing
            metadata["nodata_is_nan"] = True
            nodata = None
    nodata = None if nodata is None else float(nodata)
    return {"scale": scale, "offset": offset, "nodata": nodata, "metadata": metadata}


def _window(picture: Any, path: Path, bands: list[int]) -> Window:
    """Windows of an open picture."""
    from rasterio.windows import Window as Cut

    table = palette(picture)
    lock = threading.Lock()  # a GDAL dataset belongs to one thread at a time
    dtype = picture.dtypes[0] if table is None else "uint8"

    def window(index: Index, rows: slice, cols: slice) -> NDArray[Any]:
        height, width = rows.stop - rows.start, cols.stop - cols.start
        count = len(bands) if table is None else 3
        chosen = list(range(count))[index] if isinstance(index, slice) else index
        if not (height and width and chosen):
            return np.zeros((len(chosen), height, width), dtype)
        cut = Cut(cols.start, rows.start, width, height)
        with lock, reading(path), quiet():
            if table is None:
                return np.asarray(picture.read([bands[b] for b in chosen], window=cut))
            colours = table[picture.read(1, window=cut)].transpose(2, 0, 1)
            return np.ascontiguousarray(colours[chosen])

    return window


def open_picture(
    path: Path,
    driver: str,
    format: str,
    nodata: float | None,
    more: Callable[[Any, list[int], list[str]], dict[str, Any]] | None = None,
) -> CubeFile:
    """Open a picture as a cube.

    Args:
        path: the picture.
        driver: GDAL's name of the format.
        format: ours.
        nodata: as for :func:`hyperdlw.io.open_cube`.
        more: reads what else the format holds from the open picture: wavelengths, good_bands and
            metadata. A picture with it stays open and is read by windows; without, it is read whole.
    """
    stack = ExitStack()
    with stack:
        picture = stack.enter_context(opened(path, driver))
        bands, notes = channels(picture)
        if not bands:
            raise BadFile(f"{path} has nothing but an alpha channel; there is nothing to read")
        facts = _facts(picture, bands, notes)
        extra = more(picture, bands, notes) if more is not None else {}
        dtype, count = picture.dtypes[0], len(bands)
        if palette(picture) is not None:
            notes.append("the indexed colours were expanded to red, green and blue")
            dtype, count, facts["nodata"] = "uint8", 3, None  # it was an index
            facts["metadata"] = {}
            extra = {}  # about one band
        shape = (count, picture.height, picture.width)
        metadata = facts["metadata"] | extra.get("metadata", {}) | {"notes": tuple(notes)}
        encoding = with_nodata(
            Encoding(dtype, AXES, facts["scale"], facts["offset"], facts["nodata"], format=format),
            metadata,
            nodata,
        )
        keep = stack.pop_all() if more is not None else None
        window = _window(picture, path, bands) if keep else whole(lambda: pixels(path, driver))
        return CubeFile(
            path,
            shape,
            encoding,
            window,
            extra.get("wavelengths"),
            extra.get("good_bands", np.ones(0, bool)),
            metadata,
            lazy=keep is not None,
            closing=keep.close if keep else None,
        )


def pixels(path: Path, driver: str) -> NDArray[Any]:
    """All bands (band, row, col) of a picture.

    Args:
        path: the picture.
        driver: GDAL's name of the format.
    """
    with opened(path, driver) as picture:
        bands, _ = channels(picture)
        if not bands:
            raise BadFile(f"{path} has nothing but an alpha channel; there is nothing to read")
        everything = slice(None), slice(0, picture.height), slice(0, picture.width)
        return _window(picture, path, bands)(*everything)


def fitting_nodata(encoding: Encoding) -> float | None:
    """The nodata value, if the type can hold it: GDAL refuses one that marks no voxel."""
    nodata, dtype = encoding.nodata, np.dtype(encoding.dtype)
    if nodata is None or dtype.kind not in "ui":
        return nodata
    info = np.iinfo(dtype)
    return nodata if nodata.is_integer() and info.min <= nodata <= info.max else None


def write_picture(
    path: Path,
    driver: str,
    stored: NDArray[Any],
    nodata: float | None = None,
    prepare: Callable[[Any], None] | None = None,
    **options: Any,
) -> None:
    """Write bands, with what ``prepare`` says of them first.

    The picture is made in memory: GDAL overlooks a full disk when it closes a file, Python does
    not.

    Args:
        path: the file to make.
        driver: GDAL's name of the format.
        stored: (band, row, col).
        nodata: the value for GDAL's nodata tag.
        prepare: writes what the format holds beside the numbers.
        options: GDAL's creation options.
    """
    from rasterio.io import MemoryFile

    count, height, width = stored.shape
    profile = {"count": count, "height": height, "width": width, "dtype": stored.dtype}
    with quiet(), MemoryFile() as memory:
        with memory.open(driver=driver, nodata=nodata, **profile, **options) as picture:
            if prepare is not None:
                prepare(picture)
            picture.write(stored)
        with open(path, "wb") as file:
            file.write(memory.getbuffer())
