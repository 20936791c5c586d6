"""Commands around the work: what is in a file, what there is to choose from, noise and scores."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import console
from .errors import BadInput, BadOption
from .options import (
    AxesOption,
    In,
    JsonOption,
    KeyOption,
    NodataOption,
    Out,
    OverwriteOption,
    QuietOption,
    RangeOption,
    WeightsOption,
    as_float32,
    check_places,
    parse_range,
)

if TYPE_CHECKING:
    from .cube import Cube


def info(
    source: In,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what a file holds, from its headers."""
    from . import io

    facts = io.describe(source, key=key, axes=axes, nodata=nodata)
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
            "bad bands": facts["bad_bands"] or None,
            "nodata": _nodata(facts) if shape else None,
            "coordinate system": _first_name(facts["crs"]),
            "scale, offset": f"{facts['scale']:g}, {facts['offset']:g}" if shape else None,
            "variables": ", ".join(f"{k}: {v}" for k, v in facts["variables"].items()),
            "notes": "; ".join(facts["notes"]),
        },
        line=False,
    )


def advise(
    source: In,
    range_: RangeOption = "auto",
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what to denoise a cube with.

    Looks at the noisy cube alone: noise per band, bad bands, broken columns; which model, network, rank
    and strength, and why. 'dlw denoise --auto' follows it.
    """
    from . import io
    from .advise import advise as look

    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    found = look(cube, range=parse_range(range_))
    if as_json:
        console.print_json({"input": source, **found.as_dict(), "bad_bands": found.bad_bands})
        return
    console.table(("advice", "why"), console.advice(found))
    flags = f"-m {found.model} -w {found.network} --strength {found.strength:.3g}"
    console.out.print(f"dlw denoise {source} OUT {flags}", markup=False)


def _nodata(facts: dict[str, Any]) -> str:
    """Which values count as not measured, and who said so."""
    if facts["nodata"] is None:
        return "NaN and Inf only (no value given)"
    return f"{facts['nodata']:g} ({facts['nodata_from']}), NaN and Inf"


def _first_name(wkt: str | None) -> str | None:
    """The name of a coordinate system: the first text of its WKT."""
    parts = (wkt or "").split('"')
    return parts[1] if len(parts) > 1 else None


def convert(
    source: In,
    target: Out,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a cube in another format.

    The same numbers bit by bit, and all the target can hold beside them; what it cannot is named.
    """
    from .io.convert import convert as run_convert

    check_places([target], overwrite, source)
    done = run_convert(source, target, key=key, axes=axes, nodata=nodata, overwrite=overwrite)
    if as_json:
        facts = {"input": source, "output": target, "shape": done.shape, "dtype": done.dtype}
        console.print_json({**facts, "not_kept": done.lost, "notes": done.notes})
        return
    if quiet:
        return
    for note in done.notes:
        console.err.print(f"dlw: note: {note}", markup=False)
    for item in done.lost:
        console.out.print(f"not kept: {item}", markup=False)
    size = " x ".join(map(str, done.shape))
    console.summary({"bands x rows x columns": size, "type": done.dtype, "output": target})


def models(as_json: JsonOption = False) -> None:
    """List models, and rivals.

    Models say what a clean image is and take weights; rivals are other methods, which do not.
    """
    from . import rivals
    from .models import registry

    entries, others = registry(), rivals.registry()
    if as_json:
        console.print_json(
            {
                name: {
                    "summary": e.summary,
                    "original": e.original is not None,
                    "rank": e.takes_rank,
                    "denoiser": e.takes_denoiser,
                    "bands": e.bands,
                    "weights": True,
                }
                for name, e in entries.items()
            }
            | {
                name: {"summary": r.summary, "parameters": r.parameters, "weights": False}
                for name, r in others.items()
            }
        )
        return
    console.table(
        ("model", "what it says about a clean image"),
        [(e.name, e.summary) for e in entries.values()]
        + [(r.name, r.summary) for r in others.values()],
    )
    console.out.print(
        "rank to choose (--rank): "
        + ", ".join(e.name for e in entries.values() if e.takes_rank)
        + "; denoiser (--denoiser): "
        + ", ".join(
            [e.name for e in entries.values() if e.takes_denoiser]
            + [r.name for r in others.values() if r.takes_denoiser]
        )
        + "; published version (--weights original): "
        + ", ".join(e.name for e in entries.values() if e.original is not None)
        + "; without weights: "
        + ", ".join(others)
    )


def nets(as_json: JsonOption = False) -> None:
    """List networks and other weights.

    The networks inside the package, and the formulas that need none.
    """
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
    """Make a clean cube noisy.

    Each band is first scaled to [0, 1]; the output is float32.
    """
    import numpy as np

    from . import io
    from . import noise as noises
    from .cube import minmax_range

    if truth is not None and Path(truth).suffix.lower() != ".npz":
        raise BadOption(f"the truth is written as .npz, not as {truth}")
    check_places([target, clean, truth], overwrite, source)
    cube = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    console.notes(cube, quiet)
    unit = minmax_range(cube.data, cube.valid).to_unit(np.where(cube.valid, cube.data, 0))
    unit = np.where(cube.valid, unit, np.float32(0))
    dirty = noises.case(case, unit, np.random.default_rng(seed))
    # Impulses and dead columns are 0, which may be the nodata value: NaN cannot be mistaken.
    gaps = np.float32(np.nan)
    noisy = as_float32(cube, np.where(cube.valid, dirty.y, gaps), None, cube.valid)
    scaled = as_float32(cube, np.where(cube.valid, unit, gaps), None, cube.valid)
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
    """Compare with the clean cube.

    PSNR with peak 1, SSIM, SAM and ERGAS of a restored cube.
    """
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


def audit(
    source: In,
    restored: Annotated[str, typer.Argument(metavar="OUT", help="The same cube, denoised.")],
    weights: WeightsOption = "N+T+TS",
    picture: Annotated[
        str | None,
        typer.Option("--map", metavar="PNG", help="Draw how much every pixel was changed."),
    ] = None,
    range_: RangeOption = "auto",
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Was it only noise? Looks at what denoising took away, weighted and whitened, band by band.

    Noise alone has mean 0, variance about 1 and no correlation of neighbours.
    """
    from . import io
    from .audit import audit as look
    from .denoising import predict_weights

    check_places([picture], overwrite)
    limits = parse_range(range_)
    a = io.open_cube(source, key=key, axes=axes, nodata=nodata)
    b = io.open_cube(restored, key=key, axes=axes, nodata=nodata)
    found = look(a, b, predict_weights(a, weights, range=limits), limits)
    if picture is not None:
        found.save_map(picture, overwrite=overwrite)
    if as_json:
        facts = {"input": source, "output": restored, "weights": weights, "map": picture}
        console.print_json({**facts, **found.as_dict()})
        return
    rows = [
        (
            f"band {f.band}",
            f"mean {f.mean:+.3f}, variance {f.variance:.2f}, correlation of neighbours "
            f"{f.autocorrelation:+.3f}" + ("; structured: removed signal?" if f.structured else ""),
        )
        for f in found.bands
    ]
    console.table(("band", "whitened residual"), rows)
    count = len(found.structured)
    console.out.print(
        f"{count} of {len(found.bands)} bands have a structured residual"
        + (": signal may have been removed there" if count else ""),
        markup=False,
    )


def import_weights(
    checkpoint: Annotated[str, typer.Argument(metavar="FILE.pth", help="Released checkpoint.")],
    target: Annotated[str, typer.Argument(metavar="OUT.safetensors", help="Network to write.")],
    name: Annotated[str | None, typer.Option("--name", help="Name on the card.")] = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read a released PyTorch checkpoint.

    Turns one of the paper's authors, or of SERT, into a dlw network; only tensors are read.
    """
    from . import store

    if Path(target).suffix != ".safetensors":
        raise BadOption(f"a network is written as .safetensors, not as {target}")
    check_places([target], overwrite)
    net, card = store.import_any(checkpoint, name)
    store.save(target, net, card, overwrite=overwrite)
    if not quiet:
        console.summary({"network": card["name"], "from": checkpoint, "output": target})


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


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (info, advise, convert, models, nets, noise, score, audit, import_weights):
        app.command(command.__name__.replace("_", "-"))(command)
