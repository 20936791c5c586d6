"""Noise laws of real instruments, as numbers: photon noise, dead elements, column gains.

Photon noise. The published coefficient tables of EMIT, Tanager-1 and AVIRIS-NG give the standard
deviation of a radiance L as |a sqrt(b + L) + c|. Where a fit of theirs is sound, c is 0 and b = (a r)^2
with one r for the whole instrument, so that

    std(L) = a sqrt(L + (a r)^2)    [uW cm-2 nm-1 sr-1],

which is counting statistics: N = L / a^2 electrons and a read noise of r electrons. What is left of a
table is r and the curve a(wavelength), kept at 29 wavelengths and interpolated in its logarithm. The
median deviation from the tables is below 1 %; the water bands 1350-1450 and 1820-1930 nm, where the
tables hold fits to almost no light, are bridged.

Radiance. Scenes here are on [0, 1]. A value x is taken for a reflectance ``bright`` x (0.5 unless told)
under the sun at zenith angle 45 degrees without an atmosphere,

    L = x bright E(wavelength) cos 45 / pi,

with the sun as a black body of 5778 K seen under its solid angle. At 550 nm a value of 1 is 20
uW cm-2 nm-1 sr-1, at 2200 nm 0.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]
Rng = np.random.Generator

# fmt: off
KNOTS = np.array(
    [
        380, 400, 430, 470, 510, 550, 600, 650, 700, 750, 800, 850, 900, 950, 1000, 1050, 1100,
        1200, 1280, 1350, 1420, 1500, 1600, 1700, 1800, 1960, 2200, 2400, 2500,
    ],
    float,
)
# fmt: on
"""Wavelengths in nm at which the curves a are kept."""


@dataclass(frozen=True)
class Instrument:
    """A photon noise law: ``a`` at ``KNOTS`` in 1e-3 radiance^(1/2), ``read`` noise in electrons."""

    a: tuple[float, ...]
    read: float

    def find_gain(self, wavelengths: ArrayLike) -> F64:
        """a at wavelengths in nm; beyond the knots the nearest one's."""
        return np.asarray(1e-3 * np.exp(np.interp(np.ravel(wavelengths), KNOTS, np.log(self.a))))

    def find_std(self, radiance: NDArray[np.floating], wavelengths: ArrayLike) -> F64:
        """Standard deviation a sqrt(L + (a r)^2) of radiances (band, ...) in uW cm-2 nm-1 sr-1."""
        a = self.find_gain(wavelengths).reshape(-1, *[1] * (np.ndim(radiance) - 1))
        return np.asarray(a * np.sqrt(np.maximum(radiance, 0.0) + (a * self.read) ** 2))


# fmt: off
INSTRUMENTS = {
    "emit": Instrument(
        (
            5.81, 5.93, 5.54, 5.26, 4.89, 4.6, 4.57, 4.84, 4.18, 3.82,
            3.86, 3.96, 4.02, 4.16, 4.25, 4.25, 4.12, 3.46, 3.21, 2.74,
            2.51, 2.3, 2.09, 1.96, 1.87, 1.79, 1.73, 1.74, 1.87,
        ),
        read=298.0,
    ),
    "tanager": Instrument(
        (
            25.9, 15.3, 10.6, 9.32, 8.44, 7.59, 6.71, 6.65, 6.38, 6.04,
            5.71, 5.23, 4.78, 4.57, 4.52, 4.51, 4.59, 4.35, 3.95, 3.53,
            3.06, 2.67, 2.31, 2.07, 1.89, 1.71, 1.6, 1.56, 1.61,
        ),
        read=146.0,
    ),
    "aviris-ng": Instrument(
        (
            28.9, 22.9, 14.2, 11.8, 13.4, 9.61, 9.62, 9.99, 9.79, 9.28,
            9.1, 8.53, 7.98, 7.69, 7.43, 7.03, 6.7, 5.77, 4.97, 4.5,
            4.73, 3.72, 3.47, 3.18, 3.03, 2.95, 2.83, 2.79, 2.8,
        ),
        read=111.5,
    ),
}
# fmt: on


def spread_wavelengths(bands: int) -> F64:
    """Band centres in nm where a scene has none: 400 to 700 for at most 31 bands, else to 2450.

    >>> spread_wavelengths(31)[[0, -1]].tolist()
    [400.0, 700.0]
    """
    return np.linspace(400.0, 700.0 if bands <= 31 else 2450.0, bands)


def find_unit_radiance(wavelengths: ArrayLike, bright: float = 0.5) -> F64:
    """Radiance of a value of 1, in uW cm-2 nm-1 sr-1, for wavelengths in nm.

    Args:
        bright: reflectance that a value of 1 stands for.

    >>> find_unit_radiance([550.0, 2200.0]).round(1).tolist()
    [19.8, 0.8]
    """
    metre = np.ravel(np.asarray(wavelengths, float)) * 1e-9
    # h c / k and 2 h c^2 in SI units
    planck = 1.191043e-16 / metre**5 / np.expm1(0.01438777 / (metre * 5778.0))
    irradiance = planck * 6.794e-5 * 1e-9 * 100.0  # solid angle of the sun; per nm; uW cm-2
    return np.asarray(bright * irradiance * np.cos(np.pi / 4) / np.pi)


CHANNELS = 328
"""Channels of the EMIT detector, to which the figures below refer."""
SOUND_RUNS = (233, 38, 20, 3, 2, 1)
"""How many runs of 1, 2, ... dead channels the ordinary columns of EMIT have (297 in 1273 columns)."""
BROKEN_RUNS = (24, 14, 12, 10, 13, 5, 13, 13, 1, 4, 0, 0, 4, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1)
"""The same for its broken columns, which have 17 runs each (118 in 7 columns)."""
SOUND_RATE = 297 / 1273
"""Runs per ordinary column."""
BROKEN_RATE = 118 / 7
"""Runs per broken column."""
BROKEN_SHARE = 7 / 1280
"""Share of broken columns."""

GAIN_RMS = 0.0029
"""Middle of the rms of the column gains of HYPSO-1 over its bands; the limits are ``GAIN_LIMITS``."""
GAIN_LIMITS = (0.0021, 0.0062)
SHARES, LENGTHS = (0.28, 0.72), (1.55, 42.0)
"""Correlation of column gains k bands apart: sum of share exp(-k / length); 0.85 at 1, 0.28 at 40."""


def draw_runs(counts: tuple[int, ...], number: int, rng: Rng) -> NDArray[np.int64]:
    """Lengths of ``number`` runs, drawn with the frequencies ``counts`` of the lengths 1, 2, ..."""
    share = np.array(counts, float) / sum(counts)
    return rng.choice(len(counts), number, p=share) + 1


def draw_correlated(bands: int, columns: int, rng: Rng) -> F64:
    """Standard normal numbers (band, column) with the correlation over bands of HYPSO-1.

    Each part of the correlation is a chain z_b = q z_{b-1} + sqrt(1 - q^2) n with q = exp(-1 / length).
    """
    out = np.zeros((bands, columns))
    for share, length in zip(SHARES, LENGTHS, strict=True):
        q = np.exp(-1.0 / length)
        chain = rng.standard_normal((bands, columns))
        for b in range(1, bands):
            chain[b] = q * chain[b - 1] + np.sqrt(1 - q * q) * chain[b]
        out += np.sqrt(share) * chain
    return out
