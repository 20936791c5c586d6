"""Commands about what there is: files (``info``, ``convert``, ``view``), models and networks."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import BadOption, MissingDependency, make_harmless
from ...models import defaults
from ..listing import read_listing
from . import console, many, options


def info(
    source: options.In,
    reading: options.InputOptions = options.AS_STORED,
    as_json: options.Json = False,
) -> None:
    """Tell what a file holds, from its headers."""
    from ... import io

    facts = io.describe_file(source, **asdict(reading))
    if as_json:
        console.print_json(facts)
        return
    shape, wavelengths = facts["shape"], facts["wavelengths"]
    console.print_summary(
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
    if shape:
        path = Path(source)
        # A folder of pictures and formats that cannot be written come out as ENVI.
        end = path.suffix if path.suffix.lower() in (".hdr", ".tif", ".tiff", ".mat") else ".hdr"
        console.print_next("denoise", source, path.with_name(f"{path.stem}-clean{end}"))


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
    source: options.In,
    target: options.Out,
    reading: options.InputOptions = options.AS_STORED,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a cube in another format.

    The same numbers bit by bit, and all the target can hold beside them; what it cannot is named.
    """
    from ... import io

    io.check_places([target], overwrite, source)
    done = io.convert_file(source, target, **asdict(reading), overwrite=overwrite)
    if as_json:
        facts = {"input": source, "output": target, "shape": done.shape, "dtype": done.dtype}
        console.print_json({**facts, "not_kept": done.lost, "notes": done.notes})
        return
    if quiet:
        return
    for note in done.notes:
        console.err.print(f"hyperdlw: note: {make_harmless(note)}", markup=False)
    for item in done.lost:
        console.out.print(f"not kept: {make_harmless(item)}", markup=False)
    size = " x ".join(map(str, done.shape))
    console.print_summary({"bands x rows x columns": size, "type": done.dtype, "output": target})


def clean(
    places: Annotated[
        list[str], typer.Argument(metavar="OUT...", help="Outputs, or folders with outputs.")
    ],
) -> None:
    """Remove what runs that were cut short left.

    The scratch folders and unfinished files beside outputs; those of runs that are at work stay.
    """
    from ...pipeline import clean_scratch

    for place in places:
        removed, kept = clean_scratch(place)
        for path in removed:
            console.out.print(f"removed {make_harmless(path)}", markup=False)
        for path in kept:
            text = f"kept {path}: a run is at work there, or it is not yours"
            console.out.print(make_harmless(text), markup=False)


def view(
    source: options.In,
    target: Annotated[
        str | None, typer.Argument(metavar="OUT", help="Where 'Save' writes; else downloads.")
    ] = None,
    reading: options.InputOptions = options.AS_STORED,
    overwrite: options.Overwrite = False,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect",
            metavar="SPECTRUM|MASK",
            help="Offered by the page: a spectrum (.sli, .csv) or a mask that must not be smoothed "
            "away; may be given several times.",
        ),
    ] = None,
    device: options.Device = options.DeviceChoice.cpu,
    port: Annotated[int, typer.Option("--port", help="0 takes any free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Look at a cube in the browser.

    The cube, its weights and its restoration, in a page that only this machine can reach. Of a folder,
    and of a file with several variables, the page offers all cubes.
    """
    from ... import io

    try:
        import PIL  # noqa: F401

        from ..page.desk import Desk
        from ..page.serving import serve
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the page needs the package {error.name}; get it with: pip install 'hyperdlw[view]'"
        ) from None
    from ...networks import find_device
    from ..page.opening import Opening, list_cubes

    several = many.find_inputs([source])
    if several and target is not None:
        raise BadOption("OUT is for one cube; leave it out for a folder, and use the downloads")
    io.check_places([target], overwrite, source)
    if protect:
        from ...pipeline import check_options

        check_options(protect=protect)
    place = find_device(device.value)
    opening = Opening(io.ReadOptions(**asdict(reading)), target, overwrite, protect or (), place)
    listed = list_cubes(several or [source], opening)
    session = listed[0].open()
    console.print_notes(session.cube.metadata.get("notes", ()), False)

    def tell(address: str) -> None:
        # Flushed by hand: whoever started this through a pipe waits for the line.
        print(f"{address}  (Ctrl-C ends)", flush=True)

    desk = Desk(session, listed if len(listed) > 1 else ())
    serve(desk, secrets.token_urlsafe(18), port, not no_browser, tell)


def models(as_json: options.Json = False) -> None:
    """List models and published methods.

    Models say what a clean image is and take weights; published methods are others, which do not.
    """
    known = read_listing()["models"]

    def having(option: str) -> list[str]:
        return [name for name, e in known.items() if option in e["takes"]]

    others = [name for name, e in known.items() if e["kind"] == "published"]
    if as_json:
        from ...models import list_models

        facts: dict[str, dict[str, object]] = {}
        for name, e in known.items():
            facts[name] = {"summary": e["summary"], "weights": name not in others}
            if name in others:
                facts[name]["parameters"] = list_models()[name].count_parameters(31)
            else:
                takes = {word: word in e["takes"] for word in ("original", "rank", "denoiser")}
                facts[name] |= {**takes, "bands": e["bands"]}
        console.print_json(facts)
        return
    head = ("model", "what it says about a clean image")
    console.print_table(head, [(name, e["summary"]) for name, e in known.items()])
    groups = {
        "rank to choose (--rank)": [n for n in having("rank") if n not in others],
        "denoiser (--denoiser)": having("denoiser"),
        "published version (--weights original)": having("original"),
        "without weights": others,
    }
    console.out.print("; ".join(f"{what}: {', '.join(names)}" for what, names in groups.items()))


def nets(as_json: options.Json = False) -> None:
    """List networks and other weights.

    The networks inside the package, and the formulas that need none.
    """
    known = read_listing()
    if as_json:
        from ...networks import files as store

        shipped = {name: store.load_network(name) for name in store.list_networks()}
        cards = {k: {**v.card, "sha256": v.sha256} for k, v in shipped.items()}
        formulas = known["formulas"]
        console.print_json({"networks": cards, "formulas": formulas, "default": defaults.WEIGHTS})
        return
    rows = []
    for name, e in known["networks"].items():
        bands = f", {e['bands']} bands only" if e["bands"] else ""
        note = " (default)" if name == defaults.WEIGHTS else ""
        rows.append((name, e["summary"] + bands + note))
    console.print_table(("weights", "where they come from"), [*rows, *known["formulas"].items()])
    if not rows:
        console.out.print("no network is shipped with this build; see 'hyperdlw import-weights'")


def import_weights(
    checkpoint: Annotated[str, typer.Argument(metavar="FILE.pth", help="Released checkpoint.")],
    target: Annotated[str, typer.Argument(metavar="OUT.safetensors", help="Network to write.")],
    name: Annotated[str | None, typer.Option("--name", help="Name on the card.")] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Read a released checkpoint.

    Turns one of the paper's authors, of SERT (PyTorch) or of HSID-CNN (Caffe) into a hyperdlw network; only
    tensors are read.
    """
    from ... import io
    from ...networks import files as store

    if Path(target).suffix != ".safetensors":
        raise BadOption(f"a network is written as .safetensors, not as {target}")
    io.check_places([target], overwrite)
    net, card = store.import_network(checkpoint, name)
    store.save_network(target, net, card, overwrite=overwrite)
    if not quiet:
        console.print_summary({"network": card["name"], "from": checkpoint, "output": target})
