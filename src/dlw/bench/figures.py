"""Pictures of a table: the first scene, clean, noisy and restored by some rows of the table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import picture
from ..denoising import denoise
from ..errors import DlwError, MissingDependency
from ..metrics import psnr
from .cases import Scene
from .runner import make_noisy
from .tables import Table

Panel = tuple[str, NDArray[Any]]
"""A caption and an RGB image."""


def figures(table: Table, scene: Scene, seed: int = 0) -> dict[str, bytes]:
    """One PNG per noise case, by file name: a line of panels for every model."""
    return {f"{table.name}-case{n}.png": sheet(panels(table, scene, n, seed)) for n in table.noise}


def panels(table: Table, scene: Scene, number: int, seed: int = 0) -> list[list[Panel]]:
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
    lines: dict[str, list[Panel]] = {}
    for row, model in table.cells(table.panel):
        line = lines.setdefault(model if table.models else "", list(first))
        try:
            result = denoise(
                noisy.y, model=model, weights=row.weights, range=(0.0, 1.0), truth=noisy.truth
            )
        except DlwError:
            continue  # the report says what cannot be run, and why
        value = psnr(scene.data, result.cube.data)
        line.append(panel(f"{model}, {row.label}: {value:.1f} dB", result.cube.data))
    return list(lines.values())


def sheet(lines: Sequence[Sequence[Panel]]) -> bytes:
    """Lines of captioned pictures as one PNG of 256 colours, a quarter of the size of one of all."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError as error:
        raise MissingDependency(
            "the pictures of a table need matplotlib, which is not installed: pip install 'dlw[bench]'"
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
