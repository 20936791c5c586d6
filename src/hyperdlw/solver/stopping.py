"""When to stop: residuals of a step, the guard against divergence, and the penalty that follows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from .admm import State, T, output
from .problem import Problem, Schedule


class Residuals(NamedTuple):
    """Relative primal ||u - Kx|| and dual mu ||K'(u - u_old)|| residuals after a step."""

    primal: float
    dual: float


@torch.no_grad()
def residual_sums(
    old: State[Tensor], new: State[Tensor], p: Problem, rows: slice = slice(None)
) -> list[float]:
    """Sums of squares behind the residuals, over some rows: u - K x, u, K x, the change, every K'm."""

    def square(v: Tensor) -> float:
        return float(v[..., rows, :].square().sum())

    gap = size_u = size_kx = 0.0
    pull: list[float] = []
    change: Tensor | None = None
    for i in p.copies:
        f, u, kx, m = p.functions[i], new.u[i], new.kx[i], new.m[i]
        if f.held is not None:
            continue
        assert u is not None
        assert kx is not None
        gap, size_u, size_kx = gap + square(u - kx), size_u + square(u), size_kx + square(kx)
        before = old.u[i]
        assert before is not None
        moved = f.operator.adjoint(u - before) * (old.mu * f.penalty)
        change = moved if change is None else change + moved
        if m is not None:
            pull.append(square(f.operator.adjoint(m)))
    assert change is not None
    return [gap, size_u, size_kx, square(change), *pull]


def residuals_of(sums: Sequence[float]) -> Residuals:
    """The residuals from their sums (Boyd et al. 2011, section 3.3, for the order of ``converged``).

    Primal ||u - K x|| / max(||u||, ||K x||) over all copies together, dual
    ||sum_i mu_i K_i'(u_i - old u_i)|| / max_i ||K_i'm_i||. The maximum replaces ||sum_i K_i'm_i||,
    which is zero at the solution when there is no central function.
    """
    gap, size_u, size_kx, change, *pull = sums
    tiny = 1e-30
    primal = math.sqrt(gap / max(size_u, size_kx, tiny))
    return Residuals(primal, math.sqrt(change) / max(math.sqrt(max(pull, default=0.0)), tiny))


@torch.no_grad()
def change_sums(
    old: State[Tensor], new: State[Tensor], p: Problem, rows: slice = slice(None)
) -> list[float]:
    """Sums of squares behind the change, over some rows: the change, and the old output."""
    before = output(old, p)[..., rows, :]
    return [float((output(new, p)[..., rows, :] - before).norm()) ** 2, float(before.norm()) ** 2]


def changes_of(sums: Sequence[float]) -> Residuals:
    """The relative change of the output, in both places, from its sums."""
    change = math.sqrt(sums[0] / max(sums[1], 1e-60))
    return Residuals(change, change)


MEASURES = {"residuals": (residual_sums, residuals_of), "change": (change_sums, changes_of)}
"""By ``Schedule.stopping``: the sums over an image, and what is made of them."""


@torch.no_grad()
def measure_gap(s: State[Tensor], p: Problem, rows: slice = slice(None)) -> float:
    """||u - K x||^2 over all copies, over some rows."""
    total = 0.0
    for i in p.copies:
        u, kx = s.u[i], s.kx[i]
        assert u is not None
        assert kx is not None
        total += float((u[..., rows, :] - kx[..., rows, :]).square().sum())
    return total


class Guard(Generic[T]):
    """Watches ||u - K x|| over the steps of a run."""

    def __init__(self, limit: int, state: State[T]) -> None:
        self.limit, self.last_good = limit, state
        self.gap, self.grown = math.inf, 0

    def fires(self, s: State[T], square: float) -> bool:
        """True when the gap, given squared, has grown ``limit`` times running, or is not a number."""
        gap = math.sqrt(square)
        # Half-quadratic splitting can creep up to its limit, which is no divergence.
        if gap <= 1.02 * self.gap:
            self.grown, self.last_good = 0, s
        else:
            self.grown += 1
        self.gap = gap
        return not math.isfinite(gap) or self.grown == self.limit


def balance_penalty(mu: float, now: Residuals, k: int, schedule: Schedule) -> float:
    """The penalty that keeps both residuals alike, every tenth step.

    Boyd et al. 2011, section 3.4.1, with 3 for their 10: a third fewer steps for tv under uneven
    weights. Frozen in the second half so that the limit exists.
    """
    if schedule.balance and k % 10 == 9 and k < schedule.steps // 2:
        if now.primal > 3 * now.dual:
            return mu * 2
        if now.dual > 3 * now.primal:
            return mu / 2
    return mu
