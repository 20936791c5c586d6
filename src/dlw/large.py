"""Denoise a cube that does not fit in memory, as a plan says (see :mod:`dlw.tiles`).

Stages, each a map over strips or bands whose finished items the journal remembers:

1. copy: the source goes to scratch, band by band; range, median, mean and noise level of every
   band; the bands in use on the unit interval, NaN where nothing was measured;
2. weights: logits in strips with the halo of the network and their softmax by a running maximum
   and sum; or one number per band; or band by band for weights that see a residual;
3. solve: the steps of the solver over all strips (:mod:`dlw.steps`), or strip by strip;
4. write: strips of the result, beside what the source holds.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import __version__, denoisers, models
from .cube import BandRange, Cube
from .denoising import (
    Range,
    Report,
    Result,
    ScheduleName,
    Strength,
    check_some,
    chosen_schedule,
    denoiser_network,
    networks_of,
    on_bands,
    unit_range,
    unusable,
)
from .errors import BadInput, BadOption
from .rank import estimate_rank
from .scratch import Array, Executor, Journal, Serial, damaged, key_of, workplace
from .solver import Model, Problem, Residuals, Schedule, Whole, solve
from .steps import Setting, Solver, staged
from .strength import CAUTION, choose
from .tiles import Plan, ramp
from .tiles import plan as make_plan
from .weighting import (
    FLOOR,
    Given,
    Mixture,
    Net,
    Precision,
    Product,
    Robust,
    Source,
    Uniform,
    follows_noise,
    noise_level,
    predict_logits,
    wants_original,
)

ALL = slice(None)
Watch = Callable[[str, int, int], None]
"""(stage, finished items, items)."""
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


class Reader(Protocol):
    """A cube read by windows: a :class:`dlw.io.CubeFile`, or :class:`InMemory`."""

    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def good_bands(self) -> NDArray[np.bool_]: ...
    @property
    def lazy(self) -> bool:
        """Whether it can be sent to other processes, which then read their windows only."""

    def read(
        self, rows: slice, cols: slice, bands: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]: ...


@dataclass(frozen=True)
class InMemory:
    """A cube in memory, read by windows."""

    cube: Cube
    lazy: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.cube.shape

    @property
    def good_bands(self) -> NDArray[np.bool_]:
        return self.cube.good_bands

    def read(
        self, rows: slice, cols: slice, bands: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        index = ALL if bands is None else bands
        return self.cube.data[index, rows, cols], self.cube.valid[index, rows, cols]


@dataclass(frozen=True)
class Options:
    """What is to be done, as for :func:`dlw.denoise`."""

    model: str
    source: Source
    strength: Strength = 1.0
    rank: Any = None
    schedule: ScheduleName | Schedule = "paper"
    range: Range = "auto"
    seed: int | None = None
    fill: bool = False
    denoiser: denoisers.Spec | None = None

    @property
    def original(self) -> bool:
        return wants_original(self.source)

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources that multiply."""
        return self.source.sources if isinstance(self.source, Product) else (self.source,)

    def build(self, shape: Sequence[int], strength: float = 1.0, rank: int | None = None) -> Model:
        return models.build(
            self.model,
            shape,
            strength,
            original=self.original,
            rank=rank,
            denoiser=self.denoiser,
        )

    @property
    def networks(self) -> dict[str, str]:
        """Every network at work, with its hash."""
        shipped = "eigen" if models.find(self.model).takes_denoiser else None
        return networks_of(self.source) | denoiser_network(self.denoiser or shipped)


@dataclass(frozen=True)
class Band:
    """A stored band: why it is not used, or its range and, on the unit interval, its statistics."""

    count: int
    why: str = ""
    lo: float = 0.0
    hi: float = 1.0
    median: float = 0.0
    mean: float = 0.0
    level: float = 0.0


@dataclass(frozen=True)
class Factor:
    """Weights of one source: from logits or raw numbers in a file, or from a number per band.

    softmax: exp(logit - top) scale + FLOOR; else max(raw scale, FLOOR).
    """

    scale: float
    file: Array | None = None
    values: tuple[float, ...] = ()
    softmax: bool = False
    top: float = 0.0

    def read(self, rows: slice, like: Tensor) -> Tensor:
        if self.file is None:
            values = torch.tensor(self.values, dtype=torch.float64)
            return (values * self.scale).float().clamp_min(FLOOR)[:, None, None].expand_as(like)
        held = self.file.read(rows)
        if self.softmax:
            return held.sub_(self.top).exp_().mul_(self.scale).add_(FLOOR)
        return held.mul_(self.scale).clamp_min_(FLOOR)


@dataclass(frozen=True, eq=False)
class Job:
    """What is known of a run so far; it can be sent to another process."""

    folder: Path
    plan: Plan
    options: Options = field(repr=False)
    stored: int
    """Bands of the source, used or not."""
    use: tuple[int, ...] = ()
    bands: tuple[Band, ...] = ()
    strength: float = 1.0
    rank: int | None = None
    result: Array | None = None
    """The restored image on the unit interval."""

    def array(self, name: str, bands: int | None = None) -> Array:
        shape = len(self.use) if bands is None else bands, *self.plan.shape[1:]
        return Array(self.folder / name, shape)

    @property
    def raw(self) -> Array:
        return self.array("raw", self.stored)

    @property
    def y(self) -> Array:
        return self.array("y")

    @property
    def w(self) -> Array:
        return self.array("w")

    @property
    def limits(self) -> BandRange:
        lo, hi = ([getattr(b, name) for b in self.bands] for name in ("lo", "hi"))
        return BandRange(np.array(lo, np.float32), np.array(hi, np.float32))

    @property
    def means(self) -> Tensor:
        return torch.tensor([b.mean for b in self.bands])

    def filled(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Rows of the noisy image, the median of the band in its gaps, and where it was measured."""
        y = self.y.read(rows)
        valid = ~y.isnan()
        middle = torch.tensor([b.median for b in self.bands])[:, None, None]
        return torch.where(valid, y, middle), valid

    def band(self, b: int) -> tuple[Tensor, Tensor]:
        """The same for one band, counted among those in use."""
        y = self.y.read_band(b)[None]
        valid = ~y.isnan()
        return torch.where(valid, y, self.bands[b].median), valid

    def restored(self, b: int) -> NDArray[np.float32]:
        """The restored image of a band in use."""
        assert self.result is not None
        return self.result.read_band(b)[None].numpy()

    @property
    def model(self) -> Model:
        return self.options.build(self.plan.shape, self.strength, self.rank)

    def schedule(self, model: Model) -> Schedule:
        return chosen_schedule(self.options.schedule, model.schedule)

    def part(self, rows: slice, model: Model) -> Problem:
        """The problem on some rows, as if they were the image."""
        y, w = self.y.read(rows).nan_to_num_(), self.w.read(rows)
        return Problem(model, y, w, self.options.seed or 0)


# --- one item of each stage (module-level, so that they can be sent to workers)


def copy_strip(job: Job, source: Reader, i: int) -> None:
    rows = job.plan.window(i, 0).own
    data, valid = source.read(rows, ALL)
    job.raw.write(rows, torch.from_numpy(np.where(valid, data, np.float32(np.nan))))


def look_at_band(job: Job, good: NDArray[np.bool_], b: int) -> dict[str, Any]:
    """The facts of a stored band (see :class:`Band`)."""
    raw = job.raw.read_band(b)[None].numpy()
    ok = ~np.isnan(raw)
    count = int(ok.sum())
    why = unusable(raw[0], ok[0], bool(good[b]))
    if why:
        return asdict(Band(count, why))
    band = Cube(np.where(ok, raw, np.float32(0)), ok)
    limits = unit_range(band, job.options.range)
    unit = limits.to_unit(band.data)
    known = unit[ok]
    middle = np.median(known)
    level = noise_level(torch.from_numpy(np.where(ok, unit, middle)), torch.from_numpy(ok))
    lo, hi = float(limits.lo[0]), float(limits.hi[0])
    mean = float(known.mean(dtype=np.float64))
    return asdict(Band(count, "", lo, hi, float(middle), mean, float(level[0])))


def scale_band(job: Job, b: int) -> None:
    """A band in use on the unit interval."""
    raw = job.raw.read_band(job.use[b]).numpy()
    limits = job.limits
    one = BandRange(limits.lo[b : b + 1], limits.hi[b : b + 1])
    job.y.write_band(b, torch.from_numpy(one.to_unit(raw[None])[0]))


def logits_strip(job: Job, net: Any, out: Array, i: int) -> list[float]:
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


def raw_band(job: Job, source: Any, out: Array, b: int) -> float:
    """Weights of a band, before they are scaled, from the residual of the image so far."""
    y, valid = job.band(b)
    raw = source.raw(y, valid, torch.from_numpy(job.restored(b)))
    out.write_band(b, raw[0])
    return float(raw[valid].sum(dtype=torch.float64))


def given_strip(job: Job, values: Tensor, out: Array, i: int) -> float:
    rows = job.plan.window(i, 0).own
    valid = ~job.y.read(rows).isnan()
    part = values[:, rows].float().expand_as(valid)
    if not bool(torch.isfinite(part).all()) or bool((part < 0).any()):
        raise BadInput("the given weights must be finite and not negative")
    out.write(rows, part)
    return float(part[valid].sum(dtype=torch.float64))


def weights_strip(
    job: Job, factors: Sequence[Factor], scale: float | None, out: Array | None, i: int
) -> float:
    """The product of the factors on a strip, 0 where nothing was measured; returns its sum."""
    rows = job.plan.window(i, 0).own
    y = job.y.read(rows)
    w = math.prod((f.read(rows, y) for f in factors[1:]), start=factors[0].read(rows, y))
    if scale is not None:
        w = (w * scale).clamp_min(FLOOR)
    w = torch.where(y.isnan(), torch.zeros_like(w), w)
    if out is not None:
        out.write(rows, w)
    return float(w.sum(dtype=torch.float64))


def solve_strip(job: Job, i: int) -> list[float]:
    """A strip on its own; returns steps, residuals and whether it converged."""
    rows = job.plan.window(i).rows
    window = slice(int(rows[0]), int(rows[-1]) + 1)
    model = job.options.build((len(job.use), len(rows), job.plan.shape[2]), job.strength, job.rank)
    found = solve(job.part(window, model), job.schedule(model))
    np.save(job.folder / f"solved-{i}.npy", found.x.numpy())
    last = found.residuals[-1] if found.residuals else Residuals(0.0, 0.0)
    return [found.state.k, last.primal, last.dual, float(found.converged)]


def blend_strip(job: Job, out: Array, i: int) -> None:
    """The own rows of a strip from all that overlap them."""
    plan, own = job.plan, job.plan.window(i).own
    total = np.zeros((len(job.use), own.stop - own.start, plan.shape[2]), np.float32)
    share = np.zeros((own.stop - own.start, 1), np.float32)
    for j in plan.strips:
        window = plan.window(j)
        first, last = int(window.rows[0]), int(window.rows[-1]) + 1
        a, b = max(first, own.start), min(last, own.stop)
        if a < b:
            much = ramp(window, plan.shape[1], plan.halo)[a - first : b - first, None]
            held = np.load(job.folder / f"solved-{j}.npy", mmap_mode="r")
            total[:, a - own.start : b - own.start] += held[:, a - first : b - first] * much
            share[a - own.start : b - own.start] += much
    out.write(own, torch.from_numpy(total / share))


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


# --- the run


@dataclass
class Run:
    """A run under way: the job as far as it is known, and what does and remembers the work."""

    job: Job
    journal: Journal
    executor: Executor
    watch: Watch | None = None
    round: int = 0

    def map(
        self,
        stage: str,
        function: Callable[[int], Any],
        items: Sequence[int],
        makes: Sequence[Array] = (),
        here: bool = False,
    ) -> list[Any]:
        name = f"{stage} (round {self.round + 1})" if self.round else stage
        if not self.journal.finished(name, items):
            for array in makes:
                if self.journal.done.get(name) and not array.path.exists():
                    raise damaged(self.job.folder)
                array.make()
        executor = Serial() if here else self.executor
        return self.journal.map(name, function, items, executor, self.watch)

    def resuming(self) -> bool:
        return self.journal.fresh == 0


def prepare(run: Run, source: Reader) -> tuple[Band, ...]:
    """Copy, look at the bands and scale those that can be used; returns all bands."""
    job = run.job
    work = partial(copy_strip, job, source)
    run.map("copy", work, job.plan.strips, [job.raw], here=not source.lazy)
    facts = run.map("look", partial(look_at_band, job, source.good_bands), range(job.stored))
    every = tuple(Band(**f) for f in facts)
    use = tuple(b for b, f in enumerate(every) if not f.why)
    check_some(np.array([not f.why for f in every]), {b: f.why for b, f in enumerate(every)})
    shape = (len(use), *job.plan.shape[1:])
    plan = plan_for(shape, job.options, job.plan.limit, like=job.plan)
    run.job = job = replace(job, plan=plan, use=use, bands=tuple(every[b] for b in use))
    run.map("scale", partial(scale_band, job), range(len(use)), [job.y])
    job.raw.path.unlink(missing_ok=True)
    return every


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
        scale = count / sum(
            run.map("product", partial(weights_strip, job, factors, 1.0, None), strips)
        )
    w = partial(weights_strip, job, factors, scale, job.w)
    run.map("weights", w, strips, [job.w])
    for f in factors:
        if f.file is not None:
            f.file.path.unlink(missing_ok=True)


def _factor(run: Run, j: int, part: Source) -> Factor:
    """The weights of one source up to their constants."""
    job, strips = run.job, run.job.plan.strips
    out, stage = job.array(f"factor{j}"), f"weights {j + 1}: {part.name}"
    count = sum(b.count for b in job.bands)
    if isinstance(part, Net):
        found = run.map(stage, partial(logits_strip, job, part.net, out), strips, [out])
        top = max(m for m, _ in found)
        total = sum(s * math.exp(m - top) for m, s in found)
        return Factor(count / total, out, softmax=True, top=top)
    if isinstance(part, Given):
        values = part.values if part.values.dim() == 3 else part.values.unsqueeze(0)
        if values.shape[1:] != job.plan.shape[1:] or values.shape[0] not in (1, len(job.use)):
            raise BadInput(
                f"the weights have (band, row, col) shape {tuple(values.shape)}, "
                f"the image {job.plan.shape}"
            )
        total = sum(run.map(stage, partial(given_strip, job, values, out), strips, [out]))
        if not total > 0:
            raise BadInput(
                "the given weights are 0 on every valid voxel, so there is nothing to fit"
            )
        return Factor(count / total, out)
    if isinstance(part, Robust | Mixture) and run.round:
        work = partial(raw_band, job, part, out)
        return Factor(count / sum(run.map(stage, work, range(len(job.use)), [out])), out)
    if isinstance(part, Uniform | Precision | Robust | Mixture):
        flat = isinstance(part, Uniform)
        values_ = [1.0 if flat else 1 / b.level**2 for b in job.bands]
        total = sum(v * b.count for v, b in zip(values_, job.bands, strict=True))
        return Factor(count / total, values=tuple(values_))
    raise BadOption(f"the weights '{part.name}' need the whole cube in memory; raise --memory")


def settle(run: Run) -> dict[str, Any] | None:
    """Rank and strength that are to be found: on the strip in the middle of the image."""
    job, options = run.job, run.job.options
    if options.rank != "auto" and options.strength != "auto":
        run.job = replace(job, rank=options.rank, strength=options.strength)
        return None
    window = job.plan.window(len(job.plan.strips) // 2, 0).own
    shape = (len(job.use), window.stop - window.start, job.plan.shape[2])

    def look(_: int) -> dict[str, Any]:
        p = job.part(window, options.build(shape))
        rank = estimate_rank(p.y, p.w) if options.rank == "auto" else options.rank
        if options.strength != "auto":
            return {"rank": rank, "strength": options.strength, "choice": None}
        choice = choose(
            lambda s: options.build(shape, s, rank),
            p.y,
            p.w,
            job.schedule,
            caution=CAUTION if follows_noise(options.source) else 1.0,
        )
        return {"rank": rank, "strength": choice.strength, "choice": choice.as_dict()}

    (chosen,) = run.map("settle", look, [0], here=True)
    run.job = replace(job, rank=chosen["rank"], strength=chosen["strength"])
    return {"rows": [window.start, window.stop], **chosen}


def restore(run: Run) -> tuple[int, Residuals, bool]:
    """Solve; returns steps, residuals and whether it converged."""
    job = run.job
    model = job.model
    if job.plan.exact:
        folder = job.folder / f"steps{run.round}"
        folder.mkdir(exist_ok=True)
        setting = Setting(
            folder,
            job.plan,
            staged(model),
            job.schedule(model),
            job.y,
            job.w,
            Whole(job.means),
            job.options.seed or 0,
        )
        image, steps, now, done = Solver(setting, run).solve()
    else:
        found = run.map("solve", partial(solve_strip, job), job.plan.strips)
        image = job.array(f"blended{run.round}")
        run.map("blend", partial(blend_strip, job, image), job.plan.strips, [image])
        taken, primal, dual, converged = zip(*found, strict=True)
        steps, now, done = int(max(taken)), Residuals(max(primal), max(dual)), all(converged)
    run.job = replace(job, result=image)
    return steps, now, done


def write(run: Run, source: Reader, sinks: Sinks) -> tuple[int, int, int]:
    """Hand over the result; returns voxels not measured, weights below 0.1, and voxels clipped."""
    executor = run.executor if sinks.shared and source.lazy else Serial()
    work = partial(write_strip, run.job, source, sinks)
    found = [counts for _, counts in executor.run(work, run.job.plan.strips)]
    invalid, low, clipped = map(sum, zip(*found, strict=True))
    return invalid, low, clipped


def denoise_large(
    source: Reader,
    options: Options,
    plan: Plan,
    folder: Path,
    sinks: Callable[[], Sinks],
    *,
    identity: Any = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
    after: Callable[[Job], None] | None = None,
    strict: bool = False,
) -> tuple[Report, int]:
    """Denoise by windows, with scratch files in ``folder``; the report, and the voxels clipped.

    Args:
        source: the noisy cube.
        plan: from :func:`plan_for`.
        folder: for scratch files and the journal.
        sinks: opens the outputs, once there is something to write.
        identity: what tells this input from others; a run with the same one is resumed.
        executor: does the work; here, one strip after the other, when None.
        watch: told of every finished item.
        after: called with the finished job while its scratch files are there.
        strict: write nothing if the solver does not converge.
    """
    if not plan.tiled:
        raise BadOption("this plan is for a cube in memory; force tiles, or use denoise()")
    begin = time.perf_counter()
    facts = {
        "input": identity,
        "plan": asdict(plan),
        "options": {**asdict(replace(options, source=Uniform())), "weights": options.source.name},
        "networks": options.networks,
        "given": _digests(options),
        "versions": [__version__, torch.__version__],
    }
    with workplace(folder, key_of(facts), plan.disk) as journal:
        run = Run(Job(folder, plan, options, source.shape[0]), journal, executor or Serial(), watch)
        resumed = journal.resumed
        every = prepare(run, source)
        spent = {"prepare": time.perf_counter() - begin, "weights": 0.0, "solve": 0.0}
        choice: dict[str, Any] | None = None
        for run.round in range(options.source.rounds):
            t0 = time.perf_counter()
            weigh(run)
            if run.round == 0:
                choice = settle(run)
            t1 = time.perf_counter()
            steps, now, converged = restore(run)
            spent["weights"] += t1 - t0
            spent["solve"] += time.perf_counter() - t1
        t0 = time.perf_counter()
        wanted = converged or not strict
        invalid, low, clipped = write(run, source, sinks()) if wanted else (0, 0, 0)
        if after is not None and wanted:
            after(run.job)
        spent["write"] = time.perf_counter() - t0
        job = run.job
    spent["total"] = time.perf_counter() - begin
    tiling = plan.as_dict() | {"resumed": resumed}
    if choice is not None:
        tiling["chosen_on_rows"] = choice["rows"]
    span = options.range
    report = Report(
        model=options.model,
        original=options.original,
        rank=job.model.rank,
        strength=job.strength,
        weights=options.source.name,
        networks=options.networks,
        schedule=asdict(job.schedule(job.model)),
        shape=source.shape,
        bands_used=len(job.use),
        bands_skipped={b: f.why for b, f in enumerate(every) if f.why},
        invalid_voxels=invalid,
        range=span if isinstance(span, str) else f"{span[0]:g} to {span[1]:g}",
        steps=steps,
        residuals={"primal": now.primal, "dual": now.dual},
        converged=converged,
        down_weighted=low / max(sum(b.count for b in job.bands), 1),
        seconds={k: round(v, 4) for k, v in spent.items()},
        seed=options.seed,
        versions={"dlw": __version__, "torch": torch.__version__, "numpy": np.__version__},
        threads=torch.get_num_threads(),
        choice=None if choice is None else choice["choice"],
        tiling=tiling,
    )
    return report, clipped


def denoise_cube(cube: Cube, options: Options, plan: Plan) -> Result:
    """The same for a cube in memory; scratch files in the folder for temporary files."""
    data, valid, weights = cube.data.copy(), cube.valid.copy(), np.zeros(cube.shape, np.float32)

    def put(rows: slice, values: NDArray[np.float32], ok: NDArray[np.bool_]) -> int:
        data[:, rows], valid[:, rows] = values, ok
        return 0

    def put_weights(rows: slice, values: NDArray[np.float32], ok: NDArray[np.bool_]) -> int:
        weights[:, rows] = values
        return 0

    with TemporaryDirectory(prefix="dlw-") as folder:
        place = Path(folder) / "tiles"
        sinks = Sinks(put, put_weights)
        report, _ = denoise_large(InMemory(cube), options, plan, place, lambda: sinks)
    return Result(replace(cube, data=data, valid=valid), weights, report, cube)


def plan_for(
    shape: Sequence[int],
    options: Options,
    memory: str | int | None = None,
    *,
    tile: int | None = None,
    like: Plan | None = None,
    force: bool = False,
) -> Plan:
    """The plan for a cube and options; the one before without unused bands if ``like`` is given."""
    if like is not None:
        return replace(like, shape=(int(shape[0]), int(shape[1]), int(shape[2])))
    rank = options.rank if isinstance(options.rank, int) else None
    model = options.build(shape, rank=rank)
    model = replace(model, schedule=chosen_schedule(options.schedule, model.schedule))
    network = any(isinstance(s, Net) for s in options.parts)
    return make_plan(shape, model, memory, network=network, tile=tile, force=force)


def identity_of(source: Any) -> list[Any]:
    """What tells a file from others: its name, size and time, and a hash of three of its rows."""
    rows = source.shape[1]
    digest = hashlib.sha256()
    for row in sorted({0, rows // 2, rows - 1}):
        digest.update(source.read_stored(slice(row, row + 1), ALL).tobytes())
    about = Path(source.path).stat()
    return [
        os.path.realpath(source.path),
        about.st_size,
        about.st_mtime_ns,
        source.shape,
        asdict(source.encoding),
        digest.hexdigest(),
    ]


def _digests(options: Options) -> list[str]:
    return [
        hashlib.sha256(np.ascontiguousarray(s.values.numpy()).tobytes()).hexdigest()
        for s in options.parts
        if isinstance(s, Given)
    ]
