"""The text of ENVI headers: a tolerant reader, a writer, the words of both, and map coordinates.

A header is ``ENVI`` and then lines ``key = value``, where a value in braces may run over several
lines. Keys are compared in lower case with single blanks. Every value stays text here, so that what
hyperdlw does not know is written back as it came. ``map info`` becomes a coordinate system and back
through GDAL.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...cube import Metadata, scale_decimal
from ...errors import BadFile
from ..checks import explain_errors

TYPES = {1: "uint8", 2: "int16", 3: "int32", 4: "float32", 5: "float64"}
TYPES |= {12: "uint16", 13: "uint32", 14: "int64", 15: "uint64"}
CODES = {name: code for code, name in TYPES.items()}
COMPLEX = {6: "complex64", 9: "complex128"}
INTERLEAVE = {"bsq": "brc", "bil": "rbc", "bip": "rcb"}
LONGEST = 64 * 2**20
"""Bytes of a believable header: 100 000 bands with names and wavelengths are a few megabytes."""


def parse_header(path: Path, raw: bytes) -> tuple[dict[str, str], list[str]]:
    """Keys and values of a header as text (braces kept), and notes on lines that make no sense.

    >>> parse_header(Path("a.hdr"), b"ENVI\\nlines = 4\\nband names = {a,\\n b}\\n")
    ({'lines': '4', 'band names': '{a,\\n b}'}, [])
    """
    text = _decode(raw.removeprefix(b"\xef\xbb\xbf"))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].strip().upper() != "ENVI":
        raise BadFile(f"{path} is not an ENVI header: its first line is not 'ENVI'; check the file")
    found: dict[str, str] = {}
    notes: list[str] = []
    number = 1
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        name, equals, value = line.partition("=")
        key = " ".join(name.split()).lower()
        if not equals or not key:
            if len(notes) < 3:
                notes.append(f"line {number} of the header has no '=' and was not used")
            continue
        value = value.strip()
        if value.startswith("{") and "}" not in value:
            end = next((i for i in range(number, len(lines)) if "}" in lines[i]), None)
            if end is None:
                where = f"'{_shorten(key)}' in line {number}"
                raise BadFile(f"{path} opens a brace for {where} and never closes it; add the '}}'")
            value = "\n".join([value, *lines[number : end + 1]]).rstrip()
            number = end + 1
        found[key] = value
    return found, notes


def load_header(path: Path) -> tuple[dict[str, str], list[str]]:
    """Keys and values of a header file."""
    with explain_errors(path):
        if path.stat().st_size > LONGEST:
            raise BadFile(f"{path} is over {LONGEST // 2**20} MB long, so it is no ENVI header")
        return parse_header(path, path.read_bytes())


def read_integer(
    path: Path, keys: Mapping[str, str], key: str, default: int | None, low: int, high: int
) -> int:
    """An integer of the header between two limits, or a sentence that names the key."""
    text = keys.get(key)
    if text is None:
        if default is None:
            raise BadFile(f"{path} has no '{key}'; it is no complete ENVI header: add the line")
        return default
    # int() of a million digits takes minutes; some programs write 100.0.
    match = re.fullmatch(r"([+-]?[0-9]{1,18})(\.0*)?", text.strip())
    value = int(match[1]) if match else None
    if value is None or not low <= value <= high:
        raise BadFile(
            f"{path} says '{key} = {_shorten(text)}', which is no whole number from {low} to {high}; "
            "correct the header"
        )
    return value


def read_number(text: str) -> float:
    """A number of a header, NaN for what is none."""
    try:
        return scale_decimal(text.strip().strip("{}"), 0)
    except (ValueError, ArithmeticError):
        return math.nan


def split_list(value: str) -> list[str]:
    """The parts of a list in braces."""
    inner = value.strip().removeprefix("{").split("}")[0]
    parts = [part.strip() for part in inner.split(",")]
    return parts[:-1] if parts[-1] == "" else parts


def format_list(values: list[str]) -> str:
    """A list in braces, a few to a line (GDAL and ENVI both read lines of any length)."""
    return "{" + ",\n ".join(", ".join(values[i : i + 8]) for i in range(0, len(values), 8)) + "}"


def format_header(keys: Mapping[str, str]) -> bytes:
    """A header from its keys, in their order."""
    lines = ["ENVI", *(f"{key} = {value}" for key, value in keys.items())]
    return ("\n".join(lines) + "\n").encode()


def _decode(raw: bytes) -> str:
    """Text without control characters, which no other format would take."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.translate(dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "?"))


def _shorten(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else "?" for c in text[:200]).split())
    return words if len(words) <= 40 else words[:37] + "..."


def read_place(keys: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    """``crs`` and ``transform`` of ``map info`` and ``coordinate system string``."""
    said = {k: keys[k] for k in ("map info", "coordinate system string") if k in keys}
    if not said:
        return {}
    import rasterio

    from ..pictures import silence_gdal

    tiny = {"samples": "8", "lines": "8", "bands": "1", "header offset": "0", "data type": "1"}
    tiny |= {"interleave": "bsq", "byte order": "0", "file type": "ENVI Standard"}
    found: dict[str, object] = {}
    try:
        with tempfile.TemporaryDirectory() as folder, silence_gdal():
            Path(folder, "x.img").write_bytes(bytes(64))  # GDAL looks at no smaller file
            Path(folder, "x.hdr").write_bytes(format_header(tiny | said))
            with rasterio.open(Path(folder, "x.img"), driver="ENVI") as picture:
                if not picture.transform.is_identity:
                    found["transform"] = tuple(v + 0.0 for v in picture.transform[:6])  # no -0
                if picture.crs:
                    found["crs"] = picture.crs.to_wkt()
    except Exception:  # GDAL raises several kinds; the cube can be used without a map
        found = {}
    if not found:
        notes.append("'map info' could not be understood; it is kept as it is")
    return found


def make_place_keys(metadata: Metadata) -> dict[str, str]:
    """``map info`` and ``coordinate system string`` of ``crs`` and ``transform``."""
    place = {k: metadata[k] for k in ("transform", "crs") if k in metadata}
    if not place:
        return {}
    import rasterio

    from ..pictures import silence_gdal

    if "transform" in place:
        place["transform"] = rasterio.Affine(*place["transform"])
    profile = {"count": 1, "height": 1, "width": 1, "dtype": "uint8"}
    with tempfile.TemporaryDirectory() as folder, silence_gdal():
        file = Path(folder, "x.img")
        try:
            with rasterio.open(file, "w", driver="ENVI", **profile, **place):
                pass
            keys, _ = load_header(file.with_suffix(".hdr"))
        except Exception:  # a coordinate system that ENVI has no words for
            return {}
    words = ("map info", "projection info", "coordinate system string")
    return {word: keys[word] for word in words if word in keys}
