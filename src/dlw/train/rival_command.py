"""``dlw train-rival``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..errors import unknown_name
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


def train_rival_command(
    network: Annotated[str, typer.Argument(help="hsid-cnn or hsi-denet")],
    data: Annotated[Path, typer.Option(help="folder with clean scenes")],
    out: Annotated[Path, typer.Option(help="folder for the run")],
    held_out: HeldOutOption = "",
    steps: Annotated[int | None, typer.Option(help="instead of the plan's")] = None,
    minutes: MinutesOption = None,
    checkpoint_minutes: CheckpointOption = 3.0,
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    threads: ThreadsOption = None,
) -> None:
    """Train a network to compare with.

    On case-1 noise, like the rivals of the paper.
    """
    from .rival import PLANS, train_rival

    if network not in PLANS:
        raise unknown_name("network to train", network, PLANS)
    set_threads(threads)
    plan = replace(PLANS[network], seed=seed, held_out=names(held_out))
    plan = plan if steps is None else replace(plan, steps=steps)
    scenes, apart = read_scenes(data, held_out)
    with progress(plan) as show:
        target = train_rival(
            plan,
            scenes,
            out,
            held_out=apart,
            resume=resume,
            checkpoint_minutes=checkpoint_minutes,
            minutes=minutes,
            report=show,
        )
    finish(out, target)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-rival")(train_rival_command)
