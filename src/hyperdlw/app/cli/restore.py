"""The commands for a noisy cube: ``hyperdlw denoise``, ``weights`` and ``advise``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ...errors import BadOption
from ...models import defaults
from . import console, options


def denoise(
    source: options.In,
    target: options.Out,
    model: options.Model = defaults.MODEL,
    weights: options.Weights = defaults.WEIGHTS,
    strength: options.AutoStrength = "1",
    rank: options.Rank = None,
    denoiser: options.Denoiser = None,
    schedule: options.Schedule = options.ScheduleChoice.paper,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Model, network and strength as 'hyperdlw advise' recommends."),
    ] = False,
    range: options.Range = "auto",
    reading: options.InputOptions = options.AS_STORED,
    seed: Annotated[int | None, typer.Option("--seed", help="Kept in the report.")] = None,
    overwrite: options.Overwrite = False,
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
    memory: options.Memory = None,
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
    as_json: options.Json = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
) -> None:
    """Restore a noisy cube.

    The output is stored as the input was. A cube that does not fit in memory is worked on in
    tiles, with scratch files in a hidden folder beside the output; if the run is cut short, the
    same command goes on where it was.
    """
    from ... import io
    from ...pipeline import Outputs, denoise_file

    silent = quiet or as_json
    with console.ConsoleProgress(silent) as progress:
        report = denoise_file(
            source,
            target,
            outputs=Outputs(save_weights, save_flags, save_report, quicklook),
            overwrite=overwrite,
            strict=strict,
            auto=auto,
            reading=io.ReadOptions(**asdict(reading)),
            progress=progress,
            model=model,
            weights=weights,
            strength=options.parse_strength(strength),
            rank=options.parse_rank(rank),
            denoiser=denoiser,
            schedule=schedule.value,
            range=options.parse_range(range),
            seed=seed,
            fill=fill,
            memory=memory,
            workers=workers,
            scheduler=scheduler,
        )
    written = None if strict and not report.converged else target
    reader = progress.reader
    lost = [] if written is None or reader is None else io.list_losses(reader, written)
    if as_json:
        facts = {"input": source, "output": written, "not_kept": lost}
        console.print_json({**report.as_dict(), **facts})
    elif not quiet and written is not None and reader is not None:
        if lost:
            console.err.print(f"hyperdlw: not kept: {', '.join(lost)}", markup=False)
        console.print_summary(console.list_facts(report, reader, written, save_weights))
        console.print_next("audit", source, written)
    console.report_shortfall(report, strict, quiet)


def weights(
    source: options.In,
    target: options.Out,
    model: options.Model = defaults.MODEL,
    weights: options.Weights = defaults.WEIGHTS,
    strength: options.Strength = 1.0,
    rank: options.Rank = None,
    schedule: options.Schedule = options.ScheduleChoice.paper,
    range: options.Range = "auto",
    reading: options.InputOptions = options.AS_STORED,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the weight map of a cube.

    How much each voxel is trusted: float32, mean 1, 0 where nothing was measured. Model, strength
    and schedule matter for 'robust' and 'mixture' only, which look at a residual.
    """
    from ... import io
    from ...pipeline import check_options, denoise, find_usable_bands, predict_weights

    io.check_places([target], overwrite, source)
    limits = options.parse_range(range)
    checked = check_options(
        model=model, weights=weights, strength=strength, rank=options.parse_rank(rank), range=limits
    )
    if checked.published:
        raise BadOption(f"the model '{model}' uses no weights, so there are none to write")
    chosen = checked.source
    cube = reading.open_cube(source)
    io.check_save(target, options.as_float32(cube, cube.data, "weights"))
    console.print_notes(cube, quiet or as_json)
    report = None
    if chosen.rounds > 1:
        with console.ConsoleProgress(quiet or as_json) as progress:
            progress.show_bar("weights", None)
            result = denoise(
                cube,
                model=model,
                weights=chosen,
                strength=strength,
                rank=options.parse_rank(rank),
                schedule=schedule.value,
                range=limits,
                watch=progress.step_made,
            )
        w, report = result.weights, result.report
        if strict and not report.converged:
            console.report_shortfall(report, strict, quiet)
    else:
        w = predict_weights(cube, chosen, range=limits)
    io.save_cube(options.as_float32(cube, w, "weights"), target, overwrite=overwrite)
    use, skipped = find_usable_bands(cube)
    used, low = int(use.sum()), float((w[w > 0] < 0.1).mean())
    if as_json:
        facts = {"input": source, "output": target, "weights": chosen.name, "shape": cube.shape}
        bands = {"bands_used": used, "bands_skipped": skipped}
        console.print_json({**facts, **bands, "down_weighted": low})
    elif not quiet:
        console.print_summary(
            {
                "weights": chosen.name,
                "bands": console.describe_bands(used, skipped, cube),
                "down-weighted": f"{100 * low:.1f} % of the voxels below 0.1",
                "output": target,
            }
        )
    if report is not None:
        console.report_shortfall(report, strict, quiet)


def advise(
    source: options.In,
    range_: options.Range = "auto",
    reading: options.InputOptions = options.AS_STORED,
    as_json: options.Json = False,
) -> None:
    """Say what to denoise a cube with.

    Looks at the noisy cube alone: noise per band, bad bands, broken columns; which model, network, rank
    and strength, and why. 'hyperdlw denoise --auto' follows it.
    """
    from ...pipeline import advise as look

    cube = reading.open_cube(source)
    found = look(cube, range=options.parse_range(range_))
    if as_json:
        console.print_json({"input": source, **found.as_dict(), "bad_bands": found.bad_bands})
        return
    console.print_table(("advice", "why"), console.list_advice(found))
    flags = f"-m {found.model} -w {found.network} --strength {found.strength:.3g}"
    console.out.print(f"hyperdlw denoise {source} OUT {flags}", markup=False)
