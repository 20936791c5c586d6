"""Everything ``hyperdlw bench`` can do, by name: the tables, the other experiments, and all in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from ..errors import BadOption, DlwError, unknown_name
from .tables import NETWORKS, TABLES, Row, Table

if TYPE_CHECKING:
    from .experiment import Files, Scene, Tell

# Modules that need torch are imported in the functions: it takes seconds, and ``hyperdlw --help`` should not.


@dataclass(frozen=True)
class BenchOptions:
    """What a user may choose for an experiment.

    ``crop``, ``noise``, ``seeds`` and ``iterations`` are None where the user said nothing.

    Attributes:
        out: folder for records and reports.
        data: folder with clean scenes; ``remote`` airborne ones, ``photos`` colour pictures.
        dataset: name of the data set of the paper that ``data`` holds.
        affected: bands with impulses, stripes or dead columns. ``key``: the variable of the scenes.
        crop: side of the central crop in pixels; 0: whole scenes.
        bands: first good bands only; 0: all.
        only: names of scenes; all when empty. ``without``: names to leave out.
        noise: names of noises, in place of the experiment's.
        models: in place of the table's.
        weights: weight sources that get a row beside those of the table.
        records: records of the table "simple", for "theory".
        reference: folder with the checkpoints released with the paper.
        networks: folder with networks of published methods; ``denoiser`` the one of plug and play.
    """

    out: Path
    data: Path | None = None
    remote: Path | None = None
    photos: Path | None = None
    dataset: str | None = None
    affected: int | None = None
    key: str | None = None
    crop: int | None = None
    bands: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    noise: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
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
    def tell(self) -> Tell | None:
        """Where progress goes."""
        return None if self.quiet else lambda text: typer.echo(text, err=True)

    @property
    def files(self) -> Files:
        """What the user brings, looked up in the folders."""
        from .experiment import Files, find_published_networks, find_reference_networks

        return Files(
            find_reference_networks(self.reference) if self.reference else {},
            find_published_networks(self.networks) if self.networks else {},
            self.denoiser,
        )

    def load_scenes(
        self, name: str, crop: int = 128, colour: bool = False, affected: int | None = None
    ) -> list[Scene]:
        """The clean scenes of an experiment; the user is told which files cannot be used.

        Args:
            crop: side of the central crop where neither the user nor a data set says one.
            affected: bands that are hit where neither does.
        """
        from ..testbed import MADE, SceneChoice, find_dataset, load_scenes
        from .experiment import Scene

        if self.data is None and not any(n.startswith(MADE) for n in self.only):
            raise BadOption(
                f"'hyperdlw bench {name}' needs clean scenes: add --data FOLDER, or --scenes made:1"
            )
        first = self.bands or None
        dataset = find_dataset(self.dataset) if self.dataset else None
        if dataset is not None:
            crop, affected = dataset.side, dataset.affected or affected
        if dataset is not None and dataset.colour != colour:
            kind = "colour pictures" if colour else "hyperspectral scenes"
            raise BadOption(f"'hyperdlw bench {name}' is for {kind}, and '{dataset.name}' is not")
        choice = SceneChoice(
            self.only,
            self.without,
            colour=colour,
            first=first,
            crop=(crop if self.crop is None else self.crop) or None,
            dataset=dataset,
            key=self.key,
        )
        found, left_out = load_scenes(self.data, choice)
        for file, why in left_out.items():
            typer.echo(f"left out {file}: {why}", err=True)
        ending = f"[{first}]" if first else ""
        hit = affected if self.affected is None else self.affected
        return [Scene(name + ending, data, hit) for name, data in found.items()]


Run = Callable[[BenchOptions], None]


def pick_table(
    name: str, noise: Sequence[str] = (), models: Sequence[str] = (), weights: Sequence[str] = ()
) -> Table:
    """A table by name, with other noises, other models, or rows for further weight sources."""
    table = TABLES[name]
    if weights:
        from ..weights import resolve

        further = (Row(w) for w in weights if resolve(w) is not None)
        table = replace(table, rows=tuple(dict.fromkeys((*table.rows, *further))))
    if models and table.models:
        from ..models import find_model

        table = replace(table, models=tuple(find_model(m).name for m in models))
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
    return replace(table, noise=tuple(noise)) if noise else table


def fill_table(name: str) -> Run:
    """The experiment that fills a table of the paper."""

    def table(options: BenchOptions) -> None:
        from .paper import DATA_SETS
        from .report import draw_table, mean_figures, write_headlines, write_report
        from .runner import run_table

        chosen = pick_table(name, options.noise or (), options.models, options.weights)
        if options.dataset in DATA_SETS:
            chosen = replace(chosen, data=options.dataset)
        scenes = options.load_scenes(name, colour=chosen.colour, affected=chosen.affected)
        files = options.files
        records = run_table(
            chosen,
            scenes,
            options.out,
            options.seeds or 3,
            files=files,
            workers=options.workers,
            tell=options.tell,
        )
        shown = draw_table(chosen, scenes[-1], files=files) if options.pictures else {}
        same_data = options.dataset == chosen.data and options.crop is None
        paths = write_report(chosen, records, options.out, shown, same_data)
        typer.echo("\n".join(write_headlines(chosen, mean_figures(records))[2:]))
        typer.echo("written: " + ", ".join(map(str, paths)))

    return table


def run_classify(options: BenchOptions) -> None:
    """Land cover of Indian Pines before and after denoising."""
    from ..testbed import indian_pines
    from .classify import run

    cube, labels = indian_pines()
    run(cube, labels, options.out, files=options.files, tell=options.tell)
    _show_report([options.out / "classify.md", options.out / "classify.png"])


def run_theory(options: BenchOptions) -> None:
    """Rank correlation of the divergence U with the measured PSNR."""
    from .theory import run

    clean = options.load_scenes("theory") if options.data is not None else None
    _show_report(run(clean, options.records, options.out))


def run_dip(options: BenchOptions) -> None:
    """Curves of S2DIP with and without weights; the last scene unless some are named."""
    from .dip import run

    scenes = options.load_scenes("dip", crop=64)
    paths = run(
        scenes if options.only else scenes[-1:],
        options.out,
        noise=options.noise or ("case1", "case5"),
        weights=options.weights,
        iterations=options.iterations,
        seeds=options.seeds or 1,
        files=options.files,
        tell=options.tell,
    )
    _show_report(paths)


def run_auto(options: BenchOptions) -> None:
    """What automatic strength and advice lose against the best of a grid."""
    from ..testbed import CASES
    from .auto import MODELS, run

    _show_report(
        run(
            options.load_scenes("auto"),
            options.out,
            names=options.models or MODELS,
            noise=options.noise or CASES,
            seeds=options.seeds or 1,
            tell=options.tell,
        )
    )


def run_robust(options: BenchOptions) -> None:
    """Noise and band counts that no network was trained for."""
    from .robust import run

    scenes = options.load_scenes("robust", crop=64)
    _show_report(run(scenes, options.out, seeds=options.seeds or 1, tell=options.tell))


def run_cost(options: BenchOptions) -> None:
    """Parameters and seconds of every method, on images made by code."""
    from .cost import SIDES, run

    _show_report(
        run(
            options.out,
            sides=(options.crop,) if options.crop else SIDES,
            repeats=options.seeds or 1,
            files=options.files,
            tell=options.tell,
        )
    )


def _show_report(paths: Sequence[Path]) -> None:
    """Print the report, and what was written."""
    typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo("written: " + ", ".join(map(str, paths)))


@dataclass(frozen=True)
class Part:
    """One step of ``hyperdlw bench all``: an experiment, a folder for it, and its options.

    Attributes:
        folder: of its reports, under the folder of all.
        experiment: what is run.
        wants: which folder of scenes it needs, "" for none.
        unseen: leave out scenes that a shipped network was trained with.
    """

    folder: str
    experiment: str
    wants: Literal["data", "remote", "photos", ""] = "data"
    bands: int = 0
    crop: int | None = None
    noise: tuple[str, ...] | None = None
    seeds: int = 2
    unseen: bool = False

    def find_data(self, options: BenchOptions) -> Path | None:
        """The folder of its scenes."""
        folders = {"data": options.data, "remote": options.remote, "photos": options.photos}
        return folders.get(self.wants)

    def adapt(self, options: BenchOptions) -> BenchOptions:
        """The options of the experiment, from those of the whole run."""
        return replace(
            options,
            out=options.out / self.folder,
            data=self.find_data(options),
            bands=self.bands,
            crop=options.crop if options.crop is not None else self.crop,
            noise=self.noise or options.noise,
            seeds=options.seeds or self.seeds,
            without=list_training_scenes() if self.unseen else (),
            records=options.out / "simple/simple.jsonl" if self.folder == "theory" else None,
        )


ALL_PARTS = (
    Part("simple", "simple", seeds=3),
    Part("networks", "networks", crop=0, seeds=3),
    Part("remote-31-bands", "simple", "remote", bands=31, unseen=True),
    Part("remote-all-bands", "simple", "remote", crop=64, noise=("case1", "case5"), unseen=True),
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


def run_all(options: BenchOptions) -> None:
    """Every table in a folder of its own, and ``index.md`` that links them and says what was left out.

    Records are kept, so a run that was stopped goes on where it was.
    """
    from .experiment import write_files

    options.out.mkdir(parents=True, exist_ok=True)
    index = options.out / "index.md"
    lines = ["# Every table", "", "| part | report |", "|---|---|"]
    failed = []
    for part in ALL_PARTS:
        if part.wants and part.find_data(options) is None:
            end = f"left out: needs --{part.wants} FOLDER"
        else:
            typer.echo(f"== {part.folder}")
            try:
                EXPERIMENTS[part.experiment](part.adapt(options))
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

    cards = [store.load_network(name).card for name in NETWORKS]
    return tuple(sorted({s for c in cards for k in ("data", "validation") for s in c.get(k, ())}))


EXPERIMENTS: dict[str, Run] = {
    **{name: fill_table(name) for name in TABLES},
    "classify": run_classify,
    "theory": run_theory,
    "dip": run_dip,
    "cost": run_cost,
    "auto": run_auto,
    "robust": run_robust,
    "all": run_all,
}
"""What ``hyperdlw bench`` can do, by name."""
