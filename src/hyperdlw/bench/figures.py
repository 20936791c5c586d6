"""Pictures of a table: the first scene, clean, noisy and restored by some rows of the table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DlwError, MissingDependency
from ..pipeline import pictures as picture
from ..testbed import psnr
from .cases import Case, Files, Scene
from .runner import NOTHING, Restorer, make_noisy
from .tables import Table

Panel = tuple[str, NDArray[Any]]
"""A caption and an RGB image."""


WIDEST = 6
"""Panels in a line of a table whose rows name their models."""


def figures(table: Table, scene: Scene, seed: int = 0, files: Files = NOTHING) -> dict[str, bytes]:
    """One PNG per noise case, by file name: a line of panels for every model."""
    return {
        f"{table.name}-case{n}.png": sheet(panels(table, scene, n, seed, files))
        for n in table.noise
    }


def panels(
    table: Table, scene: Scene, number: int, seed: int = 0, files: Files = NOTHING
) -> list[list[Panel]]:
    """Lines of panels: clean, noisy, then every row of ``table.panel``; one line per model."""
    noisy = make_noisy(scene, number, seed)
    shown = picture.colour_bands(scene.data)
    limits = picture.stretch(scene.data, shown)

    def panel(caption: str, data: NDArray[Any]) -> Panel:
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
            x, _ = restore(Case(scene.name, "", number, seed, model, row.weights))
        except DlwError:
            continue  # the report says what cannot be run, and why
        name = f"{model}, {table.name_of(row)}" if table.models else table.name_of(row)
        line.append(panel(f"{name}: {psnr(scene.data, x.numpy()):.1f} dB", x.numpy()))
    if table.models:
        return list(lines.values())
    return [line[i : i + WIDEST] for line in lines.values() for i in range(0, len(line), WIDEST)]


def sheet(lines: Sequence[Sequence[Panel]]) -> bytes:
    """Lines of captioned pictures as one PNG of 256 colours, a quarter of the size of one of all."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError as error:
        raise MissingDependency(
            "the pictures of a table need matplotlib, which is not installed: pip install 'hyperdlw[bench]'"
        ) from error
    with matplotlib.rc_context({"font.size": 8}):
        columns = max(map(len, lines))
        figure = Figure(figsize=(1.9 * columns, 2.1 * len(lines)), dpi=110, layout="constrained")
        axes = figure.subplots(len(lines), columns, squeeze=False)
        for line, row in zip(lines, axes, strict=True):
            for ax in row:
                ax.axis("off")
            for (caption, image), ax in zip(line, row, strict=False):
                ax.imshow(image, interpolation="nearest")
                ax.set_title(caption, pad=3)
        drawn, out = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(out, format="png", optimize=True)
    return out.getvalue()
