"""The three models that the networks of the paper are trained through: nn, tv and tvs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..solver import BAND, COL, L1, NUCLEAR, ROW, Model, Schedule, gradient, term, weighted_l2


def build_nn(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Low rank: strength ||X||_* of the band-by-pixel matrix (DLW-NN, equation (5)).

    The data term carries 25/sqrt(rows cols), so that threshold and noise grow alike with the image.
    Fifteen steps of Algorithm 1; the result is the low-rank copy.
    """
    _, rows, cols = shape
    mu = 2.5 / math.sqrt(rows * cols)
    return Model(
        terms=(term(NUCLEAR, strength=strength),),
        fidelity=weighted_l2(10.0 * mu),
        schedule=Schedule(steps=15, mu=mu, growth=1.03),
        central="data",
        output=0,
    )


def build_tv(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Smooth in space: strength 0.1 sum |D_row X| + |D_col X|, band by band (DLW-TV)."""
    return _variation(strength, ROW, COL)


def build_tvs(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Smooth along the spectrum: strength 0.1 sum |D_band X| (DLW-TVS)."""
    return _variation(strength, BAND)


def _variation(strength: float, *axes: int) -> Model:
    """Anisotropic, periodic. The data term has its own copy, because a varying weight is not
    diagonal in Fourier space. Twenty steps; the result is the smooth image."""
    return Model(
        terms=(term(L1, gradient(*axes), strength=0.1 * strength),),
        schedule=Schedule(steps=20, mu=0.1, growth=1.05),
    )
