"""A run of a training, made of the options that ``hyperdlw train-rival`` and ``train-denoiser`` share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...train import Plan
from .train import progress
from .train_options import (
    CheckpointOption,
    HeldOutOption,
    MinutesOption,
    ResumeOption,
    SeedOption,
    ThreadsOption,
    finish,
    read_scenes,
    set_threads,
)


@dataclass(frozen=True)
class Run:
    """Where a training goes, and how long; its fields are options of the command line."""

    out: Annotated[Path, typer.Option(help="folder for the run")]
    held_out: HeldOutOption = ""
    resume: ResumeOption = False
    seed: SeedOption = 0
    minutes: MinutesOption = None
    checkpoint_minutes: CheckpointOption = 3.0
    threads: ThreadsOption = None

    def go(
        self,
        train: Callable[..., Path],
        plan: Plan,
        folder: Path,
        *more: Any,
        what: str = "network",
    ) -> None:
        """Train on the scenes of a folder, and say what was written.

        Args:
            train: takes the plan, ``more``, the scenes and the folder of the run.
            what: the word for what is trained.
        """
        set_threads(self.threads)
        scenes, apart = read_scenes(folder, self.held_out)
        with progress(plan) as show:
            target = train(
                plan,
                *more,
                scenes,
                self.out,
                held_out=apart,
                resume=self.resume,
                checkpoint_minutes=self.checkpoint_minutes,
                minutes=self.minutes,
                report=show,
            )
        finish(self.out, target, what)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of :class:`Run` in the place of its argument ``run``."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = inspect.signature(Run, eval_str=True).parameters
    every: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        every |= shared if name == "run" else {name: parameter}

    def filled(**given: Any) -> None:
        run = Run(**{name: given.pop(name) for name in shared})
        command(**given, run=run)

    # The program reads its options off the signature.
    options = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every.values()]
    filled.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    filled.__doc__ = command.__doc__
    return filled
