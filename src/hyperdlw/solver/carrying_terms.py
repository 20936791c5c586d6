"""Terms whose prox carries something from one step to the next."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .factor_model import (
    FactorPenalty,
    Factors,
    factorise,
    leading_start,
    moments,
    scattered,
    scattered_numbers,
    scattered_start,
    sums,
)
from .operators import Operator
from .penalties import (
    GRADIENT,
    Small,
    Spread,
    adapted,
    basis_soft,
    exact_gram,
    leading,
    leading_of,
    soft,
    tv_prox,
    unfold_bands,
)
from .problem import Carry, Term


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
        eye = torch.eye(v.shape[-3], rank, dtype=v.dtype, device=v.device)
        return eye.expand(*v.shape[:-3], *eye.shape)

    # In stages: the sum is v U'. ``small`` is V, and the V before it that U was found with.

    def scores(v: Tensor, t: float, old: Tensor) -> Tensor:
        return soft(old.mT.to(v) @ unfold_bands(v), t * strength)

    def part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        return unfold_bands(v).double() @ scores(v, t, small[0]).double().mT

    def settle(pull: Tensor, t: float, small: Small) -> Small:
        old = small[0]
        return (adapted(pull, old) if adapt else old), old

    def apply(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        new, old = small
        made: Tensor = (new.to(v) @ scores(v, t, old)).view_as(v)
        return made

    def first(gram: Tensor, shape: tuple[int, ...]) -> Small:
        known = leading_of(gram, rank) if basis == "leading" else torch.eye(shape[0], rank).double()
        known = known.expand(*gram.shape[:-2], shape[0], rank)
        return known, known

    spread = Spread(part, settle, apply, first=first, first_part=exact_gram)
    return Term(prox, operator, start=start, spread=spread)


def product(
    rank: int, penalty: FactorPenalty, first: Literal["leading", "scattered"] = "leading"
) -> Term:
    """x = A B with a penalty on both factors; the carry is :class:`~hyperdlw.solver.factor_model.Factors`.

    They start from the leading singular vectors of y, or from numbers that say nothing.
    """

    def prox(v: Tensor, t: float, old: Carry) -> tuple[Tensor, Carry]:
        return penalty(v, t, Factors(*old))

    make = factorise if first == "leading" else scattered

    # In stages: the sums are v B' and B B', which give A; the few images are A'v and the maps B.

    def part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        assert images is not None
        return sums(v, images)

    def settle(total: Tensor, t: float, small: Small) -> Small:
        return penalty.settle(total, t, small.spectra, small.level)

    def low(v: Tensor, small: Small) -> Tensor:
        made: Tensor = small.low(v)
        return made

    def mix(images: Tensor, t: float, small: Small, old: Tensor) -> Tensor:
        return penalty.maps(images, t, small, old)

    def apply(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        assert images is not None
        return Factors(small.spectra, images, small.level).image

    begin = leading_start if first == "leading" else scattered_start
    spread = Spread(
        part,
        settle,
        apply,
        low,
        mix,
        first=lambda total, shape: begin(total, rank),
        first_part=moments,
        room=11 * rank,
        first_images=(
            None if first == "leading" else lambda shape: scattered_numbers((rank, *shape[1:]))
        ),
    )
    return Term(prox, start=lambda v: make(v, rank), spread=spread)
