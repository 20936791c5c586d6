"""Commands about what there is to choose from: ``hyperdlw models``, ``nets`` and ``import-weights``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import BadOption
from . import console
from .options import JsonOption, OverwriteOption, QuietOption, check_places


def models(as_json: JsonOption = False) -> None:
    """List models, and rivals.

    Models say what a clean image is and take weights; rivals are other methods, which do not.
    """
    from ...models import published as rivals
    from ...models import registry

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
    from ...networks import files as store
    from ...weights import DEFAULT, FORMULAS

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
        console.out.print("no network is shipped with this build; see 'hyperdlw import-weights'")


def import_weights(
    checkpoint: Annotated[str, typer.Argument(metavar="FILE.pth", help="Released checkpoint.")],
    target: Annotated[str, typer.Argument(metavar="OUT.safetensors", help="Network to write.")],
    name: Annotated[str | None, typer.Option("--name", help="Name on the card.")] = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read a released PyTorch checkpoint.

    Turns one of the paper's authors, or of SERT, into a hyperdlw network; only tensors are read.
    """
    from ...networks import files as store

    if Path(target).suffix != ".safetensors":
        raise BadOption(f"a network is written as .safetensors, not as {target}")
    check_places([target], overwrite)
    net, card = store.import_any(checkpoint, name)
    store.save(target, net, card, overwrite=overwrite)
    if not quiet:
        console.summary({"network": card["name"], "from": checkpoint, "output": target})
