"""``dlw train-denoiser``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import BadOption
from .command import progress


def train_denoiser_command(
    out: Annotated[Path, typer.Option(help="folder for the run")],
    grey: Annotated[Path, typer.Option(help="folder with photographs (.jpg, .png)")],
    cubes: Annotated[Path, typer.Option(help="folder with clean cubes")],
    name: Annotated[str, typer.Option(help="name of the network")] = "gauss",
    held_out: Annotated[
        str, typer.Option(help="cubes to validate on, separated by commas; not trained on")
    ] = "",
    resume: Annotated[bool, typer.Option(help="go on from the checkpoint of the run")] = False,
    steps: Annotated[int, typer.Option(help="optimiser steps", min=1)] = 9000,
    seed: Annotated[int, typer.Option(help="of weights, patches and noise", min=0)] = 0,
    minutes: Annotated[
        float | None, typer.Option(help="stop after this time; resume later")
    ] = None,
    checkpoint_minutes: Annotated[float, typer.Option(help="time between checkpoints")] = 3.0,
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None,
) -> None:
    """Train the denoiser of plug-and-play."""
    import torch

    from .denoiser import DenoiserRecipe, load_photographs, train_denoiser
    from .patches import load_scenes

    if threads is not None:
        torch.set_num_threads(threads)
    photographs = load_photographs(grey)
    scenes, unread = load_scenes(cubes)
    for file, why in unread.items():
        typer.echo(f"left out {file}: {why}", err=True)
    wanted = [s.strip() for s in held_out.split(",") if s.strip()]
    missing = [s for s in wanted if s not in scenes]
    if missing:
        raise BadOption(f"there is no cube {', '.join(missing)} in {cubes} to hold out")
    apart = {s: scenes.pop(s) for s in wanted}
    recipe = DenoiserRecipe(name, steps=steps, seed=seed, held_out=tuple(wanted))
    with progress(recipe) as show:
        target = train_denoiser(
            recipe,
            photographs,
            scenes,
            out,
            held_out=apart,
            resume=resume,
            checkpoint_minutes=checkpoint_minutes,
            minutes=minutes,
            report=show,
        )
    typer.echo(f"denoiser: {target}")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-denoiser")(train_denoiser_command)
