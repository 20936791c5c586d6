"""``hyperdlw train-denoiser``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .train_options import names
from .train_runs import Run, with_run_options


@with_run_options
def train_denoiser_command(
    grey: Annotated[Path, typer.Option(help="folder with photographs (.jpg, .png)")],
    cubes: Annotated[Path, typer.Option(help="folder with clean cubes")],
    run: Run,
    name: Annotated[str, typer.Option(help="name of the network")] = "gauss",
    steps: Annotated[int, typer.Option(help="optimiser steps", min=1)] = 12000,
) -> None:
    """Train the denoiser of plug-and-play."""
    from ...train import DenoiserRecipe, load_photographs, train_denoiser

    photographs = load_photographs(grey)
    recipe = DenoiserRecipe(name, steps=steps, seed=run.seed, held_out=names(run.held_out))
    run.go(train_denoiser, recipe, cubes, photographs, what="denoiser")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-denoiser")(train_denoiser_command)
