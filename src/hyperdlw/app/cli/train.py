"""Commands that train: ``hyperdlw train``, ``train-rival`` and ``train-denoiser``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ...errors import BadOption, unknown_name
from . import console

if TYPE_CHECKING:
    from ...train import F32, Figures, Plan

P = TypeVar("P", bound="Plan")

DataOption = Annotated[Path, typer.Option(help="folder with clean scenes")]
StepsOption = Annotated[int | None, typer.Option(help="optimiser steps, instead of the recipe's")]


@dataclass(frozen=True)
class TrainingOptions:
    """Where a training goes, and how long; the fields are options of every command that trains."""

    out: Annotated[Path | None, typer.Option(help="folder for the run; default runs/<name>")] = None
    held_out: Annotated[
        str, typer.Option(help="scenes to validate on, separated by commas; not trained on")
    ] = ""
    resume: Annotated[bool, typer.Option(help="go on from the checkpoint of the run")] = False
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="of weights, patches and noise, instead of the recipe's"),
    ] = None
    minutes: Annotated[float | None, typer.Option(help="stop after this time; resume later")] = None
    checkpoint_minutes: Annotated[float, typer.Option(help="time between checkpoints")] = 3.0
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None

    @property
    def held_out_names(self) -> tuple[str, ...]:
        return tuple(s.strip() for s in self.held_out.split(",") if s.strip())

    def read_scenes(
        self, folder: Path, plan: Plan, bands: int | None = None
    ) -> tuple[dict[str, F32], dict[str, F32]]:
        """The scenes of a folder to train and to validate on; files that cannot be used are named.

        Scenes that the command line holds out must be there, those of the plan may be missing.

        Args:
            bands: keep only scenes with this many bands.
        """
        from ...testbed import SceneChoice, load_scenes

        scenes, unread = load_scenes(folder, SceneChoice(bands=bands))
        for name, why in unread.items():
            typer.echo(f"left out {name}: {why}", err=True)
        missing = [s for s in self.held_out_names if s not in scenes]
        if missing:
            raise BadOption(f"there is no scene {', '.join(missing)} in {folder} to hold out")
        wanted = self.held_out_names or plan.held_out
        apart = {s: scenes.pop(s) for s in wanted if s in scenes}
        if not scenes:
            raise BadOption("every scene is held out, so there is nothing to train on")
        return scenes, apart

    def change_plan(self, plan: P, steps: int | None) -> P:
        """The plan with the steps, the seed and the held-out scenes of the command line."""
        return replace(
            plan,
            steps=plan.steps if steps is None else steps,
            seed=plan.seed if self.seed is None else self.seed,
            held_out=self.held_out_names or plan.held_out,
        )

    def run_training(
        self,
        train: Callable[..., Path],
        plan: Plan,
        folder: Path,
        bands: int | None = None,
        what: str = "network",
    ) -> None:
        """Train on the scenes of a folder, and say what was written.

        Args:
            train: takes the plan, the scenes, the folder of the run, and its settings.
            bands: keep only scenes with this many bands.
            what: the word for what is trained.
        """
        import torch

        from ...train import draw_curves

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        out = self.out or Path("runs") / plan.name
        scenes, apart = self.read_scenes(folder, plan, bands)
        with _join_processes() as rank, show_progress(plan) as show:
            target = train(
                plan,
                scenes,
                out,
                held_out=apart,
                resume=self.resume,
                checkpoint_minutes=self.checkpoint_minutes,
                minutes=self.minutes,
                report=show,
            )
        if rank == 0:
            picture = draw_curves(out / "log.jsonl", out / "curves.png")
            typer.echo(f"{what}: {target}" + (f", curves: {picture}" if picture else ""))


AS_PLANNED = TrainingOptions()
"""A run goes as its recipe says."""


def train(
    recipe: Annotated[Path, typer.Argument(help="TOML file; recipes/ has one per shipped network")],
    data: DataOption,
    options: TrainingOptions = AS_PLANNED,
    start: Annotated[str | None, typer.Option("--from", help="network to start from")] = None,
    steps: StepsOption = None,
) -> None:
    """Train a weight network.

    Through the denoisers named in a recipe. A run can be killed at any moment and resumed.
    """
    # Imported here, because torch takes seconds and ``hyperdlw --help`` should not.
    from ...train import Recipe
    from ...train import train as train_network

    plan = options.change_plan(Recipe.read(recipe, start=start), steps)
    colour = 3 if plan.architecture == "dlwnet2d" else None
    options.run_training(train_network, plan, data, colour)


def train_rival(
    network: Annotated[str, typer.Argument(help="hsid-cnn or hsi-denet")],
    data: DataOption,
    options: TrainingOptions = AS_PLANNED,
    steps: StepsOption = None,
) -> None:
    """Train a network to compare with.

    On case-1 noise, like the published networks of the paper.
    """
    from ...train import PLANS
    from ...train import train_rival as train_network

    if network not in PLANS:
        raise unknown_name("network to train", network, PLANS)
    options.run_training(train_network, options.change_plan(PLANS[network], steps), data)


def train_denoiser(
    grey: Annotated[Path, typer.Option(help="folder with photographs (.jpg, .png)")],
    cubes: Annotated[Path, typer.Option(help="folder with clean cubes")],
    options: TrainingOptions = AS_PLANNED,
    name: Annotated[str, typer.Option(help="name of the network")] = "gauss",
    steps: StepsOption = None,
) -> None:
    """Train the denoiser of plug-and-play."""
    from ...train import DenoiserRecipe, load_photographs
    from ...train import train_denoiser as train_network

    photographs = load_photographs(grey)
    plan = options.change_plan(DenoiserRecipe(name), steps)
    options.run_training(
        partial(train_network, photographs=photographs), plan, cubes, what="denoiser"
    )


@contextmanager
def _join_processes() -> Iterator[int]:
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


def _psnr_text(figures: Figures) -> str:
    found = " ".join(f"{k} {v:.2f}" for k, v in figures.psnr.items())
    return f"  PSNR {found}" if found else ""


@contextmanager
def show_progress(plan: Plan) -> Iterator[Callable[[Figures], None]]:
    """A live line on a terminal, a plain line every ten seconds in a log."""
    if console.err.is_terminal:
        with _live_line(plan) as show:
            yield show
        return
    last = -10.0

    def print_line(figures: Figures) -> None:
        nonlocal last
        if figures.psnr or time.monotonic() - last > 10:
            last = time.monotonic()
            text = f"loss {figures.loss:.4f}{_psnr_text(figures)}"
            typer.echo(f"step {figures.step} of {plan.steps}  {text}", err=True)

    yield print_line


@contextmanager
def _live_line(plan: Plan) -> Iterator[Callable[[Figures], None]]:
    """A bar with speed, loss and the last validation."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(plan.name), BarColumn(), MofNCompleteColumn())
    said = TextColumn("{task.fields[speed]} patches/s  {task.fields[said]}")
    first: tuple[int, float] | None = None
    scores = ""
    with Progress(*columns, said, TimeRemainingColumn(), console=console.err) as bar:
        task = bar.add_task("", total=plan.steps, speed="", said="")

        def show(figures: Figures) -> None:
            nonlocal first, scores
            now = time.monotonic()
            first = first or (figures.step, now)
            count = plan.size_at(figures.step)[1] * (figures.step - first[0])
            speed = f"{count / (now - first[1]):.1f}" if count else ""
            scores = _psnr_text(figures) or scores
            text = f"loss {figures.loss:.4f}{scores}"
            bar.update(task, completed=figures.step, speed=speed, said=text)

        yield show
