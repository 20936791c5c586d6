"""Blocks of noise as files in the field have it, with the truth: levels, photons, detectors, columns.

They are of the kind of :mod:`.noise_blocks`: each takes a clean cube on [0, 1] or a :class:`Noisy`
and adds what it did to the :class:`Truth`. The named noises made of them are in :mod:`.noise`,
the laws of instruments and their numbers in :mod:`.sensor_laws`.

An additive column error is kept in ``truth.stripe``, a gain g as well, as the offset x g that it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter1d

from ..errors import BadOption
from .noise_blocks import (
    F32,
    Mask,
    Noisy,
    Pair,
    Rng,
    Start,
    add_gaussian,
    draw_band_sigma,
    start_chain,
)
from .sensor_laws import (
    BROKEN_RATE,
    BROKEN_RUNS,
    BROKEN_SHARE,
    CHANNELS,
    GAIN_LIMITS,
    GAIN_RMS,
    INSTRUMENTS,
    SOUND_RATE,
    SOUND_RUNS,
    draw_correlated,
    draw_runs,
    find_unit_radiance,
    spread_wavelengths,
)


def add_even(x: Start, rng: Rng, *, sigma: float) -> Noisy:
    """Add Gaussian noise of the same standard deviation everywhere: y = x + sigma n."""
    noisy = start_chain(x)
    return add_gaussian(noisy, np.full((len(noisy.y), 1, 1), sigma, np.float32), rng)


def add_mild(x: Start, rng: Rng, *, sigma: Pair = (2 / 255, 10 / 255)) -> Noisy:
    """Add weak Gaussian noise, y_b = x_b + sigma_b n with sigma_b uniform in ``sigma``."""
    noisy = start_chain(x)
    return add_gaussian(noisy, draw_band_sigma(len(noisy.y), rng, sigma), rng)


def add_proportional(x: Start, rng: Rng, *, snr: float) -> Noisy:
    """Add noise in proportion to the signal: y = x + (x / snr) n."""
    if not snr > 0:
        raise BadOption(f"snr must be positive, not {snr}")
    noisy = start_chain(x)
    return add_gaussian(noisy, (np.abs(noisy.y) / snr).astype(np.float32), rng)


def count_photons(x: Start, rng: Rng, *, full: float = 200.0) -> Noisy:
    """Count photons: y = Poisson(full x) / full, of standard deviation sqrt(x / full).

    Args:
        full: mean count at the value 1. The truth holds the standard deviation; the law is Poisson's.
    """
    if not full > 0:
        raise BadOption(f"full must be positive, not {full}")
    noisy = start_chain(x)
    mean = full * np.maximum(noisy.y, 0.0)
    y = (rng.poisson(mean) / full).astype(np.float32)
    sigma = np.hypot(noisy.truth.sigma, np.sqrt(mean) / full).astype(np.float32)
    return Noisy(y, replace(noisy.truth, sigma=sigma))


def add_instrument(
    x: Start,
    rng: Rng,
    *,
    name: str,
    wavelengths: ArrayLike | None = None,
    bright: float = 0.5,
    dim: float = 1.0,
) -> Noisy:
    """Add the photon and read noise of an instrument, std(L) = a sqrt(L + (a r)^2) in radiance.

    Args:
        name: "emit", "tanager" or "aviris-ng".
        wavelengths: band centres in nm; None: see :func:`.sensor_laws.spread_wavelengths`.
        bright: reflectance that a value of 1 stands for.
        dim: share of the sunlight that arrives; 0.1 is a dark scene at a low sun.
    """
    if name not in INSTRUMENTS:
        raise BadOption(f"there is no noise law of '{name}' (known: {', '.join(INSTRUMENTS)})")
    noisy = start_chain(x)
    nm = spread_wavelengths(len(noisy.y)) if wavelengths is None else np.ravel(wavelengths)
    one = dim * find_unit_radiance(nm, bright)[:, None, None]
    sigma = INSTRUMENTS[name].find_std(noisy.y * one, nm) / one
    return add_gaussian(noisy, sigma.astype(np.float32), rng)


def kill_elements(x: Start, rng: Rng, *, times: float = 1.0) -> Noisy:
    """Kill detector elements as on EMIT: fixed along track, in runs over channels.

    0.24 % of the elements are dead. An ordinary column has 0.23 runs of dead channels on 328 channels,
    most of one channel; one column in 180 is broken, with 17 runs of up to 24. A dead element reads the
    same everywhere: 0, or with probability 1/2 a value uniform in [0, 1].

    Args:
        times: factor on the number of runs. At least one element is dead, whatever the size.
    """
    noisy = start_chain(x)
    bands, _, cols = noisy.y.shape
    part = times * bands / CHANNELS
    broken = np.asarray(rng.random(cols) < BROKEN_SHARE)
    number = rng.poisson(np.where(broken, BROKEN_RATE, SOUND_RATE) * part)
    if not number.any():
        number[rng.integers(cols)] = 1
    dead = np.zeros((bands, cols), bool)
    for c in np.flatnonzero(number):
        counts = BROKEN_RUNS if broken[c] else SOUND_RUNS
        for length in draw_runs(counts, int(number[c]), rng):
            # A run may begin before the first channel, so that the outer ones are hit as often.
            first = int(rng.integers(1 - length, bands))
            dead[max(0, first) : first + length, c] = True
    stuck = np.where(rng.random((bands, cols)) < 0.5, 0.0, rng.random((bands, cols)))
    where = np.broadcast_to(dead[:, None, :], noisy.y.shape)
    y = np.where(where, stuck[:, None, :].astype(np.float32), noisy.y)
    t = noisy.truth
    truth = replace(t, dead=t.dead | where, impulse=t.impulse & ~where, clipped=t.clipped & ~where)
    return Noisy(y, truth)


def change_gains(x: Start, rng: Rng, *, times: float = 1.0) -> Noisy:
    """Multiply every column of every band by 1 + g as on HYPSO-1.

    The rms of g over columns is 0.29 % per band (0.21 to 0.62), its correlation 0.85 between neighbour
    bands and 0.28 forty bands apart; columns are independent of each other.

    Args:
        times: factor on g.
    """
    noisy = start_chain(x)
    bands, _, cols = noisy.y.shape
    # A logarithmic normal with this spread has the limits as its outer 5 %.
    rms = GAIN_RMS * np.exp(0.28 * draw_correlated(bands, 1, rng))
    rms = times * np.clip(rms, *GAIN_LIMITS)
    gain = (rms * draw_correlated(bands, cols, rng)).astype(np.float32)
    return _shift(noisy, noisy.y * gain[:, None, :])


def shift_columns(
    x: Start,
    rng: Rng,
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
    noisy = start_chain(x)
    bands, rows, cols = noisy.y.shape
    fixed = _draw_patterns(bands, cols, rng, parts, own)
    moving = _draw_patterns(bands, cols, rng, parts, own)
    # One slow curve of mean 0 and rms 1 for all columns: a temperature.
    phase, turns = rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 1.2)
    curve = np.sin(phase + 2 * np.pi * turns * np.arange(rows) / rows)
    curve = curve - curve.mean()
    curve /= max(float(curve.std()), 1e-6)
    offset = fixed[:, None, :] + drift * moving[:, None, :] * curve[:, None]
    offset *= rms / max(float(np.sqrt(np.mean(offset**2))), 1e-12)
    return _shift(noisy, offset)


def shift_blocks(
    x: Start,
    rng: Rng,
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
    noisy = start_chain(x)
    bands, _, cols = noisy.y.shape
    shift = np.zeros((bands, 1, cols))
    for b in rng.permutation(bands)[: max(1, round(share * bands))]:
        wanted = rng.uniform(0.1, 0.33) * cols
        while np.count_nonzero(shift[b]) < wanted:
            first = int(rng.integers(cols))
            last = first + int(rng.integers(width[0], width[1] + 1))
            shift[b, 0, first:last] = rng.uniform(-offset, offset)
    return _shift(noisy, np.broadcast_to(shift, noisy.y.shape))


def brighten(x: Start, rng: Rng, *, times: float) -> Noisy:
    """Make 0.2 % of the pixels ``times`` as bright as the mean of the scene.

    A bright pixel is a flame or a glint: it falls with wavelength to 0.4 in the last band, and it
    belongs to the clean image. This block comes before those that add noise.
    """
    noisy = start_chain(x)
    bands, rows, cols = noisy.y.shape
    number = max(1, round(0.002 * rows * cols))
    where = np.zeros(rows * cols, bool)
    where[rng.permutation(rows * cols)[:number]] = True
    where = where.reshape(rows, cols)
    falling = np.linspace(1.0, 0.4, bands)[:, None] * rng.uniform(0.8, 1.2, number)
    light = np.zeros_like(noisy.y)
    light[:, where] = times * float(noisy.y.mean()) * falling - noisy.y[:, where]
    return Noisy(noisy.y + light, replace(noisy.truth, bright=noisy.truth.bright + light))


def cut_gaps(x: Start, rng: Rng) -> Noisy:
    """Measure nothing (NaN) on two runs of rows in some bands, on blocks, and in a hole through all bands."""
    noisy = start_chain(x)
    bands, rows, cols = noisy.y.shape
    gap: Mask = np.zeros(noisy.y.shape, bool)
    for _ in range(2):
        top, height = int(rng.integers(rows)), int(rng.integers(1, 4))
        gap[rng.random(bands) < 0.5, top : top + height] = True
    for _ in range(max(2, bands // 4)):
        b, r, c = (int(rng.integers(n)) for n in noisy.y.shape)
        gap[b : b + 3, r : r + max(1, rows // 10), c : c + max(1, cols // 10)] = True
    r, c = int(rng.integers(rows)), int(rng.integers(cols))
    gap[:, r : r + max(1, rows // 16), c : c + max(1, cols // 16)] = True
    return Noisy(np.where(gap, np.float32(np.nan), noisy.y), noisy.truth)


def _shift(noisy: Noisy, offset: NDArray[np.floating]) -> Noisy:
    o: F32 = offset.astype(np.float32)
    return Noisy(noisy.y + o, replace(noisy.truth, stripe=noisy.truth.stripe + o))


def _draw_patterns(bands: int, cols: int, rng: Rng, parts: int, own: float) -> NDArray[np.float64]:
    """Column patterns (band, col) of rms about 1 that bands share, and a part of their own."""
    spectra = gaussian_filter1d(rng.standard_normal((bands, parts)), bands / 8, axis=0, mode="wrap")
    spectra /= np.sqrt(np.mean(spectra**2) * parts)
    shared = spectra @ rng.standard_normal((parts, cols))
    return np.asarray(np.sqrt(1 - own**2) * shared + own * rng.standard_normal((bands, cols)))
