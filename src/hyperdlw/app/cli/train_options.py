"""Options and checks that the training commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import BadOption

if TYPE_CHECKING:
    from ...train import F32

HeldOutOption = Annotated[
    str, typer.Option(help="scenes to validate on, separated by commas; not trained on")
]
ResumeOption = Annotated[bool, typer.Option(help="go on from the checkpoint of the run")]
MinutesOption = Annotated[float | None, typer.Option(help="stop after this time; resume later")]
CheckpointOption = Annotated[float, typer.Option(help="time between checkpoints")]
ThreadsOption = Annotated[int | None, typer.Option(help="threads of torch")]
SeedOption = Annotated[int, typer.Option(min=0, help="of weights, patches and noise")]


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas.

    >>> names("a, b,")
    ('a', 'b')
    """
    return tuple(s.strip() for s in text.split(",") if s.strip())


def set_threads(threads: int | None) -> None:
    """Threads of torch, where a number is given."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def read_scenes(
    folder: Path, held_out: str, bands: int | None = None, usual: Sequence[str] = ()
) -> tuple[Mapping[str, F32], Mapping[str, F32]]:
    """The scenes of a folder to train and to validate on; files that cannot be used are named.

    Args:
        held_out: names of scenes that must be there.
        bands: keep only scenes with this many bands.
        usual: scenes to hold out if nothing is asked for, where they are there.
    """
    from ...testbed import SceneChoice, load_scenes

    scenes, unread = load_scenes(folder, SceneChoice(bands=bands))
    for name, why in unread.items():
        typer.echo(f"left out {name}: {why}", err=True)
    wanted = names(held_out)
    missing = [s for s in wanted if s not in scenes]
    if missing:
        raise BadOption(f"there is no scene {', '.join(missing)} in {folder} to hold out")
    apart = {s: scenes.pop(s) for s in wanted or usual if s in scenes}
    if not scenes:
        raise BadOption("every scene is held out, so there is nothing to train on")
    return scenes, apart


def finish(folder: Path, target: Path, what: str = "network") -> None:
    """Draw the curves of a run, and say what was written."""
    from ...train import draw_curves

    picture = draw_curves(folder / "log.jsonl", folder / "curves.png")
    typer.echo(f"{what}: {target}" + (f", curves: {picture}" if picture else ""))
