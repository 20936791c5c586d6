"""Reports of a table: Markdown, CSV, and one HTML page that needs no other file."""

from __future__ import annotations

import csv
import html
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..pipeline import data_url_of
from ..testbed import find_noise
from .experiment import Record, write_files
from .tables import NETWORKS, ORIGINAL, REFERENCE, SOURCE_MODELS, Row, Table

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


def write_markdown(table: Table, records: Records, pictures: Iterable[str] = ()) -> str:
    """PSNR by noise case, mean SSIM and seconds, one part per model; headlines; file names of figures."""
    lines = [f"# {table.title}", ""]
    scenes = sorted({r["scene"] for r in records})
    seeds = {r["seed"] for r in records}
    draws = f"{len(seeds)} noise draw{'s' if len(seeds) > 1 else ''}"
    lines += [
        f"PSNR in dB, mean over {len(scenes)} scene{'s' if len(scenes) > 1 else ''} "
        f"({', '.join(scenes)}) and {draws}; "
        "SSIM with an 11x11 Gaussian window and data range 1; "
        "processor seconds of the solver and, after the plus sign, of the weights, one thread each. "
        "The best of a column is bold, the second best in italics"
        + ("; in brackets: the paper's figure." if table.paper else "."),
        "",
    ]
    if table.notes:
        lines += [table.notes, ""]
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
    lines += ["", *[f"![{Path(name).stem}]({name})" for name in pictures]]
    skipped = [r for r in records if "skipped" in r]
    if skipped:
        lines += ["", "## Not run", ""]
        reasons = sorted(
            {
                f"{Row(r['weights'], r['strength'], r['model']).method}: {r['skipped']}"
                for r in skipped
            }
        )
        lines += [f"- {reason}" for reason in reasons]
    text = "\n".join(lines).rstrip("\n") + "\n"
    return re.sub("\n{3,}", "\n\n", text)


@dataclass(frozen=True)
class Figure:
    """A figure of merit: its title, the decimals that are printed, and which end is better."""

    title: str
    decimals: int
    larger: bool = True


FIGURES = {
    "psnr": Figure("PSNR in dB", 2),
    "ssim": Figure("SSIM", 3),
    "sam": Figure("SAM in degrees", 2, larger=False),
}


def _part(
    table: Table, records: Records, rows: Sequence[tuple[str, Row, str]], figure: str = "psnr"
) -> list[str]:
    """A table of (name, row, model) lines; the best of a case is bold, the second best in italics."""
    kind, first = FIGURES[figure], figure == table.figures[0]
    value = mean_figures(records, figure)
    extras = _Extras(table, records) if first else None
    lines = [
        "| method | "
        + " | ".join([*[find_noise(n).title for n in table.noise], "mean"])
        + (extras.head if extras else "")
        + " |",
        "|---|" + "---:|" * (len(table.noise) + 1 + (extras.columns if extras else 0)),
    ]
    noisy = [value.get(("noisy", "noisy", n), float("nan")) for n in table.noise]
    cells = [f"{v:.{kind.decimals}f}" for v in (*noisy, statistics.fmean(noisy))]
    blank = " |" * extras.columns if extras else ""
    lines.append("| noisy | " + " | ".join(cells) + " |" + blank)
    columns = [(n,) for n in table.noise] + [table.noise]
    places = [_places(value, rows, c, kind) for c in columns]
    for name, row, model in rows:
        cells = []
        for noise, place in zip(columns, places, strict=True):
            known = mean_cells(value, row.label, [model], noise)
            text = "-" if math.isnan(known) else f"{known:.{kind.decimals}f}"
            mark = place.get((row.label, model), "")
            paper = table.paper.get((row.label, model, noise[0])) if len(noise) == 1 else None
            shown = f"{mark}{text}{mark}"
            cells.append(shown if paper is None or not first else f"{shown} ({paper:.2f})")
        more = extras.of(row, model) if extras else []
        lines.append(f"| {name} | " + " | ".join([*cells, *more]) + " |")
    return lines


def _places(
    value: Mapping[Cell, float],
    rows: Sequence[tuple[str, Row, str]],
    noise: tuple[str, ...],
    kind: Figure,
) -> dict[tuple[str, str], str]:
    """Marks of the best and the second best (row label, model) of some noise cases."""
    found = {(r.label, m): mean_cells(value, r.label, [m], noise) for _, r, m in rows}
    known = {c: v for c, v in found.items() if not math.isnan(v)}
    order = sorted(known, key=lambda c: -known[c] if kind.larger else known[c])
    return dict(zip(order, ("**", "*"), strict=False)) if len(order) > 1 else {}


class _Extras:
    """The columns after the first figure: SSIM where it has no part of its own, seconds, parameters."""

    def __init__(self, table: Table, records: Records) -> None:
        self.table = table
        self.ssim = None if "ssim" in table.figures else mean_figures(records, "ssim")
        self.seconds = mean_figures(records, "processor")
        self.weights = mean_figures(records, "processor_weights")
        self.parameters = mean_figures(records, "parameters") if not table.models else None
        titles = [
            *(["SSIM"] if self.ssim is not None else []),
            "seconds",
            *(["parameters"] if self.parameters is not None else []),
        ]
        self.head = "".join(f" | {t}" for t in titles)
        self.columns = len(titles)

    def of(self, row: Row, model: str) -> list[str]:
        def mean(value: Mapping[Cell, float]) -> float:
            return mean_cells(value, row.label, [model], self.table.noise)

        spent = [mean(self.seconds), mean(self.weights)]
        found = [] if self.ssim is None else [f"{mean(self.ssim):.3f}"]
        found.append(f"{spent[0]:.2f}" + (f" + {spent[1]:.2f}" if spent[1] >= 0.005 else ""))
        if self.parameters is not None:
            found.append(f"{mean(self.parameters):,.0f}".replace(",", " "))
        return found


def write_settings(model: str, records: Records) -> list[str]:
    """How a model was run, weighted and original, as the records have it."""
    found = {}
    for r in records:
        if r["model"] == model and r.get("settings"):
            found["original" if r["weights"] == ORIGINAL else "weighted"] = r["settings"]
    return (
        ["", *[f"{kind}: {text}." for kind, text in sorted(found.items(), reverse=True)]]
        if found
        else []
    )


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


STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:#1b1f24;background:#fff}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .6rem;
border-bottom:1px solid #d0d7de;text-align:right}td:first-child,th:first-child{text-align:left}
figure{display:inline-block;margin:.5rem}figcaption{font-size:13px}img{image-rendering:pixelated}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}}"""


def write_html(text: str, title: str, pictures: Mapping[str, str]) -> str:
    """The Markdown report as a page; ``pictures`` are data URLs by caption."""
    parts = [f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title>"]
    parts.append(f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>")
    in_table = in_list = False
    for line in text.splitlines():
        is_row = line.startswith("|")
        if in_table and not is_row:
            parts.append("</table>")
        if in_list and not line.startswith("- "):
            parts.append("</ul>")
        if is_row:
            if line.startswith("|---"):
                continue
            parts.append(_html_row(line, head=not in_table))
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            parts.append(f"<h{level}>{html.escape(line.lstrip('# '))}</h{level}>")
        elif line.startswith("- "):
            parts.append(("" if in_list else "<ul>") + f"<li>{html.escape(line[2:])}</li>")
        elif line:
            parts.append(f"<p>{html.escape(line)}</p>")
        in_table, in_list = is_row, line.startswith("- ")
    if in_table:
        parts.append("</table>")
    if in_list:
        parts.append("</ul>")
    for caption, url in pictures.items():
        text = html.escape(caption)
        parts.append(
            f"<figure><img src='{url}' alt='{text}'><figcaption>{text}</figcaption></figure>"
        )
    return "\n".join(parts) + "\n"


def _html_row(line: str, head: bool) -> str:
    tag = "th" if head else "td"
    cells = []
    for cell in line.strip("|").split("|"):
        text = html.escape(cell.strip())
        for mark, name in (("**", "b"), ("*", "i")):
            if text.count(mark) == 2:
                text = text.replace(mark, f"<{name}>", 1).replace(mark, f"</{name}>", 1)
        cells.append(f"<{tag}>{text}</{tag}>")
    return ("<table>" if head else "") + f"<tr>{''.join(cells)}</tr>"


def write_report(
    table: Table, records: Records, folder: Path, pictures: Mapping[str, bytes]
) -> list[Path]:
    """Write <table>.md, .csv, .html and the pictures (PNG bytes by file name) into a folder."""
    text = write_markdown(table, records, pictures)
    inline = {name: data_url_of(png) for name, png in pictures.items()}
    contents: dict[str, str | bytes] = {
        f"{table.name}.md": text,
        f"{table.name}.csv": write_csv(records),
        f"{table.name}.html": write_html(write_markdown(table, records), table.title, inline),
        **pictures,
    }
    return write_files(folder, contents)
