"""Model and eigenimages in strips: what :class:`hyperdlw.pipeline.in_strips.InStrips` maps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from ..models import REACH, Eigenimages
from ..networks import FOLD
from ..solver import DiskArray
from .guard import sum_change
from .job import Job
from .mild import Blend


def fill_strip(job: Job, blend: Blend, i: int) -> None:
    """A strip with the model where voxels are lost, and the second moments of its bands."""
    assert job.result is not None
    rows = job.plan.window(i, 0).own
    filled, _ = blend.fill(job.y.read(rows), job.result.read(rows))
    job.array("filled").write(rows, filled)
    flat = filled.flatten(1).double()
    np.save(job.folder / f"{job.tag}moments-{i}.npy", (flat @ flat.T).numpy())


def denoise_strip(job: Job, blend: Blend, images: Eigenimages, i: int) -> None:
    """The eigenimages of a strip without their noise."""
    own = job.plan.window(i, 0).own
    # The squares of the network lie as in the whole image.
    top = max(0, own.start - REACH) // FOLD * FOLD
    filled = job.array("filled").read(slice(top, min(own.stop + REACH, job.plan.shape[1])))
    shrunk = blend.shrink(images, filled)[:, own.start - top : own.stop - top]
    job.array("shrunk").write(own, shrunk)


def look_strip(job: Job, blend: Blend, i: int) -> list[list[float]]:
    """A strip with what comes back; returns how far every band moved, and its noise."""
    assert job.result is not None
    window = replace(job.plan, wrap=False).window(i, REACH)
    own = window.own
    filled, shrunk = (job.array(name).read(window.rows) for name in ("filled", "shrunk"))
    mild = blend.look(filled, shrunk)[:, window.inside]
    job.array("mild").write(own, mild)
    _, lost = blend.fill(job.y.read(own), job.result.read(own))
    moved, noise = sum_change(filled[:, window.inside], mild, lost, blend.spared)
    return [moved.tolist(), noise.tolist()]


def measure_strip(job: Job, blend: Blend, i: int) -> list[list[float]]:
    """How far the model moved every band of a strip, and its noise."""
    assert job.result is not None
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.result.read(rows)
    moved, noise = sum_change(y, x, y.isnan(), blend.law)
    return [moved.tolist(), noise.tolist()]


def protect_strip(
    job: Job, blend: Blend | None, model: DiskArray, out: DiskArray, i: int
) -> list[float]:
    """A strip of the result with the protected spectra; returns the sums of what came back, squared."""
    assert job.result is not None
    assert job.keeper is not None
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.result.read(rows)
    lost = y.isnan() if blend is None else blend.fill(y, model.read(rows))[1]
    kept, total = job.keeper.keep(y, x, lost)
    out.write(rows, kept)
    return [float(v) for v in total]


def mix_strip(
    job: Job, blend: Blend, kept: Tensor, images: Sequence[DiskArray], out: DiskArray, i: int
) -> None:
    """A strip of the result: model and eigenimages."""
    assert job.result is not None
    rows = job.plan.window(i, 0).own
    filled, mild = (image.read(rows) for image in images)
    out.write(rows, blend.mix(job.result.read(rows), filled, mild, kept))
