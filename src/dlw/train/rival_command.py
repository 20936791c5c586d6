"""``dlw train-rival``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadOption, unknown_name


def train_rival_command(
    network: Annotated[str, typer.Argument(help="hsid-cnn or hsi-denet")],
    data: Annotated[Path, typer.Option(help="folder with clean scenes")],
    out: Annotated[Path, typer.Option(help="folder for the run")],
    held_out: Annotated[
        str, typer.Option(help="scenes to validate on, separated by commas; not trained on")
    ] = "",
    steps: Annotated[int | None, typer.Option(help="instead of the plan's")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="stop after this time; resume later")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of weights, patches and noise")] = 0,
    resume: Annotated[bool, typer.Option(help="go on from the checkpoint of the run")] = False,
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None,
) -> None:
    """Train a network to compare with.

    On case-1 noise, like the rivals of the paper.
    """
    # Imported here, because torch takes seconds and ``dlw --help`` should not.
    import torch

    from .curves import draw_curves
    from .patches import load_scenes
    from .rival import PLANS, train_rival

    if network not in PLANS:
        raise unknown_name("network to train", network, PLANS)
    if threads is not None:
        torch.set_num_threads(threads)
    plan = replace(PLANS[network], seed=seed)
    plan = plan if steps is None else replace(plan, steps=steps)
    scenes, unread = load_scenes(data)
    for name, why in unread.items():
        typer.echo(f"left out {name}: {why}", err=True)
    wanted = [s.strip() for s in held_out.split(",") if s.strip()]
    missing = [s for s in wanted if s not in scenes]
    if missing:
        raise BadOption(f"there is no scene {', '.join(missing)} in {data} to hold out")
    apart = {s: scenes.pop(s) for s in wanted}
    if not scenes:
        raise BadOption("every scene is held out, so there is nothing to train on")
    shown = [0.0]

    def show(figures: dict[str, Any]) -> None:
        if "psnr" in figures or time.monotonic() - shown[0] > 10:
            shown[0] = time.monotonic()
            text = f"step {figures['step']} of {plan.steps}  loss {figures['loss']:.5f}"
            if "psnr" in figures:
                text += f"  PSNR {figures['psnr'][network]:.2f}"
            typer.echo(text, err=True)

    target = train_rival(
        plan, scenes, out, held_out=apart, resume=resume, minutes=minutes, report=show
    )
    picture = draw_curves(out / "log.jsonl", out / "curves.png")
    typer.echo(f"network: {target}" + (f", curves: {picture}" if picture else ""))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-rival")(train_rival_command)
