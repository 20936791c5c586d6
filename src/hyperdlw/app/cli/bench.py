"""``hyperdlw bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...bench import EXPERIMENTS, BenchOptions
from ...errors import unknown_name
from .options import split_words


def bench(
    table: Annotated[str, typer.Argument(help=", ".join(EXPERIMENTS))],
    data: Annotated[Path | None, typer.Option(help="folder with clean scenes")] = None,
    remote: Annotated[
        Path | None, typer.Option(help="all, field: folder with clean airborne scenes")
    ] = None,
    photos: Annotated[Path | None, typer.Option(help="all: folder with colour pictures")] = None,
    out: Annotated[Path, typer.Option(help="folder for records and reports")] = Path("out/bench"),
    reference: Annotated[
        Path | None, typer.Option(help="folder with the authors' checkpoints")
    ] = None,
    networks: Annotated[
        Path | None, typer.Option(help="rivals: folder with networks of 'hyperdlw train-rival'")
    ] = None,
    denoiser: Annotated[
        str | None, typer.Option(help="pnp, rivals: denoiser of plug and play, a name or a file")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="data set of the paper that DATA holds: cave, icvl, dc, pavia, ..."),
    ] = None,
    affected: Annotated[
        int | None, typer.Option(min=0, help="bands with impulses, stripes or dead columns")
    ] = None,
    key: Annotated[str | None, typer.Option(help="variable of the scenes' files")] = None,
    crop: Annotated[
        int | None,
        typer.Option(min=0, help="side of the central crop, 128 (dip: 64); 0: whole"),
    ] = None,
    bands: Annotated[int, typer.Option(help="first good bands only; 0: all")] = 0,
    scenes: Annotated[
        str, typer.Option(help="names of scenes, with commas; made:7 is made by code")
    ] = "",
    cases: Annotated[str, typer.Option(help="noises, separated by commas: 1 to 5, or names")] = "",
    models: Annotated[
        str, typer.Option(help="models (field: methods) for the table's, with commas")
    ] = "",
    weights: Annotated[str, typer.Option(help="further weight sources, with commas")] = "",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="noise draws per scene and case; 3 for a table, 2 for all"),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="dip: iterations of a curve, at most 7000")
    ] = None,
    records_of: Annotated[
        Path | None,
        typer.Option("--records", help="theory: records of 'hyperdlw bench simple' (.jsonl)"),
    ] = None,
    size: Annotated[
        str, typer.Option(help="all: small (minutes, scenes made by code), medium, full")
    ] = "full",
    workers: Annotated[int, typer.Option(min=1, help="processes")] = 1,
    pictures: Annotated[bool, typer.Option(help="draw the last scene")] = True,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Fill a table of the paper, or all of them.

    On your scenes; a run that was stopped goes on where it was.
    """
    from ...testbed import find_noise

    if table not in EXPERIMENTS:
        raise unknown_name("table", table, EXPERIMENTS)
    EXPERIMENTS[table](
        BenchOptions(
            out,
            data,
            remote,
            photos,
            dataset,
            affected,
            key,
            crop,
            bands,
            only=split_words(scenes),
            noise=tuple(find_noise(word).name for word in split_words(cases)) or None,
            models=split_words(models),
            weights=split_words(weights),
            seeds=seeds,
            iterations=iterations,
            records=records_of,
            reference=reference,
            networks=networks,
            denoiser=denoiser,
            size=size,
            workers=workers,
            pictures=pictures,
            quiet=quiet,
        )
    )
