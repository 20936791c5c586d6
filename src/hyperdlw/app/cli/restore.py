"""The commands for a noisy cube: ``hyperdlw denoise``, ``weights`` and ``advise``."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import BadOption, DlwError, make_harmless
from ...models import defaults
from . import console, many, options

if TYPE_CHECKING:
    from ... import pipeline
    from ...cube import Cube


def denoise(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Cube to read and file to write; or several cubes, a folder of them or a pattern, "
            "and the folder to write into.",
        ),
    ],
    model: options.Model = defaults.MODEL,
    weights: options.Weights = defaults.WEIGHTS,
    quality: options.Quality = defaults.NORMAL,
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
    save_uncertainty: Annotated[
        str | None,
        typer.Option(
            "--save-uncertainty",
            metavar="FILE",
            help="Write a standard deviation for every voxel, in the units of the cube.",
        ),
    ] = None,
    save_invented: Annotated[
        str | None,
        typer.Option(
            "--save-invented",
            metavar="FILE",
            help="Write uint8 codes of voxels that no measurement stands behind: 1 gap, 2 dead, "
            "3 wild, 4 outlier, 5 no weight.",
        ),
    ] = None,
    save_noise: Annotated[
        str | None,
        typer.Option(
            "--save-noise",
            metavar="TXT",
            help="Write the noise of every band before, as isofit reads it: wavelength a b c rmse.",
        ),
    ] = None,
    include_invented: Annotated[
        bool,
        typer.Option(
            "--include-invented", help="Audit and uncertainty include voxels that were invented."
        ),
    ] = False,
    audit: Annotated[
        str | None,
        typer.Option(
            "--audit",
            metavar="HTML",
            help="Write a page for a reviewer: noise before and after, what was removed, hashes. "
            "The model runs twice.",
        ),
    ] = None,
    quicklook: Annotated[
        str | None,
        typer.Option("--quicklook", metavar="PNG", help="Draw before, after, weights and spectra."),
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect",
            metavar="SPECTRUM|MASK|REGION",
            help="Must not be smoothed away: a spectrum (.sli, .csv), a mask, or rows and columns "
            "such as 10:20,30:50; may be given several times.",
        ),
    ] = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="Fill voxels that were not measured by the model.")
    ] = False,
    memory: options.Memory = None,
    device: options.Device = options.DeviceChoice.cpu,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Processes that work on tiles (needs hyperdlw[scale])."
        ),
    ] = None,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", help="Leave offsets and gains of columns as they are.")
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The constants of the paper whatever the noise level, and nothing but the model.",
        ),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port."),
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Of several cubes, leave out finished ones.")
    ] = False,
    as_json: options.Json = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
) -> None:
    """Restore a noisy cube, or several.

    The output is stored as the input was. A cube that does not fit in memory is worked on in
    tiles, with scratch files in a hidden folder beside the output; if the run is cut short, the
    same command goes on where it was. Several cubes go into a folder, with a manifest; --workers
    then work on a file each, and one failure does not stop the rest.
    """
    from ... import io
    from ...pipeline import Outputs, check_options, denoise_file

    silent = quiet or as_json
    *sources, target = paths
    if not sources:
        raise typer.BadParameter("give the cube to read and the file to write: IN OUT")
    outputs = Outputs(
        weights=save_weights,
        flags=save_flags,
        report=save_report,
        picture=quicklook,
        uncertainty=save_uncertainty,
        invented=save_invented,
        noise=save_noise,
        audit=audit,
        command=shlex.join(["hyperdlw", *console.typed]),
    )
    settings: pipeline.Settings = {
        "model": model,
        "weights": weights,
        "quality": quality,
        "strength": options.parse_strength(strength),
        "rank": options.parse_rank(rank),
        "denoiser": denoiser,
        "schedule": schedule.value,
        "range": options.parse_range(range),
        "seed": seed,
        "fill": fill,
        "protect": protect or None,
        "columns": not keep_columns,
        "paper": paper,
        "include_invented": include_invented,
        "memory": memory,
        "device": device.value,
        "scheduler": scheduler,
    }
    how: dict[str, Any] = {"overwrite": overwrite, "strict": strict, "auto": auto}
    how["reading"] = io.ReadOptions(**asdict(reading))
    inputs = many.find_inputs(sources)
    if inputs is not None:
        if replace(outputs, command="") != Outputs():
            raise BadOption("products of several cubes have no names; denoise one cube at a time")
        jobs = many.make_jobs(inputs, target)
        check_options(**settings)
        telling = many.Telling(as_json, quiet)
        given = {**settings, **how}
        many.denoise_all(jobs, given, workers=workers, skip=skip_existing, telling=telling)
        return
    if skip_existing:
        raise BadOption("--skip-existing is for several cubes; leave it out")
    source, settings["workers"] = sources[0], workers
    with console.ConsoleProgress(silent) as progress:
        report = denoise_file(source, target, outputs=outputs, progress=progress, **how, **settings)
    written = None if strict and not report.converged else target
    reader = progress.reader
    lost: tuple[str, ...] = ()
    if written is not None and reader is not None and not io.list_series(source, how["reading"]):
        lost = io.list_losses(reader, written)
    if as_json:
        facts = {"input": source, "output": written, "not_kept": lost}
        console.print_json({**report.as_dict(), **facts})
    elif not quiet and written is not None and reader is not None:
        console.print_notes(report.notes, quiet)
        if lost:
            text = make_harmless(", ".join(lost))
            console.err.print(f"hyperdlw: not kept: {text}", markup=False)
        console.print_summary(console.list_facts(report, reader, written, save_weights))
        console.print_audit(report.audit, reader)
        page = Path(written.rstrip("/")).with_suffix(".html")
        if audit is None:
            console.print_next("audit", source, written, "--html", page)
        else:
            console.out.print(f"page: {make_harmless(audit)}", markup=False)
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
    console.print_notes(cube.metadata.get("notes", ()), quiet or as_json)
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
    from ...models import find_model
    from ...pipeline import advise as look

    cube = reading.open_cube(source)
    found = look(cube, range=options.parse_range(range_))
    if as_json:
        console.print_json({"input": source, **found.as_dict(), "bad_bands": found.bad_bands})
        return
    console.print_table(("advice", "why"), console.list_advice(found, cube))
    words = ["hyperdlw", "denoise", source, _name_output(source, cube)]
    words += ["-m", found.model, "-w", found.network, "--strength", f"{found.strength:.3g}"]
    if "rank" in find_model(found.model).takes:
        words += ["--rank", str(found.rank)]
    words += [] if range_ == "auto" else [f"--range={range_}"]
    words += [f"--{name}={value}" for name, value in asdict(reading).items() if value is not None]
    console.out.print(make_harmless(shlex.join(words)), markup=False)


def _name_output(source: str, cube: Cube) -> str:
    """A new name beside the input, with an ending that can be written."""
    from ... import io

    place = Path(source)
    ending = "" if place.is_dir() and not place.suffix else place.suffix
    name = str(place.with_name(f"{place.name.removesuffix(ending)}_clean{ending}"))
    try:
        io.check_save(name, cube)
    except DlwError:
        return str(place.with_name(f"{place.stem}_clean.nc"))
    return name
