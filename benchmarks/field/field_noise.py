"""Noise as files in the field have it, with the truth: levels, photons, detectors, columns, gaps.

The blocks are of the kind of :mod:`hyperdlw.testbed.noise`: each takes a clean cube on [0, 1] or a
:class:`Noisy` and adds what it did to the :class:`Truth`. The noises of the field table are chains of
them, in :mod:`named_noises`. The laws of instruments and their numbers are in :mod:`sensor_laws`.

An additive column error is kept in ``truth.stripe``, a gain g as well, as the offset x g that it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter1d
from sensor_laws import (
    BROKEN_RATE,
    BROKEN_RUNS,
    BROKEN_SHARE,
    CHANNELS,
    GAIN_LIMITS,
    GAIN_RMS,
    INSTRUMENTS,
    SOUND_RATE,
    SOUND_RUNS,
    correlated_over_bands,
    default_wavelengths,
    radiance_of_one,
    run_lengths,
)

from hyperdlw.errors import BadOption
from hyperdlw.testbed import Noisy, Truth

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
Pair = tuple[float, float]
Cube = NDArray[Any] | Noisy


def even(x: Cube, rng: np.random.Generator, *, sigma: float) -> Noisy:
    """Add Gaussian noise of the same standard deviation everywhere: y = x + sigma n."""
    noisy = _start(x)
    return _add(noisy, np.full((len(noisy.y), 1, 1), sigma, np.float32), rng)


def mild(x: Cube, rng: np.random.Generator, *, sigma: Pair = (2 / 255, 10 / 255)) -> Noisy:
    """Add weak Gaussian noise, y_b = x_b + sigma_b n with sigma_b uniform in ``sigma``."""
    noisy = _start(x)
    return _add(noisy, rng.uniform(*sigma, (len(noisy.y), 1, 1)), rng)


def proportional(x: Cube, rng: np.random.Generator, *, snr: float) -> Noisy:
    """Add noise in proportion to the signal: y = x + (x / snr) n."""
    if not snr > 0:
        raise BadOption(f"snr must be positive, not {snr}")
    noisy = _start(x)
    return _add(noisy, np.abs(noisy.y) / snr, rng)


def photons(x: Cube, rng: np.random.Generator, *, full: float = 200.0) -> Noisy:
    """Count photons: y = Poisson(full x) / full, of standard deviation sqrt(x / full).

    Args:
        full: mean count at the value 1. The truth holds the standard deviation; the law is Poisson's.
    """
    if not full > 0:
        raise BadOption(f"full must be positive, not {full}")
    noisy = _start(x)
    mean = full * np.maximum(noisy.y, 0.0)
    y = (rng.poisson(mean) / full).astype(np.float32)
    return Noisy(y, _with_sigma(noisy.truth, np.sqrt(mean) / full))


def instrument(
    x: Cube,
    rng: np.random.Generator,
    *,
    name: str,
    wavelengths: ArrayLike | None = None,
    bright: float = 0.5,
    dim: float = 1.0,
) -> Noisy:
    """Add the photon and read noise of an instrument, std(L) = a sqrt(L + (a r)^2) in radiance.

    Args:
        name: "emit", "tanager" or "aviris-ng".
        wavelengths: band centres in nm; None: see :func:`sensor_laws.default_wavelengths`.
        bright: reflectance that a value of 1 stands for.
        dim: share of the sunlight that arrives; 0.1 is a dark scene at a low sun.
    """
    if name not in INSTRUMENTS:
        raise BadOption(f"there is no noise law of '{name}' (known: {', '.join(INSTRUMENTS)})")
    noisy = _start(x)
    nm = default_wavelengths(len(noisy.y)) if wavelengths is None else np.ravel(wavelengths)
    one = dim * radiance_of_one(nm, bright)[:, None, None]
    return _add(noisy, INSTRUMENTS[name].std(noisy.y * one, nm) / one, rng)


def dead_elements(x: Cube, rng: np.random.Generator, *, times: float = 1.0) -> Noisy:
    """Kill detector elements as on EMIT: fixed along track, in runs over channels.

    0.24 % of the elements are dead. An ordinary column has 0.23 runs of dead channels on 328 channels,
    most of one channel; one column in 180 is broken, with 17 runs of up to 24. A dead element reads the
    same everywhere: 0, or with probability 1/2 a value uniform in [0, 1].

    Args:
        times: factor on the number of runs. At least one element is dead, whatever the size.
    """
    noisy = _start(x)
    bands, _, cols = noisy.y.shape
    part = times * bands / CHANNELS
    broken = np.asarray(rng.random(cols) < BROKEN_SHARE)
    number = rng.poisson(np.where(broken, BROKEN_RATE, SOUND_RATE) * part)
    if not number.any():
        number[rng.integers(cols)] = 1
    dead = np.zeros((bands, cols), bool)
    for c in np.flatnonzero(number):
        counts = BROKEN_RUNS if broken[c] else SOUND_RUNS
        for length in run_lengths(counts, int(number[c]), rng):
            # A run may begin before the first channel, so that the outer ones are hit as often.
            first = int(rng.integers(1 - length, bands))
            dead[max(0, first) : first + length, c] = True
    stuck = np.where(rng.random((bands, cols)) < 0.5, 0.0, rng.random((bands, cols)))
    where = np.broadcast_to(dead[:, None, :], noisy.y.shape)
    y = np.where(where, stuck[:, None, :].astype(np.float32), noisy.y)
    t = noisy.truth
    truth = replace(t, dead=t.dead | where, impulse=t.impulse & ~where, clipped=t.clipped & ~where)
    return Noisy(y, truth)


def column_gains(x: Cube, rng: np.random.Generator, *, times: float = 1.0) -> Noisy:
    """Multiply every column of every band by 1 + g as on HYPSO-1.

    The rms of g over columns is 0.29 % per band (0.21 to 0.62), its correlation 0.85 between neighbour
    bands and 0.28 forty bands apart; columns are independent of each other.

    Args:
        times: factor on g.
    """
    noisy = _start(x)
    bands, _, cols = noisy.y.shape
    # A logarithmic normal with this spread has the limits as its outer 5 %.
    rms = GAIN_RMS * np.exp(0.28 * correlated_over_bands(bands, 1, rng))
    rms = times * np.clip(rms, *GAIN_LIMITS)
    gain = (rms * correlated_over_bands(bands, cols, rng)).astype(np.float32)
    return _shift(noisy, noisy.y * gain[:, None, :])


def column_offsets(
    x: Cube,
    rng: np.random.Generator,
    *,
    rms: float = 0.08,
    drift: float = 0.15,
    parts: int = 3,
    own: float = 0.2,
) -> Noisy:
    """Add pushbroom columns: an offset per column and band, shared by bands, drifting along track.

    o_b(row, col) = sum_k s_k(b) p_k(col) + own rms e_b(col), plus the same with a slow curve along
    the rows. The s_k are smooth curves over the bands, p_k and e_b are independent standard normal.

    Args:
        rms: of the offsets over the whole cube, in data units.
        drift: rms of the part that changes along track, as a share of ``rms``.
        parts: number of patterns p_k that bands share.
        own: share of the rms that a band has for itself.
    """
    noisy = _start(x)
    bands, rows, cols = noisy.y.shape
    fixed = _columns(bands, cols, rng, parts, own)
    moving = _columns(bands, cols, rng, parts, own)
    # One slow curve of mean 0 and rms 1 for all columns: a temperature.
    phase, turns = rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 1.2)
    curve = np.sin(phase + 2 * np.pi * turns * np.arange(rows) / rows)
    curve = curve - curve.mean()
    curve /= max(float(curve.std()), 1e-6)
    offset = fixed[:, None, :] + drift * moving[:, None, :] * curve[:, None]
    offset *= rms / max(float(np.sqrt(np.mean(offset**2))), 1e-12)
    return _shift(noisy, offset)


def wide_stripes(
    x: Cube,
    rng: np.random.Generator,
    *,
    share: float = 1 / 3,
    width: tuple[int, int] = (3, 15),
    offset: float = 0.25,
) -> Noisy:
    """Shift blocks of neighbouring columns of some bands, each by one offset in [-offset, offset].

    Args:
        share: of the bands that are hit.
        width: limits of the width of a block in columns; blocks cover a tenth to a third of a band.
    """
    noisy = _start(x)
    bands, _, cols = noisy.y.shape
    shift = np.zeros((bands, 1, cols))
    for b in rng.permutation(bands)[: max(1, round(share * bands))]:
        wanted = rng.uniform(0.1, 0.33) * cols
        while np.count_nonzero(shift[b]) < wanted:
            first = int(rng.integers(cols))
            last = first + int(rng.integers(width[0], width[1] + 1))
            shift[b, 0, first:last] = rng.uniform(-offset, offset)
    return _shift(noisy, np.broadcast_to(shift, noisy.y.shape))


def _start(x: Cube) -> Noisy:
    return x if isinstance(x, Noisy) else Noisy.clean(x)


def _with_sigma(truth: Truth, sigma: NDArray[Any]) -> Truth:
    return replace(truth, sigma=np.hypot(truth.sigma, sigma).astype(np.float32))


def _add(noisy: Noisy, sigma: NDArray[Any], rng: np.random.Generator) -> Noisy:
    y = rng.standard_normal(noisy.y.shape, dtype=np.float32)
    y *= sigma.astype(np.float32)
    return Noisy(y + noisy.y, _with_sigma(noisy.truth, sigma))


def _shift(noisy: Noisy, offset: NDArray[Any]) -> Noisy:
    o = offset.astype(np.float32)
    return Noisy(noisy.y + o, replace(noisy.truth, stripe=noisy.truth.stripe + o))


def _columns(
    bands: int, cols: int, rng: np.random.Generator, parts: int, own: float
) -> NDArray[np.float64]:
    """Column patterns (band, col) of rms about 1 that bands share, and a part of their own."""
    spectra = gaussian_filter1d(rng.standard_normal((bands, parts)), bands / 8, axis=0, mode="wrap")
    spectra /= np.sqrt(np.mean(spectra**2) * parts)
    shared = spectra @ rng.standard_normal((parts, cols))
    return np.asarray(np.sqrt(1 - own**2) * shared + own * rng.standard_normal((bands, cols)))
