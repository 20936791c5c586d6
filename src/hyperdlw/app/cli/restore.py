"""The commands for a noisy cube: ``hyperdlw denoise``, ``weights`` and ``advise``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import BadOption
from ...models import defaults
from . import console
from .options import (
    AS_STORED,
    AutoStrengthOption,
    DenoiserOption,
    In,
    InputOptions,
    JsonOption,
    MemoryOption,
    ModelOption,
    Out,
    OverwriteOption,
    QuietOption,
    RangeOption,
    RankOption,
    ScheduleChoice,
    ScheduleOption,
    StrengthOption,
    StrictOption,
    WeightsOption,
    as_float32,
    check_places,
    parse_range,
    parse_rank,
    parse_strength,
)
from .solving import chosen_source, no_weights, solve_cube

if TYPE_CHECKING:
    from ...cube import Cube
    from ...io import CubeReader
    from ...pipeline import Executor, Options, Outputs, Plan


def denoise(
    source: In,
    target: Out,
    model: ModelOption = defaults.MODEL,
    weights: WeightsOption = defaults.WEIGHTS,
    strength: AutoStrengthOption = "1",
    rank: RankOption = None,
    denoiser: DenoiserOption = None,
    schedule: ScheduleOption = ScheduleChoice.paper,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Model, network and strength as 'hyperdlw advise' recommends."),
    ] = False,
    range: RangeOption = "auto",
    reading: InputOptions = AS_STORED,
    seed: Annotated[int | None, typer.Option("--seed", help="Kept in the report.")] = None,
    overwrite: OverwriteOption = False,
    save_weights: Annotated[
        str | None, typer.Option("--save-weights", metavar="FILE", help="Write the weights too.")
    ] = None,
    save_flags: Annotated[
        str | None,
        typer.Option(
            "--save-flags",
            metavar="FILE",
            help="Write uint8 flags: 1 nodata, 2 dead, 4 impulse, 8 stripe, 16 saturated.",
        ),
    ] = None,
    save_report: Annotated[
        str | None, typer.Option("--save-report", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    quicklook: Annotated[
        str | None,
        typer.Option("--quicklook", metavar="PNG", help="Draw before, after, weights and spectra."),
    ] = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="Fill voxels that were not measured by the model.")
    ] = False,
    memory: MemoryOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Processes that work on tiles (needs hyperdlw[scale])."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port."),
    ] = None,
    as_json: JsonOption = False,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Restore a noisy cube.

    The output is stored as the input was. A cube that does not fit in memory is worked on in
    tiles, with scratch files in a hidden folder beside the output; if the run is cut short, the
    same command goes on where it was.
    """
    from ... import io
    from ...pipeline import Outputs, executor
    from ...pipeline import in_strips as large

    outputs = Outputs(save_weights, save_flags, save_report, quicklook)
    check_places([target, save_weights, save_flags], overwrite, source)
    check_places([save_report, quicklook], overwrite)
    limits, amount = parse_range(range), parse_strength(strength)
    chosen = chosen_source(model, weights, 1.0 if amount == "auto" else amount, rank, denoiser)
    if chosen is None and (save_weights, fill) != (None, False):
        raise no_weights(model)
    silent = quiet or as_json
    with reading.open_reader(source) as file:
        if chosen is not None and not auto:
            options = large.Options(
                model,
                chosen,
                amount,
                parse_rank(rank),
                schedule.value,
                limits,
                seed,
                fill,
                denoiser,
            )
            plan = large.plan_for(file.shape, options, memory, force=bool(workers or scheduler))
            if plan.tiled:
                with executor(workers, scheduler) as work:
                    done = _in_tiles(
                        file, target, options, plan, outputs, overwrite, work, silent, strict
                    )
                written = None if done["clipped_voxels"] is None else target
                _told(done, file, source, written, save_weights, as_json, quiet, strict)
                return
        if workers or scheduler:
            raise BadOption(
                "--workers and --scheduler work on tiles, which --auto and rivals do not"
            )
        cube = file.read_cube()
    io.check_save(target, cube)
    outputs.check(cube)
    console.notes(cube, silent)
    if auto:
        from ...models import find
        from ...pipeline import advise

        found = advise(cube, range=limits)
        model, amount = found.model, found.strength
        rank = str(found.rank) if find(model).takes_rank else None
        chosen = chosen_source(model, found.network, amount, rank)
    result = solve_cube(
        cube, model, chosen, amount, rank, schedule, limits, seed, silent, denoiser, fill
    )
    failed = strict and not result.report.converged
    clipped = None
    if not failed:
        clipped = io.save_cube(result.cube, target, overwrite=overwrite)
        outputs.save(result, limits, overwrite, clipped)
    report = result.report.as_dict() | {"clipped_voxels": clipped}
    _told(report, cube, source, None if failed else target, save_weights, as_json, quiet, strict)


def _in_tiles(
    file: CubeReader,
    target: str,
    options: Options,
    plan: Plan,
    outputs: Outputs,
    overwrite: bool,
    work: Executor,
    silent: bool,
    strict: bool,
) -> dict[str, Any]:
    """The whole way from file to file by windows; returns the report."""
    from ...pipeline import denoise_file

    if not silent:
        console.notes(file, silent)
        console.err.print(f"hyperdlw: plan: {plan}", markup=False)
        if not file.lazy:
            console.err.print(
                "hyperdlw: note: this format is read whole; convert it to ENVI or Zarr"
            )
    with console.stages(silent) as watch:
        return denoise_file(file, target, options, plan, outputs, overwrite, work, watch, strict)


def _told(
    report: dict[str, Any],
    cube: Cube | CubeReader,
    source: str,
    target: str | None,
    save_weights: str | None,
    as_json: bool,
    quiet: bool,
    strict: bool,
) -> None:
    """Say what was done."""
    from ...pipeline import Report

    clipped = report["clipped_voxels"]
    done = Report(**{k: v for k, v in report.items() if k != "clipped_voxels"})
    if as_json:
        console.print_json({**report, "input": source, "output": target})
    elif not quiet and target is not None:
        console.summary(console.facts(done, cube, target, clipped or 0, save_weights))
    console.finish(done, strict, quiet)


def weights(
    source: In,
    target: Out,
    model: ModelOption = defaults.MODEL,
    weights: WeightsOption = defaults.WEIGHTS,
    strength: StrengthOption = 1.0,
    rank: RankOption = None,
    schedule: ScheduleOption = ScheduleChoice.paper,
    range: RangeOption = "auto",
    reading: InputOptions = AS_STORED,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the weight map of a cube.

    How much each voxel is trusted: float32, mean 1, 0 where nothing was measured. Model, strength
    and schedule matter for 'robust' and 'mixture' only, which look at a residual.
    """
    from ... import io
    from ...pipeline import predict_weights, usable_bands

    check_places([target], overwrite, source)
    limits, chosen = parse_range(range), chosen_source(model, weights, strength, rank)
    if chosen is None:
        raise no_weights(model)
    cube = reading.open_cube(source)
    io.check_save(target, as_float32(cube, cube.data, "weights"))
    console.notes(cube, quiet or as_json)
    report = None
    if chosen.rounds > 1:
        silent = quiet or as_json
        result = solve_cube(cube, model, chosen, strength, rank, schedule, limits, None, silent)
        w, report = result.weights, result.report
        if strict and not report.converged:
            console.finish(report, strict, quiet)
    else:
        w = predict_weights(cube, chosen, range=limits)
    io.save_cube(as_float32(cube, w, "weights"), target, overwrite=overwrite)
    used, skipped = usable_bands(cube)
    low = float((w[w > 0] < 0.1).mean())
    facts = {
        "weights": chosen.name,
        "bands": console.bands(int(used.sum()), skipped, cube),
        "down-weighted": f"{100 * low:.1f} % of the voxels below 0.1",
        "output": target,
    }
    if as_json:
        console.print_json(
            {
                "input": source,
                "output": target,
                "weights": chosen.name,
                "shape": cube.shape,
                "bands_used": int(used.sum()),
                "bands_skipped": skipped,
                "down_weighted": low,
            }
        )
    elif not quiet:
        console.summary(facts)
    if report is not None:
        console.finish(report, strict, quiet)


def advise(
    source: In,
    range_: RangeOption = "auto",
    reading: InputOptions = AS_STORED,
    as_json: JsonOption = False,
) -> None:
    """Say what to denoise a cube with.

    Looks at the noisy cube alone: noise per band, bad bands, broken columns; which model, network, rank
    and strength, and why. 'hyperdlw denoise --auto' follows it.
    """
    from ...pipeline import advise as look

    cube = reading.open_cube(source)
    found = look(cube, range=parse_range(range_))
    if as_json:
        console.print_json({"input": source, **found.as_dict(), "bad_bands": found.bad_bands})
        return
    console.table(("advice", "why"), console.advice(found))
    flags = f"-m {found.model} -w {found.network} --strength {found.strength:.3g}"
    console.out.print(f"hyperdlw denoise {source} OUT {flags}", markup=False)
