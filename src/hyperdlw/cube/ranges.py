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


ENOUGH = 2**18
"""Pixels of a band from which its range is read."""
GROUP = 16
"""Rows that are read together."""


def _smoothed(band: NDArray[np.float32], ok: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Valid values of the 5x5 median of a band, or of evenly spread rows of a large one."""
    from scipy.ndimage import median_filter

    rows = len(band)
    size = tuple(min(5, n) for n in band.shape)
    every = -(-band.size // ENOUGH)
    group = GROUP if every > 1 else rows
    parts = []
    for top in range(0, rows, group * every):
        low, bottom = max(0, top - 2), min(top + group, rows)
        smooth = median_filter(band[low : bottom + 2], size=size, mode="nearest")
        parts.append(smooth[top - low : bottom - low][ok[top:bottom]])
    return np.concatenate(parts)


def robust_range(data: NDArray[np.float32], valid: NDArray[np.bool_]) -> BandRange:
    """Range of the *signal* of every band, for cubes that are noisy already.

    Minimum and maximum of a noisy band measure the noise. A 5x5 median removes impulses and most of
    the Gaussian part; the 0.1 % and 99.9 % quantiles of what is left are close to the limits of the
    clean band. Invalid voxels are filled with the band median and do not enter the quantiles.
    """
    lo, hi = np.zeros((2, len(data)), np.float32)
    for b, (band, ok) in enumerate(zip(data, valid, strict=True)):
        if not ok.any():
            continue
        smooth = _smoothed(np.where(ok, band, np.median(band[ok])), ok)
        if smooth.size:
            lo[b], hi[b] = np.quantile(smooth, [0.001, 0.999])
        if hi[b] <= lo[b]:
            lo[b], hi[b] = band[ok].min(), band[ok].max()
    return BandRange(lo, hi)
