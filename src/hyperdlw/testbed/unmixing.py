"""What users compute from spectra: endmembers, the red edge, vegetation indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

F64 = NDArray[np.float64]


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
