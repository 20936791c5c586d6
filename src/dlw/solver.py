"""One ADMM for every model:  minimise  f(x; y, w) + sum_i g_i(K_i x).

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

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .errors import BadOption
from .fidelity import Fidelity, weighted_l2
from .gradient import checkpointed, fixed_point
from .operators import Operator, identity, invert
from .prox import Penalty, Spread, exact_gram

Carry = Any
"""What a term hands to its next prox: tensors in a (nested) tuple, or None."""

Block = Literal["terms", "image", "data"]
Backward = Literal["none", "unroll", "checkpoint", "implicit"]
Stopping = Literal["residuals", "change"]


@dataclass(frozen=True)
class Term:
    """One regulariser g(K x).

    Attributes:
        prox: (v, t, carry) -> (prox_{t g}(v), carry).
        operator: K.
        value: u -> g(u), where there is a formula.
        penalty: mu_i / mu, the weight of this copy relative to the schedule's mu.
        start: K y -> the first carry.
        held: the copy has this penalty whatever mu is, and no multiplier (see ``fidelity.l2``).
        reach: rows around a voxel on which its prox depends; None: all, or not known.
        spread: the prox in stages, for images held in parts.
    """

    prox: Callable[[Tensor, float, Carry], tuple[Tensor, Carry]]
    operator: Operator = identity
    value: Callable[[Tensor], Tensor] | None = None
    penalty: float = 1.0
    start: Callable[[Tensor], Carry] = lambda v: None
    held: float | None = None
    reach: int | None = None
    spread: Spread | None = None


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
        spread=scaled.spread,
    )


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: data, not code.

    Attributes:
        steps: number of steps, or the largest number when ``tolerance`` is given.
        mu: first penalty.
        growth: factor on mu after every step.
        largest: limit of mu.
        tolerance: stop when what ``stopping`` names is below it.
        stopping: "residuals": the relative primal and dual residuals; "change": the relative
            change ||output - old output|| / ||old output||.
        balance: let mu follow the ratio of the residuals (needs ``tolerance``).
        order: the order of the updates within a step.
        multipliers: without them a copy is only drawn to K x: half-quadratic splitting.
        proximal: weight, relative to mu, of 1/2 ||x - old x||^2 in the image update.
        guard: stop, and say so, when ||u - K x|| has grown by more than 2 % this many times running
            (with a network in the place of a prox it can diverge); the state before is the result.
        seconds: stop after the step that passes this time.
    """

    steps: int
    mu: float
    growth: float = 1.0
    largest: float = math.inf
    tolerance: float | None = None
    balance: bool = False
    order: tuple[Block, ...] = ("terms", "image", "data")
    stopping: Stopping = "residuals"
    multipliers: bool = True
    proximal: float = 0.0
    guard: int | None = None
    seconds: float | None = None

    def converged(self, tolerance: float = 1e-5, steps: int = 1000) -> Schedule:
        """The same penalties run to a tolerance, in the order for which ADMM provably converges."""
        if not self.multipliers:
            return replace(self, steps=steps, growth=1.0, tolerance=tolerance, stopping="change")
        return replace(
            self,
            steps=steps,
            growth=1.0,
            tolerance=tolerance,
            balance=True,
            order=("image", "terms", "data"),
            stopping="residuals",
        )


@dataclass(frozen=True)
class Model:
    """What a clean image looks like, and how the model is usually solved.

    Attributes:
        terms: the regularisers.
        fidelity: the data term.
        schedule: the steps of the paper (the ones the networks are trained with).
        central: the function solved in the image update: "data", the index of a term, or None.
        output: what is returned: "image", or the index of the term whose copy it is.
        begin: (problem, plain first state) -> first state, for models that start otherwise.
        rank: the rank of the model, for the report.
        method: another way to the solution, for what is not of this form (a deep image prior); it
            gets the problem, the schedule and ``watch``.
    """

    terms: tuple[Term, ...]
    schedule: Schedule
    fidelity: Fidelity = field(default_factory=weighted_l2)
    central: Literal["data"] | int | None = None
    output: Literal["image"] | int = "image"
    begin: Callable[[Problem, State], State] | None = None
    rank: int | None = None
    method: Callable[[Problem, Schedule, Watch | None], Solution] | None = None


@dataclass(frozen=True)
class Whole:
    """What a part of an image must know of the whole.

    Attributes:
        means: of every band, over the measured voxels.
        norm, peak: largest singular value (band by pixel) and absolute value of the image.
    """

    means: Tensor
    norm: float = math.nan
    peak: float = math.nan


@dataclass(frozen=True)
class Problem:
    """A model, the noisy cube y and the weights w, all (..., band, row, col).

    The seed is for a ``method`` that draws random numbers; ``whole`` is there if y is a part of a
    larger image.
    """

    model: Model
    y: Tensor
    w: Tensor
    seed: int = 0
    whole: Whole | None = None

    @cached_property
    def functions(self) -> tuple[Term, ...]:
        """The data term and the regularisers on one footing; the data term comes first."""
        f = self.model.fidelity
        data = Term(lambda v, t, carry: (f.prox(v, t, self.measured, self.w), carry), held=f.held)
        return (data, *self.model.terms)

    @cached_property
    def measured(self) -> Tensor:
        """y, with the mean of the band where w = 0, so that no trace of those values is left.

        They have no part in the data term, but a fixed number of steps remembers where it started.
        """
        ok = (self.w > 0).expand_as(self.y)
        if bool(ok.all()):
            return self.y
        if self.whole is not None:
            return torch.where(ok, self.y, self.whole.means.to(self.y)[:, None, None])
        known = torch.where(ok, self.y, torch.zeros_like(self.y))

        def mean(*axes: int) -> Tensor:
            return known.sum(axes, keepdim=True) / ok.sum(axes, keepdim=True).clamp_min(1)

        band = torch.where(ok.any(-1).any(-1)[..., None, None], mean(-2, -1), mean(-3, -2, -1))
        return torch.where(ok, self.y, band)

    @property
    def norm(self) -> float:
        """The largest singular value of the image, band by pixel."""
        if self.whole is not None:
            return self.whole.norm
        return norm_of(exact_gram(self.measured))

    @property
    def peak(self) -> float:
        """The largest absolute value of the image."""
        return float(self.measured.abs().amax()) if self.whole is None else self.whole.peak

    @property
    def central(self) -> int | None:
        c = self.model.central
        return None if c is None else 0 if c == "data" else c + 1

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Indices of the functions that have a copy."""
        split = [i for i in range(len(self.functions)) if i != self.central]
        return {"data": tuple(i for i in split if i == 0), "terms": tuple(i for i in split if i)}

    @property
    def copies(self) -> tuple[int, ...]:
        return self.groups["data"] + self.groups["terms"]

    def ratio(self, i: int, mu: float) -> float:
        """mu_i / mu."""
        f = self.functions[i]
        return f.penalty if f.held is None else f.held / mu

    def inverse(self, mu: float, proximal: float = 0.0) -> Callable[[Tensor], Tensor]:
        """r -> (sum_i (mu_i / mu) K_i'K_i + proximal I)^-1 r."""
        held = any(self.functions[i].held is not None for i in self.copies)
        key = (mu if held else None, proximal)
        if key not in self._inverses:
            parts = self.weighted_operators(mu, proximal)
            if self.central is not None and any(k.axes for _, k in parts):
                raise BadOption("a central function needs every operator to be the identity")
            self._inverses.clear()
            self._inverses[key] = invert(parts, self.y.shape)
        return self._inverses[key]

    def weighted_operators(self, mu: float, proximal: float = 0.0) -> list[tuple[float, Operator]]:
        """(mu_i / mu, K_i) of every copy, and what keeps the image where it was."""
        parts = [(self.ratio(i, mu), self.functions[i].operator) for i in self.copies]
        return [*parts, (proximal, identity)] if proximal else parts

    @cached_property
    def _inverses(self) -> dict[tuple[float | None, float], Callable[[Tensor], Tensor]]:
        """The last inverse; it changes with mu only where a copy is held."""
        return {}

    def objective(self, x: Tensor) -> Tensor:
        """f(x) + sum_i g_i(K_i x)."""
        total = self.model.fidelity.value(x, self.y, self.w)
        for t in self.model.terms:
            if t.value is None:
                raise BadOption("this model has a term without a formula for its value")
            total = total + t.value(t.operator.apply(x))
        return total


def norm_of(gram: Tensor) -> float:
    """The largest singular value behind a Gram matrix."""
    return math.sqrt(float(torch.linalg.eigvalsh(gram).amax().clamp_min(0)))


class State(NamedTuple):
    """Everything a step needs; one entry per function in u, m, kx and carry.

    An entry is None where a function has no copy, and in m where a copy has no multiplier.
    """

    x: Tensor
    u: tuple[Tensor | None, ...]
    m: tuple[Tensor | None, ...]
    kx: tuple[Tensor | None, ...]
    carry: tuple[Carry, ...]
    mu: float
    k: int


Watch = Callable[[State], None]


class Residuals(NamedTuple):
    """Relative primal ||u - Kx|| and dual mu ||K'(u - u_old)|| residuals after a step."""

    primal: float
    dual: float


class Solution(NamedTuple):
    """The restored image, the last state (for a warm start) and how the run went."""

    x: Tensor
    state: State
    residuals: tuple[Residuals, ...]
    converged: bool


def start(problem: Problem, schedule: Schedule, x: Tensor | None = None) -> State:
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


def step(s: State, p: Problem, schedule: Schedule) -> State:
    """One ADMM step; pure, and differentiable in y, w and the state."""
    for block in schedule.order:
        s = update(s, p, schedule, block)
    return finish(s, p, schedule)


def update(s: State, p: Problem, schedule: Schedule, block: Block) -> State:
    """One block of a step: the copies of the terms or of the data, or the image."""
    if block == "image":
        mean = p.inverse(s.mu, schedule.proximal)(right_side(s, p, schedule))
        return centre(s._replace(x=mean), p, schedule)
    return _copies(s, p, p.groups[block])


def finish(s: State, p: Problem, schedule: Schedule) -> State:
    """The end of a step: multipliers and penalty."""
    m = list(s.m)
    for i in p.copies:
        if s.m[i] is not None:
            # m + mu_i (u - K x)
            m[i] = torch.add(s.m[i], s.u[i] - s.kx[i], alpha=s.mu * p.ratio(i, s.mu))  # type: ignore
    return s._replace(m=tuple(m), mu=grown(s.mu, schedule), k=s.k + 1)


def grown(mu: float, schedule: Schedule) -> float:
    """The penalty after a step."""
    return min(mu * schedule.growth, schedule.largest)


def argument(s: State, p: Problem, i: int) -> tuple[Tensor, float]:
    """Where the prox of the copy i is taken, K_i x - m_i / mu_i, and its step 1 / mu_i."""
    m, kx = s.m[i], s.kx[i]
    assert kx is not None
    t = 1.0 / (s.mu * p.ratio(i, s.mu))
    return (kx if m is None else torch.sub(kx, m, alpha=t)), t


def _copies(s: State, p: Problem, indices: Sequence[int]) -> State:
    """u_i = prox_{g_i / mu_i}(K_i x - m_i / mu_i)."""
    u, carry = list(s.u), list(s.carry)
    for i in indices:
        v, t = argument(s, p, i)
        u[i], carry[i] = p.functions[i].prox(v, t, carry[i])
    return s._replace(u=tuple(u), carry=tuple(carry))


def right_side(s: State, p: Problem, schedule: Schedule) -> Tensor:
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


def centre(s: State, p: Problem, schedule: Schedule) -> State:
    """The end of the image update: x, so far a mean of the copies, becomes the prox of c there."""
    x, carry = s.x, list(s.carry)
    if p.central is not None:
        t = central_step(s, p, schedule)
        x, carry[p.central] = p.functions[p.central].prox(x, t, carry[p.central])
    return s._replace(x=x, kx=mapped(x, p), carry=tuple(carry))


def central_step(s: State, p: Problem, schedule: Schedule) -> float:
    """1 / (sum_i mu_i + mu proximal), the step of the prox of the central function."""
    return 1.0 / (s.mu * (sum(p.ratio(i, s.mu) for i in p.copies) + schedule.proximal))


def mapped(x: Tensor, p: Problem) -> tuple[Tensor | None, ...]:
    """K_i x of every function that has a copy."""
    return tuple(f.operator.apply(x) if i in p.copies else None for i, f in enumerate(p.functions))


def output(s: State, p: Problem) -> Tensor:
    """The image the model returns."""
    where = p.model.output
    if where == "image":
        return s.x
    u = s.u[where + 1]
    return s.x if u is None else u


@torch.no_grad()
def residuals(old: State, new: State, p: Problem) -> Residuals:
    """Relative residuals of one step (Boyd et al. 2011, section 3.3, for the order of ``converged``).

    Primal ||u - K x|| / max(||u||, ||K x||) over all copies together, dual
    ||sum_i mu_i K_i'(u_i - old u_i)|| / max_i ||K_i'm_i||. The maximum replaces ||sum_i K_i'm_i||,
    which is zero at the solution when there is no central function.
    """
    return residuals_of(residual_sums(old, new, p))


@torch.no_grad()
def residual_sums(old: State, new: State, p: Problem, rows: slice = slice(None)) -> list[float]:
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
        moved = f.operator.adjoint(u - old.u[i]) * (old.mu * f.penalty)  # type: ignore[operator]
        change = moved if change is None else change + moved
        if m is not None:
            pull.append(square(f.operator.adjoint(m)))
    assert change is not None
    return [gap, size_u, size_kx, square(change), *pull]


def residuals_of(sums: Sequence[float]) -> Residuals:
    """The residuals from their sums."""
    gap, size_u, size_kx, change, *pull = sums
    tiny = 1e-30
    primal = math.sqrt(gap / max(size_u, size_kx, tiny))
    return Residuals(primal, math.sqrt(change) / max(math.sqrt(max(pull, default=0.0)), tiny))


@torch.no_grad()
def changes(old: State, new: State, p: Problem) -> Residuals:
    """The relative change of the output in one step, in both places."""
    return changes_of(change_sums(old, new, p))


@torch.no_grad()
def change_sums(old: State, new: State, p: Problem, rows: slice = slice(None)) -> list[float]:
    """Sums of squares behind the change, over some rows: the change, and the old output."""
    before = output(old, p)[..., rows, :]
    return [float((output(new, p)[..., rows, :] - before).norm()) ** 2, float(before.norm()) ** 2]


def changes_of(sums: Sequence[float]) -> Residuals:
    """The change from its sums."""
    change = math.sqrt(sums[0] / max(sums[1], 1e-60))
    return Residuals(change, change)


@torch.no_grad()
def gap(s: State, p: Problem) -> float:
    """||u - K x||^2 over all copies."""
    gaps = (s.u[i] - s.kx[i] for i in p.copies)  # type: ignore[operator]
    return float(sum(float(v.square().sum()) for v in gaps))


class Guard:
    """Watches ||u - K x|| over the steps of a run."""

    def __init__(self, limit: int, state: State) -> None:
        self.limit, self.last_good = limit, state
        self.gap, self.grown = math.inf, 0

    def fires(self, s: State, square: float) -> bool:
        """True when the gap, given squared, has grown ``limit`` times running, or is not a number."""
        gap = math.sqrt(square)
        # Half-quadratic splitting can creep up to its limit, which is no divergence.
        if gap <= 1.02 * self.gap:
            self.grown, self.last_good = 0, s
        else:
            self.grown += 1
        self.gap = gap
        return not math.isfinite(gap) or self.grown == self.limit


def balanced(mu: float, now: Residuals, k: int, schedule: Schedule) -> float:
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


def iterate(
    s: State,
    schedule: Schedule,
    advance: Callable[[State], State],
    measure: Callable[[State, State], Residuals],
    gap: Callable[[State], float],
    watch: Watch | None = None,
) -> tuple[State, tuple[Residuals, ...], bool]:
    """Repeat a step as the schedule says; the last state, its residuals and whether it converged.

    Args:
        advance: one step.
        measure: (old, new state) -> what the schedule stops by.
        gap: state -> ||u - K x||^2, for the guard.
        watch: called with the state after every step.
    """
    history: list[Residuals] = []
    done = schedule.tolerance is None
    guard = None if schedule.guard is None else Guard(schedule.guard, s)
    begun = time.monotonic()
    for k in range(schedule.steps):
        old, s = s, advance(s)
        if watch is not None:
            watch(s)
        if guard is not None and guard.fires(s, gap(s)):
            s, done = guard.last_good, False
            break
        if schedule.seconds is not None and time.monotonic() - begun > schedule.seconds:
            break
        if schedule.tolerance is None:
            if k == schedule.steps - 1 and not torch.is_grad_enabled():
                history.append(measure(old, s))
            continue
        now = measure(old, s)
        history.append(now)
        if max(now) < schedule.tolerance:
            done = True
            break
        s = s._replace(mu=balanced(s.mu, now, k, schedule))
    return s, tuple(history), done


def run(
    problem: Problem, schedule: Schedule, state: State | None = None, watch: Watch | None = None
) -> Solution:
    """Repeat ``step`` as the schedule says, from ``state`` or from y."""
    measure = residuals if schedule.stopping == "residuals" else changes
    s, history, done = iterate(
        start(problem, schedule) if state is None else state,
        schedule,
        lambda s: step(s, problem, schedule),
        lambda old, new: measure(old, new, problem),
        lambda s: gap(s, problem),
        watch,
    )
    return Solution(output(s, problem), s, history, done)


def solve(
    problem: Problem,
    schedule: Schedule | None = None,
    *,
    backward: Backward = "none",
    state: State | None = None,
    watch: Callable[[State], None] | None = None,
) -> Solution:
    """Solve a problem; the result is differentiable in y and w as ``backward`` says.

    Args:
        schedule: the model's own (the paper's number of steps) unless given.
        backward: "none"; "unroll" keeps every step for the backward pass; "checkpoint" keeps
            every fourth and recomputes the others; "implicit" differentiates the optimality
            condition at the solution, with memory that does not grow with the number of steps.
        state: warm start from the state of an earlier solution.
        watch: called with the state after every step.
    """
    schedule = schedule or problem.model.schedule
    if problem.model.method is not None:
        if backward != "none" or state is not None:
            raise BadOption("this model has no gradient and no warm start")
        return problem.model.method(problem, schedule, watch)
    if backward == "none":
        with torch.no_grad():
            return run(problem, schedule, state, watch)
    if backward == "unroll":
        return run(problem, schedule, state, watch)
    if backward == "checkpoint":
        return _run_checkpointed(problem, schedule, state)
    if backward == "implicit":
        return _run_implicit(problem, schedule, state, watch)
    raise BadOption(f"backward must be none, unroll, checkpoint or implicit, not '{backward}'")


def _run_checkpointed(
    p: Problem, schedule: Schedule, state: State | None, every: int = 4
) -> Solution:
    if schedule.tolerance is not None:
        raise BadOption("backward='checkpoint' needs a fixed number of steps; use 'implicit'")
    s = start(p, schedule) if state is None else state
    for done in range(0, schedule.steps, every):
        count = min(every, schedule.steps - done)

        def advance(t: State, q: Problem, count: int = count) -> State:
            for _ in range(count):
                t = step(t, q, schedule)
            return t

        s = checkpointed(advance, s, p)
    return Solution(output(s, p), s, (), True)


def _run_implicit(
    p: Problem, schedule: Schedule, state: State | None, watch: Callable[[State], None] | None
) -> Solution:
    still = replace(p, y=p.y.detach(), w=p.w.detach())
    with torch.no_grad():
        found = run(still, schedule, state, watch)
    frozen = replace(schedule, growth=1.0, order=("image", "terms", "data"))
    # This order computes K x before it is used: no need to keep it.
    kept = found.state._replace(kx=(None,) * len(found.state.kx))
    s = fixed_point(lambda t, q: step(t, q, frozen), kept, p)
    return found._replace(x=output(s, p), state=found.state)
