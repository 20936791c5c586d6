"""``dlw bench``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import BadOption, unknown_name
from .tables import TABLES, Table

if TYPE_CHECKING:
    from .cases import Files, Scene


@dataclass(frozen=True)
class Asked:
    """What an experiment that is not a table may be told.

    ``crop``, ``cases``, ``seeds`` and ``iterations`` are None where the user said nothing.
    """

    out: Path
    data: Path | None = None
    crop: int | None = None
    only: tuple[str, ...] = ()
    records: Path | None = None
    quiet: bool = False
    cases: tuple[int, ...] | None = None
    seeds: int | None = None
    iterations: int | None = None
    networks: Path | None = None
    denoiser: str | None = None

    @property
    def report(self) -> Callable[[str], None] | None:
        """Where progress goes."""
        return None if self.quiet else lambda text: typer.echo(text, err=True)


def classify(asked: Asked) -> None:
    """Land cover of Indian Pines before and after denoising."""
    from ..scenes import indian_pines
    from .classify import run

    cube, labels = indian_pines()
    run(cube, labels, asked.out, report=None if asked.quiet else typer.echo)
    typer.echo(f"written: {asked.out / 'classify.md'}, {asked.out / 'classify.png'}")


def theory(asked: Asked) -> None:
    """Rank correlation of the divergence U with the measured PSNR."""
    from .cases import load_scenes
    from .theory import run

    clean = None
    if asked.data is not None:
        clean = load_scenes(asked.data, crop=_side(asked.crop, 128), only=asked.only)[0]
    _tell(run(clean, asked.records, asked.out))


def dip(asked: Asked) -> None:
    """Curves of S2DIP with and without weights; the last scene unless some are named."""
    from .dip import run

    scenes = _scenes(asked, "dip", crop=64)
    paths = run(
        scenes if asked.only else scenes[-1:],
        asked.out,
        noise=asked.cases or (1, 5),
        iterations=asked.iterations,
        seeds=asked.seeds or 1,
        report=asked.report,
    )
    _tell(paths)


def auto(asked: Asked) -> None:
    """What automatic strength and advice lose against the best of a grid."""
    from .choice import run

    _tell(
        run(
            _scenes(asked, "auto"),
            asked.out,
            noise=asked.cases or (1, 2, 3, 4, 5),
            seeds=asked.seeds or 1,
            report=asked.report,
        )
    )


def robust(asked: Asked) -> None:
    """Noise and band counts that no network was trained for."""
    from .robust import run

    _tell(
        run(
            _scenes(asked, "robust", crop=64),
            asked.out,
            seeds=asked.seeds or 1,
            report=asked.report,
        )
    )


def _scenes(asked: Asked, name: str, crop: int = 128) -> list[Scene]:
    from .cases import load_scenes

    if asked.data is None:
        raise BadOption(f"the experiment '{name}' needs clean scenes: add --data FOLDER")
    return load_scenes(asked.data, crop=_side(asked.crop, crop), only=asked.only)[0]


def cost(asked: Asked) -> None:
    """Parameters and seconds of every method, on images made by code."""
    from .cost import SIDES, run

    sides = (asked.crop,) if asked.crop else SIDES
    _tell(
        run(
            asked.out,
            sides=sides,
            repeats=asked.seeds or 1,
            files=_files(asked.networks, asked.denoiser),
            report=asked.report,
        )
    )


def _files(networks: Path | None, denoiser: str | None, reference: Path | None = None) -> Files:
    """What the user brings, looked up in the folders."""
    from . import runner
    from .cases import Files

    return Files(
        runner.reference_networks(reference) if reference else {},
        runner.rival_networks(networks) if networks else {},
        denoiser,
    )


def _side(given: int | None, usual: int) -> int | None:
    """The side of the crop; None: whole scenes."""
    return usual if given is None else given or None


def _tell(paths: Sequence[Path]) -> None:
    """Print the report, and what was written."""
    typer.echo(paths[0].read_text(encoding="utf-8"))
    typer.echo("written: " + ", ".join(map(str, paths)))


EXPERIMENTS: dict[str, Callable[[Asked], None]] = {
    "classify": classify,
    "theory": theory,
    "dip": dip,
    "cost": cost,
    "auto": auto,
    "robust": robust,
}
"""Experiments that are not a table of noise cases, by name."""


def bench(
    table: Annotated[str, typer.Argument(help=", ".join([*TABLES, *EXPERIMENTS]))],
    data: Annotated[Path | None, typer.Option(help="folder with clean scenes")] = None,
    out: Annotated[Path, typer.Option(help="folder for records and reports")] = Path("out/bench"),
    reference: Annotated[
        Path | None, typer.Option(help="folder with the authors' checkpoints")
    ] = None,
    networks: Annotated[
        Path | None, typer.Option(help="rivals: folder with networks of 'dlw train-rival'")
    ] = None,
    denoiser: Annotated[
        str | None, typer.Option(help="pnp, rivals: denoiser of plug and play, a name or a file")
    ] = None,
    crop: Annotated[
        int | None,
        typer.Option(min=0, help="side of the central crop, 128 (dip: 64); 0: whole"),
    ] = None,
    bands: Annotated[int, typer.Option(help="first good bands only; 0: all")] = 0,
    scenes: Annotated[str, typer.Option(help="names of scenes, separated by commas")] = "",
    cases: Annotated[str, typer.Option(help="noise cases, separated by commas")] = "",
    models: Annotated[str, typer.Option(help="models in place of the table's, with commas")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="noise draws per scene and case; 3 for a table")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="dip: iterations of a curve, at most 1500")
    ] = None,
    records_of: Annotated[
        Path | None,
        typer.Option("--records", help="theory: records of 'dlw bench simple' (.jsonl)"),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="processes")] = 1,
    pictures: Annotated[bool, typer.Option(help="draw the last scene")] = True,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Fill a table of the paper.

    On your scenes; a run that was stopped goes on where it was.
    """
    only = tuple(s.strip() for s in scenes.split(",") if s.strip())
    if table in EXPERIMENTS:
        numbers = _numbers(cases) if cases else None
        asked = Asked(
            out,
            data,
            crop,
            only,
            records_of,
            quiet,
            numbers,
            seeds,
            iterations,
            networks,
            denoiser,
        )
        return EXPERIMENTS[table](asked)
    chosen = pick(table, cases, models)
    if data is None:
        raise BadOption(f"the table '{table}' needs clean scenes: add --data FOLDER")
    # Imported here, because torch takes seconds and ``dlw --help`` should not.
    from . import figures, report, runner
    from .cases import load_scenes

    found, left_out = load_scenes(
        data, crop=_side(crop, 128), bands=bands or None, only=only, colour=chosen.colour
    )
    for name, why in left_out.items():
        typer.echo(f"left out {name}: {why}", err=True)
    files = _files(networks, denoiser, reference)
    work = runner.plan(chosen, found, range(seeds or 3), files)
    records = runner.run(
        work,
        found,
        out / f"{chosen.name}.jsonl",
        files=files,
        workers=workers,
        report=None
        if quiet
        else lambda done, total: typer.echo(f"{done} of {total} cases", err=True),
    )
    shown = figures.figures(chosen, found[-1], files=files) if pictures else {}
    paths = report.write(chosen, records, out, shown)
    typer.echo("\n".join(report.headlines(chosen, report.means(records))[2:]))
    typer.echo("written: " + ", ".join(map(str, paths)))
    return None


def pick(name: str, cases: str = "", models: str = "") -> Table:
    """A table by name, cut to some noise cases, or with other models."""
    if name not in TABLES:
        raise unknown_name("table", name, [*TABLES, *EXPERIMENTS])
    table = TABLES[name]
    if models:
        from ..models import find

        wanted = tuple(m.strip() for m in models.split(","))
        if table.models:
            table = replace(table, models=tuple(find(m).name for m in wanted))
        else:
            known = {r.model or "" for r in table.rows}
            for m in wanted:
                if m not in known:
                    raise unknown_name(f"model of the table '{name}'", m, known)
            rows = tuple(r for r in table.rows if r.model in wanted)
            table = replace(table, rows=rows, panel=tuple(r for r in table.panel if r in rows))
    return replace(table, noise=_numbers(cases)) if cases else table


def _numbers(cases: str) -> tuple[int, ...]:
    """Noise cases as they are given."""
    numbers = [n.strip() for n in cases.split(",")]
    if not all(n in ("1", "2", "3", "4", "5") for n in numbers):
        raise BadOption(f"--cases takes numbers from 1 to 5 separated by commas, not '{cases}'")
    return tuple(map(int, numbers))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(bench)
