"""``dlw train-denoiser``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command import progress
from .options import (
    CheckpointOption,
    HeldOutOption,
    MinutesOption,
    ResumeOption,
    SeedOption,
    ThreadsOption,
    finish,
    names,
    read_scenes,
    set_threads,
)


def train_denoiser_command(
    out: Annotated[Path, typer.Option(help="folder for the run")],
    grey: Annotated[Path, typer.Option(help="folder with photographs (.jpg, .png)")],
    cubes: Annotated[Path, typer.Option(help="folder with clean cubes")],
    name: Annotated[str, typer.Option(help="name of the network")] = "gauss",
    held_out: HeldOutOption = "",
    resume: ResumeOption = False,
    steps: Annotated[int, typer.Option(help="optimiser steps", min=1)] = 12000,
    seed: SeedOption = 0,
    minutes: MinutesOption = None,
    checkpoint_minutes: CheckpointOption = 3.0,
    threads: ThreadsOption = None,
) -> None:
    """Train the denoiser of plug-and-play."""
    from .denoiser import DenoiserRecipe, load_photographs, train_denoiser

    set_threads(threads)
    photographs = load_photographs(grey)
    scenes, apart = read_scenes(cubes, held_out)
    recipe = DenoiserRecipe(name, steps=steps, seed=seed, held_out=names(held_out))
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
    finish(out, target, "denoiser")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-denoiser")(train_denoiser_command)
