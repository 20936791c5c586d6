"""Weights in strips: what :class:`hyperdlw.pipeline.in_strips.InStrips` maps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..solver import DiskArray
from ..weights import FLOOR, Source, multiply_weights, rescale_weights, sum_weights
from .job import Job


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
    place = job.options.device
    y, valid = (v.to(place) for v in job.filled(rows))
    x = None if job.result is None else job.result.read(rows).to(place)
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
    place = job.options.device
    y, valid = (v.to(place) for v in job.band(b))
    x = None if job.result is None else torch.from_numpy(job.restored(b)).to(place)
    raw = source.raw(y, valid, x).expand_as(y)
    out.write_band(b, raw[0])
    return [0.0, sum_weights(raw[valid])]


def weights_strip(
    job: Job, factors: Sequence[Factor], scale: float | None, out: DiskArray | None, i: int
) -> float:
    """The product of the factors on a strip, 0 where nothing was measured; returns its sum."""
    rows = job.plan.window(i, 0).own
    y = job.y.read(rows)
    held = [f.read(rows) for f in factors]
    w = held[0] if len(held) == 1 else multiply_weights(held)
    if scale is not None:
        w = rescale_weights(w, scale)
    w = torch.where(y.isnan(), torch.zeros_like(w), w)
    if out is not None:
        out.write(rows, w)
    return sum_weights(w)
