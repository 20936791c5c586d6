"""Commands that train: ``hyperdlw train``, ``train-rival``, ``train-denoiser`` and ``adapt``."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ...errors import BadFile, BadOption, make_harmless
from . import console
from .options import DeviceChoice, Overwrite, split_words

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ...train import F32, Figures, RunSettings, TrainingImages, TrainingPlan

P = TypeVar("P", bound="TrainingPlan")

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
    device: Annotated[
        DeviceChoice, typer.Option(help="where it is trained; auto: a graphics card if any")
    ] = DeviceChoice.cpu
    checkpoint_minutes: Annotated[float, typer.Option(help="time between checkpoints")] = 3.0
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None

    @property
    def held_out_names(self) -> tuple[str, ...]:
        return split_words(self.held_out)

    def read_scenes(
        self, folder: Path, bands: int | None = None, named: Collection[str] = ()
    ) -> dict[str, F32]:
        """The scenes of a folder, those to hold out among them; files that cannot be used are named.

        Args:
            bands: keep only scenes with this many bands.
            named: scenes that the recipe names; one that is there must be readable.
        """
        from ...testbed import MADE, SceneChoice, load_scenes

        scenes, unread = load_scenes(folder, SceneChoice(bands=bands))
        for name, why in unread.items():
            if Path(name).stem in named:
                raise BadFile(f"the recipe names the scene {name}, which cannot be used: {why}")
            typer.echo(make_harmless(f"left out {name}: {why}"), err=True)
        missing = [s for s in self.held_out_names if s not in scenes and not s.startswith(MADE)]
        if missing:
            raise BadOption(f"there is no scene {', '.join(missing)} in {folder} to hold out")
        return scenes

    def change_plan(self, plan: P, steps: int | None) -> P:
        """The plan with the steps, the seed and the held-out scenes of the command line."""
        return replace(
            plan,
            steps=plan.steps if steps is None else steps,
            seed=plan.seed if self.seed is None else self.seed,
            held_out=self.held_out_names or plan.held_out,
        )

    def run_training(
        self, name: str, train: Callable[[Path, RunSettings], Path], what: str = "network"
    ) -> None:
        """Train, and say what was written.

        Args:
            train: takes the folder of the run and its settings.
            what: the word for what is trained.
        """
        import torch

        from ...train import draw_curves

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        out = self.out or Path("runs") / name
        with _join_processes() as rank, show_progress() as show:
            settings: RunSettings = {
                "resume": self.resume,
                "device": self.device.value,
                "checkpoint_minutes": self.checkpoint_minutes,
                "minutes": self.minutes,
                "report": show,
            }
            target = train(out, settings)
        if rank == 0:
            logs = sorted({*out.glob("**/log.jsonl"), *target.parent.glob("log.jsonl")})
            pictures = [draw_curves(log, log.with_name("curves.png")) for log in logs]
            curves = ", ".join(str(p) for p in pictures if p is not None)
            typer.echo(f"{what}: {target}" + (f", curves: {curves}" if curves else ""))


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

    Through the denoisers named in a recipe, stage after stage. A run can be killed at any moment and
    resumed.
    """
    # Imported here, because torch takes seconds and ``hyperdlw --help`` should not.
    from ...train import read_recipe, train_recipe

    plan = read_recipe(recipe, start=start)
    plan = replace(plan, stages=tuple(options.change_plan(r, steps) for r in plan.stages))
    if options.held_out_names:
        plan = plan.hold_out(options.held_out_names)
    named = {name for stage in plan.stages for name in stage.scenes}
    scenes = options.read_scenes(data, 3 if plan.architecture == "dlwnet2d" else None, named)
    options.run_training(plan.name, lambda out, how: train_recipe(plan, scenes, out, **how))


def train_rival(
    network: Annotated[str, typer.Argument(help="hsid-cnn or hsi-denet")],
    data: DataOption,
    options: TrainingOptions = AS_PLANNED,
    steps: StepsOption = None,
) -> None:
    """Train a network to compare with.

    On case-1 noise, like the published networks of the paper.
    """
    from ...train import plan_rival, split_scenes
    from ...train import train_rival as train_network

    plan = options.change_plan(plan_rival(network), steps)
    scenes, apart = split_scenes(options.read_scenes(data), plan)
    options.run_training(
        plan.name, lambda out, how: train_network(plan, scenes, out, held_out=apart, **how)
    )


def train_denoiser(
    grey: Annotated[Path, typer.Option(help="folder with photographs (.jpg, .png)")],
    cubes: Annotated[Path, typer.Option(help="folder with clean cubes")],
    options: TrainingOptions = AS_PLANNED,
    name: Annotated[str | None, typer.Option(help="name of the network")] = None,
    steps: StepsOption = None,
    maps: Annotated[
        bool, typer.Option("--maps", help="train the denoiser of eigenimages instead")
    ] = False,
    refine: Annotated[
        bool, typer.Option("--refine", help="train the step that follows the model instead")
    ] = False,
) -> None:
    """Train the denoiser of plug-and-play, that of eigenimages, or the step that follows the model."""
    from ... import train as kinds

    name = name or ("refine" if refine else "maps" if maps else "gauss")
    scenes = options.read_scenes(cubes)

    def run(out: Path, how: RunSettings) -> Path:
        if refine:
            for_step = options.change_plan(kinds.RefineRecipe(name), steps)
            images = gather(for_step, kinds.load_pictures(grey))
            return kinds.train_refine(for_step, images, out, **how)
        if maps:
            for_maps = options.change_plan(kinds.MapRecipe(name), steps)
            images = gather(for_maps, kinds.load_pictures(grey))
            return kinds.train_maps(for_maps, images, out, **how)
        plan = options.change_plan(kinds.DenoiserRecipe(name), steps)
        pictures = kinds.load_photographs(grey)
        return kinds.train_denoiser(plan, gather(plan, pictures), out, **how)

    def gather(plan: TrainingPlan, pictures: list[F32]) -> TrainingImages:
        learn, apart = kinds.split_scenes(scenes, plan)
        return kinds.TrainingImages(learn, pictures, apart)

    options.run_training(name, run, "denoiser")


def adapt(
    scenes: Annotated[list[Path], typer.Argument(help="noisy cubes of one sensor")],
    out: Annotated[Path, typer.Option(help="file to write, .safetensors, for denoise --weights")],
    steps: Annotated[int, typer.Option(min=1, help="optimiser steps")] = 600,
    resume: Annotated[bool, typer.Option(help="go on from the checkpoint beside --out")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Adapt the default to your own sensor.

    From its noisy cubes, without clean data. Nothing is written if that is worse on hidden voxels.
    """
    from ... import train as kinds

    with show_progress() as show:
        how: RunSettings = {"resume": resume, "report": show, "checkpoint_minutes": 0.5}
        kinds.adapt(scenes, out, steps=steps, overwrite=overwrite, **how)
    typer.echo(f"use it: hyperdlw denoise NOISY CLEAN --weights {out}")


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
def show_progress() -> Iterator[Callable[[TrainingPlan, Figures], None]]:
    """A live line on a terminal, a plain line every ten seconds in a log."""
    if console.err.is_terminal:
        with _live_line() as show:
            yield show
        return
    last = -math.inf

    def print_line(plan: TrainingPlan, figures: Figures) -> None:
        nonlocal last
        if figures.psnr or time.monotonic() - last > 10:
            last = time.monotonic()
            where = f"{plan.name} {plan.stage}".rstrip()
            text = f"loss {figures.loss:.4f}{_psnr_text(figures)}"
            typer.echo(f"{where}: step {figures.step} of {plan.last_step}  {text}", err=True)

    yield print_line


@contextmanager
def _live_line() -> Iterator[Callable[[TrainingPlan, Figures], None]]:
    """A bar for every stage, with speed, loss and the last validation."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    said = TextColumn("{task.fields[speed]} patches/s  {task.fields[said]}")
    scores = ""
    with Progress(*columns, said, TimeRemainingColumn(), console=console.err) as bar:
        started: dict[TrainingPlan, tuple[TaskID, int, float]] = {}

        def show(plan: TrainingPlan, figures: Figures) -> None:
            nonlocal scores
            now = time.monotonic()
            if plan not in started:
                name = f"{plan.name} {plan.stage}".rstrip()
                task = bar.add_task(name, total=plan.last_step, speed="", said="")
                started[plan] = (task, figures.step, now)
            task, first, begin = started[plan]
            count = plan.size_at(figures.step)[1] * (figures.step - first)
            speed = f"{count / (now - begin):.1f}" if count else ""
            scores = _psnr_text(figures) or scores
            text = f"loss {figures.loss:.4f}{scores}"
            bar.update(task, completed=figures.step, speed=speed, said=text)

        yield show
