"""Pictures of a table: one scene, clean, noisy and restored by some rows; and drawing in general."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import DlwError, MissingDependency
from ..pipeline import pictures as picture
from ..testbed import psnr
from .experiment import NO_FILES, Files, Scene
from .runner import Restorer, make_noisy
from .tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Layout = Literal["constrained", "tight"]
F32 = NDArray[np.float32]
Panel = tuple[str, NDArray[np.generic]]
"""A caption and an RGB image."""

WIDEST = 6
"""Panels in a line of a table whose rows name their models."""


def new_figure(
    width: float, height: float, dpi: int = 110, layout: Layout | None = "constrained"
) -> Figure:
    """An empty figure, without pyplot: no window system, and no global state left behind."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency(
            "pictures need matplotlib, which is not installed: pip install 'hyperdlw[bench]'"
        ) from None
    return Figure(figsize=(width, height), dpi=dpi, layout=layout, facecolor="white")


def draw_png(figure: Figure) -> bytes:
    """A figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


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
        panel(f"noisy, {psnr(scene.data, noisy.y):.1f} dB", noisy.y),
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
        line.append(panel(f"{name}: {psnr(scene.data, x):.1f} dB", x))
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
