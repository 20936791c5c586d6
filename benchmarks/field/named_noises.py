"""The noises of the field table by name: what a file in the field looks like, and what should come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from field_noise import (
    column_gains,
    column_offsets,
    dead_elements,
    even,
    instrument,
    mild,
    photons,
    proportional,
    wide_stripes,
)
from numpy.typing import NDArray
from sensor_laws import INSTRUMENTS

from hyperdlw.testbed import Noisy, Truth
from hyperdlw.testbed.noise import case

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Dirty:
    """A noisy cube of the field.

    Attributes:
        y: what a file holds, float32 (band, row, col); NaN where nothing was measured.
        clean: what should come back; it differs from the given scene where bright pixels were set.
        truth: what was done to ``clean``.
        bright: True on pixels (row, col) that were made bright.
    """

    y: F32
    clean: F32
    truth: Truth
    bright: Mask

    @property
    def valid(self) -> Mask:
        """True where a value was measured."""
        return np.isfinite(self.y)


def brightened(x: NDArray[Any], rng: np.random.Generator, *, times: float) -> tuple[F32, Mask]:
    """A scene in which 0.2 % of the pixels are ``times`` brighter than the rest, and where they are.

    A bright pixel is a flame or a glint: ``times`` the mean of the scene, falling with wavelength to
    0.4 of that in the last band. It belongs to the clean image.
    """
    clean = np.array(x, np.float32)
    bands, rows, cols = clean.shape
    number = max(1, round(0.002 * rows * cols))
    bright = np.zeros(rows * cols, bool)
    bright[rng.permutation(rows * cols)[:number]] = True
    bright = bright.reshape(rows, cols)
    falling = np.linspace(1.0, 0.4, bands)[:, None] * rng.uniform(0.8, 1.2, number)
    clean[:, bright] = times * float(clean.mean()) * falling
    return clean, bright


def gap_mask(shape: tuple[int, ...], rng: np.random.Generator) -> Mask:
    """Where nothing was measured: two runs of rows in some bands, blocks, a hole through all bands."""
    bands, rows, cols = shape
    gap = np.zeros(shape, bool)
    for _ in range(2):
        top, height = int(rng.integers(rows)), int(rng.integers(1, 4))
        gap[rng.random(bands) < 0.5, top : top + height] = True
    for _ in range(max(2, bands // 4)):
        b, r, c = (int(rng.integers(n)) for n in shape)
        gap[b : b + 3, r : r + max(1, rows // 10), c : c + max(1, cols // 10)] = True
    r, c = int(rng.integers(rows)), int(rng.integers(cols))
    gap[:, r : r + max(1, rows // 16), c : c + max(1, cols // 16)] = True
    return gap


def _case(x: NDArray[Any], rng: np.random.Generator, *, number: int) -> Dirty:
    return _dirty(case(number, x, rng), x)


def _blocks(x: NDArray[Any], rng: np.random.Generator, *, chain: tuple[Any, ...]) -> Dirty:
    noisy = Noisy.clean(x)
    for block in chain:
        noisy = block(noisy, rng)
    return _dirty(noisy, x)


def _bright(x: NDArray[Any], rng: np.random.Generator, *, times: float) -> Dirty:
    clean, bright = brightened(x, rng, times=times)
    noisy = even(clean, rng, sigma=15 / 255)
    return Dirty(noisy.y, clean, noisy.truth, bright)


def _gaps(x: NDArray[Any], rng: np.random.Generator) -> Dirty:
    noisy = mild(x, rng)
    y = np.where(gap_mask(noisy.y.shape, rng), np.float32(np.nan), noisy.y)
    return _dirty(Noisy(y, noisy.truth), x)


def _chain(*blocks: Any) -> Callable[..., Dirty]:
    return partial(_blocks, chain=blocks)


def _dirty(noisy: Noisy, x: NDArray[Any]) -> Dirty:
    return Dirty(noisy.y, np.asarray(x, np.float32), noisy.truth, np.zeros(x.shape[1:], bool))


FIELD: dict[str, Callable[[NDArray[Any], np.random.Generator], Dirty]] = {
    **{f"case {n}": partial(_case, number=n) for n in range(1, 6)},
    "even 5": _chain(partial(even, sigma=5 / 255)),
    "even 30": _chain(partial(even, sigma=30 / 255)),
    "mild": _chain(mild),
    **{f"snr {s}": _chain(partial(proportional, snr=s)) for s in (20, 50, 150, 500, 1000)},
    "photons": _chain(photons),
    **{name: _chain(partial(instrument, name=name, dim=0.1)) for name in INSTRUMENTS},
    "dead elements": _chain(mild, dead_elements),
    "column gains": _chain(partial(proportional, snr=150), column_gains),
    "pushbroom": _chain(partial(even, sigma=10 / 255), column_offsets),
    "wide stripes": _chain(mild, wide_stripes),
    "bright 20": partial(_bright, times=20),
    "bright 200": partial(_bright, times=200),
    "gaps": _gaps,
    "none": _chain(),
}
"""The noises of the field table by name."""
