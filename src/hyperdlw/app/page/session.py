"""The state behind the page: one cube, its results, and one job after another."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...cube import Cube
from ...errors import BadInput, DlwError
from ...io import measure_memory
from .job import Busy, Choices, JobRequest, PageJob, Progress, Stop, list_choices
from .runner import Runner, load_program

if TYPE_CHECKING:
    from ...pipeline import Result

Plane = NDArray[np.float32]

LAYERS = ("noisy", "restored", "weights")
MOST_WAITING = 8
MOST_LOGGED = 50
MOST_HELD = 2 * 2**30
"""Bytes of earlier results that are held, to go back to."""


class Absent(DlwError):
    """The thing asked for is not there (yet)."""


class Session:
    """One cube under observation.

    Args:
        cube: the noisy cube; its data are held once, band by band.
        name: the file's name, shown on the page.
        target: where results are written, when ``OUT`` was given.
        overwrite: whether files that exist there may be replaced.
        protectable: what may be protected beside regions: files, as they were named.
        device: where networks and solver work, as for :func:`hyperdlw.denoise`.
    """

    def __init__(
        self,
        cube: Cube,
        name: str,
        target: Path | None = None,
        overwrite: bool = False,
        protectable: Sequence[str] = (),
        device: str = "cpu",
    ) -> None:
        from ...pipeline import colour_bands, measure_noise

        self.cube = lean(cube)
        self.colours = colour_bands(self.cube)
        self.noise = measure_noise(self.cube, most=10_000)
        self.name = name
        self.target = target
        self.overwrite = overwrite
        self.result: Result | None = None
        self.shown: int | None = None
        self.version = 0
        self.job: PageJob | None = None
        self.log: list[PageJob] = []
        self.listeners = 0
        self.closing = False
        self._waiting: list[PageJob] = []
        self._held: dict[int, Result] = {}
        self._preview: NDArray[np.float32] | None = None
        self.runner = Runner(self.cube, self._show_preview, device)
        self._advice: dict[str, object] | None = None
        self.choices: Choices = list_choices(self.cube.bands, protectable)
        self._lock = threading.Lock()
        self._advising = threading.Lock()
        self._loading: threading.Thread | None = None

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

    def region(self, rows: slice, cols: slice) -> dict[str, object]:
        """Mean and standard deviation of every layer and band in a rectangle of pixels."""
        _, height, width = self.cube.shape
        if not (0 <= rows.start < rows.stop <= height and 0 <= cols.start < cols.stop <= width):
            raise Absent(f"a region lies within {height} rows and {width} columns")
        ok = self.cube.valid[:, rows, cols]
        count = ok.sum(axis=(1, 2))
        found: dict[str, object] = {"pixels": ok.shape[1] * ok.shape[2]}
        for name in LAYERS if self.result is not None else ("noisy",):
            values = np.where(ok, self.layer(name)[:, rows, cols], 0).astype(np.float64)
            mean = values.sum(axis=(1, 2)) / np.maximum(count, 1)
            square = np.where(ok, values - mean[:, None, None], 0) ** 2
            spread = np.sqrt(square.sum(axis=(1, 2)) / np.maximum(count, 1))
            found[name] = _list_known(mean, count > 0)
            found[f"{name}_deviation"] = _list_known(spread, count > 0)
        return found

    def facts(self) -> dict[str, object]:
        """What the page has to know about the cube."""
        cube = self.cube
        nm = cube.wavelengths
        place = cube.metadata.get("transform")
        system = str(cube.metadata.get("crs", ""))
        said = None if system.startswith(("LOCAL", "ENG")) else re.search(r'"([^"]+)"', system)
        return {
            "transform": None if place is None else [float(v) for v in place],
            "system": None if said is None else said[1],
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
        result, job, waiting = self.result, self.job, list(self._waiting)
        if job is not None and job.ending and waiting:
            job = waiting.pop(0)  # it begins when the operation that the other is in has ended
        return {
            "version": self.version,
            "preview": self._preview is not None,
            "result": None if result is None else _summary(result),
            "job": None if job is None else job.as_dict(),
            "waiting": [j.as_dict() for j in waiting],
            "shown": self.shown,
            "log": [{**j.as_dict(), "held": j.number in self._held} for j in self.log],
        }

    def advise(self) -> dict[str, object]:
        """What :func:`hyperdlw.advise` says of the cube, found once."""
        from ...pipeline import advise

        with self._advising:
            if self._advice is None:
                found = advise(self.cube)
                self._advice = {"settings": found.settings, "reasons": found.reasons}
            return self._advice

    # --- work

    def warm_up(self) -> None:
        """Load torch and the network while somebody looks at the first picture."""
        if self._loading is None and not self.closing:
            self._loading = threading.Thread(target=load_program, args=(self.choices["weight"],))
            self._loading.start()

    def start(self, request: JobRequest) -> PageJob:
        """Begin a job in a thread of its own, or let it wait until those before it have ended."""
        with self._lock:
            if self.closing:
                raise Busy("the program is closing")
            if len(self._waiting) >= MOST_WAITING:
                raise Busy(f"{MOST_WAITING} jobs are waiting; cancel one, or wait for its end")
            known = [*self.log, *self._waiting, *([self.job] if self.job else [])]
            job = PageJob(1 + max((j.number for j in known), default=0), request)
            self._waiting.append(job)
        self._go_on()
        return job

    def cancel(self, number: int | None = None) -> None:
        """Stop the running job, or drop one that waits."""
        with self._lock:
            for job in [j for j in self._waiting if j.number == number]:
                self._waiting.remove(job)
                job.progress = "cancelled"
        if self.job is not None and number in (None, self.job.number):
            self.job.interrupt()

    def show_result(self, number: int) -> None:
        """Go back, or forward, to the result of a job that is still held."""
        with self._lock:
            if number not in self._held:
                raise Absent("the result of this run is not held any more; run it again")
            self.result, self.shown = self._held[number], number
            self.version += 1

    def abandon(self) -> None:
        """Nobody is looking any more."""
        if self.listeners == 0:
            self._drop_waiting()
            self.cancel()

    def end(self) -> None:
        """Take no more jobs, and ask everything that runs to stop; returns at once."""
        self.closing = True
        self._drop_waiting()
        self.cancel()

    def close(self, seconds: float = 60.0) -> None:
        """Stop the job and wait for its thread."""
        self.end()
        for thread in (self._loading, None if self.job is None else self.job.thread):
            if thread is not None:
                thread.join(seconds)

    def _drop_waiting(self) -> None:
        for job in list(self._waiting):
            self.cancel(job.number)

    def _go_on(self) -> None:
        """Begin the next job if none is running."""
        with self._lock:
            if not self._waiting or (self.job is not None and self.job.running):
                return
            job = self.job = self._waiting.pop(0)
            job.begin = time.monotonic()
            job.thread = threading.Thread(target=self._work, args=(job,), daemon=True)
        job.thread.start()

    def _work(self, job: PageJob) -> None:
        end: Progress = "failed"
        try:
            result = self.runner.run(job)
            if job.stop.is_set():
                raise Stop  # the page has said so already
            self._hold(job, result)
            end = "done"
        except Stop:
            end = "cancelled"
        except DlwError as error:
            job.message = str(error)
        except MemoryError:
            job.message = "there is not enough memory for this job"
        except Exception as error:
            job.message = f"unexpected {type(error).__name__}: {error}"
        finally:
            job.seconds = time.monotonic() - job.begin
            self._preview = None
            self.log = [*self.log, job][-MOST_LOGGED:]
            job.progress = end
            self.version += 1
            self._go_on()

    def _hold(self, job: PageJob, result: Result) -> None:
        """Show a result, and forget the oldest ones when they take too much memory."""
        with self._lock:
            self.result, self.shown = result, job.number
            self._held[job.number] = result
            each = 2 * result.cube.data.nbytes
            for number in list(self._held)[: -max(1, MOST_HELD // max(each, 1))]:
                del self._held[number]

    def _show_preview(self, values: NDArray[np.float32]) -> None:
        self._preview = values
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


def _list_known(values: NDArray[np.float64], known: NDArray[np.bool_]) -> list[float | None]:
    return [float(v) if good else None for v, good in zip(values, known, strict=True)]


def _summary(result: Result) -> dict[str, object]:
    r = result.report
    names = ("model", "weights", "strength", "steps", "converged", "bands_used", "down_weighted")
    skipped = {str(k): v for k, v in r.bands_skipped.items()}
    about = {name: getattr(r, name) for name in names}
    more = {"uncertainty": result.uncertainty is not None, "notes": list(map(str, r.notes))}
    return {**about, **more, "seconds": r.seconds.get("total"), "bands_skipped": skipped}
