"""TIFF files of many pages, each page a band: OME-TIFF, ImageJ stacks, pages of any program.

An output is a copy of the file with other numbers, if these lie in it as they are; packed pages are
written anew, with the description of the first.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile, unknown_name
from .checks import check_cube, check_promise, count_bytes, explain_errors
from .formats import FLOATS, INTEGERS, Format
from .named_arrays import SeveralCubes, Variable
from .pictures import silence_gdal
from .reader import (
    CubeReader,
    Described,
    FileFacts,
    ReadOptions,
    Stored,
    build_reader,
    load_windows,
)

if TYPE_CHECKING:
    from rasterio.io import DatasetReader

DESCRIPTION = "TIFFTAG_IMAGEDESCRIPTION"
MOST = 5000
"""Pages of a believable file."""
REDUCED = 1 | 4
"""Bits of a page that is an overview or a mask."""


class TiffPages(Format):
    """One band per page; several cubes (times, depths) are chosen by number with ``--key``."""

    name = "tiff-pages"
    suffixes = (".tif", ".tiff")
    has_keys = True
    copies_input = True
    dtypes = INTEGERS | FLOATS
    holds = frozenset({"wavelengths"})

    def recognise(self, path: Path, head: bytes) -> bool:
        return is_tiff(head) and has_pages(path)

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        stack = read_stack(path)
        shape = (len(stack.cubes[0]), *stack.shape)
        return {str(i): Variable(shape, stack.dtype) for i in range(len(stack.cubes))}

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        stack = read_stack(path)
        many = len(stack.cubes)
        names = [str(i) for i in range(many)]
        if options.key is not None and options.key not in names:
            raise unknown_name(f"cube in {path}", options.key, names)
        if options.key is None and many > 1:
            raise SeveralCubes(
                f"{path} holds {many} cubes of {len(stack.cubes[0])} bands (times or depths); "
                f"'hyperdlw denoise' cleans them all, --key 0 to --key {many - 1} chooses one",
                tuple(names),
            )
        key = options.key or "0"
        pages = stack.cubes[int(key)]
        shape = (len(pages), *stack.shape)
        facts = FileFacts(notes=stack.notes)
        facts.metadata = {"tags": {"": {DESCRIPTION: stack.text}}} if stack.text else {}
        centres = re.findall(r'EmissionWavelength="([0-9.]+)"', stack.text)
        if len(centres) == len(pages):
            facts.set_spectrum(centres, "nm", None)
        window = load_windows(lambda: _read_pages(path, pages))
        encoding = Encoding(stack.dtype, AXES, format=self.name, key=key)
        made = build_reader(path, shape, encoding, window, facts, options)
        made.lazy = False
        return made

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        stack = read_stack(original)
        pages = dict(zip(stack.cubes[int(encoding.key or 0)], stored, strict=True))
        every = sorted(itertools.chain(*stack.cubes))
        blocks = {page: _find_blocks(original, page) for page in pages}
        if any(found is None for found in blocks.values()):
            rest = (pages.get(page, _read_pages(original, (page,))[0]) for page in every)
            _write_pages(path, rest, stack)
            return
        shutil.copyfile(original, path)
        with open(path, "rb+") as file:
            order = ">" if file.read(2) == b"MM" else "<"
            for page, band in pages.items():
                raw = band.astype(band.dtype.newbyteorder("S") if order == ">" else band.dtype)
                for row, height, offset in blocks[page] or ():
                    file.seek(offset)
                    file.write(raw[row : row + height].tobytes())

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        text = cube.metadata.get("tags", {}).get("", {}).get(DESCRIPTION, "")
        _write_pages(path, stored, Stack((), cube.shape[1:], encoding.dtype, text, "", []))


def is_tiff(head: bytes) -> bool:
    """Whether a file starts as a TIFF or a BigTIFF does, in either byte order."""
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def has_pages(path: Path) -> bool:
    """Whether a TIFF has a second page that is no overview or mask."""
    with suppress(OSError, struct.error, ValueError, OverflowError), open(path, "rb") as file:
        kinds = list(itertools.islice(_walk_pages(file), 2))
        return len(kinds) == 2 and not kinds[1] & REDUCED
    return False


@dataclass(frozen=True)
class Stack:
    """The pages (numbers from 1) of every cube, and what they share."""

    cubes: tuple[tuple[int, ...], ...]
    shape: tuple[int, int]
    dtype: str
    text: str
    packing: str
    notes: list[str]


def read_stack(path: Path) -> Stack:
    """The pages that are as large as the first one, ordered into cubes."""
    with open(path, "rb") as file, explain_errors(path):
        count = sum(1 for _ in itertools.islice(_walk_pages(file), MOST + 1))
    if count > MOST:
        raise BadFile(f"{path} has over {MOST} pages; cut out the bands that matter")
    notes: list[str] = []
    with _open_page(path, 1) as first:
        shape, dtype = (first.height, first.width), first.dtypes[0]
        text = first.tags().get(DESCRIPTION, "")
        packing = first.tags(ns="IMAGE_STRUCTURE").get("COMPRESSION", "")
        if first.count != 1:
            raise BadFile(f"{path} has pages of {first.count} channels; save one band per page")
    pages = []
    for page in range(1, count + 1):
        with _open_page(path, page) as other:
            if (other.height, other.width, other.count, other.dtypes[0]) == (*shape, 1, dtype):
                pages.append(page)
    if len(pages) < count:
        notes.append(f"{count - len(pages)} pages of another size or type were left out")
    check_cube(path, (len(pages), *shape), dtype)
    promised = count_bytes((len(pages), *shape), dtype)
    check_promise(path, promised, path.stat().st_size)
    return Stack(_split_pages(pages, _read_sizes(text)), shape, dtype, text, packing, notes)


def _read_sizes(text: str) -> list[tuple[str, int]]:
    """Channels, depths and times (C, Z, T) of OME or ImageJ, the fastest first."""
    if "<OME" in text:
        found = dict(re.findall(r'Size([CZT])="([0-9]{1,6})"', text))
        order = re.search(r'DimensionOrder="XY([CZT]{3})"', text)
        return [(a, int(found.get(a, 1))) for a in (order[1] if order else "CZT")]
    if text.startswith("ImageJ="):
        words = dict(re.findall(r"^(channels|slices|frames)=([0-9]{1,6})", text, re.M))
        names = (("C", "channels"), ("Z", "slices"), ("T", "frames"))
        return [(a, int(words.get(word, 1))) for a, word in names]
    return []


def _split_pages(pages: list[int], sizes: list[tuple[str, int]]) -> tuple[tuple[int, ...], ...]:
    """Pages by cube: the bands are the channels, or else the depths, or else the times."""
    if math.prod(n for _, n in sizes) != len(pages) or not sizes:
        return (tuple(pages),)
    grid = np.array(pages).reshape([n for _, n in reversed(sizes)])
    names = [a for a, _ in reversed(sizes)]
    long = [a for a in "CZT" if dict(sizes)[a] > 1] or ["C"]
    cubes = np.moveaxis(grid, names.index(long[0]), -1).reshape(-1, dict(sizes)[long[0]])
    return tuple(tuple(int(page) for page in cube) for cube in cubes)


def _walk_pages(file: IO[bytes]) -> Iterator[int]:
    """The kind (NewSubfileType) of every page; a chain that returns to itself is cut."""
    head = file.read(16)
    order = "<" if head[:2] == b"II" else ">"
    big = head[2:4] in (b"+\0", b"\0+")
    where = struct.unpack_from(order + ("Q" if big else "I"), head, 8 if big else 4)[0]
    size, count_as, offset_as = (20, "Q", "Q") if big else (12, "H", "I")
    seen: set[int] = set()
    while where and where not in seen:
        seen.add(where)
        file.seek(where)
        (count,) = struct.unpack(order + count_as, file.read(struct.calcsize(count_as)))
        raw = file.read(min(count, 4096) * size)
        kind = 0
        for entry in range(0, len(raw) - size + 1, size):
            if struct.unpack_from(order + "H", raw, entry)[0] == 254:
                kind = struct.unpack_from(order + "I", raw, entry + size - (8 if big else 4))[0]
        yield kind
        (where,) = struct.unpack(order + offset_as, file.read(struct.calcsize(offset_as)))


@contextmanager
def _open_page(path: Path, page: int) -> Iterator[DatasetReader]:
    import rasterio

    name = f"GTIFF_DIR:{page}:{path.absolute()}"
    with explain_errors(path), silence_gdal(), rasterio.open(name, driver="GTiff") as picture:
        yield picture


def _read_pages(path: Path, pages: tuple[int, ...]) -> Stored:
    bands = []
    for page in pages:
        with _open_page(path, page) as picture:
            bands.append(picture.read(1))
    return np.stack(bands)


def _find_blocks(path: Path, page: int) -> list[tuple[int, int, int]] | None:
    """First row, rows and place of every strip of a page, if its numbers lie there as they are."""
    with _open_page(path, page) as picture:
        height, width = picture.block_shapes[0]
        if picture.tags(ns="IMAGE_STRUCTURE").get("COMPRESSION") or width != picture.width:
            return None
        found = []
        for i, row in enumerate(range(0, picture.height, height)):
            place = picture.get_tag_item(f"BLOCK_OFFSET_0_{i}", "TIFF", bidx=1)
            if place is None:
                return None
            found.append((row, min(height, picture.height - row), int(place)))
        return found


def _write_pages(path: Path, bands: Iterator[Stored] | Stored, stack: Stack) -> None:
    import rasterio

    height, width = stack.shape
    profile = {"count": 1, "height": height, "width": width, "dtype": stack.dtype}
    profile |= {"compress": stack.packing} if stack.packing else {}
    for page, band in enumerate(bands):
        more = {"APPEND_SUBDATASET": "YES"} if page else {"BIGTIFF": "IF_SAFER"}
        with silence_gdal(), rasterio.open(path, "w", driver="GTiff", **profile, **more) as picture:
            picture.write(band, 1)
            if not page and stack.text:
                picture.update_tags(**{DESCRIPTION: stack.text})
