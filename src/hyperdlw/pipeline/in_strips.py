"""Denoise a cube that does not fit in memory, as a plan says (see :mod:`hyperdlw.pipeline.plan`).

Stages, each a map over strips or bands whose finished items the journal remembers:

1. copy: the source goes to scratch, strip by strip; range, median, mean and noise level of every
   band; the bands in use on the unit interval, NaN where nothing was measured;
2. weights (:mod:`hyperdlw.pipeline.strip_weights`): logits in strips with the halo of the network and their softmax
   by a running maximum and sum; or one number per band; or band by band for weights that see a
   residual;
3. solve: the steps of the solver over all strips (:mod:`hyperdlw.solver.strip_solver`), or strip by strip;
4. write (:mod:`hyperdlw.pipeline.restore_strips`): strips of the result, beside what the source holds.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..cube import BandRange, Cube
from ..errors import BadOption
from ..solver import DiskArray, DiskProblem, Residuals, StripSolver, Whole, solve, use_stages
from ..weights import Uniform
from .job import ALL, Band, InMemory, Job, Options, Reader, Run
from .journal import Executor, Serial, Watch, Work, key_of, workplace
from .plan import Plan, ramp
from .plan import plan as make_plan
from .prepare import check_some, unit_range, unusable
from .rank import estimate_rank
from .restore_strips import Sinks, write
from .run import Report, Result, chosen_schedule
from .strength import choose
from .strip_weights import weigh

__all__ = [
    "InMemory",
    "Options",
    "Sinks",
    "denoise_cube",
    "denoise_large",
    "identity_of",
    "plan_for",
]


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
    lo, hi = float(limits.lo[0]), float(limits.hi[0])
    mean = float(known.mean(dtype=np.float64))
    return asdict(Band(count, "", lo, hi, float(middle), mean))


def scale_band(job: Job, b: int) -> None:
    """A band in use on the unit interval."""
    raw = job.raw.read_band(job.use[b]).numpy()
    limits = job.limits
    one = BandRange(limits.lo[b : b + 1], limits.hi[b : b + 1])
    job.y.write_band(b, torch.from_numpy(one.to_unit(raw[None])[0]))


def prepare(run: Run, source: Reader) -> tuple[Band, ...]:
    """Copy, look at the bands and scale those that can be used; returns all bands."""
    job = run.job
    work = partial(copy_strip, job, source)
    run.work.map("copy", work, job.plan.strips, [job.raw], here=not source.lazy)
    facts = run.work.map("look", partial(look_at_band, job, source.good_bands), range(job.stored))
    every = tuple(Band(**f) for f in facts)
    use = tuple(b for b, f in enumerate(every) if not f.why)
    check_some(np.array([not f.why for f in every]), {b: f.why for b, f in enumerate(every)})
    shape = (len(use), *job.plan.shape[1:])
    plan = plan_for(shape, job.options, job.plan.limit, like=job.plan)
    run.job = job = replace(job, plan=plan, use=use, bands=tuple(every[b] for b in use))
    run.work.map("scale", partial(scale_band, job), range(len(use)), [job.y])
    job.raw.path.unlink(missing_ok=True)
    return every


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
            follows_noise=options.source.follows_noise,
        )
        return {"rank": rank, "strength": choice.strength, "choice": choice.as_dict()}

    (chosen,) = run.work.map("settle", look, [0], here=True)
    run.job = replace(job, rank=chosen["rank"], strength=chosen["strength"])
    return {"rows": [window.start, window.stop], **chosen}


def solve_strip(job: Job, i: int) -> list[float]:
    """A strip on its own; returns steps, residuals and whether it converged."""
    rows = job.plan.window(i).rows
    window = slice(int(rows[0]), int(rows[-1]) + 1)
    model = job.options.build((len(job.use), len(rows), job.plan.shape[2]), job.strength, job.rank)
    found = solve(job.part(window, model), job.schedule(model))
    np.save(job.folder / f"solved-{i}.npy", found.x.numpy())
    last = found.residuals[-1] if found.residuals else Residuals(0.0, 0.0)
    return [found.state.k, last.primal, last.dual, float(found.converged)]


def blend_strip(job: Job, out: DiskArray, i: int) -> None:
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


def restore(run: Run) -> tuple[int, Residuals, bool]:
    """Solve; returns steps, residuals and whether it converged."""
    job = run.job
    model = job.model
    if job.plan.exact:
        folder = job.folder / f"steps{run.work.round}"
        folder.mkdir(exist_ok=True)
        setting = DiskProblem(
            folder,
            job.plan,
            use_stages(model),
            job.schedule(model),
            job.y,
            job.w,
            Whole(job.means),
            job.options.seed or 0,
        )
        image, steps, now, done = StripSolver(setting, run.work).solve()
    else:
        found = run.work.map("solve", partial(solve_strip, job), job.plan.strips)
        image = job.array(f"blended{run.work.round}")
        run.work.map("blend", partial(blend_strip, job, image), job.plan.strips, [image])
        taken, primal, dual, converged = zip(*found, strict=True)
        steps, now, done = int(max(taken)), Residuals(max(primal), max(dual)), all(converged)
    run.job = replace(job, result=image)
    return steps, now, done


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
        "given": options.source.digest,
        "versions": [__version__, torch.__version__],
    }
    with workplace(folder, key_of(facts), plan.disk) as journal:
        work = Work(folder, journal, executor or Serial(), watch)
        run = Run(Job(folder, plan, options, source.shape[0]), work)
        resumed = journal.resumed
        every = prepare(run, source)
        spent = {"prepare": time.perf_counter() - begin, "weights": 0.0, "solve": 0.0}
        choice: dict[str, Any] | None = None
        for run.work.round in range(options.source.rounds):
            t0 = time.perf_counter()
            weigh(run)
            if run.work.round == 0:
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
        versions={"hyperdlw": __version__, "torch": torch.__version__, "numpy": np.__version__},
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

    with TemporaryDirectory(prefix="hyperdlw-") as folder:
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
    network = bool(options.source.modules)
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
