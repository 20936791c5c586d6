"""Cubes read window by window, without holding them in memory.

Readers may be read from several threads and pickled (they are opened again).

Words in ``metadata`` that several formats share (all values are plain: text, numbers, tuples and
dicts of them): ``fwhm`` (nm per band), ``band_names``, ``crs`` (WKT), ``transform`` (a, b, c, d, e,
f: x = a col + b row + c, y = d col + e row + f), ``gcps`` and ``gcps_crs``, ``tags`` and
``band_tags`` (GDAL's, by domain), ``envi`` (every key of an ENVI header), ``attributes`` (HDF5 and
Zarr), ``band_scales`` and ``band_offsets`` (where bands differ), ``notes`` (what the reader
assumed), ``nodata_from`` (who said what nodata is).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..cube import AXES, Cube, Encoding, Metadata, decode, to_nanometres
from ..errors import BadFile, BadInput
from .checks import check_memory, check_promise, count_bytes

BLOCK = 2**24
"""Numbers that are decoded at a time when a whole cube is read; from a mapped file a 32nd part."""

Bands = slice | Sequence[int] | None
Index = slice | list[int]
Stored: TypeAlias = NDArray[np.generic]
"""Numbers as a file stores them."""
ReadWindow = Callable[[Index, slice, slice], Stored]
"""Reads stored numbers: (bands, rows, columns) -> array (band, row, col)."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file (see :func:`hyperdlw.io.open_cube`)."""

    key: str | None = None
    axes: str | None = None
    nodata: float | None = None
    shape: str | None = None


@dataclass
class FileFacts:
    """What a file says about its cube beside shape and type: ``value = stored * scale + offset``.

    Attributes:
        nodata: the stored value that means "no measurement", maybe NaN; None if there is none.
        nodata_from: the place in the file that says so.
        notes: what the reader assumed or left out.
    """

    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    nodata_from: str = ""
    wavelengths: NDArray[np.float64] | None = None
    good_bands: NDArray[np.bool_] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def set_spectrum(
        self,
        centres: Sequence[str] | None,
        units: str | None,
        widths: Sequence[str] | None,
        width_units: str | None = None,
    ) -> None:
        """Take wavelengths and widths from numbers as the file writes them, and its units."""
        waves = None if not centres else to_nanometres(centres, units, self.notes)
        self.wavelengths = waves
        if not widths:
            return
        units = width_units or units
        if units is None and waves is not None and centres:
            # Without a unit the widths are in that of the wavelengths, however small they are.
            units = "um" if float(centres[0]) != waves[0] else "nm"
        fwhm = to_nanometres(widths, units, self.notes, "fwhm")
        if fwhm is not None:
            self.metadata["fwhm"] = tuple(fwhm.tolist())

    def set_scales(self, scales: Sequence[float], offsets: Sequence[float]) -> None:
        """Take the scale and offset of every band, as metadata where bands differ."""
        if len(set(zip(scales, offsets, strict=True))) == 1 and scales[0] != 0.0:
            self.scale, self.offset = scales[0], offsets[0]
            return
        self.metadata |= {"band_scales": tuple(scales), "band_offsets": tuple(offsets)}
        self.notes.append("scale and offset differ between bands and were not used")


class Described(Protocol):
    """What a cube and a cube file both know: everything but the numbers."""

    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def bands(self) -> int: ...
    @property
    def wavelengths(self) -> NDArray[np.float64] | None: ...
    @property
    def good_bands(self) -> NDArray[np.bool_]: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def metadata(self) -> Metadata: ...


@dataclass(eq=False)
class CubeReader:
    """A cube on disk of which only the header has been read.

    Attributes:
        path: the file as the user named it.
        shape: (bands, rows, columns).
        encoding: how numbers are stored (type, axes, scale, offset, nodata, format, variable).
        wavelengths: nanometres per band, or None.
        good_bands: bool per band.
        metadata: see the top of this module.
        lazy: whether ``read`` touches only the window that is asked for; png, npz and MATLAB are
            read whole at the first ``read``.
        plain: whether numbers lie in the file as they are, so that small windows cost nothing extra;
            packed ones are unpacked by the chunk.
    """

    path: Path
    shape: tuple[int, int, int]
    encoding: Encoding
    window: ReadWindow = field(repr=False)
    wavelengths: NDArray[np.float64] | None = None
    good_bands: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, bool))
    metadata: Metadata = field(default_factory=dict)
    lazy: bool = True
    plain: bool = False
    stored_bytes: int | None = field(default=None, repr=False)
    """Bytes on disk behind the numbers, if the format may promise more than it holds."""
    closing: Callable[[], None] | None = field(default=None, repr=False)
    reopening: tuple[str, ReadOptions] | None = field(default=None, repr=False)
    """Where the file is and how it was opened, for other processes."""

    def __post_init__(self) -> None:
        if self.good_bands.size == 0:
            self.good_bands = np.ones(self.shape[0], bool)

    @property
    def bands(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the stored numbers."""
        return np.dtype(self.encoding.dtype)

    @property
    def nodata(self) -> float | None:
        """The stored value that means "not measured"."""
        return self.encoding.nodata

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader assumed or left out."""
        return tuple(self.metadata.get("notes", ()))

    def read_stored(
        self, rows: slice = slice(None), cols: slice = slice(None), bands: Bands = None
    ) -> Stored:
        """The numbers of a window as they are stored, (band, row, col)."""
        which = clip_window(self.shape, rows, cols, bands)
        self._check_promise()
        return np.asarray(self.window(*which))

    def _check_promise(self) -> None:
        if self.stored_bytes is not None:
            promised = count_bytes(self.shape, self.encoding.dtype)
            check_promise(self.path, promised, self.stored_bytes)

    def read_inexact(self, rows: slice) -> Stored | None:
        """Rows as they are stored, if float32 does not hold them exactly."""
        return None if self.encoding.exact else self.read_stored(rows)

    def read(
        self, rows: slice = slice(None), cols: slice = slice(None), bands: Bands = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The values of a window and where they are measurements, both (band, row, col).

        Args:
            rows, cols: slices without a step; beyond the image they are cut as Python cuts them.
            bands: band numbers from 0 or a slice; None for all.
        """
        values, valid = decode(self.read_stored(rows, cols, bands), self.encoding)
        return np.ascontiguousarray(values), np.ascontiguousarray(valid)

    def read_cube(self) -> Cube:
        """The whole cube in memory."""
        self._check_promise()
        if self.lazy:  # the others compare with the size of their file when they load
            check_memory(self.path, self.shape)
        stored = None
        if not self.encoding.exact:
            stored = np.empty(self.shape, self.dtype) if self.lazy else self.read_stored()
        values, valid = self._gather(stored) if self.lazy else self.read()
        return Cube(
            values,
            valid,
            self.wavelengths,
            self.good_bands,
            self.encoding,
            dict(self.metadata),
            None if stored is None else (self.encoding, stored),
        )

    def _gather(self, kept: Stored | None) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Everything, in blocks along the first stored axis: little more memory than the cube takes.

        ``kept`` is filled with the numbers as they are stored.
        """
        axis = AXES.index(self.encoding.axes[0])
        values, valid = np.empty(self.shape, np.float32), np.empty(self.shape, bool)
        block = BLOCK // 32 if self.plain else BLOCK
        step = max(1, block * self.shape[axis] // max(1, values.size))
        for first in range(0, self.shape[axis], step):
            at = tuple(slice(first, first + step) if k == axis else slice(None) for k in range(3))
            bands, rows, cols = at
            stored = self.read_stored(rows, cols, bands)
            values[at], valid[at] = decode(stored, self.encoding)
            if kept is not None:
                kept[at] = stored
        return values, valid

    def close(self) -> None:
        if self.closing is not None:
            self.closing()
            self.closing = None

    def __enter__(self) -> CubeReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[str, ReadOptions], CubeReader], tuple[object, ...]]:
        if self.reopening is None:
            raise BadInput(f"{self.path} was not opened by open_reader, so it cannot be sent away")
        return _reopen, self.reopening


def _reopen(path: str, options: ReadOptions) -> CubeReader:
    from .files import open_reader

    return open_reader(path, **vars(options))


def build_reader(
    path: Path,
    shape: tuple[int, int, int],
    stored: Encoding,
    window: ReadWindow,
    facts: FileFacts,
    options: ReadOptions,
) -> CubeReader:
    """A reader from what a file says; the user's nodata value wins over the file's.

    ``stored`` says type, axes, format and variable. NaN as nodata is invalid by itself and equal to
    nothing: it is only remembered for an output.
    """
    metadata = {**facts.metadata, "notes": tuple(facts.notes)}
    nodata = facts.nodata if options.nodata is None else options.nodata
    nodata = None if nodata is None or math.isnan(nodata) else nodata
    if options.nodata is not None:
        metadata["nodata_from"] = "given by you"
        metadata.pop("nodata_is_nan", None)
    elif facts.nodata is not None:
        metadata["nodata_from"] = facts.nodata_from
        if nodata is None:
            metadata["nodata_is_nan"] = True
    encoding = replace(stored, scale=facts.scale, offset=facts.offset, nodata=nodata)
    good = np.ones(0, bool) if facts.good_bands is None else facts.good_bands
    return CubeReader(path, shape, encoding, window, facts.wavelengths, good, metadata)


def load_windows(load: Callable[[], Stored]) -> ReadWindow:
    """A window function for a format that is read whole, (band, row, col), at the first window."""
    held: list[Stored] = []
    lock = threading.Lock()

    def window(bands: Index, rows: slice, cols: slice) -> Stored:
        with lock:
            if not held:
                held.append(load())
        return held[0][bands, rows, cols]

    return window


def map_windows(
    path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], axes: str
) -> ReadWindow:
    """A window function for numbers that lie in a file as they are, (C order, ``axes``).

    Read and not mapped: a file that is cut short while it is mapped ends the process, and pages that
    are mapped count as memory in use.
    """
    order = tuple(axes.index(a) for a in AXES)
    row = count_bytes(shape[2:], dtype.str)

    def window(bands: Index, rows: slice, cols: slice) -> Stored:
        cut = {"b": bands, "r": rows, "c": cols}
        first, second, third = (_list_indices(cut[a]) for a in axes)
        found = np.empty((len(first), len(second), len(third)), dtype)
        if found.size:
            # Of every outer index what lies between the first and the last index of the middle axis.
            low, high = min(second), max(second) + 1
            held = np.empty((high - low, shape[2]), dtype)
            middle, inner = (_as_slice(i) for i in ([k - low for k in second], third))
            with open(path, "rb", buffering=0) as file:
                for k, i in enumerate(first):
                    file.seek(offset + (i * shape[1] + low) * row)
                    _fill(file, held, path)
                    found[k] = held[middle][:, inner]
        return np.ascontiguousarray(found.transpose(order), dtype.newbyteorder("="))

    return window


def _list_indices(cut: Index) -> Sequence[int]:
    return range(cut.start, cut.stop) if isinstance(cut, slice) else cut


def _as_slice(indices: Sequence[int]) -> Index:
    """A slice where indices follow each other: it copies nothing."""
    start, stop = indices[0], indices[-1] + 1
    return slice(start, stop) if list(indices) == list(range(start, stop)) else list(indices)


def _fill(file: IO[bytes], array: Stored, path: Path) -> None:
    """Fill an array with what follows in a file."""
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        count = file.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise BadFile(
                f"{path} was cut short while it was read; nothing was written: get a fresh copy"
            )
        rest = rest[count:]


def clip_window(
    shape: tuple[int, int, int], rows: slice, cols: slice, bands: Bands
) -> tuple[Index, slice, slice]:
    """The window with explicit limits inside the image."""
    cuts = []
    for name, cut, length in (("rows", rows, shape[1]), ("cols", cols, shape[2])):
        start, stop, step = cut.indices(length)
        if step != 1:
            raise BadInput(f"{name} of a window go one by one, not in steps of {step}")
        cuts.append(slice(start, max(start, stop)))
    if bands is None:
        bands = slice(None)
    if isinstance(bands, slice):
        start, stop, step = bands.indices(shape[0])
        if step == 1:
            return slice(start, max(start, stop)), cuts[0], cuts[1]
        bands = range(start, stop, step)
    chosen = [int(b) for b in bands]
    wrong = [b for b in chosen if not 0 <= b < shape[0]]
    if wrong:
        raise BadInput(f"there is no band {wrong[0]}; bands are numbered 0 to {shape[0] - 1}")
    return chosen, cuts[0], cuts[1]


def cut_windows(
    shape: tuple[int, int, int], itemsize: int, tile: tuple[int, int], most: int = 2**26
) -> Iterator[tuple[slice, slice]]:
    """Windows of whole tiles that cover an image, each of at most ``most`` bytes or one tile."""
    bands, rows, cols = shape
    height, width = (min(t, n) for t, n in zip(tile, (rows, cols), strict=True))
    wide = width * max(1, most // max(1, bands * height * width * itemsize))
    high = height
    if wide >= cols:
        high = height * max(1, most // max(1, bands * height * cols * itemsize))
    for r in range(0, rows, high):
        for c in range(0, cols, wide):
            yield slice(r, min(r + high, rows)), slice(c, min(c + wide, cols))
