"""Low rank and total variation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..fidelity import l1, weighted_l2
from ..prox import nuclear_of_rank
from ..solver import Model, Schedule, term
from ..terms import total_variation


def default_rank(bands: int) -> int:
    """3 for cameras with some 31 bands, 5 for remote sensing (the paper's values)."""
    return min(bands, 3 if bands <= 40 else 5)


def build(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """Low rank and smooth in space: ||X||_* + tau TV(X), rank X <= rank (DLW-LRTV)."""
    rank = rank or default_rank(shape[0])
    return Model(
        terms=(term(nuclear_of_rank(rank), strength=strength), total_variation(0.002 * strength)),
        fidelity=weighted_l2(0.14),
        schedule=Schedule(steps=40, mu=1e-2, growth=1.5),
        central="data",
        output=0,
        rank=rank,
    )


def original(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """||X||_* + 2 tau TV(X) + lam ||Y - X||_1, rank X <= rank (He et al. 2016)."""
    rank = rank or default_rank(shape[0])
    return Model(
        terms=(term(nuclear_of_rank(rank)), total_variation(0.03 * strength, passes=10)),
        fidelity=l1(10.0 / math.sqrt(shape[1] * shape[2])),
        schedule=Schedule(
            steps=40, mu=1e-2, growth=1.5, largest=1e6, order=("image", "terms", "data")
        ),
        central=0,
        rank=rank,
    )
