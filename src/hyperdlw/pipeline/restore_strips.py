"""The end of a run by windows: strips of the result, beside what the source holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .job import ALL, Job, Reader, Run
from .journal import Serial

Put = Callable[[slice, NDArray[np.float32], NDArray[np.bool_]], int]
"""Takes a strip of an output, (rows, values (band, row, col), where they are measured); tells how
many were clipped."""


@dataclass(frozen=True)
class Sinks:
    """Where the result goes.

    Attributes:
        shared: whether other processes may write, too, each its own strips.
    """

    cube: Put
    weights: Put | None = None
    shared: bool = False


def restored_strip(
    job: Job, source: Reader, i: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """A strip of the result in the units of the source, where it holds, and where it was measured."""
    assert job.result is not None
    rows, use = job.plan.window(i, 0).own, list(job.use)
    data, valid = source.read(rows, ALL)
    values = data.copy()
    values[use] = job.limits.from_unit(job.result.read(rows).numpy())
    touched = np.zeros_like(valid)
    touched[use] = True if job.options.fill else valid[use]
    return np.where(touched, values, data), valid | touched, valid


def stored_weights(job: Job, rows: slice) -> NDArray[np.float32]:
    """Weights of all stored bands, 0 for those that are not used."""
    full = np.zeros((job.stored, rows.stop - rows.start, job.plan.shape[2]), np.float32)
    full[list(job.use)] = job.w.read(rows).numpy()
    return full


def write_strip(job: Job, source: Reader, sinks: Sinks, i: int) -> list[int]:
    """Hand over a strip; returns voxels not measured, weights below 0.1, and voxels clipped."""
    rows = job.plan.window(i, 0).own
    values, ok, valid = restored_strip(job, source, i)
    clipped = sinks.cube(rows, values, ok)
    w = stored_weights(job, rows)
    if sinks.weights is not None:
        sinks.weights(rows, w, np.ones_like(valid))
    return [int(np.count_nonzero(~valid)), int(((w > 0) & (w < 0.1)).sum()), clipped]


def write(run: Run, source: Reader, sinks: Sinks) -> tuple[int, int, int]:
    """Hand over the result; returns voxels not measured, weights below 0.1, and voxels clipped."""
    executor = run.work.executor if sinks.shared and source.lazy else Serial()
    work = partial(write_strip, run.job, source, sinks)
    found = [counts for _, counts in executor.run(work, run.job.plan.strips)]
    invalid, low, clipped = map(sum, zip(*found, strict=True))
    return invalid, low, clipped
