"""Outputs that are filled window by window, without holding them in memory.

Nothing has the output's name before the ``with`` block ends well; an exception inside it, or
``abort()``, leaves an older output as it was and nothing beside it. Windows may be written in any
order; what is never written is 0 (any value in a file that was there before is gone). A sink may be
written from several threads of one process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..cube import AXES, Encoding, encode
from ..errors import BadInput
from .checks import count_bytes
from .reader import Bands, Index, Stored, clip_window

WriteWindow = Callable[[Index, slice, slice, Stored], None]
"""Writes stored numbers: (bands, rows, columns, array (band, row, col))."""


@dataclass(frozen=True)
class WindowWriter:
    """What writes windows of an output; it can be sent to other processes if ``put`` can."""

    path: Path
    shape: tuple[int, int, int]
    encoding: Encoding
    put: WriteWindow

    def write(
        self,
        rows: slice,
        cols: slice,
        data: Stored,
        valid: NDArray[np.bool_] | None = None,
        bands: Bands = None,
        before: Stored | None = None,
    ) -> int:
        """Write values in physical units; returns how many were clipped to the type.

        ``before`` are the numbers the values came from (see :func:`hyperdlw.cube.encode`).
        """
        ok = np.isfinite(data) if valid is None else valid
        stored, clipped = encode(data, ok, self.encoding, before)
        self.write_stored(rows, cols, stored, bands)
        return clipped

    def write_stored(self, rows: slice, cols: slice, stored: Stored, bands: Bands = None) -> None:
        """Write the bare numbers (band, row, col) of a window; their type must be the file's."""
        which = clip_window(self.shape, rows, cols, bands)
        expected = tuple(i.stop - i.start if isinstance(i, slice) else len(i) for i in which)
        if stored.shape != expected:
            raise BadInput(
                f"a window of (band, row, col) shape {expected} of {self.path} was given "
                f"numbers of shape {stored.shape}"
            )
        if np.dtype(stored.dtype).name != np.dtype(self.encoding.dtype).name:
            raise BadInput(f"{self.path} stores {self.encoding.dtype}, not {stored.dtype}")
        self.put(*which, stored)


class CubeWriter:
    """An output that is filled window by window (see :func:`hyperdlw.io.open_writer`).

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
        opening: AbstractContextManager[WriteWindow],
        tile: tuple[int, int] = (1, 1),
        shared: bool = False,
    ) -> None:
        self.path, self.shape, self.encoding, self.clipped = path, shape, encoding, 0
        self.tile, self.shared = tile, shared
        self._stack: ExitStack | None = ExitStack()
        self._lock = threading.Lock()
        self.pen = WindowWriter(path, shape, encoding, self._stack.enter_context(opening))

    def write(
        self,
        rows: slice,
        cols: slice,
        data: Stored,
        valid: NDArray[np.bool_] | None = None,
        bands: Bands = None,
    ) -> None:
        """Write values (band, row, col) in physical units.

        Args:
            rows, cols, bands: the window, as for :meth:`hyperdlw.io.CubeReader.read`.
            data: the values; stored through the encoding, rounded and clipped to the type.
            valid: False where the value is to be stored as it is; None for finite values.
        """
        clipped = self._find_pen().write(rows, cols, data, valid, bands)
        with self._lock:
            self.clipped += clipped

    def write_stored(self, rows: slice, cols: slice, stored: Stored, bands: Bands = None) -> None:
        """Write the bare numbers (band, row, col) of a window; their type must be the file's."""
        self._find_pen().write_stored(rows, cols, stored, bands)

    def _find_pen(self) -> WindowWriter:
        if self._stack is None:
            raise BadInput(f"{self.path} is finished already; write to it before that")
        return self.pen

    def abort(self) -> None:
        """Throw away what was written; an older output stays as it was."""
        self.__exit__(_Aborted, _Aborted(), None)

    def __enter__(self) -> CubeWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*error)


class _Aborted(BaseException):
    """Unwinds the writers without being an error of theirs."""


@contextmanager
def write_mapped(
    path: Path, head: bytes, shape: tuple[int, int, int], dtype: np.dtype[np.generic], axes: str
) -> Iterator[WriteWindow]:
    """A file of ``head`` and then the numbers in the order ``axes``, to be filled by windows."""
    stored_shape = tuple(shape[AXES.index(a)] for a in axes)
    order = tuple(axes.index(a) for a in AXES)
    lock = threading.Lock()
    with open(path, "wb") as file:
        file.write(head)
        file.flush()
        reserve_space(file, len(head) + count_bytes(shape, dtype.str))

    def put(bands: Index, rows: slice, cols: slice, stored: Stored) -> None:
        with lock:
            array: Stored = np.memmap(path, dtype, "r+", len(head), stored_shape)
            array.transpose(order)[bands, rows, cols] = stored

    yield put


def reserve_space(file: IO[bytes], length: int) -> None:
    """Give a file its full length on the disk now: a mapped page on a full disk ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, length)
        return
    block = bytes(2**20)  # pragma: no cover
    for start in range(file.tell(), length, len(block)):  # pragma: no cover
        file.write(block[: length - start])
