"""Nuclear norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..solver import NUCLEAR, Model, Schedule, term, weighted_l2


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
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
