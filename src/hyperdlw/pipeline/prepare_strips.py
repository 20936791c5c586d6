"""Preparation in strips: what :class:`hyperdlw.pipeline.in_strips.InStrips` maps over strips and bands."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray

from .job import Band, Job, Reader
from .prepare import count_poor, find_middle, look_at_band
from .set_aside import guess_fill


def copy_strip(job: Job, reader: Reader, i: int) -> None:
    rows = job.plan.window(i, 0).own
    data, valid = reader.read(rows)
    job.raw.write(rows, torch.from_numpy(np.where(valid, data, np.float32(np.nan))))


def describe_band(job: Job, good: NDArray[np.bool_], b: int) -> dict[str, object]:
    """The facts of a stored band (see :class:`BandFacts`)."""
    return asdict(look_at_band(job.raw.read_band(b).numpy(), bool(good[b])))


def read_bands(job: Job, rows: slice) -> NDArray[np.float32]:
    """Rows of the bands in use in the units of the cube, NaN where nothing was measured."""
    return np.ascontiguousarray(job.raw.read(rows).numpy()[list(job.use)])


def scale_strip(job: Job, i: int) -> list[object]:
    """A strip on the unit scale; returns wild voxels, bright and poor pixels, and a likely fill value."""
    assert job.scaling is not None
    rows = job.plan.window(i, 0).own
    raw = read_bands(job, rows)
    unit = job.scaling.to_unit(raw, rows.start)
    job.y.write(rows, unit.y)
    wild = raw[unit.wild.numpy()]
    return [wild.size, int(unit.bright.sum()), count_poor(unit.y), guess_fill(wild)]


def measure_band(job: Job, b: int) -> dict[str, object]:
    """Statistics of a band on the unit scale (see :class:`Band`)."""
    band = job.y.read_band(b)
    known = band[~band.isnan()]
    mean = float(known.mean(dtype=torch.float64)) if len(known) else 0.0
    return asdict(Band(len(known), find_middle(band), mean))
