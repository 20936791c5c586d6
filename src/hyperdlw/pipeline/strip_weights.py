"""Weights of a cube on disk: the factors of the sources, strip by strip or band by band, and their product.

A softmax needs the largest logit and a sum of exponentials of every strip; other sources need the
sum of their numbers over the measured voxels, so that the mean of the weights is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..errors import BadOption
from ..solver import DiskArray
from ..weights import FLOOR, Source, find_scale, rescale_weights, sum_weights
from .job import Job, Run


@dataclass(frozen=True)
class Factor:
    """Weights of one source from the numbers in a file.

    Logits: exp(logit - top) scale + FLOOR; else max(raw scale, FLOOR), as for a cube in memory.
    """

    file: DiskArray
    scale: float
    logits: bool = False
    top: float = 0.0

    def read(self, rows: slice) -> Tensor:
        held = self.file.read(rows)
        if self.logits:
            return held.sub_(self.top).exp_().mul_(self.scale).add_(FLOOR)
        return rescale_weights(held, self.scale)


def raw_strip(job: Job, source: Source, out: DiskArray, i: int) -> list[float]:
    """Numbers of a source on a strip; for logits the largest one and the sum of exponentials, else 0
    and the sum, over the measured voxels."""
    own = job.plan.window(i, 0).own
    top = max(0, own.start - source.reach)
    rows = slice(top, min(own.stop + source.reach, job.plan.shape[1]))
    y, valid = job.filled(rows)
    x = None if job.result is None else job.result.read(rows)
    cut = slice(own.start - top, own.stop - top)
    raw = source.on_rows(rows).raw(y, valid, x).expand_as(y)[:, cut]
    out.write(own, raw)
    known = raw[valid[:, cut]]
    if not source.logits:
        return [0.0, sum_weights(known)]
    if not len(known):
        return [-1e30, 0.0]
    most = known.max()
    return [float(most), sum_weights(torch.exp(known - most))]


def raw_band(job: Job, source: Source, out: DiskArray, b: int) -> list[float]:
    """The same for a band."""
    y, valid = job.band(b)
    x = None if job.result is None else torch.from_numpy(job.restored(b))
    raw = source.raw(y, valid, x).expand_as(y)
    out.write_band(b, raw[0])
    return [0.0, sum_weights(raw[valid])]


def weights_strip(
    job: Job, factors: Sequence[Factor], scale: float | None, out: DiskArray | None, i: int
) -> float:
    """The product of the factors on a strip, 0 where nothing was measured; returns its sum."""
    rows = job.plan.window(i, 0).own
    y = job.y.read(rows)
    w = math.prod((f.read(rows) for f in factors[1:]), start=factors[0].read(rows))
    if scale is not None:
        w = rescale_weights(w, scale)
    w = torch.where(y.isnan(), torch.zeros_like(w), w)
    if out is not None:
        out.write(rows, w)
    return sum_weights(w)


def weigh(run: Run) -> None:
    """Write the weights: their factors, their scale, their product."""
    job = run.job
    use = np.zeros(job.stored, bool)
    use[list(job.use)] = True
    source = job.options.source.on_bands(use)
    source.check_shape(job.plan.shape)
    factors = [_factor(run, j, part) for j, part in enumerate(source.factors)]
    scale = None
    strips = job.plan.strips
    if len(factors) > 1:
        sums = run.work.map("product", partial(weights_strip, job, factors, None, None), strips)
        scale = find_scale(job.measured, sum(sums))
    w = partial(weights_strip, job, factors, scale, job.w)
    run.work.map("weights", w, strips, [job.w])
    for f in factors:
        f.file.path.unlink(missing_ok=True)


def _factor(run: Run, j: int, part: Source) -> Factor:
    """The weights of one source up to their constants."""
    job, by_band = run.job, part.sees == "band"
    if part.sees == "image":
        raise BadOption(f"the weights '{part.name}' need the whole cube in memory; raise --memory")
    out = job.array(f"factor{j}")
    work = partial(raw_band if by_band else raw_strip, job, part, out)
    items = range(len(job.use)) if by_band else job.plan.strips
    found = run.work.map(f"weights {j + 1}: {part.name}", work, items, [out])
    top = max(m for m, _ in found)
    total = sum(s * math.exp(m - top) for m, s in found)
    if part.logits:
        return Factor(out, job.measured / total, True, top)
    return Factor(out, part.scale(job.measured, total))
