"""Low-rank tensor factorisation with double factor regularisation."""

from __future__ import annotations

from collections.abc import Sequence

from ..factors import FactorPenalty
from ..fidelity import reweighted_l1, weighted_l2
from ..solver import Model, Schedule
from ..terms import product


def default_rank(bands: int) -> int:
    """3 for some 31 bands, 5 up to 150, 6 above (the paper's values)."""
    return min(bands, 3 if bands <= 40 else 5 if bands <= 150 else 6)


def build(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """X = A B: tau sum log |D B| + lam ||D A||^2, spectra A, maps B (DLW-LRTFDFR)."""
    rank = rank or default_rank(shape[0])
    penalty = FactorPenalty(edges=0.01 * strength, smooth=0.1 * strength, coupling=1.0)
    return Model(
        terms=(product(rank, penalty),),
        fidelity=weighted_l2(),
        schedule=Schedule(steps=30, mu=1e-2, growth=1.5),
        central="data",
        output=0,
        rank=rank,
    )


def original(
    shape: Sequence[int],
    strength: float = 1.0,
    *,
    rank: int | None = None,
    coupling: float = 100.0,
) -> Model:
    """X = A B with tau sum log |D B| + lam ||D A||^2 and sparse noise (Zheng et al. 2020)."""
    rank = rank or default_rank(shape[0])
    penalty = FactorPenalty(edges=0.2 * strength, smooth=0.01 * strength, coupling=coupling)
    return Model(
        terms=(product(rank, penalty),),
        fidelity=reweighted_l1(0.04),
        schedule=Schedule(steps=50, mu=1.0, multipliers=False, proximal=0.1, stopping="change"),
        central="data",
        output=0,
        rank=rank,
    )
