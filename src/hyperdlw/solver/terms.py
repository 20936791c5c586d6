"""Terms g(K x): one regulariser with its operator, and those whose prox carries a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from .operators import Operator, identity
from .penalties import (
    GRADIENT,
    Penalty,
    Small,
    StagedProx,
    adapt_basis,
    basis_soft,
    exact_gram,
    leading,
    leading_of,
    soft,
    tv_prox,
    unfold_bands,
)

Carry = Any
"""What a term hands to its next prox: tensors in a (nested) tuple, or None."""


@dataclass(frozen=True)
class Term:
    """One regulariser g(K x).

    Attributes:
        prox: (v, t, carry) -> (prox_{t g}(v), carry).
        operator: K.
        value: u -> g(u), where there is a formula.
        penalty: mu_i / mu, the weight of this copy relative to the schedule's mu.
        start: K y -> the first carry.
        held: the copy has this penalty whatever mu is, and no multiplier (see ``data_terms.l2``).
        reach: rows around a voxel on which its prox depends; None: all, or not known.
        staged: the prox in stages, for images held in parts.
    """

    prox: Callable[[Tensor, float, Carry], tuple[Tensor, Carry]]
    operator: Operator = identity
    value: Callable[[Tensor], Tensor] | None = None
    penalty: float = 1.0
    start: Callable[[Tensor], Carry] = lambda v: None
    held: float | None = None
    reach: int | None = None
    staged: StagedProx | None = None


def term(
    g: Penalty, operator: Operator = identity, strength: float = 1.0, penalty: float = 1.0
) -> Term:
    """The term ``strength * g(K x)`` of a penalty without carried state."""
    scaled = g.scaled(strength)
    return Term(
        lambda v, t, carry: (scaled.prox(v, t), carry),
        operator,
        scaled.value,
        penalty,
        reach=scaled.reach,
        staged=scaled.staged,
    )


def total_variation(strength: float, passes: int = 5) -> Term:
    """strength sum over bands of the isotropic total variation, differences ending at the border.

    The prox is an inner iteration; the carry is its dual, so a few ``passes`` per step do.
    """

    def prox(v: Tensor, t: float, dual: Carry) -> tuple[Tensor, Carry]:
        return tv_prox(v, t * strength, dual, passes)

    def value(u: Tensor) -> Tensor:
        total: Tensor = strength * GRADIENT.apply(u).norm(dim=-4).sum()
        return total

    # A pass moves what a pixel knows by one row, the last difference by one more.
    return Term(
        prox,
        value=value,
        start=lambda v: torch.zeros_like(GRADIENT.apply(v)),
        reach=passes + 1,
    )


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
        eye = torch.eye(v.shape[-3], rank, dtype=torch.float64, device=v.device)
        return eye.expand(*v.shape[:-3], *eye.shape)

    # In stages: the sum is v U'. ``small`` is V, and the V before it that U was found with.

    def scores(v: Tensor, t: float, old: Tensor) -> Tensor:
        return soft(old.mT.to(v) @ unfold_bands(v), t * strength)

    def sum_part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        return unfold_bands(v).double() @ scores(v, t, small[0]).double().mT

    def update_small(pull: Tensor, t: float, small: Small) -> Small:
        old = small[0]
        return (adapt_basis(pull, old) if adapt else old), old

    def prox_part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        new, old = small
        made: Tensor = (new.to(v) @ scores(v, t, old)).view_as(v)
        return made

    def start_small(gram: Tensor, shape: tuple[int, ...]) -> Small:
        known = leading_of(gram, rank) if basis == "leading" else torch.eye(shape[0], rank).to(gram)
        known = known.expand(*gram.shape[:-2], shape[0], rank)
        return known, known

    staged = StagedProx(
        sum_part, update_small, prox_part, start_sum_part=exact_gram, start_small=start_small
    )
    return Term(prox, operator, start=start, staged=staged)
