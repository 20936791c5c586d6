"""Enhanced three-dimensional total variation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..solver import AXES, Model, Schedule, gradient, l1, shared_basis


def build(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """Sparse differences of low rank: tau sum_k ||U_k||_1, D_k X = V_k U_k (DLW-E3DTV).

    D_k are the differences along rows, columns and bands, V_k an orthonormal spectral basis of each,
    found on the way. Thirty steps; the result is the smooth image.
    """
    rank = rank or min(shape[0], 4 if shape[0] <= 40 else 5)
    return Model(
        terms=tuple(shared_basis(gradient(k), rank, 0.025 * strength) for k in AXES),
        schedule=Schedule(steps=30, mu=1e-2, growth=1.2),
        rank=rank,
    )


def original(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """tau sum_k ||U_k||_1 + ||Y - X||_1, D_k X = V_k U_k (Peng et al. 2020)."""
    rank = rank or min(shape[0], 13)
    tau = 0.004 * math.sqrt(shape[1] * shape[2]) * strength
    return Model(
        terms=tuple(shared_basis(gradient(k), rank, tau, "first") for k in AXES),
        fidelity=l1(),
        schedule=Schedule(
            steps=40, mu=1e-2, growth=1.5, largest=1e6, order=("image", "terms", "data")
        ),
        rank=rank,
    )
