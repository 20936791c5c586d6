"""Pictures through GDAL, each channel a band: what PNG, JPEG and TIFF share, PNG, JPEG, and a folder
of gray PNG files, one per band (the layout of the CAVE scenes)."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..cube import AXES, Encoding
from ..errors import BadFile, OutputExists
from .checks import check_count, check_cube, check_promise, count_bytes, explain_errors
from .formats import Format
from .named_arrays import Variable
from .reader import (
    CubeReader,
    Described,
    FileFacts,
    Index,
    ReadOptions,
    ReadWindow,
    Stored,
    build_reader,
    load_windows,
)

if TYPE_CHECKING:
    from rasterio.io import DatasetReader

Describe: TypeAlias = "Callable[[DatasetReader, list[int], FileFacts], None]"
"""Adds what a picture says of its bands (numbers from 1) to the facts."""
CACHE = 64
"""Megabytes GDAL may keep of what it read and wrote; left to itself it takes a part of all memory."""


@contextmanager
def silence_gdal() -> Iterator[None]:
    """GDAL without side files and without the warning that a picture has no map coordinates."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings(), rasterio.Env(GDAL_PAM_ENABLED="NO", GDAL_CACHEMAX=CACHE):
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def open_gdal(path: Path, driver: str) -> Iterator[DatasetReader]:
    """An open picture whose size has been checked against its file."""
    import rasterio

    # Naming the driver keeps GDAL from trying its other hundred; a Path is never taken for a URL.
    with (
        explain_errors(path),
        silence_gdal(),
        rasterio.open(path.absolute(), driver=driver) as picture,
    ):
        if picture.subdatasets:
            raise BadFile(
                f"{path} has {len(picture.subdatasets)} pages; save it as one page with all bands"
            )
        shape = (picture.count, picture.height, picture.width)
        check_cube(path, shape, picture.dtypes[0])
        check_count(path, picture.count)
        held = path.stat().st_size
        check_promise(path, count_bytes(shape, picture.dtypes[0]), held)
        # GDAL unpacks whole blocks, as large as they say, those of pixels with all bands.
        together = picture.count if picture.profile.get("interleave") == "pixel" else 1
        block = count_bytes((together, *picture.block_shapes[0]), picture.dtypes[0])
        check_promise(f"a block of {path}", block, held)
        yield picture


def list_channels(path: Path, picture: DatasetReader) -> tuple[list[int], list[str]]:
    """Numbers of the channels that are bands, and a note for one that is not."""
    from rasterio.enums import ColorInterp

    kinds = picture.colorinterp
    bands = [i for i, kind in enumerate(kinds, 1) if kind != ColorInterp.alpha]
    if not bands:
        raise BadFile(f"{path} has nothing but an alpha channel; there is nothing to read")
    return bands, ["the alpha channel was dropped"] if len(bands) < len(kinds) else []


def read_palette(picture: DatasetReader) -> NDArray[np.uint8] | None:
    """Red, green and blue of every index of an indexed picture."""
    from rasterio.enums import ColorInterp

    if picture.count != 1 or picture.colorinterp[0] != ColorInterp.palette:
        return None
    table = np.zeros((np.iinfo(picture.dtypes[0]).max + 1, 3), np.uint8)
    for index, colour in picture.colormap(1).items():
        table[index] = colour[:3]
    return table


def _has_colours(picture: DatasetReader, bands: list[int]) -> bool:
    """Whether the bands are red, green and blue, by themselves or through a palette."""
    from rasterio.enums import ColorInterp

    kinds = tuple(picture.colorinterp[b - 1] for b in bands)
    colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
    return kinds in (colours, (ColorInterp.palette,))


def _read_windows(picture: DatasetReader, path: Path, bands: list[int]) -> ReadWindow:
    """Windows of an open picture."""
    from rasterio.windows import Window as Cut

    table = read_palette(picture)
    lock = threading.Lock()  # a GDAL dataset belongs to one thread at a time
    dtype = picture.dtypes[0] if table is None else "uint8"

    def window(index: Index, rows: slice, cols: slice) -> Stored:
        height, width = rows.stop - rows.start, cols.stop - cols.start
        count = len(bands) if table is None else 3
        chosen = list(range(count))[index] if isinstance(index, slice) else index
        if not (height and width and chosen):
            return np.zeros((len(chosen), height, width), dtype)
        cut = Cut(cols.start, rows.start, width, height)
        with lock, explain_errors(path), silence_gdal():
            if table is None:
                return np.asarray(picture.read([bands[b] for b in chosen], window=cut))
            colours = table[picture.read(1, window=cut)].transpose(2, 0, 1)
            return np.ascontiguousarray(colours[chosen])

    return window


def open_picture(
    path: Path, driver: str, format: str, options: ReadOptions, describe: Describe | None = None
) -> CubeReader:
    """Open a picture as a cube; ``driver`` is GDAL's name of the format.

    ``describe`` adds what else the format holds. A picture with it stays open and is read by
    windows; without, it is read whole.
    """
    with ExitStack() as stack:
        picture = stack.enter_context(open_gdal(path, driver))
        bands, notes = list_channels(path, picture)
        nodata = None if picture.nodata is None else float(picture.nodata)
        facts = FileFacts(nodata=nodata, nodata_from="the file's nodata tag", notes=notes)
        facts.set_scales(*([v[b - 1] for b in bands] for v in (picture.scales, picture.offsets)))
        if describe is not None:
            describe(picture, bands, facts)
        dtype, count = picture.dtypes[0], len(bands)
        if read_palette(picture) is not None:
            notes.append("the indexed colours were expanded to red, green and blue")
            dtype, count = "uint8", 3
            # Nodata was an index, and the rest was about one band.
            facts = FileFacts(facts.scale, facts.offset, notes=notes)
        if count == 3 and facts.wavelengths is None and _has_colours(picture, bands):
            facts.metadata["picture"] = True
        shape = (count, picture.height, picture.width)
        encoding = Encoding(dtype, AXES, format=format)
        keep = stack.pop_all() if describe is not None else None
        whole = load_windows(lambda: read_pixels(path, driver))
        window = _read_windows(picture, path, bands) if keep else whole
        made = build_reader(path, shape, encoding, window, facts, options)
        made.lazy, made.closing = keep is not None, keep.close if keep else None
    return made


def read_pixels(path: Path, driver: str) -> Stored:
    """All bands (band, row, col) of a picture."""
    with open_gdal(path, driver) as picture:
        bands, _ = list_channels(path, picture)
        everything = slice(None), slice(0, picture.height), slice(0, picture.width)
        return _read_windows(picture, path, bands)(*everything)


def fit_nodata(encoding: Encoding) -> float | None:
    """The nodata value, if the type can hold it: GDAL refuses one that marks no voxel."""
    nodata, dtype = encoding.nodata, np.dtype(encoding.dtype)
    if nodata is None or dtype.kind == "b" or (dtype.kind == "f" and not np.isfinite(nodata)):
        return nodata
    if dtype.kind == "f":
        return nodata if abs(nodata) <= float(np.finfo(dtype).max) else None
    info = np.iinfo(dtype)
    return nodata if nodata.is_integer() and info.min <= nodata <= info.max else None


def write_picture(path: Path, stored: Stored, driver: str = "PNG", **options: object) -> None:
    """Write bands (band, row, col).

    The picture is made in memory: GDAL overlooks a full disk when it closes a file, Python does not.
    """
    from rasterio.io import MemoryFile

    count, height, width = stored.shape
    profile = {"count": count, "height": height, "width": width, "dtype": stored.dtype}
    with silence_gdal(), MemoryFile() as memory:
        with memory.open(driver=driver, **profile, **options) as picture:
            picture.write(stored)
        with open(path, "wb") as file:
            file.write(memory.getbuffer())


class Png(Format):
    """One or three bands of 8 or 16 bits; scale and wavelengths have no place in a PNG."""

    name = "png"
    suffixes = (".png",)
    # Two and four channels would come back with the last one as transparency.
    band_counts = frozenset([1, 3])
    dtypes = frozenset(["uint8", "uint16"])

    def recognise(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"\x89PNG\r\n\x1a\n")

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        return open_picture(path, "PNG", self.name, options)

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        write_picture(path, stored)


class Jpeg(Format):
    """One or three bands of 8 bits, written with little loss; write .png for none."""

    name = "jpeg"
    suffixes = (".jpg", ".jpeg")
    band_counts = frozenset([1, 3])
    dtypes = frozenset(["uint8"])

    def recognise(self, path: Path, head: bytes) -> bool:
        return head[:3] == b"\xff\xd8\xff"

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        return open_picture(path, "JPEG", self.name, options)

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        write_picture(path, stored, "JPEG", QUALITY=95)


class PngFolder(Format):
    """A folder of gray PNG files, one per band, in the order of the numbers in their names."""

    name = "png-folder"
    optional_ending = True
    is_folder = True
    dtypes = frozenset(["uint8", "uint16"])

    def recognise(self, path: Path, head: bytes) -> bool:
        return path.is_dir()

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        files = list_bands(path)
        first = open_picture(files[0], "PNG", self.name, ReadOptions())
        shape = (len(files), *first.shape[1:])
        encoding = Encoding(first.encoding.dtype, AXES, format=self.name)
        facts = FileFacts(metadata={"files": tuple(file.name for file in files)})
        window = load_windows(lambda: read_bands(files))
        made = build_reader(path, shape, encoding, window, facts, options)
        made.lazy = False
        return made

    def check_place(self, path: Path, overwrite: bool) -> None:
        super().check_place(path, overwrite)
        if not path.is_dir():
            return
        with explain_errors(path):
            only_bands = all(
                entry.suffix.lower() == ".png" and entry.is_file() and not entry.is_symlink()
                for entry in path.iterdir()
            )
        if not only_bands:
            raise OutputExists(f"{path} holds other files than PNG bands; choose a new folder")

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        """Fill the folder, with the names the bands came with if there are as many."""
        names = [Path(name).name for name in cube.metadata.get("files", ())]
        if len(set(names)) != len(stored):
            digits = max(2, len(str(len(stored))))
            names = [f"band_{i:0{digits}d}.png" for i in range(1, len(stored) + 1)]
        for name, band in zip(names, stored, strict=True):
            write_picture(path / name, band[None])


def split_numbers(name: str) -> list[tuple[int, str]]:
    """A sort key that puts band 2 before band 10.

    >>> sorted(["ms_10.png", "ms_2.png", "ms_01.png"], key=split_numbers)
    ['ms_01.png', 'ms_2.png', 'ms_10.png']
    """
    # \\d alone also matches digits that int() reads but other alphabets mean otherwise.
    parts = re.split(r"([0-9]+)", name)
    return [(int(p), "") if i % 2 else (-1, p) for i, p in enumerate(parts)] + [(-1, name)]


def list_bands(path: Path) -> list[Path]:
    """The PNG files of a folder in band order; other and hidden files are passed over."""
    with explain_errors(path):
        files = [
            entry
            for entry in path.iterdir()
            if entry.suffix.lower() == ".png" and entry.name[0] != "." and entry.is_file()
        ]
    if not files:
        raise BadFile(f"{path} is a folder without PNG files; give the one that holds the bands")
    return sorted(files, key=lambda entry: split_numbers(entry.name))


def read_band(path: Path) -> Stored:
    """One band; a gray picture saved as colour (some CAVE scenes) still counts as one."""
    stored = read_pixels(path, "PNG")
    if any(not np.array_equal(stored[0], channel) for channel in stored[1:]):
        raise BadFile(f"{path} is a colour picture among gray bands; move it out of the folder")
    return np.asarray(stored[0])


def read_bands(files: list[Path]) -> Stored:
    """All bands (band, row, col), which must be alike."""
    bands = [read_band(file) for file in files]
    kinds = [str(Variable(band.shape, band.dtype.name)) for band in bands]
    odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)
    if odd is not None:
        raise BadFile(
            f"{files[odd]} is {kinds[odd]} but {files[0].name} is {kinds[0]}; "
            "all bands must be alike: move the odd one out of the folder"
        )
    return np.stack(bands)
