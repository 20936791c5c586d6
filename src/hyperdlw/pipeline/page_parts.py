"""Pieces of a page that holds everything itself: line charts as SVG, sections, pictures, tables.

Every text is escaped here; colours come from the style of the page (``audit_page.css``).
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .pictures import data_url

F64 = NDArray[np.float64]

STYLE = Path(__file__).with_name("audit_page.css").read_text(encoding="utf-8")
WIDTH, HEIGHT = 520, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 12, 38
"""Room around the axes."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line: its values (NaN: a gap), its name for the legend or "", and the class that colours it."""

    y: F64
    name: str
    style: str


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart of several lines over one axis.

    Attributes:
        marks: positions on the axis that get a mark at the bottom, such as flagged bands.
        bottom, top: limits of the values; None: those of the lines.
    """

    x: F64
    lines: Sequence[Line]
    x_name: str
    y_name: str
    log: bool = False
    marks: Sequence[float] = ()
    bottom: float | None = None
    top: float | None = None
    width: int = WIDTH
    height: int = HEIGHT


def draw_chart(chart: Chart) -> str:
    """The chart as an SVG element.

    >>> draw_chart(Chart(np.arange(3.0), [Line(np.ones(3), "a<b", "c0")], "band", "y"))[:30]
    '<svg viewBox="0 0 520 230" cla'
    """
    low, high = _find_limits(chart)
    right, under = chart.width - RIGHT, chart.height - BOTTOM
    x0, x1 = float(chart.x.min()), float(chart.x.max())
    wide = (x1 - x0) or 1.0

    def across(v: float) -> float:
        return LEFT + (right - LEFT) * (v - x0) / wide

    def up(v: float) -> float:
        v = math.log10(max(v, 1e-300)) if chart.log else v
        return under - (under - TOP) * (v - low) / (high - low)

    parts = [f'<svg viewBox="0 0 {chart.width} {chart.height}" class="chart" role="img">']
    for v in list_ticks(low, high, log=chart.log):
        y = up(v)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 3.5:.1f}">{v:g}</text>')
    for v in list_ticks(x0, x1, most=7):
        parts.append(
            f'<text class="tick mid" x="{across(v):.1f}" y="{under + 15}">{v:g}</text>'
            f'<line class="axis" x1="{across(v):.1f}" x2="{across(v):.1f}" y1="{under}" y2="{under + 4}"/>'
        )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{under}" y2="{under}"/>')
    for line in chart.lines:
        path, pen = [], "M"
        for x, y in zip(chart.x, line.y, strict=True):
            if not math.isfinite(y) or (chart.log and y <= 0):
                pen = "M"
                continue
            height = min(max(up(float(y)), TOP), under)
            path.append(f"{pen}{across(float(x)):.1f} {height:.1f}")
            pen = "L"
        parts.append(f'<path class="line {line.style}" d="{" ".join(path)}"/>')
    for v in chart.marks:
        a, b = across(v), under
        parts.append(f'<path class="mark" d="M{a:.1f} {b - 1} l-4 -8 h8 z"/>')
    middle = (LEFT + right) / 2
    parts.append(
        f'<text class="name mid" x="{middle:.0f}" y="{chart.height - 6}">{html.escape(chart.x_name)}</text>'
    )
    turn = f"rotate(-90 12 {(TOP + under) / 2:.0f})"
    parts.append(
        f'<text class="name mid" x="12" y="{(TOP + under) / 2:.0f}" transform="{turn}">'
        f"{html.escape(chart.y_name)}</text></svg>"
    )
    return "".join(parts) + _draw_legend(chart.lines)


def _draw_legend(lines: Sequence[Line]) -> str:
    named = [line for line in lines if line.name]
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 18 8"><path class="line {k.style}" d="M0 4 H18"/></svg>'
        f"{html.escape(k.name)}</span>"
        for k in named
    )
    return f'<div class="legend">{keys}</div>' if named else ""


def _find_limits(chart: Chart) -> tuple[float, float]:
    """Lower and upper end of the axis of values; of their logarithms on a logarithmic one."""
    values = np.concatenate([np.asarray(line.y, float) for line in chart.lines])
    values = values[np.isfinite(values) & ((values > 0) if chart.log else True)]
    if not values.size:
        values = np.array([1.0])
    low = float(values.min()) if chart.bottom is None else chart.bottom
    high = float(values.max()) if chart.top is None else chart.top
    if chart.log:
        low, high = math.log10(low), math.log10(high)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    room = 0.05 * (high - low)
    return low - room * (chart.bottom is None), high + room * (chart.top is None)


def list_ticks(low: float, high: float, *, log: bool = False, most: int = 5) -> list[float]:
    """Round numbers between two ends; on a logarithmic axis the ends are logarithms.

    >>> list_ticks(0.0, 1.0), list_ticks(-2.2, 0.1, log=True)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.01, 0.1, 1.0])
    """
    if log:
        powers = range(math.ceil(low), math.floor(high) + 1)
        found = [10.0**k for k in powers]
        if len(found) < 3:
            found = [
                m * 10.0**k
                for k in range(math.floor(low), math.ceil(high) + 1)
                for m in (1, 2, 5)
                if low <= math.log10(m * 10.0**k) <= high
            ]
        return found[:: max(1, len(found) // most)]
    rough = (high - low) / max(1, most - 1)
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(m * base for m in (1, 2, 2.5, 5, 10) if m * base >= 0.999 * rough)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def make_section(title: str, *parts: str) -> str:
    """A section; its parts are HTML."""
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def make_note(text: str) -> str:
    """A paragraph."""
    return f'<p class="soft">{html.escape(text)}</p>'


def make_figure(picture: NDArray[np.uint8], caption: str) -> str:
    """A picture (row, col, 3) with what it shows."""
    text = html.escape(caption)
    return f'<figure><img src="{data_url(picture)}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def make_plot(chart: Chart, title: str) -> str:
    """A chart with its title."""
    return f"<figure><h3>{html.escape(title)}</h3>{draw_chart(chart)}</figure>"


def make_table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """A table; the last so many columns hold numbers."""
    first = len(head) - numbers

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if k >= first else ''}>{html.escape(v)}</{tag}>"
            for k, v in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    kind = "wide many" if numbers > 1 else "wide"
    top = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return f"<div class='{kind}'><table>{top}<tbody>{body}</tbody></table></div>"
