"""Images on disk, the strips they are worked on in, and who does the work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile
from ..io import reserve_space

Rows = slice | NDArray[np.intp]
"""Rows of an image: a slice, or their numbers."""

R = TypeVar("R")


@dataclass(frozen=True)
class DiskArray:
    """Images (..., row, col) in a file of their own, read and written as bytes.

    Not through a map: machines that share a disk would overwrite each other's part of a page, and
    mapped pages count as memory in use.

    Attributes:
        device: where the tensors are that are read.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: str = "float32"
    device: str = "cpu"

    def make(self) -> DiskArray:
        """Reserve the room on the disk; an array that is there stays as it is."""
        length = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        if not (self.path.exists() and self.path.stat().st_size == length):
            with open(self.path, "wb") as file:
                reserve_space(file, length)
        return self

    def read(self, rows: Rows = slice(None)) -> Tensor:
        """A copy of some rows, in the order given."""
        height, width = self.shape[-2:]
        numbers = np.arange(height)[rows]
        images = np.empty((math.prod(self.shape[:-2]), len(numbers), width), self.dtype)
        # Rows that follow each other are read at once.
        ends = [0, *np.flatnonzero(np.diff(numbers) != 1) + 1, len(numbers)]
        runs = [(int(numbers[a]), slice(a, b)) for a, b in pairwise(ends) if a < b]
        with open(self.path, "rb") as file:
            for k, image in enumerate(images):
                for first, part in runs:
                    file.seek((k * height + first) * width * images.itemsize)
                    self._fill(file, image[part])
        found = torch.from_numpy(images.reshape(*self.shape[:-2], len(numbers), width))
        return found.to(self.device)

    def read_band(self, b: int) -> Tensor:
        """A copy of an image, or of several, by the first index."""
        held = np.empty(self.shape[1:], self.dtype)
        with open(self.path, "rb") as file:
            file.seek(b * held.nbytes)
            self._fill(file, held)
        return torch.from_numpy(held).to(self.device)

    def _fill(self, file: BufferedReader, part: NDArray[np.generic]) -> None:
        if file.readinto(part.data) != part.nbytes:
            raise damaged_scratch(self.path.parent)

    def write(self, rows: slice, values: Tensor) -> None:
        """Some rows of all images."""
        height, width = self.shape[-2:]
        first, stop, _ = rows.indices(height)
        images = values.expand(*self.shape[:-2], stop - first, width).cpu().numpy()
        with open(self.path, "r+b") as file:
            for k, part in enumerate(images.reshape(-1, stop - first, width)):
                file.seek((k * height + first) * width * np.dtype(self.dtype).itemsize)
                file.write(np.ascontiguousarray(part, self.dtype).data)

    def write_band(self, b: int, values: Tensor) -> None:
        """All rows of an image, or of several, by the first index."""
        part = np.ascontiguousarray(values.expand(self.shape[1:]).cpu().numpy(), self.dtype)
        with open(self.path, "r+b") as file:
            file.seek(b * part.nbytes)
            file.write(part.data)


def damaged_scratch(folder: Path) -> BadFile:
    """The error for scratch files that the journal names and that are missing or cut short."""
    return BadFile(f"the scratch files in {folder} are damaged; remove this folder and start again")


@dataclass(frozen=True)
class Window:
    """Rows of a strip with its halo.

    Attributes:
        rows: numbers of the rows, halo included; past an end of the image they go on at the other.
        own: the rows of the strip.
        inside: where these are among ``rows``.
    """

    rows: NDArray[np.intp]
    own: slice
    inside: slice


@dataclass(frozen=True)
class Strips:
    """An image cut into strips of rows, with all their columns and bands.

    Attributes:
        shape: (band, row, col) of the image.
        height: rows of a strip.
        halo: further rows on either side of a strip.
        wrap: whether the halo goes on at the other end of the image (periodic differences).
    """

    shape: tuple[int, int, int]
    height: int
    halo: int
    wrap: bool

    @property
    def strips(self) -> range:
        """The numbers of the strips."""
        return range(-(-self.shape[1] // self.height))

    def window(self, i: int, halo: int | None = None) -> Window:
        """Strip number i."""
        rows = self.shape[1]
        halo = self.halo if halo is None else halo
        own = slice(i * self.height, min((i + 1) * self.height, rows))
        first, last = own.start - halo, own.stop + halo
        if not self.wrap:
            first, last = max(first, 0), min(last, rows)
        inside = slice(own.start - first, own.stop - first)
        return Window(np.arange(first, last) % rows, own, inside)


class Work(Protocol):
    """Maps a function over strips or bands, and remembers what is done.

    The pipeline has one with a journal and worker processes.
    """

    def map(
        self,
        stage: str,
        function: Callable[[int], R],
        items: Sequence[int],
        makes: Sequence[DiskArray] = (),
        here: bool = False,
    ) -> list[R]:
        """The results for all items; those that are finished are not computed again.

        Args:
            stage: its name in the journal, once per run.
            makes: the arrays that are written; they are made first.
            here: in this process.
        """

    def resuming(self) -> bool:
        """Whether everything so far was done by an earlier run."""
