"""Reports of a table: Markdown, CSV, and pictures of one scene; and drawing in general."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DlwError
from ..pipeline import draw_png, new_figure
from ..pipeline import pictures as picture
from ..testbed import find_noise
from .experiment import F32, NO_FILES, Files, Record, Scene, write_files
from .paper import BESIDE, write_beside
from .runner import Restorer, judge_psnr, make_noisy
from .tables import NETWORKS, ORIGINAL, REFERENCE, SOURCE_MODELS, Row, Table

Panel = tuple[str, NDArray[np.generic]]
"""A caption and an RGB image."""
Records = Sequence[Record]
Cell = tuple[str, str, str]
"""(row label, model, noise)."""


def label_record(record: Record) -> str:
    """The row a record belongs to."""
    if record["model"] == "noisy":
        return "noisy"
    return Row(record["weights"], record["strength"]).label


def mean_figures(records: Records, figure: str = "psnr") -> dict[Cell, float]:
    """Mean of a figure over scenes and seeds, for every row, model and noise case."""
    values: dict[Cell, list[float]] = defaultdict(list)
    for r in records:
        if figure in r:
            values[label_record(r), r["model"], r["noise"]].append(float(r[figure]))
    return {cell: statistics.fmean(v) for cell, v in values.items()}


def mean_cells(
    table: Mapping[Cell, float], row: str, models: Iterable[str], noise: Iterable[str]
) -> float:
    """Mean of a row over models and noise cases (NaN when one of them is missing)."""
    cells = [(row, m, n) for m in models for n in noise]
    return statistics.fmean(table.get(c, float("nan")) for c in cells)


def list_own_models(network: str) -> tuple[str, ...]:
    """The source models of a network.

    >>> list_own_models("N+TS")
    ('nn', 'tvs')
    """
    return tuple(SOURCE_MODELS[s] for s in network.removeprefix(REFERENCE).split("+"))


def list_rows(table: Table, records: Records) -> list[Row]:
    """Rows with figures in the order of the table, each followed by the reference network of the name."""
    present = {(label_record(r), r["model"]) for r in records if "skipped" not in r}
    order: list[Row] = []
    for row in table.rows:
        order += [row, replace(row, weights=REFERENCE + row.weights, name="")]
    return [row for row in order if any((row.label, m) in present for _, m in table.cells([row]))]


def write_markdown(
    table: Table, records: Records, pictures: Iterable[str] = (), same_data: bool = False
) -> str:
    """PSNR by noise case, mean SSIM and seconds, one part per model; headlines; file names of figures."""
    scenes = sorted({r["scene"] for r in records})
    seeds = len({r["seed"] for r in records})
    lines = [
        f"# {table.title}",
        "",
        f"PSNR in dB, mean over {len(scenes)} scene{'s' * (len(scenes) > 1)} "
        f"({', '.join(scenes)}) and {seeds} noise draw{'s' * (seeds > 1)}; "
        "SSIM with an 11x11 Gaussian window and data range 1; "
        "processor seconds of the solver and, after the plus sign, of the weights, one thread each. "
        "The best of a column is bold, the second best in italics.",
        "",
        table.notes,
        "",
    ]
    rows = list_rows(table, records)
    for model in table.models:
        mine = [(table.name_of(r), r, model) for r in rows if r.model in (None, model)]
        lines += [f"## {model}", ""]
        for figure in table.figures:
            lines += [*_part(table, records, mine, figure), ""]
        lines += [*write_settings(model, records), ""]
    if not table.models:
        every = [(table.name_of(r), r, r.model or "") for r in rows]
        for figure in table.figures:
            title = [f"## {FIGURES[figure].title}", ""] if len(table.figures) > 1 else []
            lines += [*title, *_part(table, records, every, figure), ""]
    lines += write_headlines(table, mean_figures(records))
    ours = {figure: mean_figures(records, figure) for figure in BESIDE}
    lines += ["", *write_beside(table, ours, same_data)]
    lines += ["", *[f"![{Path(name).stem}]({name})" for name in pictures]]
    skipped = {
        f"- {Row(r['weights'], r['strength'], r['model']).method}: {r['skipped']}"
        for r in records
        if "skipped" in r
    }
    if skipped:
        lines += ["", "## Not run", "", *sorted(skipped)]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines).rstrip("\n") + "\n")


class Merit(NamedTuple):
    """A figure of merit: its title, the decimals that are printed, and which end is better."""

    title: str
    decimals: int
    larger: bool = True


FIGURES = {
    "psnr": Merit("PSNR in dB", 2),
    "ssim": Merit("SSIM", 3),
    "sam": Merit("SAM in degrees", 2, larger=False),
}


def _part(
    table: Table, records: Records, rows: Sequence[tuple[str, Row, str]], figure: str
) -> list[str]:
    """A table of (name, row, model) lines; the best of a case is bold, the second best in italics.

    After the table's first figure stand SSIM where it has no part of its own, seconds and, where the
    rows name their models, parameters.
    """
    kind, first = FIGURES[figure], figure == table.figures[0]
    value = mean_figures(records, figure)
    extras = [] if "ssim" in table.figures else ["ssim"]
    extras += ["seconds"] if table.models else ["seconds", "parameters"]
    extras = extras if first else []
    needed = ("ssim", "processor", "processor_weights", "parameters")
    known = {name: mean_figures(records, name) for name in needed}

    def write_extra(name: str, row: Row, model: str) -> str:
        def mean(figure: str) -> float:
            return mean_cells(known[figure], row.label, [model], table.noise)

        if name == "ssim":
            return f"{mean(name):.3f}"
        if name == "parameters":
            return f"{mean(name):,.0f}".replace(",", " ")
        before = mean("processor_weights")
        return f"{mean('processor'):.2f}" + (f" + {before:.2f}" if before >= 0.005 else "")

    titles = [*[find_noise(n).title for n in table.noise], "mean"]
    titles += ["SSIM" if name == "ssim" else name for name in extras]
    noisy = [value.get(("noisy", "noisy", n), float("nan")) for n in table.noise]
    cells = [f"{v:.{kind.decimals}f}" for v in (*noisy, statistics.fmean(noisy))]
    lines = [
        f"| method | {' | '.join(titles)} |",
        "|---|" + "---:|" * len(titles),
        "| noisy | " + " | ".join(cells) + " |" + " |" * len(extras),
    ]
    columns = [(n,) for n in table.noise] + [table.noise]
    places = [_places(value, rows, c, kind) for c in columns]
    for name, row, model in rows:
        cells = []
        for noise, place in zip(columns, places, strict=True):
            found = mean_cells(value, row.label, [model], noise)
            text = "-" if math.isnan(found) else f"{found:.{kind.decimals}f}"
            mark = place.get((row.label, model), "")
            cells.append(f"{mark}{text}{mark}")
        cells += [write_extra(extra, row, model) for extra in extras]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _places(
    value: Mapping[Cell, float],
    rows: Sequence[tuple[str, Row, str]],
    noise: tuple[str, ...],
    kind: Merit,
) -> dict[tuple[str, str], str]:
    """Marks of the best and the second best (row label, model) of some noise cases."""
    found = {(r.label, m): mean_cells(value, r.label, [m], noise) for _, r, m in rows}
    known = {c: v for c, v in found.items() if not math.isnan(v)}
    order = sorted(known, key=lambda c: -known[c] if kind.larger else known[c])
    return dict(zip(order, ("**", "*"), strict=False)) if len(order) > 1 else {}


def write_settings(model: str, records: Records) -> list[str]:
    """How a model was run, weighted and original, as the records have it."""
    found = {
        "original" if r["weights"] == ORIGINAL else "weighted": r["settings"]
        for r in records
        if r["model"] == model and r.get("settings")
    }
    return ["", *[f"{kind}: {found[kind]}." for kind in sorted(found, reverse=True)]]


def write_headlines(table: Table, db: Mapping[Cell, float]) -> list[str]:
    """The comparisons a reader looks for first."""
    rows = {cell[0] for cell in db}
    lines = ["## Headlines", ""]
    own = set(table.models) <= set(SOURCE_MODELS.values())
    gaps = []
    for n in NETWORKS:
        targets = list_own_models(n) if own else table.models
        ours = mean_cells(db, n, targets, table.noise)
        theirs = mean_cells(db, REFERENCE + n, targets, table.noise)
        if math.isnan(ours) or math.isnan(theirs):
            continue
        gaps.append(ours - theirs)
        lines.append(
            f"- {n} on {'its own targets' if own else 'these targets'}: {ours:.2f} dB, the authors' "
            f"checkpoint {theirs:.2f} dB ({ours - theirs:+.2f})"
        )
    if len(gaps) > 1:
        lines.append(f"- mean over the {len(gaps)} networks: {statistics.fmean(gaps):+.2f} dB")
    main = next((n for n in ("N+T+TS", "colour-T") if n in rows), None)
    if main is not None and table.models:
        lines += _gains(table, db, main)
    for model in table.models:
        present = [n for n in NETWORKS if (n, model, table.noise[0]) in db]
        if present:
            best = max(present, key=lambda n: mean_cells(db, n, [model], table.noise))
            lines.append(f"- best network for {model}: {best}")
    if not table.models:
        lines += _ranking(table, db)
    return lines


def _gains(table: Table, db: Mapping[Cell, float], main: str) -> list[str]:
    """The main network over the methods without it, by model and in the mean."""
    lines = []
    whole = [(o, table.noise) for o in (ORIGINAL, f"{ORIGINAL}, best strength", "uniform")]
    parts = [(o, (n,)) for n in table.single if n in table.noise for o, _ in whole]
    for other, noise in (*whole, *parts, ("oracle, best strength", ("case1", "case5"))):
        gains = {}
        for model in table.models:
            gain = mean_cells(db, main, [model], noise) - mean_cells(db, other, [model], noise)
            if not math.isnan(gain):
                gains[model] = gain
        if gains:
            each = ", ".join(f"{m} {g:+.2f}" for m, g in gains.items())
            mean = statistics.fmean(gains.values())
            whom = next((r.name for r in table.rows if r.label == other and r.name), other)
            lines.append(f"- {main} over {whom}, {list_noises(noise)}: {mean:+.2f} dB ({each})")
    everything = mean_cells(db, main, table.models, table.noise)
    return [*lines, f"- {main}, mean over targets and cases: {everything:.2f} dB"]


def list_noises(noise: Sequence[str]) -> str:
    """Noises in a sentence.

    >>> list_noises(["case1", "case5"]), list_noises(["case2"]), list_noises(["case2", "photons"])
    ('cases 1, 5', 'case 2', 'case 2, photons')
    """
    found = [find_noise(n) for n in noise]
    numbers = [str(n.case) for n in found if n.case is not None]
    if 1 < len(numbers) == len(found):
        return f"cases {', '.join(numbers)}"
    return ", ".join(n.title for n in found)


def _ranking(table: Table, db: Mapping[Cell, float]) -> list[str]:
    """The best method of every noise case and in the mean."""
    rows = [r for r in table.rows if r.model]
    lines = []
    for name, noise in [*[(find_noise(n).title, (n,)) for n in table.noise], ("mean", table.noise)]:
        score = {table.name_of(r): mean_cells(db, r.label, [r.model or ""], noise) for r in rows}
        score = {m: v for m, v in score.items() if not math.isnan(v)}
        first = sorted(score, key=lambda m: -score[m])[:2]
        lines.append(f"- {name}: " + ", then ".join(f"{m} {score[m]:.2f} dB" for m in first))
    return lines


def write_csv(records: Records) -> str:
    """All records, one line each."""
    keys = sorted({k for r in records for k in r})
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(dict(r) for r in records)
    return text.getvalue()


def write_report(
    table: Table,
    records: Records,
    folder: Path,
    pictures: Mapping[str, bytes],
    same_data: bool = False,
) -> list[Path]:
    """Write <table>.md, .csv and the pictures (PNG bytes by file name) into a folder."""
    text = write_markdown(table, records, pictures, same_data)
    reports = {f"{table.name}.md": text, f"{table.name}.csv": write_csv(records)}
    return write_files(folder, {**reports, **pictures})


# Pictures.

WIDEST = 6
"""Panels in a line of a table whose rows name their models."""


def draw_table(
    table: Table, scene: Scene, seed: int = 0, files: Files = NO_FILES
) -> dict[str, bytes]:
    """One PNG per noise, by file name: a line of panels for every model."""
    return {
        f"{table.name}-{noise}.png": draw_panels(make_panels(table, scene, noise, seed, files))
        for noise in table.noise
    }


def make_panels(
    table: Table, scene: Scene, noise: str, seed: int = 0, files: Files = NO_FILES
) -> list[list[Panel]]:
    """Lines of panels: clean, noisy, then every row of ``table.panel``; one line per model."""
    noisy = make_noisy(scene, noise, seed)
    shown = picture.colour_bands(scene.data)
    limits = picture.stretch(scene.data, shown)

    def panel(caption: str, data: F32) -> Panel:
        return caption, picture.pseudo_colour(np.clip(data, 0, 1), shown, limits)

    first = [
        panel("clean", scene.data),
        panel(f"noisy, {judge_psnr(scene, noisy, noisy.y):.1f} dB", noisy.y),
    ]
    restore = Restorer(scene, noisy, files)
    lines: dict[str, list[Panel]] = {}
    for row, model in table.cells(table.panel):
        line = lines.setdefault(model if table.models else "", list(first))
        try:
            x, _ = restore(row, model, seed)
        except DlwError:
            continue  # the report says what cannot be run, and why
        name = f"{model}, {table.name_of(row)}" if table.models else table.name_of(row)
        line.append(panel(f"{name}: {judge_psnr(scene, noisy, x):.1f} dB", x))
    if table.models:
        return list(lines.values())
    return [line[i : i + WIDEST] for line in lines.values() for i in range(0, len(line), WIDEST)]


def draw_panels(lines: Sequence[Sequence[Panel]]) -> bytes:
    """Lines of captioned pictures as one PNG of 256 colours, a quarter of the size of one of all."""
    columns = max(map(len, lines))
    figure = new_figure(1.9 * columns, 2.1 * len(lines))
    axes = figure.subplots(len(lines), columns, squeeze=False)
    for line, row in zip(lines, axes, strict=True):
        for ax in row:
            ax.axis("off")
        for (caption, image), ax in zip(line, row, strict=False):
            ax.imshow(image, interpolation="nearest")
            ax.set_title(caption, pad=3, fontsize=9.6)
    from PIL import Image

    out = io.BytesIO()
    drawn = Image.open(io.BytesIO(draw_png(figure)))
    drawn.convert("RGB").quantize(256).save(out, format="png", optimize=True)
    return out.getvalue()
