"""Spatial total variation."""

from __future__ import annotations

from collections.abc import Sequence

from ..solver import COL, L1, ROW, Model, Schedule, gradient, term


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Smooth in space: strength 0.1 sum |D_row X| + |D_col X|, band by band (DLW-TV).

    Anisotropic, periodic. The data term has its own copy, because a varying weight is not
    diagonal in Fourier space. Twenty steps; the result is the smooth image.
    """
    return Model(
        terms=(term(L1, gradient(ROW, COL), strength=0.1 * strength),),
        schedule=Schedule(steps=20, mu=0.1, growth=1.05),
    )
