"""What is done to one strip, or to one band: what :class:`.in_strips.InStrips` maps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models import REACH, Eigenimages
from ..networks import FOLD
from ..solver import DiskArray
from ..weights import FLOOR, NoiseLaw, Source, multiply_weights, rescale_weights, sum_weights
from .guard import sum_change
from .invented import count_codes
from .job import Band, Job, Reader
from .mild import Blend
from .prepare import count_poor, find_middle, look_at_band
from .products import ArrayOutputs, Pens
from .refine import Refinement, approach, sum_moments
from .set_aside import guess_fill
from .uncertainty import AROUND, average_window, disturb_rows, draw_rows
from .whiteness import AuditImage, sum_rows

# Prepare.


def copy_strip(job: Job, reader: Reader, i: int) -> None:
    """A strip of the source goes to scratch, NaN where nothing was measured."""
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


# Weigh.


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
    x = None if job.result is None else job.image.read(rows).to(place)
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


# Restore: model and eigenimages.


def approach_strip(job: Job, look: int, i: int) -> None:
    """The second moments of a strip of what the learned step begins with."""
    assert job.result is not None
    rows = job.plan.window(i, 0).own
    v = approach(*(a.read(rows) for a in (job.y, job.w, job.result)))
    np.save(job.folder / f"{job.tag}approach{look}-{i}.npy", sum_moments(v).numpy())


def refine_strip(job: Job, refinement: Refinement, look: int, out: DiskArray, i: int) -> None:
    """A strip after a learned step."""
    assert job.result is not None
    rows, inside = surround(job, i)
    y, w, x = (a.read(rows) for a in (job.y, job.w, job.result))
    found = refinement.denoise(y, w, x, look, job.options.effort.mirror)
    out.write(job.plan.window(i, 0).own, found[:, inside])


def surround(job: Job, i: int) -> tuple[slice, slice]:
    """The rows that a network for eigenimages must see of a strip, and where the strip is among them."""
    own = job.plan.window(i, 0).own
    # The squares of the network lie as in the whole image.
    top = max(0, own.start - REACH) // FOLD * FOLD
    rows = slice(top, min(own.stop + REACH, job.plan.shape[1]))
    return rows, slice(own.start - top, own.stop - top)


def fill_strip(job: Job, blend: Blend, i: int) -> None:
    """A strip with the model where voxels are lost, and the second moments of its bands."""
    rows = job.plan.window(i, 0).own
    filled, _ = blend.fill(job.y.read(rows), job.image.read(rows))
    job.array("filled").write(rows, filled)
    np.save(job.folder / f"{job.tag}moments-{i}.npy", sum_moments(filled).numpy())


def denoise_strip(job: Job, blend: Blend, images: Eigenimages, i: int) -> None:
    """The eigenimages of a strip without their noise."""
    rows, inside = surround(job, i)
    shrunk = blend.shrink(images, job.array("filled").read(rows))[:, inside]
    job.array("shrunk").write(job.plan.window(i, 0).own, shrunk)


def look_strip(job: Job, blend: Blend, i: int) -> list[list[float]]:
    """A strip with what comes back; returns how far every band moved, and its noise."""
    window = replace(job.plan, wrap=False).window(i, REACH)
    own = window.own
    filled, shrunk = (job.array(name).read(window.rows) for name in ("filled", "shrunk"))
    mild = blend.look(filled, shrunk)[:, window.inside]
    job.array("mild").write(own, mild)
    _, lost = blend.fill(job.y.read(own), job.image.read(own))
    moved, noise = sum_change(filled[:, window.inside], mild, lost, blend.spared)
    return [moved.tolist(), noise.tolist()]


def measure_strip(job: Job, blend: Blend, i: int) -> list[list[float]]:
    """How far the model moved every band of a strip, and its noise."""
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.image.read(rows)
    moved, noise = sum_change(y, x, y.isnan(), blend.law)
    return [moved.tolist(), noise.tolist()]


def protect_strip(
    job: Job, blend: Blend | None, model: DiskArray, out: DiskArray, i: int
) -> list[float]:
    """A strip of the result with the protected spectra; returns the sums of what came back, squared."""
    assert job.keeper is not None
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.image.read(rows)
    lost = y.isnan() if blend is None else blend.fill(y, model.read(rows))[1]
    kept, total = job.keeper.keep(y, x, lost)
    out.write(rows, kept)
    return [float(v) for v in total]


def mix_strip(
    job: Job, blend: Blend, kept: Tensor, images: Sequence[DiskArray], out: DiskArray, i: int
) -> None:
    """A strip of the result: model and eigenimages."""
    rows = job.plan.window(i, 0).own
    filled, mild = (image.read(rows) for image in images)
    out.write(rows, blend.mix(job.image.read(rows), filled, mild, kept))


# Standard deviations.


def disturb_strip(
    job: Job, model: DiskArray, blend: Blend | None, law: NoiseLaw | None, out: DiskArray, i: int
) -> None:
    """A strip of the result made noisy once more; ``model``: the image before it was blended."""
    rows = job.plan.window(i, 0).own
    y, x = job.y.read(rows), job.image.read(rows)
    lost = y.isnan() if blend is None else blend.fill(y, model.read(rows))[1]
    drawn = draw_rows(rows, len(y), y.shape[2])
    out.write(rows, disturb_rows(y, x, lost, law, drawn))


def compare_strip(job: Job, again: DiskArray, factor: float, out: DiskArray, i: int) -> None:
    """Standard deviations of a strip, from the result and its second restoration."""
    window = replace(job.plan, wrap=False).window(i, AROUND)
    square = (again.read(window.rows) - job.image.read(window.rows)).square()
    out.write(window.own, factor * average_window(square).sqrt()[:, window.inside])


def read_law_strip(job: Job, law: NoiseLaw, out: DiskArray, i: int) -> None:
    """Standard deviations of a strip that is handed back as it is: those of its noise."""
    rows = job.plan.window(i, 0).own
    out.write(rows, law.variance(job.filled(rows)[0]).sqrt())


# What is handed over, and what the audit needs.


def write_strip(job: Job, reader: Reader, pens: ArrayOutputs | Pens, i: int) -> list[int]:
    """Hand over a strip; returns voxels not measured, weights below 0.1, clipped, and of every code."""
    strip = job.restored_strip(reader, i)
    clipped = pens.put(job.plan.window(i, 0).own, strip)
    low = (strip.weights > 0) & (strip.weights < 0.1)
    codes = count_codes(strip.invented[list(job.use)])
    return [int(np.count_nonzero(~strip.valid)), int(low.sum()), clipped, *codes]


def audit_strip(job: Job, law: NoiseLaw, i: int) -> list[object]:
    """The sums of a strip for the audit (see :class:`AuditSums`)."""
    belief, model = job.belief, job.model
    assert belief is not None
    assert model is not None

    def read(rows: slice) -> AuditImage:
        y = job.y.read(rows)
        x = y.nan_to_num(0.0) if job.untouched else job.image.read(rows)
        sd = None if job.deviation is None else job.deviation.read(rows)
        return AuditImage(y, x, model.read(rows), job.w.read(rows), sd)

    own, include = job.plan.window(i, 0).own, job.options.include_invented
    sums = sum_rows(read, own, job.plan.shape, belief, law, include)
    return [sums.pairs.tolist(), sums.energy.tolist()]
