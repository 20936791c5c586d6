"""What spectra are for: signals put into a clean scene, detectors that look for them, endmembers, indices.

An implant adds  amplitude * m(p) * s(b)  to a scene whose bands are on [0, 1]: s is the spectrum, of largest
value 1, and m the place, from 0 to 1. Four kinds: the plume of a gas with a few narrow lines, a mineral
with one feature, targets of one to four pixels with a spectrum of their own, and a faint gradient over the
whole scene. So the truth is known at every pixel, and a restoration can be asked what it has left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

KINDS = ("gas", "mineral", "target", "gradient")
"""What is implanted."""
SIZES = (1, 1, 1, 2, 2, 3, 4, 4)
"""Pixels of the small targets of one scene."""
ROOM = 0.1
"""What a scene leaves free below and above."""
LOADING = 1e-6
"""Part of the mean variance that is added to the diagonal of a covariance before it is inverted."""


@dataclass(frozen=True, eq=False)
class Signal:
    """One implant.

    Attributes:
        spectrum: (band,) s, largest absolute value 1.
        place: (row, col) m, 0 to 1.
        target, background: pixels that have it, and pixels without this and any other local signal.
    """

    spectrum: F64
    place: F64
    target: Mask
    background: Mask

    @property
    def judged(self) -> Mask:
        """Pixels that count."""
        return self.target | self.background


def draw_signals(shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Signal]:
    """One signal of every kind for an image (band, row, col); the same random state gives the same.

    >>> found = draw_signals((31, 64, 64), np.random.default_rng(0))
    >>> int(found["target"].target.sum()) == sum(SIZES)
    True
    """
    bands, rows, cols = shape
    plume = _draw_plume(rows, cols, rng)
    deposit = _draw_deposit(rows, cols, plume > 0.02, rng)
    spots = _draw_spots(rows, cols, (plume > 0.02) | (deposit > 0.02), rng)
    ramp = _draw_ramp(rows, cols, rng)
    places = {"gas": plume, "mineral": deposit, "target": spots}
    found = {}
    for kind, place in places.items():
        others = np.any([m > 0.02 for k, m in places.items() if k != kind], axis=0)
        background = (place <= 0.02) & ~others
        found[kind] = Signal(draw_spectrum(kind, bands, rng), place, place > 0.5, background)
    local = np.any([m > 0.02 for m in places.values()], axis=0)
    ends = (ramp > 2 / 3) & ~local, (ramp < 1 / 3) & ~local
    found["gradient"] = Signal(draw_spectrum("gradient", bands, rng), ramp, *ends)
    return found


def draw_spectrum(kind: str, bands: int, rng: np.random.Generator) -> F64:
    """The spectrum of a kind of signal at so many bands, largest absolute value 1.

    Features are placed in shares of the spectral range, so that any number of bands has them.
    """
    at = np.linspace(0, 1, bands)
    least = 1.2 / max(bands - 1, 1)  # a feature is never narrower than a band

    def line(centre: float, width: float) -> F64:
        return np.asarray(np.exp(-0.5 * ((at - centre) / max(width, least / 2)) ** 2))

    if kind == "gas":  # three narrow lines of different depth
        depth = (1.0, rng.uniform(0.4, 0.8), rng.uniform(0.2, 0.5))
        centres = rng.uniform((0.1, 0.4, 0.7), (0.3, 0.6, 0.9))
        s = -sum(d * line(c, 0.015) for d, c in zip(depth, centres, strict=True))
    elif kind == "mineral":  # one feature, steeper on one side
        centre = rng.uniform(0.3, 0.8)
        width = np.where(at < centre, 0.05, 0.03)
        s = -np.exp(-0.5 * ((at - centre) / np.maximum(width, least / 2)) ** 2)
    elif kind == "target":  # a spectrum of its own over the whole range
        s = sum(
            a * line(c, 0.12)
            for a, c in zip(rng.standard_normal(6), np.linspace(0, 1, 6), strict=True)
        )
    else:  # haze: it falls off to longer wavelengths
        s = (0.3 + at) ** -rng.uniform(0.8, 1.6)
    return np.asarray(s / np.abs(s).max(), np.float64)


def _grid(rows: int, cols: int) -> tuple[F64, F64]:
    r, c = np.mgrid[0:rows, 0:cols].astype(np.float64)
    return r, c


def _draw_plume(rows: int, cols: int, rng: np.random.Generator) -> F64:
    """A plume that gets wider and thinner downwind from its source."""
    r, c = _grid(rows, cols)
    angle = rng.uniform(0, 2 * np.pi)
    centre = np.array([rows, cols]) * rng.uniform(0.35, 0.65, 2)
    y, x = r - centre[0], c - centre[1]
    along = x * np.cos(angle) + y * np.sin(angle)
    across = y * np.cos(angle) - x * np.sin(angle)
    length = 0.45 * min(rows, cols)
    width = 0.6 + 0.12 * np.clip(along, 0, None)
    m = np.exp(-0.5 * (across / width) ** 2) * np.clip(1 - along / length, 0, 1)
    m = np.where(along < 0, np.exp(-0.5 * (np.hypot(along, across) / 0.6) ** 2), m)
    return np.asarray(m / m.max())


def _draw_deposit(rows: int, cols: int, taken: Mask, rng: np.random.Generator) -> F64:
    """An outcrop: an ellipse with an edge of one pixel, where the plume is not."""
    r, c = _grid(rows, cols)
    best: F64 = np.zeros((rows, cols))
    for _ in range(50):
        angle, centre = rng.uniform(0, np.pi), np.array([rows, cols]) * rng.uniform(0.12, 0.88, 2)
        y, x = r - centre[0], c - centre[1]
        u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        unit = min(rows, cols) / 64
        edge = np.hypot(u / (5 * unit), v / (3 * unit))
        best = np.clip((1 - edge) * 3 * unit + 0.5, 0, 1)
        if not (taken & (best > 0)).any():
            break
    return np.asarray(np.where(taken, 0, best))


def _draw_spots(rows: int, cols: int, taken: Mask, rng: np.random.Generator) -> F64:
    """Targets of one to four pixels that touch nothing else."""
    m, taken = np.zeros((rows, cols)), taken.copy()
    shapes = {1: (1, 1), 2: (1, 2), 3: (1, 3), 4: (2, 2)}
    for size in SIZES:
        for _ in range(500):
            high, wide = shapes[size][:: 1 if rng.random() < 0.5 else -1]
            r, c = int(rng.integers(1, rows - high)), int(rng.integers(1, cols - wide))
            near = np.s_[max(0, r - 2) : r + high + 2, max(0, c - 2) : c + wide + 2]
            if not taken[near].any():
                m[r : r + high, c : c + wide] = 1
                taken[near] = True
                break
    return m


def _draw_ramp(rows: int, cols: int, rng: np.random.Generator) -> F64:
    """A gradient from 0 to 1 in some direction."""
    r, c = _grid(rows, cols)
    angle = rng.uniform(0, 2 * np.pi)
    m = r * np.sin(angle) + c * np.cos(angle)
    return np.asarray((m - m.min()) / np.ptp(m))


def make_room(clean: F32) -> F32:
    """The scene on [0.1, 0.9], so that signals do not leave [0, 1]."""
    return (ROOM + (1 - 2 * ROOM) * clean).astype(np.float32)


def implant_signals(clean: F32, signals: Mapping[str, Signal], amplitude: float) -> F32:
    """The scene with all signals at an amplitude."""
    out = clean.astype(np.float64)
    for s in signals.values():
        out += amplitude * s.spectrum[:, None, None] * s.place
    return out.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Detector:
    """Matched filter and adaptive cosine estimator for one spectrum, with the statistics of one cube.

    With mean mu and covariance C of the cube, the filter is  q = C^-1 s / (s' C^-1 s),  so that q' s = 1 and
    q'(x - mu) estimates the amplitude; the cosine is  s' C^-1 (x - mu)  over the lengths of both.
    """

    mean: F64
    inverse: F64
    spectrum: F64

    @classmethod
    def learn(cls, image: F32, spectrum: F64) -> Detector:
        """From the pixels of an image (band, row, col), as a user would."""
        flat = image.reshape(len(image), -1).astype(np.float64)
        mean = flat.mean(axis=1)
        away = flat - mean[:, None]
        found = away @ away.T / flat.shape[1]
        found += (LOADING * np.trace(found) / len(found) + 1e-15) * np.eye(len(found))
        return cls(mean, np.linalg.inv(found), spectrum)

    @property
    def power(self) -> float:
        """s' C^-1 s: the squared signal-to-noise ratio of an amplitude of 1."""
        return float(self.spectrum @ self.inverse @ self.spectrum)

    @property
    def filter(self) -> F64:
        """(band,) q, of response 1 to the spectrum."""
        return np.asarray(self.inverse @ self.spectrum / self.power)

    def match(self, image: F32) -> F64:
        """The estimated amplitude at every pixel."""
        return np.asarray(
            np.tensordot(self.filter, image.astype(np.float64), 1) - self.filter @ self.mean
        )

    def cosine(self, image: F32) -> F64:
        """The adaptive cosine estimate, signed: positive where the spectrum is present."""
        away = image.reshape(len(image), -1).astype(np.float64) - self.mean[:, None]
        length = np.einsum("bp,bp->p", away, self.inverse @ away)
        match = self.power * (self.filter @ away)
        found = match / np.sqrt(np.maximum(length * self.power, 1e-300))
        return np.asarray(found.reshape(image.shape[1:]))


def place_scores(target: F64, background: F64) -> tuple[F64, F64]:
    """For every target pixel the share of the background below it, and for every pixel of the background the
    share of the target above it; ties count half."""

    def rank(values: F64, among: F64) -> F64:
        order = np.sort(among)
        both = np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right")
        return np.asarray(both / (2 * len(order)))

    return rank(target, background), 1 - rank(background, target)


def area_under_curve(target: F64, background: F64) -> float:
    """The chance that a target pixel scores above one of the background; ties count half.

    >>> area_under_curve(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    return float(place_scores(target, background)[0].mean())


def compare_areas(before: tuple[F64, F64], after: tuple[F64, F64]) -> tuple[float, float]:
    """How much the area under the curve rises, and the standard error of the rise.

    Args:
        before, after: scores of the same target and background pixels. The error is that of DeLong,
            DeLong and Clarke-Pearson (1988), which knows that the pixels are the same.
    """
    one, two = place_scores(*before), place_scores(*after)
    rise = [b - a for a, b in zip(one, two, strict=True)]
    error = sum(float(d.var(ddof=1)) / len(d) for d in rise if len(d) > 1)
    return float(rise[0].mean()), float(np.sqrt(error))


@dataclass(frozen=True)
class Sight:
    """What detectors see of a signal in an image.

    Attributes:
        auc, ace: area under the curve of matched filter and cosine, with the statistics of the noisy cube.
        bias: estimated over true amplitude, less 1, without what the filter makes of the clean scene.
        alarms: share of the background above the level that finds four fifths of the target.
        own: area under the curve of the matched filter with the statistics of the image itself.
        rise, error: of ``auc`` over that of the noisy cube, and its standard error.
    """

    auc: float
    ace: float
    bias: float
    alarms: float
    own: float
    rise: float
    error: float


def judge_signal(signal: Signal, amplitude: float, image: F32, noisy: F32, clean: F32) -> Sight:
    """Look for a signal in an image that was made of a noisy cube; ``clean``: without any signal."""
    detector = Detector.learn(noisy, signal.spectrum)
    t, b = signal.target, signal.background

    def split(scores: F64) -> tuple[F64, F64]:
        return scores[t], scores[b]

    match = detector.match(image)
    rise, error = compare_areas(split(detector.match(noisy)), split(match))
    added = np.tensordot(detector.filter, image.astype(np.float64) - clean, 1)[signal.judged]
    m = signal.place[signal.judged]
    m = m - m.mean()
    return Sight(
        auc=area_under_curve(*split(match)),
        ace=area_under_curve(*split(detector.cosine(image))),
        bias=float(m @ added / (m @ m) / amplitude - 1),
        alarms=float((match[b] >= np.quantile(match[t], 0.2)).mean()),
        own=area_under_curve(*split(Detector.learn(image, signal.spectrum).match(image))),
        rise=rise,
        error=error,
    )


# What else users compute from spectra: endmembers, the red edge, vegetation indices.


def find_endmembers(image: NDArray[np.floating], count: int) -> F64:
    """Spectra (endmember, band) of the purest pixels by successive projections.

    The pixel of the largest norm is taken, its direction projected away, and so on; pixels are first divided
    by their mean, so that light has no part.

    >>> image = np.array([[[1.0, 0.0, 0.5]], [[0.0, 1.0, 0.5]]])
    >>> sorted(find_endmembers(image, 2).tolist())
    [[0.0, 1.0], [1.0, 0.0]]
    """
    flat = image.reshape(len(image), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    away = flat / np.where(np.abs(mean) > 1e-6, mean, 1e-6)
    # Dark pixels have no spectrum worth the name.
    away[:, mean < 0.1 * np.median(mean)] = 0
    found = []
    for _ in range(count):
        p = int((away**2).sum(axis=0).argmax())
        found.append(flat[:, p])
        u = away[:, p] / max(float(np.linalg.norm(away[:, p])), 1e-12)
        away = away - np.outer(u, u @ away)
    return np.stack(found)


def measure_angles(one: F64, two: F64) -> F64:
    """Angles in degrees between all spectra (n, band) and (m, band)."""
    a, b = (v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12) for v in (one, two))
    return np.asarray(np.degrees(np.arccos(np.clip(a @ b.T, -1, 1))))


def judge_endmembers(image: NDArray[np.floating], spectra: F64) -> float:
    """Mean angle in degrees of the endmembers that are found to the true ones, each with its nearest."""
    angles = measure_angles(spectra, find_endmembers(image, len(spectra)))
    return float(angles[linear_sum_assignment(angles)].mean())


def read_at(image: NDArray[np.floating], wavelengths: F64, nm: float) -> F64:
    """The values of an image (band, ...) at a wavelength, between its two nearest bands."""
    place = float(np.interp(nm, wavelengths, np.arange(len(wavelengths))))
    low = min(int(place), len(wavelengths) - 2)
    part = place - low
    return np.asarray((1 - part) * image[low] + part * image[low + 1], np.float64)


def find_red_edge(image: NDArray[np.floating], wavelengths: F64) -> F64:
    """Position of the red edge in nm, by four wavelengths (Guyot and Baret).

    700 + 40 (r - R700) / (R740 - R700)  with  r = (R670 + R780) / 2.
    """
    r670, r700, r740, r780 = (read_at(image, wavelengths, nm) for nm in (670, 700, 740, 780))
    rise = r740 - r700
    rise = np.where(np.abs(rise) > 1e-6, rise, 1e-6)
    return np.asarray(np.clip(700 + 40 * ((r670 + r780) / 2 - r700) / rise, 680, 780))


def find_index(image: NDArray[np.floating], wavelengths: F64, one: float, two: float) -> F64:
    """The normalised difference (R1 - R2) / (R1 + R2) of two wavelengths.

    NDVI is (800, 670), the photochemical reflectance index is (531, 570).
    """
    a, b = read_at(image, wavelengths, one), read_at(image, wavelengths, two)
    return np.asarray(np.clip((a - b) / np.where(np.abs(a + b) > 1e-6, a + b, 1e-6), -1, 1))
