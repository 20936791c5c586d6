"""The command ``dlw``: parse, call, print.

Commands import what they need when they run: torch takes seconds, and ``dlw --help`` should not.
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import __version__, console, defaults
from .bench.command import register as register_bench
from .commands import register as register_commands
from .errors import BadOption, DlwError, unknown_name
from .options import (
    AutoStrengthOption,
    AxesOption,
    DenoiserOption,
    In,
    JsonOption,
    KeyOption,
    MemoryOption,
    ModelOption,
    NodataOption,
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
)
from .train.command import register as register_train
from .train.denoiser_command import register as register_train_denoiser
from .train.rival_command import register as register_train_rival
from .view.command import register as register_view

if TYPE_CHECKING:
    from .cube import Cube
    from .denoising import Range, Result, Strength
    from .io import CubeFile
    from .large import Options
    from .products import Outputs
    from .scratch import Executor
    from .tiles import Plan
    from .weighting import Source

app = typer.Typer(
    name="dlw",
    help="Hyperspectral denoising: variational models whose data term is weighted by a network.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog="First steps: 'dlw demo --scene', then 'dlw denoise out/noisy.hdr out/restored.hdr'.",
)


def _version(asked: bool) -> None:
    if asked:
        console.out.print(f"dlw {__version__}")
        raise typer.Exit


@app.callback()
def dlw(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show where an error comes from (anywhere on the line; DLW_DEBUG=1)."
        ),
    ] = False,
) -> None:
    """Hyperspectral denoising: variational models whose data term is weighted by a network."""


@app.command(short_help="Restore a noisy cube.")
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
        typer.Option("--auto", help="Model, network and strength as 'dlw advise' recommends."),
    ] = False,
    range: RangeOption = "auto",
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
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
        typer.Option("--workers", min=1, help="Processes that work on tiles (needs dlw[scale])."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port."),
    ] = None,
    as_json: JsonOption = False,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Restore a noisy cube, and write it as the input was stored.

    A cube that does not fit in memory is worked on in tiles, with scratch files in a hidden folder
    beside the output; if the run is cut short, the same command goes on where it was.
    """
    from . import io, large
    from .executors import executor
    from .products import Outputs

    outputs = Outputs(save_weights, save_flags, save_report, quicklook)
    check_places([target, save_weights, save_flags], overwrite, source)
    check_places([save_report, quicklook], overwrite)
    limits, amount = parse_range(range), _strength(strength)
    chosen = _source(model, weights, 1.0 if amount == "auto" else amount, rank, denoiser)
    if chosen is None and (save_weights, fill) != (None, False):
        raise _no_weights(model)
    silent = quiet or as_json
    with io.open_source(source, key=key, axes=axes, nodata=nodata) as file:
        if chosen is not None and not auto:
            options = large.Options(
                model, chosen, amount, _rank(rank), schedule.value, limits, seed, fill, denoiser
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
        cube = file.cube()
    io.check_save(target, cube)
    outputs.check(cube)
    console.notes(cube, silent)
    if auto:
        from .advise import advise
        from .models import find

        found = advise(cube, range=limits)
        model, amount = found.model, found.strength
        rank = str(found.rank) if find(model).takes_rank else None
        chosen = _source(model, found.network, amount, rank)
    result = _solve(
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
    file: CubeFile,
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
    from .products import denoise_file

    if not silent:
        console.notes(file, silent)
        console.err.print(f"dlw: plan: {plan}", markup=False)
        if not file.lazy:
            console.err.print("dlw: note: this format is read whole; convert it to ENVI or Zarr")
    with console.stages(silent) as watch:
        return denoise_file(file, target, options, plan, outputs, overwrite, work, watch, strict)


def _told(
    report: dict[str, Any],
    cube: Cube | CubeFile,
    source: str,
    target: str | None,
    save_weights: str | None,
    as_json: bool,
    quiet: bool,
    strict: bool,
) -> None:
    """Say what was done."""
    from .denoising import Report

    clipped = report["clipped_voxels"]
    done = Report(**{k: v for k, v in report.items() if k != "clipped_voxels"})
    if as_json:
        console.print_json({**report, "input": source, "output": target})
    elif not quiet and target is not None:
        console.summary(console.facts(done, cube, target, clipped or 0, save_weights))
    console.finish(done, strict, quiet)


@app.command()
def weights(
    source: In,
    target: Out,
    model: ModelOption = defaults.MODEL,
    weights: WeightsOption = defaults.WEIGHTS,
    strength: StrengthOption = 1.0,
    rank: RankOption = None,
    schedule: ScheduleOption = ScheduleChoice.paper,
    range: RangeOption = "auto",
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the weight map of a cube.

    How much each voxel is trusted: float32, mean 1, 0 where nothing was measured. Model, strength
    and schedule matter for 'robust' and 'mixture' only, which look at a residual.
    """
    from . import io
    from .denoising import predict_weights, usable_bands

    check_places([target], overwrite, source)
    limits, chosen = parse_range(range), _source(model, weights, strength, rank)
    if chosen is None:
        raise _no_weights(model)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    io.check_save(target, as_float32(cube, cube.data, "weights"))
    console.notes(cube, quiet or as_json)
    report = None
    if chosen.rounds > 1:
        silent = quiet or as_json
        result = _solve(cube, model, chosen, strength, rank, schedule, limits, None, silent)
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


@app.command()
def demo(
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder for what is written.")
    ] = "out",
    scene: Annotated[
        bool,
        typer.Option("--scene", help="Only write the scene, noisy.hdr and clean.hdr, to try on."),
    ] = False,
) -> None:
    """Try everything on a made-up scene.

    Denoises it with every model and weight source, prints a table and draws demo.png.
    """
    from . import demo as made_up

    (made_up.write_scene if scene else made_up.run)(Path(folder), console.out)


# Larger parts bring their own commands: each is a function (app) -> None.
PARTS: tuple[Callable[[typer.Typer], None], ...] = (
    register_commands,
    register_train,
    register_train_rival,
    register_train_denoiser,
    register_bench,
    register_view,
)
for register in PARTS:
    register(app)


# --- checks before the work


def _rank(text: str | None) -> int | Literal["auto"] | None:
    """'auto', a whole number, or nothing."""
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"--rank is a whole number from 1, or auto, not '{text}'")
    return int(text)


def _strength(text: str) -> Strength:
    """'auto' or a number."""
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--strength is a number or auto, not '{text}'") from None


def _source(
    model: str, weights: str, strength: float, rank: str | None, denoiser: str | None = None
) -> Source | None:
    """The weight source, after model, strength, rank and denoiser have been checked as well.

    None for a rival, which takes no weights.
    """
    from . import denoisers, rivals
    from .models import find, registry
    from .weighting import resolve, wants_original

    if rivals.is_rival(model):
        rivals.check_options(
            model, weights=weights, strength=strength, rank=_rank(rank), denoiser=denoiser
        )
        return None
    if model not in registry():
        raise unknown_name("model", model, [*registry(), *rivals.registry()])
    find(model, rank=_rank(rank), denoiser=denoiser)
    if denoiser is not None:
        denoisers.resolve(denoiser)
    if not (strength > 0 and math.isfinite(strength)):
        raise BadOption(f"--strength must be positive (1 is the published setting), not {strength}")
    source = resolve(weights)
    find(model, original=wants_original(source))
    return source


def _no_weights(model: str) -> BadOption:
    return BadOption(f"the model '{model}' uses no weights, so there are none to write")


# --- work


def _solve(
    cube: Cube,
    model: str,
    source: Source | None,
    strength: Strength,
    rank: str | None,
    schedule: ScheduleChoice,
    limits: Range,
    seed: int | None,
    silent: bool,
    denoiser: str | None = None,
    fill: bool = False,
) -> Result:
    from . import models as registered
    from .denoising import denoise as run_denoise
    from .weighting import wants_original

    if source is None:
        return run_denoise(
            cube,
            model=model,
            rank=_rank(rank),
            denoiser=denoiser,
            schedule=schedule.value,
            range=limits,
            seed=seed,
        )
    steps = None
    if schedule is ScheduleChoice.paper:
        known = 1.0 if strength == "auto" else strength
        built = registered.build(model, cube.shape, known, original=wants_original(source))
        steps = built.schedule.steps * source.rounds
    with console.progress(steps, silent) as watch:
        return run_denoise(
            cube,
            model=model,
            weights=source,
            strength=strength,
            rank=_rank(rank),
            denoiser=denoiser,
            schedule=schedule.value,
            range=limits,
            seed=seed,
            watch=watch,
            fill=fill,
        )


# --- errors

# typer carries its own copy of click since 0.26; this is the class in either.
_UsageError: Any = typer.BadParameter.__base__


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code, with every error told in one sentence."""
    debug = "--debug" in arguments or os.environ.get("DLW_DEBUG", "") not in ("", "0")
    rest = [a for a in arguments if a != "--debug"]
    try:
        code = typer.main.get_command(app).main(rest, prog_name="dlw", standalone_mode=False)
        return code if isinstance(code, int) else console.OK
    except (KeyboardInterrupt, typer.Abort):
        console.complain("interrupted")
        return console.INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)


def _explain(error: Exception) -> int:
    if isinstance(error, DlwError):
        console.complain(str(error))
        return error.exit_code
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "dlw"
        message = error.format_message().rstrip(".")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message, file=sys.stderr)
        else:
            console.complain(f"{message}; see '{command} --help'")
        return console.USAGE
    # torch reports a failed allocation as a RuntimeError.
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        console.complain(
            "not enough memory for this cube; cut out a smaller part, or use a larger machine"
        )
        return console.RESOURCE
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    console.complain(f"unexpected {what}; run with --debug to see where")
    return console.UNEXPECTED


def main() -> None:
    """Entry point of the script ``dlw``."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
