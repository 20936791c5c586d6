"""What the paper prints, as data (``paper.csv``), and our figures beside it with the difference.

A line of the file is one row of a table of the paper: its label, the data set, model and weights by
our names, the figure, and its values by noise case or in the mean. SSIM is ``ssim_paper``, the window
that the paper's figures most likely have.
"""

from __future__ import annotations

import csv
import functools
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..testbed import DATASETS, find_noise
from .tables import NETWORKS, PRESET, SOURCE_MODELS, Table, write_rows

FILE = Path(__file__).with_name("paper.csv")
MEAN = "mean"
"""The column of values that are no single noise case."""

BESIDE = {"psnr": ("PSNR in dB", 2), "ssim_paper": ("SSIM, 7x7 window, data range 2", 4)}
"""The figures that are set beside the paper's: title and decimals."""

Cell = tuple[str, str, str]
"""Row label, model, noise."""


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper; ``values`` by noise, or under "mean"."""

    table: str
    data: str
    model: str
    weights: str
    figure: str
    values: Mapping[str, float]


@functools.cache
def read_paper() -> tuple[PaperRow, ...]:
    """Every row of every table of the paper.

    >>> {row.table for row in read_paper()} >= {"tab-three-all", "tab-time", "tab-S2DIP"}
    True
    """
    with FILE.open(encoding="utf-8", newline="") as file:
        titles, *lines = csv.reader(file)
    noises = titles[5:]
    found = []
    for line in lines:
        table, data, model, weights, figure, *rest = line
        values = {noise: float(text) for noise, text in zip(noises, rest, strict=True) if text}
        found.append(PaperRow(table, data, model, weights, figure, values))
    return tuple(found)


def find_printed(label: str, data: str, figure: str = "psnr") -> dict[Cell, float]:
    """The values of the tables whose label begins like this, for a data set; their mean where they lack it.

    >>> find_printed("tab-three", "cave")["N", "nn", "case1"]
    31.53
    """
    found = {}
    for row in read_paper():
        if row.table.startswith(label) and (row.data, row.figure) == (data, figure):
            name = "noisy" if row.model == "noisy" else row.weights
            mean = {MEAN: statistics.fmean(row.values.values())}
            for noise, value in (mean | dict(row.values)).items():
                found[name, row.model, noise] = value
    return found


def write_pair(ours: float, theirs: float, decimals: int = 2) -> str:
    """Our figure, the paper's, and the difference.

    >>> write_pair(31.654, 31.53)
    '31.65 / 31.53 (+0.12)'
    """
    return f"{ours:.{decimals}f} / {theirs:.{decimals}f} ({ours - theirs:+.{decimals}f})"


def write_beside(
    table: Table, ours: Mapping[str, Mapping[Cell, float]], same_data: bool
) -> list[str]:
    """Our rows beside those of the paper for the table's data set, ours / paper (difference).

    Args:
        ours: figures by name ("psnr", "ssim_paper") and by row, model and noise.
        same_data: our scenes are the paper's data set; otherwise a sentence says that they are not.
    """
    lines: list[str] = []
    for figure, (title, decimals) in BESIDE.items():
        printed = find_printed(table.label, table.data, figure) if table.label else {}
        known = ours.get(figure, {})
        cells = [("noisy", "noisy", "noisy")]
        for row, model in table.cells(table.rows):
            name = table.name_of(row)
            cells.append((f"{model}, {name}" if table.models else name, row.label, model))
        rows = []
        for name, label, model in cells:
            theirs = model.removesuffix(PRESET)
            pairs = [
                (known.get((label, model, n)), printed.get((label, theirs, n))) for n in table.noise
            ]
            both = [(a, b) for a, b in pairs if a is not None and b is not None]
            if both and len(both) == len(pairs):
                means = [statistics.fmean(v) for v in zip(*both, strict=True)]
                shown = [write_pair(a, b, decimals) for a, b in (*both, means)]
                rows.append([name, *shown])
        if rows:
            titles = ["method", *[find_noise(n).title for n in table.noise], MEAN]
            lines += [f"### {title}: ours / paper (difference)", "", *write_rows(titles, rows), ""]
            if set(table.models) == set(SOURCE_MODELS.values()):
                lines += _write_square(known, printed, table.noise, decimals)
    if not lines:
        return []
    where = DATASETS[table.data].printed
    what = (
        f"The same data set as the paper's, {where}; which scenes and noise draws it took is not known."
        if same_data
        else f"The paper's figures are for {where}, ours for the scenes named above: the data differ, "
        "and a difference is not one of methods."
    )
    return ["## Beside the paper", "", what, "", *lines]


def list_target_groups() -> list[tuple[str, ...]]:
    """The seven groups of target models: each alone, in pairs, and all.

    >>> len(list_target_groups())
    7
    """
    models = tuple(SOURCE_MODELS.values())
    return [g for size in (1, 2, 3) for g in itertools.combinations(models, size)]


def measure_square(
    figures: Mapping[Cell, float], noise: Sequence[str]
) -> dict[tuple[str, tuple[str, ...]], float]:
    """Means of (network, group of targets) over the noises, where all of them are known."""
    square = {}
    for network, group in itertools.product(NETWORKS, list_target_groups()):
        found = [figures.get((network, model, n)) for model in group for n in noise]
        known = [v for v in found if v is not None]
        if len(known) == len(found):
            square[network, group] = statistics.fmean(known)
    return square


def _write_square(
    ours: Mapping[Cell, float], printed: Mapping[Cell, float], noise: Sequence[str], decimals: int
) -> list[str]:
    """Source networks against groups of targets (tab-three-com), where both know all of them."""
    mine, theirs = (measure_square(values, noise) for values in (ours, printed))
    groups = list_target_groups()
    if len(mine.keys() & theirs.keys()) < len(NETWORKS) * len(groups):
        return []
    titles = ["source", *["+".join(g) for g in groups]]
    rows = [
        [n, *[write_pair(mine[n, g], theirs[n, g], decimals) for g in groups]] for n in NETWORKS
    ]
    return [
        "Means over the cases, source networks against target models (tab-three-com):",
        "",
        *write_rows(titles, rows),
        "",
    ]


def find_paper_value(
    table: str, model: str, weights: str = "", noise: str = MEAN, figure: str = ""
) -> float | None:
    """One value of a table, of its only figure or of one of them; None where the paper has none.

    >>> find_paper_value("tab-time", "lrtv", "original"), find_paper_value("tab-time", "ctv")
    (81.31, None)
    """
    for row in read_paper():
        named = (row.table, row.model, row.weights) == (table, model, weights)
        if named and figure in ("", row.figure):
            return row.values.get(noise)
    return None
