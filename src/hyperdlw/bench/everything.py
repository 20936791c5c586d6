"""``hyperdlw bench all``: every table and figure of the paper in one go, at three sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from ..errors import DlwError, unknown_name
from .tables import NETWORKS

if TYPE_CHECKING:
    from .catalogue import BenchOptions


@dataclass(frozen=True)
class Size:
    """How much of everything is run; what the user says comes first.

    ``scenes`` are made by code, in place of the user's; ``others`` are parts that are left out.
    """

    scenes: tuple[str, ...] = ()
    crop: int | None = None
    seeds: int | None = None
    noise: tuple[str, ...] | None = None
    iterations: int | None = None
    others: tuple[str, ...] = ()


PAPER = tuple(f"case{k}" for k in range(1, 6))
"""``testbed.CASES``, which would load scipy for 'hyperdlw --help'."""

SIZES = {
    "small": Size(("made:1",), 32, 1, None, 20, ("networks", "auto", "robust", "field")),
    "medium": Size(crop=64, seeds=1, noise=("case1", "case5"), iterations=200),
    "full": Size(),
}
"""Minutes on scenes made by code; about an hour, and many hours, on the user's."""


@dataclass(frozen=True)
class Part:
    """One step of ``hyperdlw bench all``: an experiment, a folder for it, and its options.

    Attributes:
        folder: of its reports, under the folder of all.
        experiment: what is run.
        wants: which folder of scenes it needs, "" for none.
        unseen: leave out scenes that a shipped network was trained with.
        weights: weight sources beside those of the experiment.
    """

    folder: str
    experiment: str
    wants: Literal["data", "remote", "photos", ""] = "data"
    bands: int = 0
    crop: int | None = None
    noise: tuple[str, ...] | None = None
    seeds: int = 2
    unseen: bool = False
    weights: tuple[str, ...] = ()

    def find_data(self, options: BenchOptions) -> Path | None:
        """The folder of its scenes."""
        folders = {"data": options.data, "remote": options.remote, "photos": options.photos}
        return folders.get(self.wants)

    def adapt(self, options: BenchOptions, size: Size) -> BenchOptions:
        """The options of the experiment, from those of the whole run and its size."""
        crops = (options.crop, size.crop, self.crop)
        return replace(
            options,
            out=options.out / self.folder,
            data=self.find_data(options),
            only=options.only or (size.scenes if self.wants else ()),
            bands=self.bands,
            crop=next((c for c in crops if c is not None), None),
            noise=self.noise or options.noise or size.noise,
            seeds=options.seeds or size.seeds or self.seeds,
            iterations=options.iterations or size.iterations,
            weights=options.weights or self.weights,
            without=list_training_scenes() if self.unseen else (),
            records=options.out / "simple/simple.jsonl" if self.folder == "theory" else None,
        )


ALL_PARTS = (
    Part("field", "field"),
    Part("simple", "simple", seeds=3),
    Part("networks", "networks", crop=0, seeds=3),
    Part("remote-31-bands", "simple", "remote", bands=31, unseen=True),
    Part("remote-all-bands", "simple", "remote", crop=64, noise=("case1", "case5"), unseen=True),
    Part("targets", "targets"),
    Part("rivals", "rivals"),
    Part("pnp", "pnp"),
    Part("colour", "colour", "photos"),
    Part("constants", "constants"),
    Part("dip", "dip", noise=PAPER, weights=NETWORKS),
    Part("figures", "figures"),
    Part("real", "real", ""),
    Part("classify", "classify", ""),
    Part("cost", "cost", ""),
    Part("theory", "theory"),
    Part("auto", "auto"),
    Part("robust", "robust"),
)
"""Every table of the paper, and ours, in the order in which they are filled."""


def run_all(options: BenchOptions) -> None:
    """Every table in a folder of its own, and ``index.md`` that links them and says what was left out.

    Records are kept, so a run that was stopped goes on where it was.
    """
    from .catalogue import EXPERIMENTS
    from .experiment import write_files

    if options.size not in SIZES:
        raise unknown_name("size", options.size, SIZES)
    size = SIZES[options.size]
    options.out.mkdir(parents=True, exist_ok=True)
    index = options.out / "index.md"
    lines = [f"# Every table, size {options.size}", "", "| part | report |", "|---|---|"]
    failed = []
    for part in ALL_PARTS:
        if part.experiment in size.others or (size.scenes and part.wants == "remote"):
            end = f"left out: not in size {options.size}"
        elif part.wants and part.find_data(options) is None and not size.scenes:
            end = f"left out: needs --{part.wants} FOLDER"
        else:
            typer.echo(f"== {part.folder}")
            try:
                EXPERIMENTS[part.experiment](part.adapt(options, size))
                end = f"[{part.experiment}]({part.folder}/{part.experiment}.md)"
            except DlwError as error:
                end = f"failed: {error}"
                failed.append(part.folder)
                typer.echo(end, err=True)
        lines.append(f"| {part.folder} | {end} |")
        write_files(options.out, {index.name: "\n".join(lines) + "\n"})
    typer.echo(f"written: {index}")
    if failed:
        raise DlwError(f"not every table was filled: {', '.join(failed)}; see {index}")


def list_training_scenes() -> tuple[str, ...]:
    """Names of the scenes that a shipped network has seen, in training or to choose between runs."""
    from ..networks import files as store

    cards = [store.load_network(name).card for name in store.list_networks()]
    return tuple(sorted({s for c in cards for k in ("data", "validation") for s in c.get(k, ())}))
