"""``hyperdlw train-rival``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...errors import unknown_name
from .train_options import names
from .train_runs import Run, with_run_options


@with_run_options
def train_rival_command(
    network: Annotated[str, typer.Argument(help="hsid-cnn or hsi-denet")],
    data: Annotated[Path, typer.Option(help="folder with clean scenes")],
    run: Run,
    steps: Annotated[int | None, typer.Option(help="instead of the plan's")] = None,
) -> None:
    """Train a network to compare with.

    On case-1 noise, like the rivals of the paper.
    """
    from ...train import PLANS, train_rival

    if network not in PLANS:
        raise unknown_name("network to train", network, PLANS)
    plan = replace(PLANS[network], seed=run.seed, held_out=names(run.held_out))
    plan = plan if steps is None else replace(plan, steps=steps)
    run.go(train_rival, plan, data)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train-rival")(train_rival_command)
