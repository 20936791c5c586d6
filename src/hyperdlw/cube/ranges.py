"""The range of every band, which maps a cube to the unit interval and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BandRange:
    """Per-band limits ``lo``, ``hi`` (shape (band,)) that map a cube to the unit interval and back."""

    lo: NDArray[np.float32]
    hi: NDArray[np.float32]

    @property
    def span(self) -> NDArray[np.float32]:
        return np.where(self.hi > self.lo, self.hi - self.lo, 1.0).astype(np.float32)[:, None, None]

    def to_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        return (data - self.lo[:, None, None]) / self.span

    def from_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        return data * self.span + self.lo[:, None, None]


def minmax_range(data: NDArray[np.float32], valid: NDArray[np.bool_]) -> BandRange:
    """Smallest and largest valid value of every band: the scaling of the paper (for clean scenes)."""
    held = [band[ok] if ok.any() else np.zeros(1) for band, ok in zip(data, valid, strict=True)]
    lo, hi = ([pick(values) for values in held] for pick in (np.min, np.max))
    return BandRange(np.array(lo, np.float32), np.array(hi, np.float32))
