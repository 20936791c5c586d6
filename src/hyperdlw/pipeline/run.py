"""From a noisy cube or file to a restored one: the one path.

Whether a cube is worked on in memory or in strips, the same five verbs are called in the same order:
prepare, weigh, choose, solve, restore.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from os.path import isfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .. import io
from ..cube import Cube, Given
from ..errors import BadOption
from ..models import DenoiserSpec, defaults
from ..solver import Schedule, State
from ..testbed import Truth
from ..weights import DEFAULT, Spec, resolve
from .advice import advise
from .audit_page import write_command
from .choose import choice_rows
from .in_memory import InMemory
from .in_strips import InStrips, open_strips
from .job import MemoryReader, chain_cubes
from .journal import folder_of
from .look import Look, shrink_result
from .noise_file import why_not
from .options import (
    DEFAULT_MODEL,
    Memory,
    Options,
    Rank,
    ScheduleName,
    Settings,
    Strength,
    check_options,
)
from .plan import Plan, check_advice, plan_run
from .prepare import Range, prepare_cube
from .products import ArrayOutputs, FileOutputs, Outputs
from .protect import Protect
from .report import Counts, Report, Result, make_report

NO_OUTPUTS = Outputs()
AS_STORED = io.ReadOptions()


T = TypeVar("T")


def run_way(way: InMemory | InStrips, options: Options, plan: Plan, strict: bool = False) -> Report:
    """The five verbs in turn, as many rounds of image and weights as the source asks for.

    A strict run hands nothing over if the solver does not converge.
    """
    begin = time.perf_counter()
    spent: dict[str, float] = defaultdict(float)

    def clock(stage: str, verb: Callable[[], T]) -> T:
        start = time.perf_counter()
        found = verb()
        spent[stage] += time.perf_counter() - start
        return found

    clock("prepare", way.prepare)
    clock("weights", way.weigh)
    chosen = clock("choose", way.choose)
    for _ in range(options.source.rounds - 1):
        clock("solve", partial(way.solve, last=False))
        clock("weights", way.weigh)
    outcome = clock("solve", way.solve)
    counts = clock("write", way.restore if outcome.converged or not strict else Counts)
    spent["total"] = time.perf_counter() - begin
    return make_report(options, plan, way.facts, chosen, outcome, counts, spent, way.resumed)


def denoise(
    cube: Given | str | PathLike[str],
    *,
    axes: str | None = None,
    model: str = DEFAULT_MODEL,
    weights: Spec = DEFAULT,
    strength: Strength = 1.0,
    rank: Rank = None,
    schedule: ScheduleName | Schedule = "paper",
    range: Range = "auto",
    denoiser: DenoiserSpec | None = None,
    truth: Truth | None = None,
    seed: int | None = None,
    fill: bool = False,
    columns: bool = True,
    paper: bool = False,
    memory: Memory = None,
    tile: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    uncertainty: bool = False,
    include_invented: bool = False,
    protect: Protect = None,
    device: str = "cpu",
    quality: str = defaults.NORMAL,
    watch: Callable[[State[Tensor]], None] | None = None,
) -> Result:
    """Restore a noisy cube.

    Minimises  1/2 sum w (y - x)^2 + strength * R(x)  with the regulariser R of ``model`` and the
    weights w of ``weights`` (equation (3.1) of the paper), on bands scaled to the unit interval; the
    scaling is undone.

    Args:
        cube: a :class:`Cube`, the path of a file, an array (band, row, col), a masked array, a torch
            tensor of any device, or an xarray.DataArray or Dataset; ``result.restored`` is of the
            same kind.
        axes: the order of the axes where it is another one, such as "rcb" (row, col, band).
        model: name of a registered model (``hyperdlw models``, "plain" unless given), or of a
            published method, which takes no weights, strength or schedule.
        weights: where the weights come from: a network ("N+T+TS-remote" unless given), "uniform",
            "precision", "robust", "mixture", a file, an array, or a product of these (see
            :func:`hyperdlw.weights.resolve`); or "original": no weights, and the published version
            of the model with its own data term.
        strength: 1, the default, is right for the noise level of the cube; larger is smoother. "auto"
            takes the one with the smallest estimated risk (see :mod:`hyperdlw.pipeline.choose`), chosen on
            the middle rows of a cube of more than two million voxels; the report holds the curve.
        rank: of models that have one; None is the published value (of "plain": what stands above the
            noise, 8 to 16), "auto" is what stands above the noise and at least the published value.
        schedule: "paper" (default) runs the steps the networks are trained with, "converged" runs
            to a tolerance of 1e-5.
        range: how bands are scaled to [0, 1]: "auto" (default: limits of the signal, found jointly
            over the bands), "minmax" or two numbers.
        denoiser: of models that use one: of cubes for "pnp" and "pnp-hqs" ("eigen"), of grey
            images for "fasthymix" ("framelet", "gauss"); or a file with a trained one, or a
            callable (see :mod:`hyperdlw.models.denoisers.catalogue`).
        truth: the true noise, for ``weights="oracle"``.
        seed: recorded in the report; of the models only the deep image prior draws random numbers,
            and some published methods do.
        fill: give voxels that were not measured, and wild ones, the values of the model; they count as
            valid then.
        columns: look for offsets and gains of columns, as pushbroom sensors have them, and remove them.
        paper: the procedure of the paper: the constants of the model whatever the noise level is, no
            columns removed, no eigenimages beside the model.
        memory: a limit such as "2G"; a cube that needs more is worked on in strips
            (:mod:`hyperdlw.pipeline.plan`), with scratch files in the folder for temporary files.
            Three quarters of the machine's memory when None.
        tile: rows of a strip; given, the cube is worked on in strips even if it fits.
        workers: processes that work on strips; ``scheduler``: the address of a Dask scheduler.
        uncertainty: also find ``result.uncertainty``, a standard deviation for every restored voxel
            (:mod:`hyperdlw.pipeline.uncertainty`); the model runs twice.
        include_invented: let statistics (audit, uncertainty) include voxels that the model invented.
        protect: what must not be smoothed away (:mod:`hyperdlw.pipeline.protect`): the path of a spectrum
            (ENVI library, CSV) or of a mask, a region "ROW:ROW,COL:COL", a spectrum (band,), a mask (row,
            col), or a list of these. A matched filter finds the same amplitude of a spectrum before and
            after; pixels come back as measured.
        device: where networks and solver work: "cpu", "cuda", "mps" (networks alone), or "auto",
            a card if there is one.
        quality: "fast", "normal" or "best", of the default model: network, steps and denoiser of
            eigenimages as :data:`hyperdlw.models.defaults.QUALITIES` has them. Weights other than the
            default are taken as given.
        watch: called with the solver's state after every step (of a cube that is solved whole).

    >>> rng = np.random.default_rng(0)
    >>> noisy = 0.5 + 0.1 * rng.standard_normal((4, 16, 16))
    >>> result = denoise(noisy, model="tv", weights="uniform", range=(0, 1))
    >>> float(result.cube.data.std()) < 0.05
    True
    """
    noisy = io.take_cube(cube, axes)
    options = check_options(
        model=model,
        weights=weights,
        strength=strength,
        rank=rank,
        schedule=schedule,
        range=range,
        denoiser=denoiser,
        truth=truth,
        seed=seed,
        fill=fill,
        columns=columns,
        paper=paper,
        memory=memory,
        tile=tile,
        workers=workers,
        scheduler=scheduler,
        uncertainty=uncertainty,
        include_invented=include_invented,
        protect=protect,
        device=device,
        quality=quality,
    ).suit(noisy.metadata)
    plan = plan_run(noisy.shape, options)
    if not plan.tiled:
        way = InMemory(noisy, options, watch)
        report = run_way(way, options, plan)
        return Result(way.cube, way.weights, report, noisy, way.uncertainty, way.invented)
    arrays = ArrayOutputs(noisy)
    with TemporaryDirectory(prefix="hyperdlw-") as folder:
        place = Path(folder) / "strips"
        with open_strips(MemoryReader(noisy), options, plan, arrays, place) as strips:
            report = run_way(strips, options, plan)
    report = replace(report, clipped_voxels=None)
    told = arrays.uncertainty, arrays.invented
    return Result(arrays.cube, arrays.weights, report, noisy, *told)


class Progress(Protocol):
    """Told how far ``denoise_file`` is."""

    def plan_made(self, plan: Plan, reader: io.CubeReader, options: Options) -> None:
        """Before the work begins."""

    def step_made(self, state: State[Tensor]) -> None:
        """After a step of the solver, in memory."""

    def item_done(self, stage: str, done: int, count: int) -> None:
        """After a strip or a band of a stage of the work, in strips."""


def denoise_file(
    source: str | Path,
    target: str | Path,
    *,
    outputs: Outputs = NO_OUTPUTS,
    overwrite: bool = False,
    strict: bool = False,
    auto: bool = False,
    reading: io.ReadOptions = AS_STORED,
    progress: Progress | None = None,
    **settings: Unpack[Settings],
) -> Report:
    """Restore the cube of a file, and write it as the input is stored.

    A cube that does not fit in memory is worked on in strips, with scratch files in a hidden folder
    beside ``target``. If such a run is cut short, the same call goes on where it was. Every output
    appears when it is complete.

    Args:
        source: the noisy cube: a file or a folder of PNG bands.
        target: the restored cube; its ending names the format.
        outputs: what else is written: weights, flags, invented voxels, noise, report, picture, page.
        overwrite: replace outputs that exist.
        strict: write nothing if the solver does not converge.
        auto: take model, network, strength and rank as :func:`hyperdlw.advise` recommends; large
            cubes are judged by their middle rows, as in ``denoise``.
        reading: variable, axes and nodata value, where the file does not tell.
        progress: told of the plan and of finished work.
        settings: model, weights, strength, memory, workers, ... as for :func:`hyperdlw.denoise`.

    ::

        report = hyperdlw.denoise_file("scene.hdr", "clean.hdr", memory="2G", workers=4)
    """
    source, target = str(source), str(target)
    kept = settings.get("protect")
    texts = [*settings.values(), *(kept if isinstance(kept, list | tuple) else ())]
    words = [word for text in texts for word in str(text).split("*")]
    outputs.check_places(target, overwrite, source, [w for w in words if isfile(w)])
    if outputs.uncertainty is not None:
        settings["uncertainty"] = True
    typed = outputs.command or write_command(source, target, dict(settings))
    outputs = replace(outputs, command=typed)
    options = check_options(**settings)
    if outputs.audit is not None and not options.published:
        options = replace(options, uncertainty=True)  # the page tells what is left of the noise
    if options.published and outputs.weights is not None:
        raise BadOption(f"the model '{options.model}' uses no weights, so there are none to write")
    if outputs.noise is not None and not options.follows_level:
        raise BadOption(why_not(known=True))
    keys = io.list_series(source, reading)
    if keys:
        if replace(outputs, command="") != NO_OUTPUTS:
            raise BadOption(f"products of a series have no names; take one cube: --key '{keys[0]}'")

        def one(noisy: Path, clean: Path, key: str) -> Report:
            return denoise_file(
                noisy,
                clean,
                overwrite=True,
                strict=strict,
                auto=auto,
                reading=replace(reading, key=key),
                progress=progress,
                **settings,
            )

        return chain_cubes(Path(source), Path(target), keys, overwrite, one)
    files: FileOutputs | None = None
    look: Look | None = None
    known = io.identify_files(source)
    with ExitStack() as stack:
        reader = stack.enter_context(io.open_reader(source, **asdict(reading)))
        if auto:
            options = follow_advice(options, reader)
        options = options.suit(reader.metadata)
        plan = plan_run(reader.shape, options)
        outputs.check_cubes(target, reader)
        waves = reader.wavelengths
        if outputs.noise is not None and waves is None:
            raise BadOption(why_not(known=False))
        if progress is not None:
            progress.plan_made(plan, reader, options)
        if plan.tiled:
            files = stack.enter_context(
                FileOutputs(reader, target, outputs, overwrite, plan.height)
            )
            watch = None if progress is None else progress.item_done
            with open_strips(reader, options, plan, files, folder_of(target), watch) as strips:
                report = run_way(strips, options, plan, strict)
            io.check_unchanged(source, known)  # the outputs get their names after this
        else:
            cube = reader.read_cube()
            io.check_unchanged(source, known)
            way = InMemory(cube, options, None if progress is None else progress.step_made)
            report = run_way(way, options, plan, strict)
            if report.converged or not strict:
                clipped = io.save_cube(way.cube, target, overwrite=overwrite)
                report = replace(report, clipped_voxels=clipped)
                told = way.uncertainty, way.invented
                result = Result(way.cube, way.weights, report, cube, *told)
                outputs.save(result, options.range, overwrite)
                look = shrink_result(result, for_page=True) if outputs.audit is not None else None
    if report.converged or not strict:
        if files is not None:
            # Last: a picture does not stand in the way of a second try.
            outputs.draw_picture(files.look, overwrite)
            look = files.page_look
        outputs.save_texts(report, waves, overwrite)
        outputs.save_page(look, report, (source, target), overwrite)
    return report


def follow_advice(options: Options, reader: io.CubeReader) -> Options:
    """The options with the model, network, strength and rank that are recommended for a file."""
    check_advice(reader.shape, options)
    rows = choice_rows(reader.shape)
    data, valid = reader.read(rows)
    cube = Cube(data, valid, reader.wavelengths, reader.good_bands)
    found = advise(cube, range=options.range)
    effort, default = options.effort, found.model == DEFAULT_MODEL
    model, network = effort[:2] if default else (found.model, found.network)
    quality = options.quality if default else defaults.NORMAL
    taken = replace(options, model=model, source=resolve(network), denoiser=None, quality=quality)
    return replace(taken, strength=found.strength, rank=found.settings["rank"])


def predict_weights(
    cube: Given | str | PathLike[str],
    weights: Spec = DEFAULT,
    *,
    axes: str | None = None,
    range: Range = "auto",
    columns: bool = True,
    truth: Truth | None = None,
) -> NDArray[np.float32]:
    """The weight map w of a cube alone, shape of the cube; 0 where no value is believed.

    Options as for :func:`denoise`.
    """
    noisy = io.take_cube(cube, axes)
    ready = prepare_cube(noisy, range, columns)
    source = resolve(weights, truth).on_bands(ready.use)
    if source.rounds > 1:
        raise BadOption(
            f"the weights '{source.name}' need a restored image; use denoise and take result.weights"
        )
    full = np.zeros(noisy.shape, np.float32)
    full[ready.use] = source(ready.y, ready.valid).numpy()
    return full
