"""Low rank and total variation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..solver import Model, Schedule, l1, nuclear_of_rank, term, total_variation, weighted_l2


def build(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """Low rank and smooth in space: ||X||_* + tau TV(X), rank X <= rank (DLW-LRTV).

    As in nn the data term carries c/sqrt(rows cols), so that the threshold on the singular values and the
    noise grow alike with the image; tau goes with it, and the strength is a factor on tau, as in the
    original. The penalty grows with it: in twenty steps the low-rank copy, which is the result,
    would hardly follow a strong smooth copy otherwise.
    """
    rank = rank or min(shape[0], 4 if shape[0] <= 40 else 12)
    scale = 40.0 / math.sqrt(shape[1] * shape[2])
    smooth = total_variation(0.02 * scale * strength, passes=3)
    return Model(
        terms=(term(nuclear_of_rank(rank)), smooth),
        fidelity=weighted_l2(scale),
        schedule=Schedule(steps=20, mu=0.033 * scale * max(1.0, strength), growth=1.2),
        central="data",
        output=0,
        rank=rank,
    )


def original(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """||X||_* + 2 tau TV(X) + lam ||Y - X||_1, rank X <= rank (He et al. 2016)."""
    rank = rank or min(shape[0], 4 if shape[0] <= 40 else 10)
    return Model(
        terms=(term(nuclear_of_rank(rank)), total_variation(0.03 * strength, passes=10)),
        fidelity=l1(10.0 / math.sqrt(shape[1] * shape[2])),
        schedule=Schedule(
            steps=40, mu=1e-2, growth=1.5, largest=1e6, order=("image", "terms", "data")
        ),
        central=0,
        rank=rank,
    )
