"""One step of ADMM for every model:  minimise  f(x; y, w) + sum_i g_i(K_i x).

Every function gets a copy u_i of K_i x and a multiplier m_i, with the Lagrangian

    sum_i g_i(u_i) + <m_i, u_i - K_i x> + mu_i/2 ||u_i - K_i x||^2 .

One step updates the copies, the image and the multipliers; then mu grows. One of the functions may be
*central*: it gets no copy and is minimised exactly in the image update, which then is its prox at
a weighted mean of the copies (all K_i must be the identity). With a central data term this is
Algorithm 1 of the paper. With none, the image update is one division in Fourier space.

Without multipliers (``Schedule.multipliers``) the same step is half-quadratic splitting, and with a
``proximal`` weight it is the proximal alternating minimisation of factor models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from .problem import Block, Problem, Schedule
from .terms import Carry

T = TypeVar("T")


class State(NamedTuple, Generic[T]):
    """Everything a step needs: images of type T (tensors, or arrays on disk), one per function.

    Attributes:
        x: the image.
        u: copies of K_i x; None where a function has no copy.
        m: multipliers; None where a copy has none.
        kx: K_i x, never on disk.
        carry: what the functions hand to their next prox.
        mu: the penalty.
        k: number of steps so far.
    """

    x: T
    u: tuple[T | None, ...]
    m: tuple[T | None, ...]
    kx: tuple[Tensor | None, ...]
    carry: tuple[Carry, ...]
    mu: float
    k: int


Watch = Callable[[State[Tensor]], None]
"""Called with the state after every step."""


def step(s: State[Tensor], p: Problem, schedule: Schedule) -> State[Tensor]:
    """One ADMM step; pure, and differentiable in y, w and the state."""
    for block in schedule.order:
        s = update(s, p, schedule, block)
    return finish(s, p, schedule)


def update(s: State[Tensor], p: Problem, schedule: Schedule, block: Block) -> State[Tensor]:
    """One block of a step: the copies of the terms or of the data, or the image."""
    if block == "image":
        mean = p.inverse(s.mu, schedule.proximal)(right_side(s, p, schedule))
        return centre(s._replace(x=mean), p, schedule)
    # u_i = prox_{g_i / mu_i}(K_i x - m_i / mu_i)
    u, carry = list(s.u), list(s.carry)
    for i in p.groups[block]:
        kx = s.kx[i]
        assert kx is not None
        v, t = argument(kx, s.m[i], p.step_size(i, s.mu))
        u[i], carry[i] = p.functions[i].prox(v, t, carry[i])
    return s._replace(u=tuple(u), carry=tuple(carry))


def argument(kx: Tensor, m: Tensor | None, t: float) -> tuple[Tensor, float]:
    """Where the prox of a copy is taken, K_i x - m_i / mu_i, and its step t = 1 / mu_i."""
    return (kx if m is None else torch.sub(kx, m, alpha=t)), t


def right_side(s: State[Tensor], p: Problem, schedule: Schedule) -> Tensor:
    """sum_i (mu_i / mu) K_i'(u_i + m_i/mu_i) + proximal old x, the right side of the image update

        x = argmin c(x) + sum_i mu_i/2 ||K_i x - u_i - m_i/mu_i||^2 + mu proximal/2 ||x - old x||^2

    with the central function c, or 0. Its left side is ``Problem.inverse``.
    """
    r: Tensor | None = None
    for i in p.copies:
        u, m, ratio = s.u[i], s.m[i], p.ratio(i, s.mu)
        assert u is not None
        # K'(u + m/mu_i), weighted by mu_i/mu
        sum_ = u if m is None else torch.add(u, m, alpha=1.0 / (s.mu * ratio))
        part = p.functions[i].operator.adjoint(sum_)
        if r is not None:
            r = torch.add(r, part, alpha=ratio)
            continue
        r = part if ratio == 1.0 else part * ratio
    assert r is not None
    return torch.add(r, s.x, alpha=schedule.proximal) if schedule.proximal else r


def centre(s: State[Tensor], p: Problem, schedule: Schedule) -> State[Tensor]:
    """The end of the image update: x, so far a mean of the copies, becomes the prox of c there."""
    x, carry = s.x, list(s.carry)
    if p.central is not None:
        t = central_step(s.mu, p, schedule)
        x, carry[p.central] = p.functions[p.central].prox(x, t, carry[p.central])
    return s._replace(x=x, kx=mapped(x, p), carry=tuple(carry))


def central_step(mu: float, p: Problem, schedule: Schedule) -> float:
    """1 / (sum_i mu_i + mu proximal), the step of the prox of the central function."""
    return 1.0 / (mu * (sum(p.ratio(i, mu) for i in p.copies) + schedule.proximal))


def finish(s: State[Tensor], p: Problem, schedule: Schedule) -> State[Tensor]:
    """The end of a step: multipliers and penalty."""
    m = list(s.m)
    for i in p.copies:
        old, u, kx = s.m[i], s.u[i], s.kx[i]
        if old is not None and u is not None and kx is not None:
            # m + mu_i (u - K x)
            m[i] = torch.add(old, u - kx, alpha=s.mu * p.ratio(i, s.mu))
    return s._replace(m=tuple(m), mu=grow_penalty(s.mu, schedule), k=s.k + 1)


def grow_penalty(mu: float, schedule: Schedule) -> float:
    """The penalty after a step."""
    return min(mu * schedule.growth, schedule.largest)


def start(problem: Problem, schedule: Schedule, x: Tensor | None = None) -> State[Tensor]:
    """First state: x = y (or the given image), copies K x, multipliers 0."""
    x = problem.measured if x is None else x
    kx = mapped(x, problem)
    zeros = tuple(
        torch.zeros_like(v) if v is not None and schedule.multipliers and f.held is None else None
        for v, f in zip(kx, problem.functions, strict=True)
    )
    carry = tuple(f.start(f.operator.apply(problem.measured)) for f in problem.functions)
    s = State(x, kx, zeros, kx, carry, schedule.mu, 0)
    return s if problem.model.begin is None else problem.model.begin(problem, s)


def mapped(x: Tensor, p: Problem) -> tuple[Tensor | None, ...]:
    """K_i x of every function that has a copy."""
    return tuple(f.operator.apply(x) if i in p.copies else None for i, f in enumerate(p.functions))


def output(s: State[T], p: Problem) -> T:
    """The image the model returns."""
    where = p.model.output
    if where == "image":
        return s.x
    u = s.u[where + 1]
    return s.x if u is None else u
