"""Images on disk, read and written by rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile
from ..io import reserve_space

Rows = slice | NDArray[np.intp]


@dataclass(frozen=True)
class DiskArray:
    """Images (..., row, col) in a file of their own, read and written as bytes.

    Not through a map: machines that share a disk would overwrite each other's part of a page, and
    mapped pages count as memory in use.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: str = "float32"

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
        return torch.from_numpy(images.reshape(*self.shape[:-2], len(numbers), width))

    def read_band(self, b: int) -> Tensor:
        """A copy of an image, or of several, by the first index."""
        held = np.empty(self.shape[1:], self.dtype)
        with open(self.path, "rb") as file:
            file.seek(b * held.nbytes)
            self._fill(file, held)
        return torch.from_numpy(held)

    def _fill(self, file: IO[bytes], part: NDArray[Any]) -> None:
        if file.readinto(part.data) != part.nbytes:  # type: ignore[attr-defined]
            raise damaged_scratch(self.path.parent)

    def write(self, rows: slice, values: Tensor) -> None:
        """Some rows of all images."""
        height, width = self.shape[-2:]
        first, stop, _ = rows.indices(height)
        images = values.expand(*self.shape[:-2], stop - first, width).numpy()
        with open(self.path, "r+b") as file:
            for k, part in enumerate(images.reshape(-1, stop - first, width)):
                file.seek((k * height + first) * width * np.dtype(self.dtype).itemsize)
                file.write(np.ascontiguousarray(part, self.dtype).data)

    def write_band(self, b: int, values: Tensor) -> None:
        """All rows of an image, or of several, by the first index."""
        part = np.ascontiguousarray(values.expand(self.shape[1:]).numpy(), self.dtype)
        with open(self.path, "r+b") as file:
            file.seek(b * part.nbytes)
            file.write(part.data)


def damaged_scratch(folder: Path) -> BadFile:
    """Files that the journal speaks of are not there."""
    return BadFile(f"the scratch files in {folder} are damaged; remove this folder and start again")
