"""The noise of every band as isofit reads it: a text file with the columns wavelength, a, b, c and rmse.

The parametric noise of isofit is  nedl(L) = |a sqrt(b + L) + c|  for a radiance L in the units of the cube;
coefficients are interpolated between wavelengths. Our law is a variance on the unit scale, with
s = (L - low) / span,

    nedl(L)^2  =  span^2 (p + q s + r s^2).

Without r the two agree exactly: a = sqrt(span q), b = span p / q - low, c = 0; or a = 0 and c = span sqrt(p).
With r the coefficients are the best for signals from the lower to the upper limit of the band, and rmse says
how good that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import BadOption
from ..io import atomic

if TYPE_CHECKING:
    from .report import Report

F64 = NDArray[np.float64]

POINTS = 65
"""Signals between the limits of a band at which the fit is made."""


def fit_band(law: tuple[float, float, float], low: float, span: float) -> list[float]:
    """a, b, c and rmse of a band with the law p + q s + r s^2.

    >>> a, b, c, rmse = fit_band((0.01, 0.04, 0.0), low=2.0, span=100.0)
    >>> a, b, c, rmse
    (2.0, 23.0, 0.0, 0.0)
    """
    p, q, r = (max(0.0, float(v)) for v in law)
    if r == 0:
        if q == 0:
            return [0.0, max(0.0, -low) + span, span * p**0.5, 0.0]
        return [(span * q) ** 0.5, span * p / q - low, 0.0, 0.0]
    s = np.linspace(0, 1, POINTS)
    true = span * np.sqrt(p + s * (q + s * r))
    best = [0.0, span - low, float(true.mean()), float(true.std())]
    # b + L = span (s + t): for every t the rest is a line.
    t = np.geomspace(1e-6, 1e4, 241)
    root = np.sqrt(span * (s + t[:, None]))
    middle = root.mean(1, keepdims=True)
    moved = root - middle
    a = moved @ (true - true.mean()) / (moved**2).sum(1)
    rmse = np.sqrt(np.mean((a[:, None] * moved + true.mean() - true) ** 2, 1))
    k = int(rmse.argmin())
    if rmse[k] >= best[3]:
        return best
    return [
        float(a[k]),
        float(span * t[k] - low),
        float(true.mean() - a[k] * middle[k, 0]),
        float(rmse[k]),
    ]


def write_noise(
    report: Report, wavelengths: F64 | None, path: str, *, overwrite: bool = False
) -> None:
    """The noise of the bands in use of a noisy cube, from the report of its run."""
    if wavelengths is None or report.noise is None:
        raise BadOption(why_not(wavelengths is not None))
    coefficients = report.noise["isofit"]
    assert isinstance(coefficients, list)
    used = [b for b in range(report.shape[0]) if b not in report.bands_skipped]
    # isofit reads numbers with one blank between them, and no line that is not a comment before them.
    lines = ["# wavelength a b c rmse"]
    for b, row in zip(used, coefficients, strict=True):
        lines.append(" ".join(f"{v:.9g}" for v in (wavelengths[b], *row)))
    with atomic(path, overwrite=overwrite) as tmp:
        tmp.write_text("\n".join(lines) + "\n")


def why_not(known: bool) -> str:
    """Why there is no noise file; ``known``: whether the bands have wavelengths."""
    if known:
        return (
            "--paper, --weights original and published methods do not measure the noise, so there is "
            "no noise file; leave out --save-noise"
        )
    return "a noise file needs wavelengths, and this cube has none; leave out --save-noise"
