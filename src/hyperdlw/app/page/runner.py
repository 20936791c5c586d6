"""Runs one job of the page after another on a cube, and keeps what the strength slider needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...cube import Cube
from .job import JobRequest, PageJob

if TYPE_CHECKING:
    from torch import Tensor

    from ...pipeline import Prepared, Result
    from ...solver import State
    from ...weights import Source

MOST_KEPT = 2 * 2**30
"""Bytes of a solver state that is kept for the strength slider; a larger one is dropped."""


@dataclass
class Memory:
    """What the strength slider needs from the last complete run: solver state, source, input."""

    request: JobRequest
    result: Result
    source: Source
    state: State[Tensor] | None
    ready: Prepared | None = None


class Runner:
    """Runs jobs on one cube; ``show`` gets the preview of a job, while there is one."""

    def __init__(
        self, cube: Cube, show: Callable[[NDArray[np.float32]], None], device: str = "cpu"
    ) -> None:
        self.cube, self.device = cube, device
        self.show = show
        self.memory: Memory | None = None

    def run(self, job: PageJob) -> Result:
        """The result of a job; raises :class:`Stop` where it is cancelled."""
        from ...pipeline import check_options, denoise
        from ...weights import Known

        request, memory = job.request, self.memory
        state: list[State[Tensor]] = []

        def watch(s: State[Tensor]) -> None:
            if job.progress != "solving":
                job.enter("solving", _count_steps(request, self.cube, source))
            job.tick()
            state[:] = [s]

        settings: dict[str, Any] = {**request.settings, "device": self.device}
        source: Source = check_options(**settings).source  # the quality may choose another network
        if memory is not None and not _is_same_problem(memory.request, request):
            memory = None
        weights: Source = source
        if memory is not None:
            self._show_preview(job, memory)
            if source.rounds == 1:
                # These weights do not depend on the strength.
                last = memory.result
                weights = Known(_as_tensor(last.weights[_find_used(last)]), source)
        job.enter("weights")
        # A network looks at large cubes tile by tile: a place to stop before the first step.
        hooks = [
            net.register_forward_pre_hook(lambda *_: job.enter("weights")) for net in source.modules
        ]
        try:
            with job.interruptible():
                result = denoise(self.cube, watch=watch, **{**settings, "weights": weights})
        finally:
            for hook in hooks:
                hook.remove()
        kept = state[0] if state and _measure_state(state[0]) <= MOST_KEPT else None
        ready = None if memory is None else memory.ready
        self.memory = Memory(request, result, source, kept, ready)
        return result

    def _show_preview(self, job: PageJob, memory: Memory) -> None:
        """A few steps from the last solution, to show something while the true run goes on.

        The number of steps is part of the method, so what is kept and exported is always a run
        from the start; warm steps only fill the time until then.
        """
        from ...pipeline import check_options, prepare_cube, put_back
        from ...solver import Problem, solve

        state, strength = memory.state, job.request.strength
        if state is None or strength == "auto":
            return
        job.enter("preview")
        memory.ready = memory.ready or prepare_cube(self.cube)
        ready = memory.ready
        settings: dict[str, Any] = {**job.request.settings, "weights": memory.source}
        options = check_options(**settings)
        built = options.build(ready.y.shape, strength)
        if state.x.shape != ready.y.shape:
            return
        plan = replace(built.schedule, steps=max(2, built.schedule.steps // 4))
        job.enter("preview", plan.steps)
        w, place = _as_tensor(memory.result.weights[ready.use]), state.x.device
        problem = Problem(built, ready.y.to(place), w.to(place))
        warm = state._replace(mu=plan.mu)
        found = solve(problem, plan, state=warm, watch=lambda _: job.tick())
        self.show(put_back(self.cube, ready, found.x.cpu()).data)


def load_program(weights: str) -> None:
    """What a run needs before it begins: torch, the pipeline, the network."""
    from ...pipeline import denoise  # noqa: F401
    from ...weights import resolve

    resolve(weights)


def _is_same_problem(a: JobRequest, b: JobRequest) -> bool:
    """Whether only the strength differs."""
    return replace(a, strength=1.0) == replace(b, strength=1.0)


def _find_used(result: Result) -> NDArray[np.bool_]:
    use = np.ones(result.report.shape[0], bool)
    use[list(result.report.bands_skipped)] = False
    return use


def _as_tensor(values: NDArray[np.float32]) -> Tensor:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values))


def _measure_state(state: State[Tensor]) -> int:
    tensors = [state.x, *state.u, *state.m, *state.kx]
    return sum(t.nbytes for t in tensors if t is not None)


def _count_steps(request: JobRequest, cube: Cube, source: Source) -> int | None:
    """How many steps a run will take, where that is known beforehand."""
    from ...pipeline import check_options

    settings: dict[str, Any] = {**request.settings, "weights": source}
    return check_options(**settings).count_steps(cube.shape)
