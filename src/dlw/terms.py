"""Terms whose prox carries something from one step to the next."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .factors import FactorPenalty, Factors, factorise, scattered
from .operators import Operator
from .prox import GRADIENT, basis_soft, leading, tv_prox, unfold_bands
from .solver import Carry, Term


def total_variation(strength: float, passes: int = 5) -> Term:
    """strength sum over bands of the isotropic total variation, differences ending at the border.

    The prox is an inner iteration; the carry is its dual, so a few ``passes`` per step do.
    """

    def prox(v: Tensor, t: float, dual: Carry) -> tuple[Tensor, Carry]:
        return tv_prox(v, t * strength, dual, passes)

    def value(u: Tensor) -> Tensor:
        total: Tensor = strength * GRADIENT.apply(u).norm(dim=-4).sum()
        return total

    return Term(prox, value=value, start=lambda v: torch.zeros_like(GRADIENT.apply(v)))


def shared_basis(
    operator: Operator,
    rank: int,
    strength: float,
    basis: Literal["leading", "first"] = "leading",
    adapt: bool = True,
) -> Term:
    """strength ||U||_1 with K x = V U, V orthonormal (band, rank): a sparse K x of low rank.

    The carry is V. It starts from the leading singular vectors of K y, or from the unit vectors of
    the first bands; ``adapt`` False keeps it.
    """

    def prox(v: Tensor, t: float, old: Carry) -> tuple[Tensor, Carry]:
        u, new = basis_soft(unfold_bands(v), t * strength, old, adapt)
        return u.view_as(v), new

    def start(v: Tensor) -> Carry:
        if basis == "leading":
            return leading(unfold_bands(v), rank)
        eye = torch.eye(v.shape[-3], rank, dtype=v.dtype, device=v.device)
        return eye.expand(*v.shape[:-3], *eye.shape)

    return Term(prox, operator, start=start)


def product(
    rank: int, penalty: FactorPenalty, first: Literal["leading", "scattered"] = "leading"
) -> Term:
    """x = A B with a penalty on both factors; the carry is (A, B).

    They start from the leading singular vectors of y, or from numbers that say nothing.
    """

    def prox(v: Tensor, t: float, old: Carry) -> tuple[Tensor, Carry]:
        return penalty(v, t, Factors(*old))

    make = factorise if first == "leading" else scattered
    return Term(prox, start=lambda v: make(v, rank))
