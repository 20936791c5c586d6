"""Standard deviations in strips: what :class:`hyperdlw.pipeline.in_strips.InStrips` maps over them."""

from __future__ import annotations

from dataclasses import replace

from ..solver import DiskArray
from ..weights import NoiseLaw
from .job import Job
from .mild import Blend
from .uncertainty import AROUND, average_window, disturb_rows, draw_rows


def disturb_strip(
    job: Job, model: DiskArray, blend: Blend | None, law: NoiseLaw | None, out: DiskArray, i: int
) -> None:
    """A strip of the result made noisy once more; ``model``: the image before it was blended."""
    assert job.result is not None
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.result.read(rows)
    lost = y.isnan() if blend is None else blend.fill(y, model.read(rows))[1]
    drawn = draw_rows(rows, len(y), y.shape[2])
    out.write(rows, disturb_rows(y, x, lost, law, drawn))


def compare_strip(job: Job, again: DiskArray, factor: float, out: DiskArray, i: int) -> None:
    """Standard deviations of a strip, from the result and its second restoration."""
    assert job.result is not None
    window = replace(job.plan, wrap=False).window(i, AROUND)
    square = (again.read(window.rows) - job.result.read(window.rows)).square()
    out.write(window.own, factor * average_window(square).sqrt()[:, window.inside])


def read_law_strip(job: Job, law: NoiseLaw, out: DiskArray, i: int) -> None:
    """Standard deviations of a strip that is handed back as it is: those of its noise."""
    rows = job.plan.window(i, 0).own
    out.write(rows, law.variance(job.filled(rows)[0]).sqrt())
