"""Everything ``hyperdlw bench`` can do, by name: the tables, the other experiments, and all in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import BadOption, DlwError, unknown_name
from ..io import atomic
from .tables import NETWORKS, TABLES, Table

if TYPE_CHECKING:
    from .cases import Files, Scene


@dataclass(frozen=True)
class Asked:
    """What an experiment may be told.

    ``crop``, ``cases``, ``seeds`` and ``iterations`` are None where the user said nothing.

    Attributes:
        out: folder for records and reports.
        data: folder with clean scenes; ``remote`` airborne ones, ``photos`` colour pictures.
        crop: side of the central crop in pixels; 0: whole scenes.
        bands: first good bands only; 0: all.
        only: names of scenes; all when empty. ``without``: names to leave out.
        models: in place of the table's.
        records: records of the table "simple", for "theory".
        reference: folder with the checkpoints released with the paper.
        networks: folder with rival networks; ``denoiser`` the one of plug and play.
    """

    out: Path
    data: Path | None = None
    remote: Path | None = None
    photos: Path | None = None
    crop: int | None = None
    bands: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    cases: tuple[int, ...] | None = None
    models: tuple[str, ...] = ()
    seeds: int | None = None
    iterations: int | None = None
    records: Path | None = None
    reference: Path | None = None
    networks: Path | None = None
    denoiser: str | None = None
    workers: int = 1
    pictures: bool = True
    quiet: bool = False

    @property
    def report(self) -> Callable[[str], None] | None:
        """Where progress goes."""
        return None if self.quiet else lambda text: typer.echo(text, err=True)

    @property
    def files(self) -> Files:
        """What the user brings, looked up in the folders."""
        # Imported here, because torch takes seconds and ``hyperdlw --help`` should not.
        from . import runner
        from .cases import Files

        return Files(
            runner.reference_networks(self.reference) if self.reference else {},
            runner.rival_networks(self.networks) if self.networks else {},
            self.denoiser,
        )

    def side(self, usual: int = 128) -> int | None:
        """The side of the crop; None: whole scenes."""
        return usual if self.crop is None else self.crop or None

    def scenes(self, name: str, crop: int = 128, colour: bool = False) -> list[Scene]:
        """The clean scenes of an experiment; files that cannot be used are told."""
        from ..testbed import SceneChoice, load_scenes
        from .cases import Scene

        if self.data is None:
            raise BadOption(f"'hyperdlw bench {name}' needs clean scenes: add --data FOLDER")
        first = self.bands or None
        choice = SceneChoice(
            self.only, self.without, colour=colour, first=first, crop=self.side(crop)
        )
        found, left_out = load_scenes(self.data, choice)
        for file, why in left_out.items():
            typer.echo(f"left out {file}: {why}", err=True)
        ending = f"[{first}]" if first else ""
        return [Scene(name + ending, data) for name, data in found.items()]


def pick(name: str, cases: Sequence[int] = (), models: Sequence[str] = ()) -> Table:
    """A table by name, cut to some noise cases, or with other models."""
    table = TABLES[name]
    if models and table.models:
        from ..models import find

        table = replace(table, models=tuple(find(m).name for m in models))
    if models:
        wanted = table.models or tuple(models)
        known = {r.model for r in table.rows}
        for m in wanted:
            if None not in known and m not in known:
                raise unknown_name(f"model of the table '{name}'", m, map(str, known))
        table = replace(
            table,
            rows=tuple(r for r in table.rows if r.model in (None, *wanted)),
            panel=tuple(r for r in table.panel if r.model in (None, *wanted)),
        )
    return replace(table, noise=tuple(cases)) if cases else table


def fill(name: str) -> Callable[[Asked], None]:
    """The experiment that fills a table of the paper."""

    def table(asked: Asked) -> None:
        from . import figures, report, runner

        chosen = pick(name, asked.cases or (), asked.models)
        scenes = asked.scenes(name, colour=chosen.colour)
        files = asked.files
        tell = asked.report
        records = runner.run(
            runner.plan(chosen, scenes, range(asked.seeds or 3), files),
            scenes,
            asked.out / f"{name}.jsonl",
            files=files,
            workers=asked.workers,
            report=tell and (lambda done, total: tell(f"{done} of {total} cases")),
        )
        shown = figures.figures(chosen, scenes[-1], files=files) if asked.pictures else {}
        paths = report.write(chosen, records, asked.out, shown)
        typer.echo("\n".join(report.headlines(chosen, report.means(records))[2:]))
        typer.echo("written: " + ", ".join(map(str, paths)))

    return table


def classify(asked: Asked) -> None:
    """Land cover of Indian Pines before and after denoising."""
    from ..testbed import indian_pines
    from .classify import run

    cube, labels = indian_pines()
    run(cube, labels, asked.out, files=asked.files, report=asked.report)
    _tell([asked.out / "classify.md", asked.out / "classify.png"])


def theory(asked: Asked) -> None:
    """Rank correlation of the divergence U with the measured PSNR."""
    from .theory import run

    clean = asked.scenes("theory") if asked.data is not None else None
    _tell(run(clean, asked.records, asked.out))


def dip(asked: Asked) -> None:
    """Curves of S2DIP with and without weights; the last scene unless some are named."""
    from .dip import run

    scenes = asked.scenes("dip", crop=64)
    paths = run(
        scenes if asked.only else scenes[-1:],
        asked.out,
        noise=asked.cases or (1, 5),
        iterations=asked.iterations,
        seeds=asked.seeds or 1,
        files=asked.files,
        report=asked.report,
    )
    _tell(paths)


def auto(asked: Asked) -> None:
    """What automatic strength and advice lose against the best of a grid."""
    from .choice import MODELS, run

    _tell(
        run(
            asked.scenes("auto"),
            asked.out,
            names=asked.models or MODELS,
            noise=asked.cases or (1, 2, 3, 4, 5),
            seeds=asked.seeds or 1,
            report=asked.report,
        )
    )


def robust(asked: Asked) -> None:
    """Noise and band counts that no network was trained for."""
    from .robust import run

    scenes = asked.scenes("robust", crop=64)
    _tell(run(scenes, asked.out, seeds=asked.seeds or 1, report=asked.report))


def cost(asked: Asked) -> None:
    """Parameters and seconds of every method, on images made by code."""
    from .cost import SIDES, run

    _tell(
        run(
            asked.out,
            sides=(asked.crop,) if asked.crop else SIDES,
            repeats=asked.seeds or 1,
            files=asked.files,
            report=asked.report,
        )
    )


def _tell(paths: Sequence[Path]) -> None:
    """Print the report, and what was written."""
    typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo("written: " + ", ".join(map(str, paths)))


@dataclass(frozen=True)
class Part:
    """One step of ``hyperdlw bench all``: an experiment, a folder for it, and what it is told.

    ``wants`` names the folder of Asked with its scenes: data, remote, photos, or none.
    """

    name: str
    experiment: str
    wants: str = "data"
    bands: int = 0
    crop: int | None = None
    cases: tuple[int, ...] | None = None
    seeds: int = 2
    unseen: bool = False
    """Leave out scenes that a shipped network was trained with."""

    def told(self, asked: Asked) -> Asked:
        """What the experiment is told."""
        return replace(
            asked,
            out=asked.out / self.name,
            data=getattr(asked, self.wants) if self.wants else None,
            bands=self.bands,
            crop=asked.crop if asked.crop is not None else self.crop,
            cases=self.cases or asked.cases,
            seeds=asked.seeds or self.seeds,
            without=trained_with() if self.unseen else (),
            records=asked.out / "simple" / "simple.jsonl" if self.name == "theory" else None,
        )


PARTS = (
    Part("simple", "simple", seeds=3),
    Part("networks", "networks", crop=0, seeds=3),
    Part("remote-31-bands", "simple", "remote", bands=31, unseen=True),
    Part("remote-all-bands", "simple", "remote", crop=64, cases=(1, 5), unseen=True),
    Part("targets", "targets"),
    Part("rivals", "rivals"),
    Part("pnp", "pnp"),
    Part("colour", "colour", "photos"),
    Part("dip", "dip"),
    Part("classify", "classify", ""),
    Part("cost", "cost", ""),
    Part("theory", "theory"),
    Part("auto", "auto"),
    Part("robust", "robust"),
)
"""Every table of the paper, and ours, in the order in which they are filled."""


def everything(asked: Asked) -> None:
    """Every table in a folder of its own, and ``index.md`` that links them and says what was left out.

    Records are kept, so a run that was stopped goes on where it was.
    """
    asked.out.mkdir(parents=True, exist_ok=True)
    index = asked.out / "index.md"
    lines = ["# Every table", "", "| part | report |", "|---|---|"]
    failed = []
    for part in PARTS:
        if part.wants and getattr(asked, part.wants) is None:
            end = f"left out: needs --{part.wants} FOLDER"
        else:
            typer.echo(f"== {part.name}")
            try:
                EXPERIMENTS[part.experiment](part.told(asked))
                end = f"[{part.experiment}]({part.name}/{part.experiment}.md)"
            except DlwError as error:
                end = f"failed: {error}"
                failed.append(part.name)
                typer.echo(end, err=True)
        lines.append(f"| {part.name} | {end} |")
        with atomic(index, overwrite=True) as tmp:
            tmp.write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo(f"written: {index}")
    if failed:
        raise DlwError(f"not every table was filled: {', '.join(failed)}; see {index}")


def trained_with() -> tuple[str, ...]:
    """Names of the scenes that a shipped network has seen, in training or to choose between runs."""
    from ..networks import files as store

    cards = [store.load_network(name).card for name in NETWORKS]
    return tuple(sorted({s for c in cards for k in ("data", "validation") for s in c.get(k, ())}))


EXPERIMENTS: dict[str, Callable[[Asked], None]] = {
    **{name: fill(name) for name in TABLES},
    "classify": classify,
    "theory": theory,
    "dip": dip,
    "cost": cost,
    "auto": auto,
    "robust": robust,
    "all": everything,
}
"""What ``hyperdlw bench`` can do, by name."""
