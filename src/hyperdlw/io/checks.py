"""Checks of sizes, memory and disk before work begins; damaged files become one sentence."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..errors import BadFile, DlwError, OutOfResources

MAX_RATIO = 200
"""Largest believable ratio of array to file size: real scenes compress less than tenfold."""
ALWAYS_FINE = 64 * 2**20
"""Bytes that may be allocated whatever the ratio (constant test images compress well)."""
MOST = 5_000
"""Variables, groups and attributes that are looked at; a file with more is no image."""
LONGEST = 2**22
"""Characters of a believable text, such as metadata in JSON."""


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn whatever a foreign parser raises on a damaged file into one BadFile sentence."""
    try:
        yield
    except DlwError:
        raise
    except PermissionError as error:
        raise BadFile(f"{path} may not be read by you; change its rights") from error
    except MemoryError as error:
        raise BadFile(f"{path} does not fit in memory; cut out a smaller part first") from error
    except Exception as error:
        # Parsers raise nearly anything on random bytes: ValueError, KeyError, zlib.error, ...
        text = "".join(c if c.isprintable() else " " for c in str(error))
        words = " ".join(text.split()) or type(error).__name__
        reason = words if len(words) <= 120 else words[:117] + "..."
        raise BadFile(f"{path} is damaged or incomplete ({reason}); get a fresh copy") from error


def count_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array, in whole numbers of any length."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def check_promise(what: object, promised: int, stored: int) -> None:
    """Refuse to allocate ``promised`` bytes for ``stored`` (maybe compressed) bytes of file."""
    if promised > max(ALWAYS_FINE, MAX_RATIO * stored):
        sizes = f"{format_size(promised)} but holds only {format_size(stored)}"
        raise BadFile(f"{what} promises {sizes}; get a fresh copy")


def check_count(path: Path, count: int) -> None:
    """Refuse to look at more than ``MOST`` objects: each takes time."""
    if count > MOST:
        raise BadFile(f"{path} holds over {MOST} objects; it is no image of hyperdlw's kind")


def check_text(what: object, length: int) -> None:
    """Refuse a text that is longer than any metadata."""
    if length > LONGEST:
        raise BadFile(f"{what} is a text of {length} characters, at most {LONGEST} are read")


def check_memory(what: object, shape: tuple[int, int, int]) -> None:
    """Refuse to hold a cube that the machine's memory cannot hold (float32 and a mask)."""
    needed = 5 * math.prod(shape)
    total = measure_memory()
    if total is not None and needed > total:
        bands, rows, cols = shape
        raise OutOfResources(
            f"{what} needs {format_size(needed)} in memory ({bands} bands x {rows} x {cols}) and this "
            f"machine has {format_size(total)}; cut out a smaller part first"
        )


def check_disk(folder: Path, what: object, needed: int) -> None:
    """Refuse to begin an output that the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        sizes = f"{format_size(needed)} and there are {format_size(free)}"
        raise OutOfResources(f"{what} needs {sizes} free; make room first")


def measure_memory() -> int | None:
    """Bytes of memory of this machine, if it can be told."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_cube(what: object, shape: tuple[int, ...], dtype: str) -> None:
    """Refuse what cannot be a cube before reading it; ``dtype`` may be a word for no number."""
    if dtype == "object":
        raise BadFile(
            f"{what} holds Python objects, which hyperdlw never unpickles; save a numeric array"
        )
    if not is_real(dtype):
        raise BadFile(f"{what} holds {dtype} data; a cube holds real numbers: convert it first")
    if len(shape) not in (2, 3):
        axes = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
        hint = "cut one out" if len(shape) > 3 else "reshape it"
        raise BadFile(f"{what} has {axes} {shape}; a cube has three: {hint} first")
    if any(n < 1 for n in shape):
        raise BadFile(f"{what} is empty, its shape is {shape}; there is nothing to read")


def is_real(dtype: str) -> bool:
    """Whether a type name is one of real numbers (bool, integer, float)."""
    try:
        return np.dtype(dtype).kind in "buif"
    except TypeError:
        return False


def format_size(count: int) -> str:
    """Bytes for people.

    >>> format_size(12), format_size(2_500_000)
    ('12 bytes', '2.5 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    power = min(3, (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"
