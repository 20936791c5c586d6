"""Everything ``hyperdlw bench`` can do, by name: the tables, the other experiments, and all in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import BadOption, make_harmless, unknown_name
from .everything import run_all
from .tables import TABLES, Row, Table

if TYPE_CHECKING:
    from ..cube import Cube
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
        size: of "all": small, medium or full.
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
    size: str = "full"
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
            typer.echo(make_harmless(f"left out {file}: {why}"), err=True)
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
        from ..testbed import find_dataset
        from .report import draw_table, mean_figures, write_headlines, write_report
        from .runner import run_table

        chosen = pick_table(name, options.noise or (), options.models, options.weights)
        if options.dataset and find_dataset(options.dataset).printed:
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
    from .classify import REPEATS, list_methods, run

    cube, labels = indian_pines()
    words: dict[str, Any] = {"files": options.files, "tell": options.tell}
    if options.crop:  # a quick look: every model as it is
        top, left = (max(0, n - options.crop) // 2 for n in labels.shape)
        labels = labels[top : top + options.crop, left : left + options.crop]
        words["methods"] = [m for m in list_methods() if m.strength == 1.0 and not m.rank]
        words["repeats"] = options.seeds or REPEATS
    run(_crop(cube, options.crop), labels, options.out, **words)
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


def run_field(options: BenchOptions) -> None:
    """Every method as a user runs it, on noise as files have it; scenes made by code need no data."""
    from .field import NOISES, load_groups, run

    paths = run(
        load_groups(options),
        options.out,
        names=options.models,
        noise=options.noise or NOISES,
        seeds=options.seeds or 2,
        pines=not options.only and not options.noise and find_spec("tensorly") is not None,
        tell=options.tell,
    )
    _show_report(paths)


def run_signal(options: BenchOptions) -> None:
    """Known spectra in noisy cubes: what detectors see of them before and after."""
    from .signal import NOISES, load_scenes, run

    paths = run(
        load_scenes(options),
        options.out,
        names=options.models,
        noise=options.noise or NOISES,
        seeds=options.seeds or 1,
        tell=options.tell,
    )
    _show_report(paths)


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


def run_figures(options: BenchOptions) -> None:
    """Weights and restorations of the seven networks; the last scene."""
    from .figures import draw_figures

    _show_report(draw_figures(options.load_scenes("figures")[-1], options.out))


def run_real(options: BenchOptions) -> None:
    """A real image with every method: a data set of the user, or Indian Pines."""
    from ..testbed import find_dataset, indian_pines
    from .figures import DEFAULT_ROWS, run_real
    from .tables import RIVALS

    if options.dataset and options.data is not None:
        dataset = find_dataset(options.dataset)
        name, path = next(iter(dataset.list_files(options.data).items()))
        cube = dataset.open_scene(path, options.key)
    else:
        name, (cube, _) = "Indian Pines", indian_pines()
    rows = DEFAULT_ROWS if options.models == () else RIVALS.rows
    rows = tuple(r for r in rows if r.model in (options.models or (r.model,)))
    cube = _crop(cube, options.crop)
    _show_report(
        run_real(name, cube, options.out, rows=rows, files=options.files, tell=options.tell)
    )


def _crop(cube: Cube, side: int | None) -> Cube:
    """The central square of a cube as it is stored."""
    if not side:
        return cube
    top, left = (max(0, n - side) // 2 for n in cube.shape[1:])
    data = cube.data[:, top : top + side, left : left + side]
    return type(cube).from_array(data, wavelengths=cube.wavelengths)


EXPERIMENTS: dict[str, Run] = {
    **{name: fill_table(name) for name in TABLES},
    "classify": run_classify,
    "theory": run_theory,
    "dip": run_dip,
    "cost": run_cost,
    "auto": run_auto,
    "robust": run_robust,
    "field": run_field,
    "signal": run_signal,
    "figures": run_figures,
    "real": run_real,
    "all": run_all,
}
"""What ``hyperdlw bench`` can do, by name."""
