"""The state behind the page: one cube, its latest result, and one job at a time."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...cube import Cube
from ...errors import BadInput, DlwError
from ...io import measure_memory
from .job import Busy, Choices, JobRequest, PageJob, Stop, list_choices

if TYPE_CHECKING:
    from torch import Tensor

    from ...pipeline import Prepared, Result
    from ...solver import State
    from ...weights import Source

Plane = NDArray[np.float32]

LAYERS = ("noisy", "restored", "weights")
MOST_KEPT = 2 * 2**30
"""Bytes of a solver state that is kept for the strength slider; a larger one is dropped."""


class Absent(DlwError):
    """The thing asked for is not there (yet)."""


@dataclass
class Memory:
    """What the strength slider needs from the last complete run: solver state, source, input."""

    request: JobRequest
    source: Source
    state: State[Tensor] | None
    ready: Prepared | None = None


class Session:
    """One cube under observation.

    Args:
        cube: the noisy cube; its data are held once, band by band.
        name: the file's name, shown on the page.
        target: where results are written, when ``OUT`` was given.
        overwrite: whether files that exist there may be replaced.
    """

    def __init__(
        self, cube: Cube, name: str, target: Path | None = None, overwrite: bool = False
    ) -> None:
        from ...pipeline import colour_bands, measure_noise

        self.cube = lean(cube)
        self.colours = colour_bands(self.cube)
        self.noise = measure_noise(self.cube, most=10_000)
        self.name = name
        self.target = target
        self.overwrite = overwrite
        self.result: Result | None = None
        self.version = 0
        self.job: PageJob | None = None
        self.listeners = 0
        self.closing = False
        self._preview: NDArray[np.float32] | None = None
        self._memory: Memory | None = None
        self.choices: Choices = list_choices(self.cube.bands)
        self._lock = threading.Lock()

    # --- what there is to see

    def layer(self, name: str) -> NDArray[np.float32]:
        """A cube of numbers to show: "noisy", "restored" or "weights"."""
        if name not in LAYERS:
            raise Absent(f"there is no such layer; the page shows {', '.join(LAYERS)}")
        if name == "noisy":
            return self.cube.data
        result, preview = self.result, self._preview
        if result is None:
            raise Absent(f"the layer {name} is there after the first run")
        if name == "weights":
            return result.weights
        return result.cube.data if preview is None else preview

    def plane(self, name: str, band: int) -> Plane:
        """One band (row, col) of a layer, NaN where nothing was measured."""
        data = self.layer(name)
        if not 0 <= band < self.cube.bands:
            raise Absent(f"bands are numbered from 0 to {self.cube.bands - 1}")
        plane: Plane = data[band]
        ok = self.cube.valid[band]
        return plane if ok.all() else np.where(ok, plane, np.float32(np.nan))

    def spectrum(self, row: int, col: int) -> dict[str, list[float | None]]:
        """Every layer's values at one pixel, None where nothing was measured."""
        _, rows, cols = self.cube.shape
        if not (0 <= row < rows and 0 <= col < cols):
            raise Absent(f"pixels are numbered from 0, 0 to {rows - 1}, {cols - 1}")
        ok = self.cube.valid[:, row, col]
        found = {}
        for name in LAYERS if self.result is not None else ("noisy",):
            values = self.layer(name)[:, row, col].tolist()
            found[name] = [v if good else None for v, good in zip(values, ok, strict=True)]
        return found

    def facts(self) -> dict[str, object]:
        """What the page has to know about the cube."""
        cube = self.cube
        nm = cube.wavelengths
        return {
            "name": self.name,
            "shape": cube.shape,
            "wavelengths": None if nm is None or not np.isfinite(nm).all() else nm.tolist(),
            "good": cube.good_bands.tolist(),
            "colours": self.colours,
            "noise": [float(v) if np.isfinite(v) else None for v in self.noise],
            "noisiest": self.find_noisiest(),
            "stored": f"{cube.encoding.format}, {cube.encoding.dtype}",
            "notes": [str(n) for n in cube.metadata.get("notes", ())],
            "target": None if self.target is None else self.target.name,
        }

    def find_noisiest(self) -> int:
        """The usable band with the most noise: the one that tells most; the middle one if none has any."""
        level = np.where(self.cube.good_bands, np.nan_to_num(self.noise), 0.0)
        return int(level.argmax()) if level.any() else self.cube.bands // 2

    def status(self) -> dict[str, object]:
        """What changes while the page is open."""
        result, job = self.result, self.job
        return {
            "version": self.version,
            "preview": self._preview is not None,
            "result": None if result is None else _summary(result),
            "job": None if job is None else job.as_dict(),
        }

    # --- work

    def start(self, request: JobRequest) -> PageJob:
        """Begin a job in a thread of its own; one at a time."""
        with self._lock:
            if self.closing:
                raise Busy("the program is closing")
            if self.job is not None and self.job.running:
                raise Busy("a job is running; cancel it, or wait for its end")
            job = PageJob(1 if self.job is None else self.job.number + 1, request)
            job.thread = threading.Thread(target=self._work, args=(job,), daemon=True)
            self.job = job
        job.thread.start()
        return job

    def cancel(self) -> None:
        """Ask the running job to stop; it does so after the step it is in."""
        if self.job is not None:
            self.job.stop.set()

    def abandon(self) -> None:
        """Nobody is looking any more."""
        if self.listeners == 0:
            self.cancel()

    def end(self) -> None:
        """Take no more jobs, and ask everything that runs to stop; returns at once."""
        self.closing = True
        self.cancel()

    def close(self, seconds: float = 60.0) -> None:
        """Stop the job and wait for its thread."""
        self.end()
        if self.job is not None and self.job.thread is not None:
            self.job.thread.join(seconds)

    def _work(self, job: PageJob) -> None:
        try:
            result, memory = self._run(job)
            self.result, self._memory = result, memory
            job.progress = "done"
        except Stop:
            job.progress = "cancelled"
        except DlwError as error:
            job.message, job.progress = str(error), "failed"
        except MemoryError:
            job.message, job.progress = "there is not enough memory for this job", "failed"
        except Exception as error:
            job.message = f"unexpected {type(error).__name__}: {error}"
            job.progress = "failed"
        finally:
            job.seconds = time.monotonic() - job.begin
            self._preview = None
            self.version += 1

    def _run(self, job: PageJob) -> tuple[Result, Memory]:
        from ...pipeline import denoise
        from ...weights import Known, resolve

        request, memory, last = job.request, self._memory, self.result
        state: list[State[Tensor]] = []

        def watch(s: State[Tensor]) -> None:
            if job.progress != "solving":
                job.enter("solving", _steps(request, self.cube, source))
            job.tick()
            state[:] = [s]

        source: Source = resolve(request.weights)
        same = memory is not None and _same_problem(memory.request, request) and last is not None
        if same and memory is not None and last is not None:
            self._show_preview(job, memory, last)
        weights: Source = source
        if same and last is not None and source.rounds == 1:
            # These weights do not depend on the strength.
            used = last.weights[_used(last)]
            weights = Known(_tensor(used), source)
        job.enter("weights")
        # A network looks at large cubes tile by tile: a place to stop before the first step.
        hooks = [
            net.register_forward_pre_hook(lambda *_: job.enter("weights")) for net in source.modules
        ]
        try:
            result = denoise(
                self.cube,
                model=request.model,
                weights=weights,
                strength=request.strength,
                watch=watch,
            )
        finally:
            for hook in hooks:
                hook.remove()
        kept = state[0] if state and _size(state[0]) <= MOST_KEPT else None
        ready = memory.ready if same and memory is not None else None
        return result, Memory(request, source, kept, ready)

    def _show_preview(self, job: PageJob, memory: Memory, last: Result) -> None:
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
        options = check_options(model=job.request.model, weights=memory.source, strength=strength)
        built = options.build(ready.y.shape, strength)
        if state.x.shape != ready.y.shape:
            return
        plan = replace(built.schedule, steps=max(2, built.schedule.steps // 4))
        job.enter("preview", plan.steps)
        problem = Problem(built, ready.y, _tensor(last.weights[ready.use]))
        warm = state._replace(mu=plan.mu)
        found = solve(problem, plan, state=warm, watch=lambda _: job.tick())
        self._preview = put_back(self.cube, ready, found.x).data
        self.version += 1


def lean(cube: Cube) -> Cube:
    """The cube with a mask that takes no memory when every voxel is valid."""
    if not cube.valid.all():
        return cube
    return replace(cube, valid=np.broadcast_to(np.True_, cube.shape))


def check_memory(shape: tuple[int, ...], name: str) -> None:
    """Refuse a cube that would fill the machine: float32 and a mask, in half of its memory."""
    need, have = 5 * math.prod(shape), measure_memory()
    if have is not None and need > have / 2:
        raise BadInput(
            f"{name} needs {need / 1e9:.1f} GB to look at and this machine has {have / 1e9:.1f} GB; "
            "cut out a smaller part"
        )


def _same_problem(a: JobRequest, b: JobRequest) -> bool:
    return a.model == b.model and a.weights == b.weights


def _used(result: Result) -> NDArray[np.bool_]:
    use = np.ones(result.report.shape[0], bool)
    use[list(result.report.bands_skipped)] = False
    return use


def _tensor(values: NDArray[np.float32]) -> Tensor:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values))


def _size(state: State[Tensor]) -> int:
    tensors = [state.x, *state.u, *state.m, *state.kx]
    return sum(t.nbytes for t in tensors if t is not None)


def _steps(request: JobRequest, cube: Cube, source: Source) -> int | None:
    """How many steps a run will take, where that is known beforehand."""
    from ...pipeline import check_options

    options = check_options(model=request.model, weights=source, strength=request.strength)
    return options.count_steps(cube.shape)


def _summary(result: Result) -> dict[str, object]:
    r = result.report
    names = ("model", "weights", "strength", "steps", "converged", "bands_used", "down_weighted")
    skipped = {str(k): v for k, v in r.bands_skipped.items()}
    about = {name: getattr(r, name) for name in names}
    return {**about, "seconds": r.seconds.get("total"), "bands_skipped": skipped}
