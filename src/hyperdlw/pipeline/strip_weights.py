"""Weights of a cube on disk: the factors of the sources, strip by strip or band by band, and their product.

A softmax needs the largest logit and a sum of exponentials of every strip; other sources need the
sum of their numbers over the measured voxels, so that the mean of the weights is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput, BadOption
from ..solver import DiskArray
from ..weights import (
    FLOOR,
    Given,
    Mixture,
    Net,
    Precision,
    Robust,
    Source,
    Uniform,
    precision_of,
    predict_logits,
    rescaled,
    scale_of,
    total,
)
from .job import Job, Run
from .run import on_bands


@dataclass(frozen=True)
class Factor:
    """Weights of one source: from logits or raw numbers in a file, or from a number per band.

    softmax: exp(logit - top) scale + FLOOR; else max(raw scale, FLOOR), as for a cube in memory.
    """

    scale: float
    file: DiskArray | None = None
    values: Tensor | None = None
    softmax: bool = False
    top: float = 0.0

    def read(self, rows: slice, like: Tensor) -> Tensor:
        if self.file is None:
            assert self.values is not None
            return rescaled(self.values[:, None, None].clone(), self.scale).expand_as(like)
        held = self.file.read(rows)
        if self.softmax:
            return held.sub_(self.top).exp_().mul_(self.scale).add_(FLOOR)
        return rescaled(held, self.scale)


def logits_strip(job: Job, net: Any, out: DiskArray, i: int) -> list[float]:
    """Logits of a strip; their largest over the measured voxels, and the sum of exponentials."""
    rows, radius = job.plan.window(i, 0).own, net.radius
    top = max(0, rows.start - radius)
    y, valid = job.filled(slice(top, rows.stop + radius))
    cut = slice(rows.start - top, rows.stop - top)
    logits, valid = predict_logits(net, y)[:, cut], valid[:, cut]
    out.write(rows, logits)
    known = logits[valid]
    if not len(known):
        return [-1e30, 0.0]
    most = known.max()
    return [float(most), float(torch.exp(known - most).sum(dtype=torch.float64))]


def raw_band(job: Job, source: Any, out: DiskArray, b: int) -> float:
    """Weights of a band, before they are scaled, from the residual of the image so far."""
    y, valid = job.band(b)
    raw = source.raw(y, valid, torch.from_numpy(job.restored(b)))
    out.write_band(b, raw[0])
    return total(raw[valid])


def given_strip(job: Job, values: Tensor, out: DiskArray, i: int) -> float:
    rows = job.plan.window(i, 0).own
    valid = ~job.y.read(rows).isnan()
    part = values[:, rows].float().expand_as(valid)
    if not bool(torch.isfinite(part).all()) or bool((part < 0).any()):
        raise BadInput("the given weights must be finite and not negative")
    out.write(rows, part)
    return total(part[valid])


def weights_strip(
    job: Job, factors: Sequence[Factor], scale: float | None, out: DiskArray | None, i: int
) -> float:
    """The product of the factors on a strip, 0 where nothing was measured; returns its sum."""
    rows = job.plan.window(i, 0).own
    y = job.y.read(rows)
    w = math.prod((f.read(rows, y) for f in factors[1:]), start=factors[0].read(rows, y))
    if scale is not None:
        w = rescaled(w, scale)
    w = torch.where(y.isnan(), torch.zeros_like(w), w)
    if out is not None:
        out.write(rows, w)
    return total(w)


def weigh(run: Run) -> None:
    """Write the weights: their factors, their scale, their product."""
    job = run.job
    use = np.zeros(job.stored, bool)
    use[list(job.use)] = True
    parts = [on_bands(part, use) for part in job.options.parts]
    factors = [_factor(run, j, part) for j, part in enumerate(parts)]
    scale = None
    strips = job.plan.strips
    if len(parts) > 1:
        count = sum(b.count for b in job.bands)
        sums = run.work.map("product", partial(weights_strip, job, factors, None, None), strips)
        scale = scale_of(count, sum(sums))
    w = partial(weights_strip, job, factors, scale, job.w)
    run.work.map("weights", w, strips, [job.w])
    for f in factors:
        if f.file is not None:
            f.file.path.unlink(missing_ok=True)


def _factor(run: Run, j: int, part: Source) -> Factor:
    """The weights of one source up to their constants."""
    job, strips = run.job, run.job.plan.strips
    out, stage = job.array(f"factor{j}"), f"weights {j + 1}: {part.name}"
    count = sum(b.count for b in job.bands)
    if isinstance(part, Net):
        found = run.work.map(stage, partial(logits_strip, job, part.net, out), strips, [out])
        top = max(m for m, _ in found)
        share = sum(s * math.exp(m - top) for m, s in found)
        return Factor(count / share, out, softmax=True, top=top)
    if isinstance(part, Given):
        values = part.values if part.values.dim() == 3 else part.values.unsqueeze(0)
        if values.shape[1:] != job.plan.shape[1:] or values.shape[0] not in (1, len(job.use)):
            raise BadInput(
                f"the weights have (band, row, col) shape {tuple(values.shape)}, "
                f"the image {job.plan.shape}"
            )
        sums = run.work.map(stage, partial(given_strip, job, values, out), strips, [out])
        if not sum(sums) > 0:
            raise BadInput(
                "the given weights are 0 on every valid voxel, so there is nothing to fit"
            )
        return Factor(scale_of(count, sum(sums)), out)
    if isinstance(part, Robust | Mixture) and run.work.round:
        sums = run.work.map(stage, partial(raw_band, job, part, out), range(len(job.use)), [out])
        return Factor(scale_of(count, sum(sums)), out)
    if isinstance(part, Uniform | Precision | Robust | Mixture):
        level = torch.tensor([1.0 if isinstance(part, Uniform) else b.level for b in job.bands])
        each = precision_of(level)
        counts = [b.count for b in job.bands]
        sum_ = sum(n * float(v) for n, v in zip(counts, each, strict=True))
        return Factor(scale_of(count, sum_), values=each)
    raise BadOption(f"the weights '{part.name}' need the whole cube in memory; raise --memory")
