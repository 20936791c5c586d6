"""FITS: the first image of three axes of a file, as it lies there.

A file is a row of parts, each a header of 80-character cards and numbers, both in blocks of 2880 bytes. An
output is a copy of the input in which the numbers of that image are replaced; other FITS files are not
written. ``value = stored * BSCALE + BZERO``, BLANK is the stored value of what was not measured.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile
from .checks import check_cube, explain_errors
from .formats import Format
from .reader import CubeReader, FileFacts, ReadOptions, Stored, build_reader, map_windows

BLOCK, CARD = 2880, 80
MOST = 1000
"""Blocks of a believable header."""
TYPES = {8: "uint8", 16: "int16", 32: "int32", 64: "int64", -32: "float32", -64: "float64"}


class Fits(Format):
    """The axes are (band, row, col): the first one of FITS runs fastest."""

    name = "fits"
    suffixes = (".fits", ".fit", ".fts")
    copies_input = True
    read_only = True

    def recognise(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"SIMPLE  =")

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        image = find_image(path)
        dtype = np.dtype(image.dtype)
        check_cube(path, image.shape, dtype.name)
        encoding = Encoding(dtype.name, AXES, format=self.name)
        stored = dtype if dtype.itemsize == 1 else dtype.newbyteorder(">")
        window = map_windows(path, image.start, image.shape, stored, AXES)
        made = build_reader(path, image.shape, encoding, window, image.facts, options)
        made.plain = True
        return made

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        image = find_image(original)
        if image.dtype != encoding.dtype or image.shape != stored.shape:
            raise BadFile(f"{original} was changed while it was worked on; start again")
        shutil.copyfile(original, path)
        with open(path, "r+b") as file:
            file.seek(image.start)
            file.write(np.ascontiguousarray(stored, np.dtype(image.dtype).newbyteorder(">")).data)


@dataclass(frozen=True)
class Image:
    """Where the numbers of an image begin, and what its header says."""

    start: int
    shape: tuple[int, int, int]
    dtype: str
    facts: FileFacts


def find_image(path: Path) -> Image:
    """The first part of a file that has three axes longer than one."""
    seen = []
    for cards, start in _walk_parts(path):
        sizes = _list_sizes(cards)
        seen.append(" x ".join(map(str, sizes)) or "no image")
        kept = [n for n in sizes if n > 1] if len(sizes) > 3 else sizes
        image = cards.get("XTENSION", "IMAGE") == "IMAGE"
        dtype = TYPES.get(_whole(cards, "BITPIX", 0))
        if image and dtype and len(kept) == 3 and min(kept) > 0:
            shape = (kept[2], kept[1], kept[0])
            return Image(start, shape, dtype, _read_facts(cards, shape[0]))
    raise BadFile(
        f"{path} has no image of three axes (it has {', '.join(seen) or 'nothing'}); cut one cube out "
        "and save it"
    )


def _walk_parts(path: Path) -> Iterator[tuple[dict[str, str], int]]:
    """The cards of every part, and where its numbers begin."""
    held, at = path.stat().st_size, 0
    with explain_errors(path), open(path, "rb") as file:
        while at < held:
            cards, at = _read_cards(path, file.read, at)
            length = math.prod(_list_sizes(cards)) if _list_sizes(cards) else 0
            length = (length + _whole(cards, "PCOUNT", 0)) * _whole(cards, "GCOUNT", 1)
            length *= abs(_whole(cards, "BITPIX", 8)) // 8
            if length < 0 or at + length > held:
                raise BadFile(f"{path} is shorter than its header says; get a fresh copy")
            yield cards, at
            at += -(-length // BLOCK) * BLOCK
            file.seek(at)


def _read_cards(path: Path, read: object, at: int) -> tuple[dict[str, str], int]:
    """Keys and texts of a header, and where it ends."""
    assert callable(read)
    cards: dict[str, str] = {}
    for k in range(1, MOST):
        block: bytes = read(BLOCK)
        if len(block) < BLOCK:
            break
        for i in range(0, BLOCK, CARD):
            card = block[i : i + CARD].decode("latin-1")
            key = card[:8].strip()
            if key == "END":
                return cards, at + k * BLOCK
            if card[8:10] == "= ":
                cards.setdefault(key, _parse_value(card[10:]))
    raise BadFile(f"{path} has a header without an end; get a fresh copy")


def _parse_value(text: str) -> str:
    """The value of a card as text, without quotes and comment."""
    text = text.strip()
    if text.startswith("'"):
        return text[1:].partition("'")[0].strip()
    return text.partition("/")[0].strip()


def _whole(cards: dict[str, str], key: str, default: int) -> int:
    try:
        return int(cards.get(key, default))
    except ValueError:
        return default


def _number(cards: dict[str, str], key: str, default: float) -> float:
    try:
        found = float(cards.get(key, str(default)).replace("D", "E"))
    except ValueError:
        return default
    return found if math.isfinite(found) else default


def _list_sizes(cards: dict[str, str]) -> list[int]:
    count = min(999, _whole(cards, "NAXIS", 0))
    return [max(0, _whole(cards, f"NAXIS{i}", 0)) for i in range(1, count + 1)]


def _read_facts(cards: dict[str, str], bands: int) -> FileFacts:
    """Scale, nodata and the wavelengths of a linear spectral axis."""
    facts = FileFacts(_number(cards, "BSCALE", 1.0) or 1.0, _number(cards, "BZERO", 0.0))
    if "BLANK" in cards:
        facts.nodata, facts.nodata_from = _number(cards, "BLANK", 0.0), "the card BLANK"
    step = _number(cards, "CDELT3", _number(cards, "CD3_3", 0.0))
    units = cards.get("CUNIT3", "").lower()
    if cards.get("CTYPE3", "").upper().startswith(("WAVE", "AWAV", "LAMBDA")) and step:
        first = _number(cards, "CRVAL3", 0.0) - (_number(cards, "CRPIX3", 1.0) - 1) * step
        # FITS has metres where nothing is said.
        factor = {"": 1e9, "m": 1e9, "angstrom": 0.1}.get(units, 1.0)
        known = "nm" if units in ("", "m", "angstrom") else units
        centres = [f"{factor * (first + i * step):.9g}" for i in range(bands)]
        facts.set_spectrum(centres, known, None)
    return facts
