"""``hyperdlw train``, and ``python -m hyperdlw.train`` for torchrun."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ...train import Plan, Recipe
from .train_options import (
    CheckpointOption,
    HeldOutOption,
    MinutesOption,
    ResumeOption,
    ThreadsOption,
    finish,
    read_scenes,
    set_threads,
)


def train_command(
    recipe: Annotated[Path, typer.Argument(help="TOML file; recipes/ has one per shipped network")],
    data: Annotated[Path, typer.Option(help="folder with clean scenes")],
    out: Annotated[
        Path | None, typer.Option(help="folder for the run; default runs/<name>")
    ] = None,
    held_out: HeldOutOption = "",
    start: Annotated[str | None, typer.Option("--from", help="network to start from")] = None,
    resume: ResumeOption = False,
    steps: Annotated[int | None, typer.Option(help="instead of the recipe's")] = None,
    seed: Annotated[int | None, typer.Option(help="instead of the recipe's")] = None,
    minutes: MinutesOption = None,
    checkpoint_minutes: CheckpointOption = 3.0,
    threads: ThreadsOption = None,
) -> None:
    """Train a weight network.

    Through the denoisers named in a recipe. A run can be killed at any moment and resumed.
    """
    # Imported here, because torch takes seconds and ``hyperdlw --help`` should not.
    from ...train import train

    set_threads(threads)
    plan = Recipe.read(recipe, start=start, steps=steps, seed=seed)
    folder = out or Path("runs") / plan.name
    colour = 3 if plan.architecture == "dlwnet2d" else None
    scenes, apart = read_scenes(data, held_out, colour, usual=plan.held_out)
    with _processes() as rank, progress(plan) as show:
        target = train(
            plan,
            scenes,
            folder,
            held_out=apart,
            resume=resume,
            checkpoint_minutes=checkpoint_minutes,
            minutes=minutes,
            report=show,
        )
    if rank == 0:
        finish(folder, target)


@contextmanager
def _processes() -> Iterator[int]:
    """Join the other processes when torchrun started us; gives the number of this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
        yield 0
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def _describe(figures: dict[str, Any]) -> str:
    text = f"loss {figures['loss']:.4f}"
    if "psnr" in figures:
        text += "  PSNR " + " ".join(f"{k} {v:.2f}" for k, v in figures["psnr"].items())
    return text


def progress(plan: Plan) -> AbstractContextManager[Callable[[dict[str, Any]], None]]:
    """A live line on a terminal, a plain line every ten seconds in a log."""
    if sys.stderr.isatty():
        return _Live(plan)
    last = [0.0]

    def plain(figures: dict[str, Any]) -> None:
        if "psnr" in figures or time.monotonic() - last[0] > 10:
            last[0] = time.monotonic()
            typer.echo(f"step {figures['step']} of {plan.steps}  {_describe(figures)}", err=True)

    return nullcontext(plain)


class _Live(AbstractContextManager[Callable[[dict[str, Any]], None]]):
    def __init__(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.plan = plan
        self.bar = Progress(
            TextColumn(plan.name),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} patches/s  {task.fields[said]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=plan.steps, speed="", said="")
        self.first: tuple[int, float] | None = None
        self.psnr = ""

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        self.bar.start()
        return self.show

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def show(self, figures: dict[str, Any]) -> None:
        now, step = time.monotonic(), int(figures["step"])
        self.first = self.first or (step, now)
        count = self.plan.size_at(step)[1] * (step - self.first[0])
        speed = f"{count / (now - self.first[1]):.1f}" if count else ""
        if "psnr" in figures:
            self.psnr = "  PSNR " + " ".join(f"{k} {v:.2f}" for k, v in figures["psnr"].items())
        said = f"loss {figures['loss']:.4f}{self.psnr}"
        self.bar.update(self.task, completed=step, speed=speed, said=said)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("train")(train_command)
