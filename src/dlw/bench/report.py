"""Reports of a table: Markdown, CSV, and one HTML page that needs no other file."""

from __future__ import annotations

import csv
import html
import io
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io.atomic import atomic
from .tables import NETWORKS, REFERENCE, SOURCE_OF, Row, Table

Records = Sequence[Mapping[str, Any]]
Cell = tuple[str, str, int]
"""(row label, model, noise case)."""


def label(record: Mapping[str, Any]) -> str:
    """The row a record belongs to."""
    if record["model"] == "noisy":
        return "noisy"
    return Row(record["weights"], record["strength"]).label


def means(records: Records, figure: str = "psnr") -> dict[Cell, float]:
    """Mean of a figure over scenes and seeds, for every row, model and noise case."""
    values: dict[Cell, list[float]] = defaultdict(list)
    for r in records:
        if figure in r:
            values[label(r), r["model"], r["noise"]].append(float(r[figure]))
    return {cell: statistics.fmean(v) for cell, v in values.items()}


def overall(
    table: Mapping[Cell, float], row: str, models: Iterable[str], noise: Iterable[int]
) -> float:
    """Mean of a row over models and noise cases (NaN when one of them is missing)."""
    cells = [(row, m, n) for m in models for n in noise]
    return statistics.fmean(table.get(c, float("nan")) for c in cells)


def own_targets(network: str) -> tuple[str, ...]:
    """The source models of a network.

    >>> own_targets("N+TS")
    ('nn', 'tvs')
    """
    return tuple(SOURCE_OF[s] for s in network.removeprefix(REFERENCE).split("+"))


def row_labels(table: Table, records: Records) -> list[str]:
    """Rows in the order of the table, each followed by the reference network of the same name."""
    present = {label(r) for r in records}
    order: list[str] = []
    for row in table.rows:
        order += [row.label, REFERENCE + row.label]
    return [name for name in order if name in present]


def markdown(table: Table, records: Records) -> str:
    """One Markdown table per model (PSNR by noise case, mean SSIM, seconds), then the headlines."""
    lines = [f"# {table.title}", ""]
    scenes = sorted({r["scene"] for r in records})
    seeds = sorted({r["seed"] for r in records})
    lines += [
        f"PSNR in dB, mean over {len(scenes)} scenes ({', '.join(scenes)}) and {len(seeds)} noise draws; "
        "SSIM with an 11x11 Gaussian window and data range 1; seconds are those of the solver. "
        "In brackets: the paper's figure.",
        "",
    ]
    if table.notes:
        lines += [table.notes, ""]
    db, ssim, seconds = means(records), means(records, "ssim"), means(records, "seconds")
    for model in table.models:
        lines += _model_table(table, records, model, db, ssim, seconds)
    lines += headlines(table, db)
    skipped = [r for r in records if "skipped" in r]
    if skipped:
        lines += ["", "## Not run", ""]
        reasons = sorted({f"{label(r)} with {r['model']}: {r['skipped']}" for r in skipped})
        lines += [f"- {reason}" for reason in reasons]
    return "\n".join(lines) + "\n"


def _model_table(
    table: Table,
    records: Records,
    model: str,
    db: Mapping[Cell, float],
    ssim: Mapping[Cell, float],
    seconds: Mapping[Cell, float],
) -> list[str]:
    lines = [
        f"## {model}",
        "",
        "| weights | "
        + " | ".join(f"case {n}" for n in table.noise)
        + " | mean | SSIM | seconds |",
        "|---|" + "---:|" * (len(table.noise) + 3),
    ]
    noisy = [db.get(("noisy", "noisy", n), float("nan")) for n in table.noise]
    lines.append(
        "| noisy | "
        + " | ".join(f"{v:.2f}" for v in noisy)
        + f" | {statistics.fmean(noisy):.2f} | | |"
    )
    rows = row_labels(table, records)
    best = {n: max((db.get((r, model, n), 0.0) for r in rows), default=0.0) for n in table.noise}
    for row in rows:
        cells = []
        for n in table.noise:
            value = db.get((row, model, n))
            text = "-" if value is None else f"{value:.2f}"
            text = f"**{text}**" if value is not None and value == best[n] else text
            paper = table.paper.get((row, model, n))
            cells.append(text if paper is None else f"{text} ({paper:.2f})")
        tail = [
            f"{overall(db, row, [model], table.noise):.2f}",
            f"{overall(ssim, row, [model], table.noise):.3f}",
            f"{overall(seconds, row, [model], table.noise):.2f}",
        ]
        lines.append(f"| {row} | " + " | ".join([*cells, *tail]) + " |")
    return [*lines, ""]


def headlines(table: Table, db: Mapping[Cell, float]) -> list[str]:
    """The comparisons a reader looks for first."""
    rows = {cell[0] for cell in db}
    lines = ["## Headlines", ""]
    pairs = [n for n in NETWORKS if n in rows and REFERENCE + n in rows]
    gaps = []
    for n in pairs:
        ours = overall(db, n, own_targets(n), table.noise)
        theirs = overall(db, REFERENCE + n, own_targets(n), table.noise)
        gaps.append(ours - theirs)
        lines.append(
            f"- {n} on its own targets: {ours:.2f} dB, the authors' checkpoint {theirs:.2f} dB "
            f"({ours - theirs:+.2f})"
        )
    if gaps:
        lines.append(f"- mean over the {len(gaps)} networks: {statistics.fmean(gaps):+.2f} dB")
    main = next((n for n in ("N+T+TS", "colour-T") if n in rows), None)
    if main is not None:
        everything = overall(db, main, table.models, table.noise)
        for other, noise in (("uniform", table.noise), ("oracle, best strength", (1, 5))):
            if other in rows:
                gain = overall(db, main, table.models, noise) - overall(
                    db, other, table.models, noise
                )
                lines.append(
                    f"- {main} over {other}, cases {', '.join(map(str, noise))}: {gain:+.2f} dB"
                )
        lines.append(f"- {main}, mean over targets and cases: {everything:.2f} dB")
    for model in table.models:
        present = [n for n in NETWORKS if n in rows]
        if present:
            best = max(present, key=lambda n: overall(db, n, [model], table.noise))
            lines.append(f"- best network for {model}: {best}")
    return lines


def to_csv(records: Records) -> str:
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


def to_html(text: str, title: str, pictures: Mapping[str, str]) -> str:
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
        if "**" in text:
            text = text.replace("**", "<b>", 1).replace("**", "</b>", 1)
        cells.append(f"<{tag}>{text}</{tag}>")
    return ("<table>" if head else "") + f"<tr>{''.join(cells)}</tr>"


def write(table: Table, records: Records, folder: Path, pictures: Mapping[str, str]) -> list[Path]:
    """Write <table>.md, .csv and .html into a folder."""
    text = markdown(table, records)
    contents = {
        "md": text,
        "csv": to_csv(records),
        "html": to_html(text, table.title, pictures),
    }
    paths = []
    for ending, content in contents.items():
        path = folder / f"{table.name}.{ending}"
        with atomic(path, overwrite=True) as tmp:
            tmp.write_text(content, encoding="utf-8")
        paths.append(path)
    return paths
