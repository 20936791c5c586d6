"""Spectral total variation."""

from __future__ import annotations

from collections.abc import Sequence

from ..solver import BAND, L1, Model, Schedule, gradient, term


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Smooth along the spectrum: strength 0.1 sum |D_band X| (DLW-TVS).

    Anisotropic, periodic. The data term has its own copy, because a varying weight is not
    diagonal in Fourier space. Twenty steps; the result is the smooth image.
    """
    return Model(
        terms=(term(L1, gradient(BAND), strength=0.1 * strength),),
        schedule=Schedule(steps=20, mu=0.1, growth=1.05),
    )
