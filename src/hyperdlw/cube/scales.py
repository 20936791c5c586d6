"""Scales: wavelengths in nanometres, and the range of every band, which maps it to the unit interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

POWERS = {"nanometers": 0, "nanometres": 0, "nanometer": 0, "nanometre": 0, "nm": 0}
POWERS |= dict.fromkeys(("micrometers", "micrometres", "micrometer", "micrometre"), 3)
POWERS |= dict.fromkeys(("um", "µm", "μm", "microns", "micron"), 3)
POWERS |= {"millimeters": 6, "mm": 6, "meters": 9, "metres": 9, "m": 9}
POWERS |= {"angstroms": -1, "angstrom": -1}
"""Units of length as powers of ten of a nanometre."""


def scale_decimal(text: str, power: int) -> float:
    """A decimal number times a power of ten, rounded once: 0.4005 um is 400.5 nm and back.

    >>> scale_decimal("0.4005", 3), scale_decimal("400.5", -3)
    (400.5, 0.4005)
    """
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} characters")
    return float(Decimal(text.strip()).scaleb(power))


def to_nanometres(
    texts: Sequence[str], units: str | None, notes: list[str], what: str = "wavelengths"
) -> NDArray[np.float64] | None:
    """Wavelengths in nanometres from numbers as a file writes them.

    ``units`` is the file's word; without one, numbers below 100 are taken for micrometres. ``notes``
    gets what was assumed or could not be used, with ``what`` as the word for the numbers.
    """
    plain = [float(t) if len(t) <= 40 else math.nan for t in texts]
    if not texts or not np.isfinite(plain).all():
        notes.append(f"{what} are not finite and were not used")
        return None
    word = (units or "").strip().lower()
    if word in ("", "unknown"):
        word = "um" if max(plain) < 100 else "nm"
        if not any(plain):
            notes.append(f"{what} are all 0 and were not used")
            return None
        notes.append(f"{what} have no unit and were taken to be in {word}")
    if word in ("wavenumber", "wavenumbers", "cm-1", "1/cm") and all(plain):
        return np.array([1e7 / v for v in plain])
    if word not in POWERS:
        notes.append(f"{what} are in '{word[:20]}', not in a unit of length, and were not used")
        return None
    return np.array([scale_decimal(t, POWERS[word]) for t in texts])


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
