"""The command ``dlw``: parse, call, print.

Commands import what they need when they run: torch takes seconds, and ``dlw --help`` should not.
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__, console
from .bench.command import register as register_bench
from .errors import BadInput, BadOption, DlwError, unknown_name
from .train.command import register as register_train

if TYPE_CHECKING:
    from .cube import Cube
    from .denoising import Range, Result
    from .weighting import Source

app = typer.Typer(
    name="dlw",
    help="Hyperspectral denoising: variational models whose data term is weighted by a network.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


class ScheduleChoice(StrEnum):
    paper = "paper"
    converged = "converged"


# --- options that several commands share

In = Annotated[str, typer.Argument(metavar="IN", help="Cube to read: a file or a PNG folder.")]
Out = Annotated[str, typer.Argument(metavar="OUT", help="File to write; its ending is the format.")]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="What is clean: see 'dlw models'.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        "-w",
        help="Network ('dlw nets'), formula, file with weights or a mask; 'a*b' multiplies.",
    ),
]
StrengthOption = Annotated[
    float, typer.Option("--strength", help="1 is the published setting; larger is smoother.")
]
ScheduleOption = Annotated[
    ScheduleChoice,
    typer.Option("--schedule", help="Steps the networks were trained with, or to a tolerance."),
]
RangeOption = Annotated[
    str,
    typer.Option(
        "--range",
        metavar="auto|minmax|LO,HI",
        help="Values that become 0 and 1: of the signal, of the data, or given ('0,1').",
    ),
]
KeyOption = Annotated[str | None, typer.Option("--key", help="Variable, where a file has several.")]
AxesOption = Annotated[
    str | None, typer.Option("--axes", help="Stored order of band, row, column, such as 'rcb'.")
]
NodataOption = Annotated[
    float | None, typer.Option("--nodata", help="Stored value that means 'not measured'.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Exit with 3 and write nothing if the solver falls short."),
]


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


@app.command()
def denoise(
    source: In,
    target: Out,
    model: ModelOption = "tv",
    weights: WeightsOption = "N+T+TS",
    strength: StrengthOption = 1.0,
    schedule: ScheduleOption = ScheduleChoice.paper,
    range: RangeOption = "auto",
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Kept in the report.")] = None,
    overwrite: OverwriteOption = False,
    save_weights: Annotated[
        str | None, typer.Option("--save-weights", metavar="FILE", help="Write the weights too.")
    ] = None,
    as_json: JsonOption = False,
    strict: StrictOption = False,
    quiet: QuietOption = False,
) -> None:
    """Restore a noisy cube, and write it as the input was stored."""
    from . import io

    _check_places([target, save_weights], overwrite, source)
    limits, chosen = _range(range), _source(model, weights, strength)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    io.check_save(target, cube)
    if save_weights is not None:
        io.check_save(save_weights, _as_float32(cube, cube.data, "weights"))
    console.notes(cube, quiet or as_json)
    result = _solve(cube, model, chosen, strength, schedule, limits, seed, quiet or as_json)
    failed = strict and not result.report.converged
    clipped = None
    if not failed:
        clipped = io.save_cube(result.cube, target, overwrite=overwrite)
        if save_weights is not None:
            map_ = _as_float32(cube, result.weights, "weights")
            io.save_cube(map_, save_weights, overwrite=overwrite)
    written = None if failed else target
    if as_json:
        extra = {"input": source, "output": written, "clipped_voxels": clipped}
        console.print_json({**result.report.as_dict(), **extra})
    elif not quiet and not failed:
        console.summary(console.facts(result.report, cube, target, clipped or 0, save_weights))
    console.finish(result.report, strict, quiet)


@app.command()
def weights(
    source: In,
    target: Out,
    model: ModelOption = "tv",
    weights: WeightsOption = "N+T+TS",
    strength: StrengthOption = 1.0,
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
    """Write how much each voxel is trusted: float32, mean 1, 0 where nothing was measured.

    Model, strength and schedule matter for 'robust' and 'mixture' only, which look at a residual.
    """
    from . import io
    from .denoising import predict_weights, usable_bands

    _check_places([target], overwrite, source)
    limits, chosen = _range(range), _source(model, weights, strength)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    io.check_save(target, _as_float32(cube, cube.data, "weights"))
    console.notes(cube, quiet or as_json)
    report = None
    if chosen.rounds > 1:
        result = _solve(cube, model, chosen, strength, schedule, limits, None, quiet or as_json)
        w, report = result.weights, result.report
        if strict and not report.converged:
            console.finish(report, strict, quiet)
    else:
        w = predict_weights(cube, chosen, range=limits)
    io.save_cube(_as_float32(cube, w, "weights"), target, overwrite=overwrite)
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
def info(
    source: In, key: KeyOption = None, axes: AxesOption = None, as_json: JsonOption = False
) -> None:
    """Tell what a file holds, from its headers."""
    from . import io

    facts = io.describe(source, key=key, axes=axes)
    if as_json:
        console.print_json(facts)
        return
    shape, wavelengths = facts["shape"], facts["wavelengths"]
    console.summary(
        {
            "file": facts["path"],
            "format": facts["format"],
            "bands x rows x columns": " x ".join(map(str, shape)) if shape else "choose with --key",
            "type": facts["dtype"],
            "stored axes": facts["axes"],
            "variable": facts["key"],
            "wavelengths": "{:g} to {:g} nm".format(*wavelengths) if wavelengths else None,
            "nodata": facts["nodata"],
            "scale, offset": f"{facts['scale']:g}, {facts['offset']:g}" if shape else None,
            "variables": ", ".join(f"{k}: {v}" for k, v in facts["variables"].items()),
            "notes": "; ".join(facts["notes"]),
        },
        line=False,
    )


@app.command()
def models(as_json: JsonOption = False) -> None:
    """List the models of a clean image."""
    from .models import registry

    entries = registry()
    if as_json:
        console.print_json({name: entry.summary for name, entry in entries.items()})
        return
    console.table(
        ("model", "what it says about a clean image"),
        [(e.name, e.summary) for e in entries.values()],
    )


@app.command()
def nets(as_json: JsonOption = False) -> None:
    """List the networks inside the package, and the formulas that need none."""
    from . import store
    from .weighting import DEFAULT, FORMULAS

    shipped = {name: store.load(name) for name in store.names()}
    formulas = {k: (type(v).__doc__ or "").strip().splitlines()[0] for k, v in FORMULAS.items()}
    if as_json:
        cards = {k: {**v.card, "sha256": v.sha256} for k, v in shipped.items()}
        console.print_json({"networks": cards, "formulas": formulas, "default": DEFAULT})
        return
    rows = []
    for name, stored in shipped.items():
        card = stored.card
        through = "+".join(map(str, card.get("sources", []))) or "unknown models"
        count = sum(p.numel() for p in stored.net.parameters())
        bands = f", {stored.net.channels} bands only" if stored.net.channels else ""
        note = " (default)" if name == DEFAULT else ""
        rows.append((name, f"trained through {through}, {count} parameters{bands}{note}"))
    console.table(("weights", "where they come from"), [*rows, *formulas.items()])
    if not shipped:
        console.out.print("no network is shipped with this build; see 'dlw import-weights'")


@app.command()
def noise(
    source: In,
    target: Out,
    case: Annotated[int, typer.Option("--case", min=1, max=5, help="Noise case of the paper.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same bytes.")] = 0,
    clean: Annotated[
        str | None, typer.Option("--clean", metavar="FILE", help="Write the scaled clean cube.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="FILE.npz", help="Write the true noise.")
    ] = None,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a clean cube noisy: each band is first scaled to [0, 1], the output is float32."""
    import numpy as np

    from . import io
    from . import noise as noises
    from .cube import minmax_range

    if truth is not None and Path(truth).suffix.lower() != ".npz":
        raise BadOption(f"the truth is written as .npz, not as {truth}")
    _check_places([target, clean, truth], overwrite, source)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    console.notes(cube, quiet)
    unit = minmax_range(cube.data, cube.valid).to_unit(np.where(cube.valid, cube.data, 0))
    unit = np.where(cube.valid, unit, np.float32(0))
    dirty = noises.case(case, unit, np.random.default_rng(seed))
    # Impulses and dead columns are 0, which may be the nodata value: NaN cannot be mistaken.
    gaps = np.float32(np.nan)
    noisy = _as_float32(cube, np.where(cube.valid, dirty.y, gaps), None, cube.valid)
    scaled = _as_float32(cube, np.where(cube.valid, unit, gaps), None, cube.valid)
    io.check_save(target, noisy)
    if clean is not None:
        io.check_save(clean, scaled)
    io.save_cube(noisy, target, overwrite=overwrite)
    if clean is not None:
        io.save_cube(scaled, clean, overwrite=overwrite)
    if truth is not None:
        parts = {f.name: getattr(dirty.truth, f.name) for f in fields(dirty.truth)}
        with io.atomic(truth, overwrite=overwrite) as tmp, open(tmp, "wb") as file:
            np.savez_compressed(file, case=np.int64(case), seed=np.int64(seed), **parts)
    if not quiet:
        console.summary(
            {
                "noise": f"case {case}, {noises.CASES[case]}, seed {seed}",
                "scaling": "each band min-max to [0, 1] before the noise",
                "clean": clean,
                "truth": truth,
                "output": target,
            }
        )


@app.command()
def score(
    clean: Annotated[str, typer.Argument(metavar="CLEAN", help="The reference.")],
    restored: Annotated[str, typer.Argument(metavar="RESTORED", help="What is judged.")],
    scale: Annotated[
        bool,
        typer.Option(
            "--scale/--no-scale", help="Map both with the band limits of CLEAN to [0, 1]."
        ),
    ] = False,
    key: KeyOption = None,
    axes: AxesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how close a restored cube is to the clean one (PSNR with peak 1)."""
    from . import io, metrics

    a = io.open_cube(clean, key=key, axes=axes)
    b = io.open_cube(restored, key=key, axes=axes)
    values, others = _comparable(clean, a, restored, b, scale)
    found = metrics.scores(values, others, valid=a.valid)
    if as_json:
        console.print_json({"clean": clean, "restored": restored, "scaled": scale, **found})
        return
    units = {"psnr": "dB", "sam": "degrees"}
    console.table(
        ("score", "mean"),
        [(name, f"{value:.4f} {units.get(name, '')}".rstrip()) for name, value in found.items()],
    )


@app.command("import-weights")
def import_weights(
    checkpoint: Annotated[str, typer.Argument(metavar="FILE.pth", help="Released checkpoint.")],
    target: Annotated[str, typer.Argument(metavar="OUT.safetensors", help="Network to write.")],
    name: Annotated[str | None, typer.Option("--name", help="Name on the card.")] = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn a PyTorch checkpoint of the paper's authors into a dlw network (tensors only)."""
    from . import store

    if Path(target).suffix != ".safetensors":
        raise BadOption(f"a network is written as .safetensors, not as {target}")
    _check_places([target], overwrite)
    net, card = store.import_checkpoint(checkpoint, name)
    store.save(target, net, card, overwrite=overwrite)
    if not quiet:
        console.summary({"network": card["name"], "from": checkpoint, "output": target})


@app.command()
def demo(
    folder: Annotated[str, typer.Option("--out", metavar="DIR", help="For demo.png.")] = "out",
) -> None:
    """Denoise a made-up scene with every model and weight source, and draw one page."""
    from .demo import run as run_demo

    run_demo(Path(folder), console.out)


# Larger parts bring their own commands: each is a function (app) -> None.
PARTS: tuple[Callable[[typer.Typer], None], ...] = (register_train, register_bench)
for register in PARTS:
    register(app)


# --- checks before the work


def _check_places(paths: Sequence[str | None], overwrite: bool, source: str = "") -> None:
    """Refuse outputs that could not be written, before anything is read."""
    from .io.atomic import check_output

    given = [p for p in paths if p is not None]
    if len({os.path.realpath(p) for p in given}) < len(given):
        raise BadOption(f"two outputs have the same name: {', '.join(given)}")
    for path in given:
        # An input that is a folder of bands is written as one, unless the ending says otherwise.
        folder = path.endswith("/") or (not Path(path).suffix and Path(source).is_dir())
        check_output(path, overwrite=overwrite, directory=folder and source != "")


def _range(text: str) -> Range:
    """'auto', 'minmax', or two numbers with a comma or a blank between them."""
    if text == "auto":
        return "auto"
    if text == "minmax":
        return "minmax"
    try:
        low, high = (float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise typer.BadParameter(
            f"--range is auto, minmax or two numbers such as '0,1', not '{text}'"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadOption(f"--range needs two numbers, the lower one first, not '{text}'")
    return low, high


def _source(model: str, weights: str, strength: float) -> Source:
    """The weight source, after model and strength have been checked as well."""
    from .models import registry
    from .weighting import resolve

    if model not in registry():
        raise unknown_name("model", model, registry())
    if not (strength > 0 and math.isfinite(strength)):
        raise BadOption(f"--strength must be positive (1 is the published setting), not {strength}")
    return resolve(weights)


def _comparable(clean: str, a: Cube, restored: str, b: Cube, scale: bool) -> tuple[Any, Any]:
    """Values of two cubes in the unit interval of the first."""
    import numpy as np

    from .cube import minmax_range

    if a.shape != b.shape:
        raise BadInput(f"{clean} has (band, row, col) shape {a.shape}, {restored} {b.shape}")
    lost = int(np.count_nonzero(a.valid & ~b.valid))
    if lost:
        raise BadInput(
            f"{restored} has no value in {lost} voxels that {clean} has; mask them there"
        )
    if not a.valid.any():
        raise BadInput(f"{clean} has no valid voxel to compare with")
    if scale:
        limits = minmax_range(a.data, a.valid)
        return limits.to_unit(a.data), limits.to_unit(b.data)
    known = a.data[a.valid]
    low, high = float(known.min()), float(known.max())
    if low < -1e-3 or high > 1 + 1e-3:
        raise BadInput(
            f"{clean} spans {low:g} to {high:g}, and the scores are for data in [0, 1]; add --scale"
        )
    middle = float(np.median(b.data[a.valid]))
    if not -1 <= middle <= 2:
        raise BadInput(
            f"{restored} is not in the units of {clean}: its median is {middle:g}, and {clean} "
            f"spans {low:g} to {high:g}"
        )
    return a.data, b.data


# --- work


def _solve(
    cube: Cube,
    model: str,
    source: Source,
    strength: float,
    schedule: ScheduleChoice,
    limits: Range,
    seed: int | None,
    silent: bool,
) -> Result:
    from . import models as registered
    from .denoising import denoise as run_denoise

    built = registered.build(model, cube.shape, strength)
    fixed = schedule is ScheduleChoice.paper
    steps = built.schedule.steps * source.rounds if fixed else None
    with console.progress(steps, silent) as watch:
        return run_denoise(
            cube,
            model=model,
            weights=source,
            strength=strength,
            schedule=schedule.value,
            range=limits,
            seed=seed,
            watch=watch,
        )


def _as_float32(cube: Cube, data: Any, key: str | None, valid: Any = None) -> Cube:
    """Another quantity on the pixels of a cube, stored as it is, in float32."""
    import numpy as np

    plain = replace(cube.encoding, dtype="float32", scale=1.0, offset=0.0, nodata=None, key=key)
    mask = np.ones(cube.shape, bool) if valid is None else valid
    return replace(cube, data=data.astype(np.float32), valid=mask, encoding=plain)


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
