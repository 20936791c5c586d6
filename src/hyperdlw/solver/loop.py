"""One ADMM for every model:  minimise  f(x; y, w) + sum_i g_i(K_i x).

This is the loop around a step, and how its result is differentiated. What is minimised is
described in :mod:`hyperdlw.solver.problem`, the step in :mod:`hyperdlw.solver.admm`, and when to stop in
:mod:`hyperdlw.solver.stopping`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..errors import BadOption
from .admm import State, T, Watch, output, start, step
from .backward import checkpointed, fixed_point
from .problem import Problem, Schedule
from .stopping import MEASURES, Guard, Residuals, balance_penalty, measure_gap

Backward = Literal["none", "unroll", "checkpoint", "implicit"]


def iterate(
    s: State[T],
    schedule: Schedule,
    advance: Callable[[State[T]], State[T]],
    measure: Callable[[State[T], State[T]], Residuals],
    gap: Callable[[State[T]], float],
    watch: Callable[[State[T]], None] | None = None,
) -> tuple[State[T], tuple[Residuals, ...], bool]:
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
        s = s._replace(mu=balance_penalty(s.mu, now, k, schedule))
    return s, tuple(history), done


class Solution(NamedTuple):
    """The restored image, the last state (for a warm start) and how the run went."""

    x: Tensor
    state: State[Tensor]
    residuals: tuple[Residuals, ...]
    converged: bool


def run(
    problem: Problem,
    schedule: Schedule,
    state: State[Tensor] | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Repeat ``step`` as the schedule says, from ``state`` or from y."""
    sums, relative = MEASURES[schedule.stopping]
    s, history, done = iterate(
        start(problem, schedule) if state is None else state,
        schedule,
        lambda s: step(s, problem, schedule),
        lambda old, new: relative(sums(old, new, problem)),
        lambda s: measure_gap(s, problem),
        watch,
    )
    return Solution(output(s, problem), s, history, done)


def solve(
    problem: Problem,
    schedule: Schedule | None = None,
    *,
    backward: Backward = "none",
    state: State[Tensor] | None = None,
    watch: Watch | None = None,
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
            found = run(problem, schedule, state, watch)
        other = problem.model.again and problem.model.again(problem, found.x)
        return solve(replace(problem, model=other), schedule, watch=watch) if other else found
    if backward == "unroll":
        return run(problem, schedule, state, watch)
    if backward == "checkpoint":
        return _run_checkpointed(problem, schedule, state)
    if backward == "implicit":
        return _run_implicit(problem, schedule, state, watch)
    raise BadOption(f"backward must be none, unroll, checkpoint or implicit, not '{backward}'")


def _run_checkpointed(
    p: Problem, schedule: Schedule, state: State[Tensor] | None, every: int = 4
) -> Solution:
    if schedule.tolerance is not None:
        raise BadOption("backward='checkpoint' needs a fixed number of steps; use 'implicit'")
    s = start(p, schedule) if state is None else state
    for done in range(0, schedule.steps, every):
        count = min(every, schedule.steps - done)

        def advance(t: State[Tensor], q: Problem, count: int = count) -> State[Tensor]:
            for _ in range(count):
                t = step(t, q, schedule)
            return t

        s = checkpointed(advance, s, p)
    return Solution(output(s, p), s, (), True)


def _run_implicit(
    p: Problem, schedule: Schedule, state: State[Tensor] | None, watch: Watch | None
) -> Solution:
    still = replace(p, y=p.y.detach(), w=p.w.detach())
    with torch.no_grad():
        found = run(still, schedule, state, watch)
    frozen = replace(schedule, growth=1.0, order=("image", "terms", "data"))
    # This order computes K x before it is used: no need to keep it.
    kept = found.state._replace(kx=(None,) * len(found.state.kx))
    s = fixed_point(lambda t, q: step(t, q, frozen), kept, p)
    return found._replace(x=output(s, p), state=found.state)
