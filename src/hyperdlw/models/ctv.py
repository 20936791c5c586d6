"""Correlated total variation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from ..solver import AXES, NUCLEAR, Model, Problem, Schedule, State, gradient, l1, term, weighted_l2


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Differences of low rank: sum_k ||D_k X||_* over row, column and band (CTV, weighted).

    As in nn the data term carries c/sqrt(rows cols). Twenty steps; the result is the image.
    """
    scale = 35.0 / math.sqrt(shape[1] * shape[2])
    return Model(
        terms=tuple(term(NUCLEAR, gradient(k), strength, 0.25) for k in AXES),
        fidelity=weighted_l2(scale),
        schedule=Schedule(steps=20, mu=0.1 * scale, growth=1.2),
    )


def original(shape: Sequence[int], strength: float = 1.0) -> Model:
    """sum_k ||D_k X||_* + lam ||Y - X||_1 (Peng et al. 2022)."""
    lam = 3.0 / math.sqrt(shape[1] * shape[2]) / strength

    def begin(problem: Problem, s: State[Tensor]) -> State[Tensor]:
        """mu = 1.25 / d and multipliers y / d, with d = max(sigma_1(y), max |y| / lam)."""
        y = problem.measured
        d = max(problem.norm, problem.peak / lam)
        data, pull = y / d, (y / -d).unsqueeze(-4)
        return s._replace(m=(data, pull, pull, pull), mu=1.25 / d)

    return Model(
        terms=tuple(term(NUCLEAR, gradient(k), penalty=0.25) for k in AXES),
        fidelity=l1(lam),
        schedule=Schedule(steps=40, mu=1.0, growth=1.5),
        begin=begin,
    )
