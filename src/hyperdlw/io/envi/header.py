"""The text of ENVI headers: a tolerant reader, a writer, and the words of both.

A header is ``ENVI`` and then lines ``key = value``, where a value in braces may run over several
lines. Keys are compared in lower case with single blanks. Every value stays text here, so that what
hyperdlw does not know is written back as it came.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadFile
from ..checks import reading
from ..metadata import scaled

NAME = "envi"
TYPES = {1: "uint8", 2: "int16", 3: "int32", 4: "float32", 5: "float64"}
TYPES |= {12: "uint16", 13: "uint32", 14: "int64", 15: "uint64"}
CODES = {name: code for code, name in TYPES.items()}
COMPLEX = {6: "complex64", 9: "complex128"}
INTERLEAVE = {"bsq": "brc", "bil": "rbc", "bip": "rcb"}
LONGEST = 64 * 2**20
"""Bytes of a believable header: 100 000 bands with names and wavelengths are a few megabytes."""


def parse(path: Path, raw: bytes) -> tuple[dict[str, str], list[str]]:
    """Keys and values of a header as text (braces kept), and notes on lines that make no sense.

    >>> parse(Path("a.hdr"), b"ENVI\\nlines = 4\\nband names = {a,\\n b}\\n")
    ({'lines': '4', 'band names': '{a,\\n b}'}, [])
    """
    text = _decoded(raw.removeprefix(b"\xef\xbb\xbf"))
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
            first = number
            parts = [value]
            while number < len(lines):
                parts.append(lines[number])
                number += 1
                if "}" in parts[-1]:
                    break
            else:
                raise BadFile(
                    f"{path} opens a brace for '{_short(key)}' in line {first} and never closes "
                    "it; add the '}'"
                )
            value = "\n".join(parts).rstrip()
        found[key] = value
    return found, notes


def load(path: Path) -> tuple[dict[str, str], list[str]]:
    """Keys and values of a header file."""
    with reading(path):
        if path.stat().st_size > LONGEST:
            raise BadFile(f"{path} is over {LONGEST // 2**20} MB long, so it is no ENVI header")
        return parse(path, path.read_bytes())


def whole_number(
    path: Path, keys: Mapping[str, str], key: str, default: int | None, low: int, high: int
) -> int:
    """An integer of the header between two limits, or a sentence that names the key.

    Args:
        path: the header named in errors.
        keys: from :func:`parse`.
        default: for an absent key; None if it must be there.
        low, high: limits, both allowed.
    """
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
            f"{path} says '{key} = {_short(text)}', which is no whole number from {low} to {high}; "
            "correct the header"
        )
    return value


def number(text: str) -> float:
    """A number of a header, NaN for what is none."""
    try:
        return scaled(text.strip().strip("{}"), 0)
    except (ValueError, ArithmeticError):
        return math.nan


def number_type(name: str, big: int) -> np.dtype[Any]:
    """The type of the stored numbers, with the byte order that the header names."""
    return np.dtype(name).newbyteorder(">" if big else "<")


def items(value: str) -> list[str]:
    """The parts of a list in braces.

    >>> items("{ 1.0, 2.0,\\n 3.0 }")
    ['1.0', '2.0', '3.0']
    """
    inner = value.strip().removeprefix("{").split("}")[0]
    parts = [part.strip() for part in inner.split(",")]
    return parts[:-1] if parts[-1] == "" else parts


def braces(values: list[str]) -> str:
    """A list in braces, a few to a line (GDAL and ENVI both read lines of any length).

    >>> braces(["1", "2"])
    '{1, 2}'
    """
    return "{" + ",\n ".join(", ".join(values[i : i + 8]) for i in range(0, len(values), 8)) + "}"


def text(keys: Mapping[str, str]) -> bytes:
    """A header from its keys, in their order."""
    lines = ["ENVI", *(f"{key} = {value}" for key, value in keys.items())]
    return ("\n".join(lines) + "\n").encode()


def _decoded(raw: bytes) -> str:
    """Text without control characters, which no other format would take."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.translate(dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "?"))


def _short(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else "?" for c in text[:200]).split())
    return words if len(words) <= 40 else words[:37] + "..."
