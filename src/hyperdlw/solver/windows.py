"""The rows of an image in strips, each with a halo."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
