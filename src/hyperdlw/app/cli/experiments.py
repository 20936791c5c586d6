"""Commands for experiments: ``hyperdlw demo``, ``noise``, ``score``, ``audit`` and ``bench``."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...bench import EXPERIMENTS, BenchOptions
from ...errors import BadInput, BadOption, unknown_name
from . import console, options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...cube import Cube

    F32 = NDArray[np.float32]


def demo(
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder for what is written.")
    ] = "out",
    scene: Annotated[
        bool,
        typer.Option("--scene", help="Only write the scene, noisy.hdr and clean.hdr, to try on."),
    ] = False,
    real: Annotated[
        bool,
        typer.Option("--real", help="A real cube instead: Indian Pines, which tensorly brings."),
    ] = False,
) -> None:
    """Try everything on a made-up scene.

    Denoises it with every model and weight source, prints a table and draws demo.png. With --real:
    a real cube, its noisiest bands before and after, what was changed and whether it was noise.
    """
    from ...bench import demo as made_up
    from ...bench import real_demo

    if scene and real:
        raise BadOption("--scene writes the made-up scene, --real shows a real one; choose one")
    run = made_up.write_scene if scene else real_demo.run_real if real else made_up.run
    run(Path(folder), console.out)


def noise(
    source: options.In,
    target: options.Out,
    case: Annotated[
        str, typer.Option("--case", help="Case of the paper, 1 to 5, or a noise by its name.")
    ] = "5",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same bytes.")] = 0,
    affected: Annotated[
        int | None,
        typer.Option("--affected", min=0, help="Bands with impulses, stripes or dead columns."),
    ] = None,
    clean: Annotated[
        str | None, typer.Option("--clean", metavar="FILE", help="Write the scaled clean cube.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="FILE.npz", help="Write the true noise.")
    ] = None,
    reading: options.InputOptions = options.AS_STORED,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a clean cube noisy.

    Each band is first scaled to [0, 1]; the output is float32.
    """
    import numpy as np

    from ... import io
    from ...cube import minmax_range
    from ...testbed import find_noise

    chosen = find_noise(case)
    if truth is not None and Path(truth).suffix.lower() != ".npz":
        raise BadOption(f"the truth is written as .npz, not as {truth}")
    io.check_places([target, clean, truth], overwrite, source)
    cube = reading.open_cube(source)
    console.print_notes(cube.metadata.get("notes", ()), quiet)
    unit = minmax_range(cube.data, cube.valid).to_unit(np.where(cube.valid, cube.data, 0))
    unit = np.where(cube.valid, unit, np.float32(0))
    dirty = chosen.apply(unit, np.random.default_rng(seed), affected=affected)
    # Impulses and dead columns are 0, which may be the nodata value: NaN cannot be mistaken.
    gaps = np.float32(np.nan)
    seen = cube.valid & dirty.valid
    noisy = options.as_float32(cube, np.where(seen, dirty.y, gaps), None, seen)
    target_data = np.where(cube.valid, dirty.find_target(unit), gaps)
    scaled = options.as_float32(cube, target_data, None, cube.valid)
    io.check_save(target, noisy)
    if clean is not None:
        io.check_save(clean, scaled)
    io.save_cube(noisy, target, overwrite=overwrite)
    if clean is not None:
        io.save_cube(scaled, clean, overwrite=overwrite)
    if truth is not None:
        parts = {f.name: getattr(dirty.truth, f.name) for f in fields(dirty.truth)}
        with io.atomic(truth, overwrite=overwrite) as tmp, open(tmp, "wb") as file:
            known = {"noise": np.str_(chosen.name), "seed": np.int64(seed)}
            np.savez_compressed(file, allow_pickle=False, **known, **parts)
    if not quiet:
        console.print_summary(
            {
                "noise": f"{chosen.title}, {chosen.about}, seed {seed}",
                "scaling": "each band min-max to [0, 1] before the noise",
                "clean": clean,
                "truth": truth,
                "output": target,
            }
        )


def score(
    clean: Annotated[str, typer.Argument(metavar="CLEAN", help="The reference.")],
    restored: Annotated[str, typer.Argument(metavar="RESTORED", help="What is judged.")],
    scale: Annotated[
        bool,
        typer.Option(
            "--scale/--no-scale", help="Map both with the band limits of CLEAN to [0, 1]."
        ),
    ] = False,
    reading: options.InputOptions = options.AS_STORED,
    as_json: options.Json = False,
) -> None:
    """Compare with the clean cube.

    PSNR with peak 1, SSIM, SAM and ERGAS of a restored cube.
    """
    from ...testbed import metrics

    a = reading.open_cube(clean)
    b = reading.open_cube(restored)
    values, others = _comparable(clean, a, restored, b, scale)
    found = metrics.scores(values, others, valid=a.valid)
    if as_json:
        console.print_json({"clean": clean, "restored": restored, "scaled": scale, **found})
        return
    units = {"psnr": "dB", "sam": "degrees"}
    console.print_table(
        ("score", "mean"),
        [(name, f"{value:.4f} {units.get(name, '')}".rstrip()) for name, value in found.items()],
    )


def _comparable(
    clean: str, a: Cube, restored: str, b: Cube, scale: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Values of two cubes in the unit interval of the first."""
    import numpy as np

    from ...cube import minmax_range

    if a.shape != b.shape:
        raise BadInput(f"{clean} has (band, row, col) shape {a.shape}, {restored} {b.shape}")
    lost = int(np.count_nonzero(a.valid & ~b.valid))
    if lost:
        raise BadInput(
            f"{restored} has no value in {lost} voxels that {clean} has; mask them there"
        )
    if not a.valid.any():
        raise BadInput(f"{clean} has no valid voxel to compare with")
    if scale:
        limits = minmax_range(a.data, a.valid)
        return limits.to_unit(a.data), limits.to_unit(b.data)
    known = a.data[a.valid]
    low, high = float(known.min()), float(known.max())
    if low < -1e-3 or high > 1 + 1e-3:
        raise BadInput(
            f"{clean} spans {low:g} to {high:g}, and the scores are for data in [0, 1]; add --scale"
        )
    middle = float(np.median(b.data[a.valid]))
    if not -1 <= middle <= 2:
        raise BadInput(
            f"{restored} is not in the units of {clean}: its median is {middle:g}, and {clean} "
            f"spans {low:g} to {high:g}"
        )
    return a.data, b.data


def audit(
    source: options.In,
    restored: Annotated[str, typer.Argument(metavar="OUT", help="The same cube, denoised.")],
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            "-w",
            help="Leave out voxels that these weights hardly trust, not outliers.",
        ),
    ] = None,
    picture: Annotated[
        str | None,
        typer.Option("--map", metavar="PNG", help="Draw how much every pixel was changed."),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="HTML", help="Write a page for a reviewer."),
    ] = None,
    range_: options.Range = "auto",
    reading: options.InputOptions = options.AS_STORED,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Was it only noise? Looks at what denoising took away, in standard deviations of the noise.

    White noise has no correlation of neighbours, of neighbours over five bands, with the image around
    a pixel, or with its edges. Any method may have made OUT.
    """
    from ... import io
    from ...pipeline import (
        Dossier,
        draw_change,
        encode_png,
        predict_weights,
        shrink_pair,
        write_page,
    )
    from ...pipeline import audit as look

    io.check_places([picture, page], overwrite)
    limits = options.parse_range(range_)
    a = reading.open_cube(source)
    b = reading.open_cube(restored)
    w = None if weights is None else predict_weights(a, weights, range=limits)
    found = look(a, b, w, limits)
    if picture is not None:
        with io.atomic(picture, overwrite=overwrite) as tmp:
            tmp.write_bytes(encode_png(draw_change(a, b)))
    if page is not None:
        files = {"input": io.hash_files(source), "output": io.hash_files(restored)}
        command = shlex.join(["hyperdlw", *console.typed])
        small = shrink_pair(a, b, for_page=True)
        title = Path(restored).name
        write_page(Dossier(title, small, found, None, files, command), page, overwrite=overwrite)
    if as_json:
        facts = {
            "input": source,
            "output": restored,
            "weights": weights,
            "map": picture,
            "page": page,
        }
        console.print_json({**facts, **found.as_dict()})
        return
    rows = [
        (
            console.name_band(f.band, a),
            f"removed {f.removed:.2f} of the noise; correlations: neighbours {f.neighbours:+.3f}, "
            f"five bands {f.pooled:+.3f}, image {f.image:+.3f}, edges {f.edges:+.3f}"
            + (f"; structured ({', '.join(f.signs)})" if f.structured else ""),
        )
        for f in found.bands
    ]
    console.print_table(("band", "what was removed"), rows)
    console.print_audit(found, a)


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
            only=options.split_words(scenes),
            noise=tuple(find_noise(word).name for word in options.split_words(cases)) or None,
            models=options.split_words(models),
            weights=options.split_words(weights),
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
