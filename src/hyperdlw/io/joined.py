"""Two detectors, one spectrum: PRISMA's VNIR and SWIR arrays are read, cleaned and put back together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ..errors import BadFile
from .reader import CubeReader, Index, Stored
from .writer import WriteWindow

PAIR = ("VNIR_Cube", "SWIR_Cube")
PREFERRED = "HCO"
"""PRISMA's arrays whose pixels are those of both detectors."""
Places = tuple[tuple[int, int], ...]
"""Of every band, its array and its number there."""


def find_pair(names: Mapping[str, object], key: str | None) -> tuple[str, str] | None:
    """The two arrays that are one spectrum, if a file has them and no other key is asked for."""
    if key is not None:
        first, plus, second = key.partition("+")
        return (first, second) if plus and key not in names else None
    groups = [name.removesuffix(PAIR[0]) for name in names if name.endswith("/" + PAIR[0])]
    whole = [group for group in groups if group + PAIR[1] in names]
    best = [group for group in whole if PREFERRED in group] or whole
    return (best[0] + PAIR[0], best[0] + PAIR[1]) if len(best) == 1 else None


def join_readers(a: CubeReader, b: CubeReader) -> CubeReader:
    """One reader of the bands of both, by rising wavelength where that is known."""
    if (a.shape[1:], a.dtype) != (b.shape[1:], b.dtype):
        raise BadFile(
            f"{a.encoding.key} and {b.encoding.key} in {a.path} differ in size or type; "
            "choose one with --key"
        )
    places = [(0, i) for i in range(a.bands)] + [(1, i) for i in range(b.bands)]
    waves = None
    order = np.arange(len(places))
    if a.wavelengths is not None and b.wavelengths is not None:
        waves = np.concatenate([a.wavelengths, b.wavelengths])
        order = np.argsort(waves, kind="stable")
        waves = waves[order]
    joined: Places = tuple(places[i] for i in order)
    metadata = {**b.metadata, **a.metadata, "joined": joined}
    widths = [*a.metadata.get("fwhm", ()), *b.metadata.get("fwhm", ())]
    metadata.pop("fwhm", None)
    if len(widths) == len(order):
        metadata["fwhm"] = tuple(widths[i] for i in order)
    metadata["notes"] = (
        f"{a.encoding.key} and {b.encoding.key} were taken as one spectrum",
        *dict.fromkeys((*a.notes, *b.notes)),
    )
    kept = {a.encoding.key, b.encoding.key}
    metadata["siblings"] = tuple(n for n in a.metadata["siblings"] if n not in kept)
    shape = (len(joined), *a.shape[1:])

    def window(bands: Index, rows: slice, cols: slice) -> Stored:
        size = rows.stop - rows.start, cols.stop - cols.start
        chosen = list_bands(bands, len(joined))
        out = np.empty((len(chosen), *size), a.dtype)
        for part, numbers, at in split_bands(chosen, joined):
            out[at] = (a, b)[part].window(numbers, rows, cols)
        return out

    encoding = replace(a.encoding, key=f"{a.encoding.key}+{b.encoding.key}")
    good = np.concatenate([a.good_bands, b.good_bands])[order]
    return CubeReader(a.path, shape, encoding, window, waves, good, metadata)


def list_bands(bands: Index, count: int) -> list[int]:
    """The numbers of chosen bands among so many."""
    return list(range(count)[bands]) if isinstance(bands, slice) else bands


def split_bands(chosen: list[int], joined: Places) -> list[tuple[int, Index, list[int]]]:
    """Of each array its band numbers, rising, and where they stand among the chosen ones."""
    found: list[tuple[int, Index, list[int]]] = []
    for part in (0, 1):
        mine = sorted((joined[b][1], i) for i, b in enumerate(chosen) if joined[b][0] == part)
        numbers, at = [n for n, _ in mine], [i for _, i in mine]
        if not numbers:
            continue
        run = numbers == list(range(numbers[0], numbers[-1] + 1))
        found.append((part, slice(numbers[0], numbers[-1] + 1) if run else numbers, at))
    return found


def fill_both(open_part: Callable[[str], WriteWindow], key: str, joined: Places) -> WriteWindow:
    """The way back: windows are put into both arrays."""
    pens = [open_part(name) for name in key.split("+")]

    def put(bands: Index, rows: slice, cols: slice, stored: Stored) -> None:
        for part, numbers, at in split_bands(list_bands(bands, len(joined)), joined):
            pens[part](numbers, rows, cols, stored[at])

    return put
