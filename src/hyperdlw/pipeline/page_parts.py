"""Pieces of a page in HTML; every text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .pictures import data_url
from .svg import Chart, draw_chart


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


def make_plot(chart: Chart, title: str, caption: str = "") -> str:
    """A chart with its title."""
    told = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{html.escape(title)}</h3>{draw_chart(chart)}{told}</figure>"


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
