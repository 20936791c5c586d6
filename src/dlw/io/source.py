"""Cubes read and written window by window, without holding them in memory.

Reading::

    with open_source("scene.hdr") as source:         # reads the header only
        source.shape                                 # (bands, rows, columns)
        source.encoding, source.wavelengths, source.good_bands, source.nodata, source.metadata
        data, valid = source.read(slice(0, 64), slice(32, 96))         # float32, bool (b, r, c)
        data, valid = source.read(slice(0, 64), slice(None), bands=[3, 5])
        stored = source.read_stored(slice(0, 64), slice(None))         # the numbers in the file

Writing::

    with create("clean.hdr", source) as sink:        # the ending decides the format
        sink.write(slice(0, 64), slice(32, 96), data, valid)           # values, as read() gave them
        sink.write_stored(slice(64, 99), slice(None), stored)          # or the bare numbers
    sink.clipped                                     # voxels the type could not hold

Nothing has the output's name before the ``with`` block ends well; an exception inside it, or
``abort()``, leaves an older output as it was and nothing beside it. Windows may be written in any
order; what is never written is 0 (any value in a file that was there before is gone).
``source.lazy`` is False where a format has to be read whole (png, npz, MATLAB before 7.3): that
happens once, at the first ``read``. Sources may be read from several threads and pickled (they are
opened again); a sink may be written from several threads of one process.

Words in ``metadata`` that several formats share (all values are plain: text, numbers, tuples and
dicts of them): ``fwhm`` (nm per band), ``band_names``, ``crs`` (WKT), ``transform`` (a, b, c, d, e,
f: x = a col + b row + c, y = d col + e row + f), ``gcps`` and ``gcps_crs``, ``tags`` and
``band_tags`` (GDAL's, by domain), ``envi`` (every key of an ENVI header), ``attributes`` (HDF5 and
Zarr), ``band_scales`` and ``band_offsets`` (where bands differ), ``notes`` (what the reader
assumed), ``nodata_from`` (who said what nodata is).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..cube import AXES, Cube, Encoding, decode, encode
from ..errors import BadInput
from .guard import check_memory, check_promise, nbytes

Bands = slice | Sequence[int] | None
Index = slice | list[int]
Window = Callable[[Index, slice, slice], NDArray[Any]]
"""Reads stored numbers: (bands, rows, columns) -> array (band, row, col)."""
Put = Callable[[Index, slice, slice, NDArray[Any]], None]
"""Writes stored numbers: (bands, rows, columns, array (band, row, col))."""


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
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(eq=False)
class CubeFile:
    """A cube on disk of which only the header has been read.

    Attributes:
        path: the file as the user named it.
        shape: (bands, rows, columns).
        encoding: how numbers are stored (type, axes, scale, offset, nodata, format, variable).
        wavelengths: nanometres per band, or None.
        good_bands: bool per band.
        metadata: see the top of this module.
        lazy: whether ``read`` touches only the window that is asked for.
    """

    path: Path
    shape: tuple[int, int, int]
    encoding: Encoding
    window: Window = field(repr=False)
    wavelengths: NDArray[np.float64] | None = None
    good_bands: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, bool))
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = True
    stored_bytes: int | None = field(default=None, repr=False)
    """Bytes on disk behind the numbers, if the format may promise more than it holds."""
    closing: Callable[[], None] | None = field(default=None, repr=False)
    reopening: tuple[Any, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.good_bands.size == 0:
            self.good_bands = np.ones(self.shape[0], bool)

    @property
    def bands(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
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

    @property
    def nbytes(self) -> int:
        """Bytes of the stored numbers."""
        return nbytes(self.shape, self.encoding.dtype)

    def read_stored(
        self, rows: slice = slice(None), cols: slice = slice(None), bands: Bands = None
    ) -> NDArray[Any]:
        """The numbers of a window as they are stored, (band, row, col)."""
        which = _window(self.shape, rows, cols, bands)
        return np.asarray(self.window(*which))

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

    def cube(self) -> Cube:
        """The whole cube in memory."""
        if self.stored_bytes is not None:
            check_promise(self.path, self.nbytes, self.stored_bytes)
        if self.lazy:  # the others compare with the size of their file when they load
            check_memory(self.path, self.shape)
        values, valid = self.read()
        return Cube(
            values, valid, self.wavelengths, self.good_bands, self.encoding, dict(self.metadata)
        )

    def close(self) -> None:
        if self.closing is not None:
            self.closing()
            self.closing = None

    def __enter__(self) -> CubeFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        from . import open_source

        return _reopen, (open_source, *self.reopening)


def _reopen(opener: Callable[..., CubeFile], path: str, options: dict[str, Any]) -> CubeFile:
    return opener(path, **options)


def whole(load: Callable[[], NDArray[Any]]) -> Window:
    """A window function for a format that has to be read whole: once, at the first window.

    Args:
        load: reads everything as (band, row, col).
    """
    held: list[NDArray[Any]] = []
    lock = threading.Lock()

    def window(bands: Index, rows: slice, cols: slice) -> NDArray[Any]:
        with lock:
            if not held:
                held.append(load())
        return held[0][bands, rows, cols]

    return window


def mapped(
    path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], axes: str
) -> Window:
    """A window function for numbers that lie in a file as they are, (C order, ``axes``).

    The file is mapped anew for every window: pages that stay mapped would count as memory in use.
    """
    order = tuple(axes.index(a) for a in AXES)

    def window(bands: Index, rows: slice, cols: slice) -> NDArray[Any]:
        array: NDArray[Any] = np.memmap(path, dtype, "r", offset, shape)
        cut = array.transpose(order)[bands, rows, cols]
        return np.array(cut, dtype.newbyteorder("="))

    return window


@contextmanager
def mapped_writer(
    path: Path, head: bytes, shape: tuple[int, int, int], dtype: np.dtype[Any], axes: str
) -> Iterator[Put]:
    """A file of ``head`` and then the numbers in the order ``axes``, to be filled by windows."""
    stored_shape = tuple(shape[AXES.index(a)] for a in axes)
    order = tuple(axes.index(a) for a in AXES)
    lock = threading.Lock()
    with open(path, "wb") as file:
        file.write(head)
        file.flush()
        reserve(file, len(head) + nbytes(shape, dtype.str))

    def put(bands: Index, rows: slice, cols: slice, stored: NDArray[Any]) -> None:
        with lock:
            array: NDArray[Any] = np.memmap(path, dtype, "r+", len(head), stored_shape)
            array.transpose(order)[bands, rows, cols] = stored

    yield put


def reserve(file: IO[bytes], length: int) -> None:
    """Give a file its full length on the disk now: a mapped page on a full disk ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, length)
        return
    block = bytes(2**20)  # pragma: no cover
    for start in range(file.tell(), length, len(block)):  # pragma: no cover
        file.write(block[: length - start])


@dataclass(frozen=True)
class Pen:
    """What writes windows of an output; it can be sent to other processes if ``put`` can."""

    path: Path
    shape: tuple[int, int, int]
    encoding: Encoding
    put: Put

    def write(
        self,
        rows: slice,
        cols: slice,
        data: NDArray[Any],
        valid: NDArray[np.bool_] | None = None,
        bands: Bands = None,
    ) -> int:
        """Write values in physical units; returns how many were clipped to the type."""
        ok = np.isfinite(data) if valid is None else valid
        stored, clipped = encode(data, ok, self.encoding)
        self.write_stored(rows, cols, stored, bands)
        return clipped

    def write_stored(
        self, rows: slice, cols: slice, stored: NDArray[Any], bands: Bands = None
    ) -> None:
        """Write the bare numbers (band, row, col) of a window; their type must be the file's."""
        which = _window(self.shape, rows, cols, bands)
        expected = tuple(_length(i, n) for i, n in zip(which, self.shape, strict=True))
        if stored.shape != expected:
            raise BadInput(
                f"a window of (band, row, col) shape {expected} of {self.path} was given "
                f"numbers of shape {stored.shape}"
            )
        if np.dtype(stored.dtype).name != np.dtype(self.encoding.dtype).name:
            raise BadInput(f"{self.path} stores {self.encoding.dtype}, not {stored.dtype}")
        self.put(*which, stored)


class CubeWriter:
    """An output that is filled window by window (see :func:`create`).

    Attributes:
        path: the output.
        shape: (bands, rows, columns).
        encoding: how the numbers are stored.
        clipped: how many valid voxels were clipped to the type so far.
        tile: rows and columns that the file holds together: windows of whole tiles are fastest.
        pen: writes windows; what it clips is not counted here.
        shared: whether the pen may be sent to other processes, for windows of whole tiles.
    """

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int, int],
        encoding: Encoding,
        opening: AbstractContextManager[Put],
        tile: tuple[int, int] = (1, 1),
        shared: bool = False,
    ) -> None:
        self.path, self.shape, self.encoding, self.clipped = path, shape, encoding, 0
        self.tile, self.shared = tile, shared
        self._stack: ExitStack | None = ExitStack()
        self._lock = threading.Lock()
        self.pen = Pen(path, shape, encoding, self._stack.enter_context(opening))

    @property
    def bands(self) -> int:
        return self.shape[0]

    def write(
        self,
        rows: slice,
        cols: slice,
        data: NDArray[Any],
        valid: NDArray[np.bool_] | None = None,
        bands: Bands = None,
    ) -> None:
        """Write values (band, row, col) in physical units.

        Args:
            rows, cols, bands: the window, as for :meth:`CubeFile.read`.
            data: the values; stored through the encoding, rounded and clipped to the type.
            valid: False where the value is to be stored as it is; None for finite values.
        """
        self._check_open()
        clipped = self.pen.write(rows, cols, data, valid, bands)
        with self._lock:
            self.clipped += clipped

    def write_stored(
        self, rows: slice, cols: slice, stored: NDArray[Any], bands: Bands = None
    ) -> None:
        """Write the bare numbers (band, row, col) of a window; their type must be the file's."""
        self._check_open()
        self.pen.write_stored(rows, cols, stored, bands)

    def _check_open(self) -> None:
        if self._stack is None:
            raise BadInput(f"{self.path} is finished already; write to it before that")

    def finish(self) -> int:
        """Close the output and give it its name; returns the clipped voxels."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
        return self.clipped

    def abort(self) -> None:
        """Throw away what was written; an older output stays as it was."""
        stack, self._stack = self._stack, None
        if stack is not None:
            error = _Aborted()
            stack.__exit__(_Aborted, error, None)

    def __enter__(self) -> CubeWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(kind, error, trace)


class _Aborted(BaseException):
    """Unwinds the writers without being an error of theirs."""


def _window(
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


def _length(index: Index, count: int) -> int:
    return len(range(*index.indices(count))) if isinstance(index, slice) else len(index)


def windows(
    shape: tuple[int, int, int], itemsize: int, tile: tuple[int, int], most: int = 2**26
) -> Iterator[tuple[slice, slice]]:
    """Windows of whole tiles that cover an image, each of at most ``most`` bytes or one tile.

    Args:
        shape: (bands, rows, columns).
        itemsize: bytes of a number.
        tile: rows and columns that a file holds together.
        most: bytes of a window with all bands.

    >>> list(windows((2, 5, 3), 1, (2, 3), 12))[-1]
    (slice(4, 5, None), slice(0, 3, None))
    """
    bands, rows, cols = shape
    height, width = (min(t, n) for t, n in zip(tile, (rows, cols), strict=True))
    wide = width * max(1, most // max(1, bands * height * width * itemsize))
    high = height
    if wide >= cols:
        high = height * max(1, most // max(1, bands * height * cols * itemsize))
    for r in range(0, rows, high):
        for c in range(0, cols, wide):
            yield slice(r, min(r + high, rows)), slice(c, min(c + wide, cols))


def with_nodata(encoding: Encoding, metadata: dict[str, Any], nodata: float | None) -> Encoding:
    """The user's nodata value wins over the header's; who said it is kept for ``dlw info``."""
    if nodata is None:
        return encoding
    metadata["nodata_from"] = "given by you"
    metadata.pop("nodata_is_nan", None)
    return replace(encoding, nodata=None if np.isnan(nodata) else nodata)
