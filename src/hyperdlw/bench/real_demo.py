"""A real cube before and after: Indian Pines (AVIRIS), which comes inside the tensorly package."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from ..cube import Cube
from ..io import save_cube
from ..pipeline import (
    colour_bands,
    denoise,
    draw_png,
    measure_noise,
    new_figure,
    pseudo_colour,
    stretch,
)
from ..testbed import indian_pines
from .demo import make_folder, print_next
from .experiment import write_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..pipeline import Result

F64 = NDArray[np.float64]

SHOWN = 3
"""Bands and pixels on the page."""
COLOURS = ("#d1495b", "#2e86ab", "#4c9f70")


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """A cube, what became of it, and the noise of every band before and after."""

    before: Cube
    after: Cube

    @cached_property
    def noise(self) -> tuple[F64, F64]:
        return measure_noise(self.before), measure_noise(self.after)

    @property
    def worst(self) -> list[int]:
        """The noisiest bands, in order of their number."""
        return sorted(np.argsort(-np.nan_to_num(self.noise[0]))[:SHOWN].tolist())

    def name_band(self, band: int) -> str:
        nm = self.before.wavelengths
        return f"band {band}" if nm is None else f"{nm[band]:.0f} nm"

    def draw_page(self) -> Figure:
        """Noisiest bands and colours before, after and their difference; noise and spectra."""
        figure = new_figure(12, 13.2, dpi=100)
        parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(3, 1.15))
        top, bottom = parts[:, 0]
        axes = top.subplots(3, SHOWN + 1)
        for column, band in zip(axes.T, self.worst, strict=False):
            self._draw_band(column, band)
        bands = colour_bands(self.after)
        limits = stretch(self.after, bands)
        for ax, cube, name in zip(
            axes[:2, -1], (self.before, self.after), ("before", "after"), strict=True
        ):
            ax.imshow(pseudo_colour(cube, bands, limits), interpolation="nearest")
            ax.set_title(f"colours, {name}", fontsize=10)
        change = np.abs(self.before.data - self.after.data).mean(axis=0)
        axes[2, -1].imshow(change, cmap="viridis", vmax=np.quantile(change, 0.99))
        axes[2, -1].set_title("mean change (bright: most)", fontsize=10)
        for ax in axes.flat:
            ax.set_xticks([])
            ax.set_yticks([])
        left, right = bottom.subplots(1, 2)
        self._draw_noise(left)
        self._draw_spectra(right, axes[1, -1])
        return figure

    def _draw_band(self, axes: Sequence[Axes], band: int) -> None:
        before, after = self.before.data[band], self.after.data[band]
        low, high = np.quantile(after, [0.01, 0.99])
        wide = (high - low) / 2
        for ax, plane, what in zip(axes[:2], (before, after), ("before", "after"), strict=True):
            ax.imshow(plane, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
            ax.set_title(f"{self.name_band(band)}, {what}", fontsize=10)
        axes[2].imshow(before - after, cmap="gray", vmin=-wide, vmax=wide, interpolation="nearest")
        axes[2].set_title("what was taken away", fontsize=10)

    def _x(self) -> F64:
        nm = self.before.wavelengths
        return np.arange(self.before.bands, dtype=float) if nm is None else nm

    def _draw_noise(self, ax: Axes) -> None:
        for level, name, colour in zip(
            self.noise, ("before", "after"), ("0.6", "#d1495b"), strict=True
        ):
            ax.plot(self._x(), level, label=name, color=colour)
        ax.set_yscale("log")
        ax.set_title("noise of every band, of its signal range", fontsize=10)
        ax.legend(frameon=False)
        self._name_axis(ax)

    def _draw_spectra(self, ax: Axes, picture: Axes) -> None:
        _, rows, cols = self.before.shape
        for part, colour in zip((0.25, 0.5, 0.75), COLOURS, strict=True):
            r, c = int(part * (rows - 1)), int(part * (cols - 1))
            picture.plot(c, r, "o", color=colour, markeredgecolor="white", markersize=7)
            ax.plot(self._x(), self.before.data[:, r, c], color=colour, lw=0.7, alpha=0.45)
            ax.plot(self._x(), self.after.data[:, r, c], color=colour, lw=1.3)
        ax.set_title("three pixels (thin: before)", fontsize=10)
        self._name_axis(ax)

    def _name_axis(self, ax: Axes) -> None:
        ax.set_xlabel("band" if self.before.wavelengths is None else "wavelength in nm")
        ax.spines[["top", "right"]].set_visible(False)


def tell(seen: BeforeAfter, result: Result) -> list[str]:
    """What was changed, and whether it was noise, in sentences."""
    middle = [100 * float(np.nanmedian(level)) for level in seen.noise]
    worst = ", ".join(
        f"{seen.name_band(b)} {100 * seen.noise[0][b]:.0f} % to {100 * seen.noise[1][b]:.1f} %"
        for b in seen.worst
    )
    return [
        f"restored with {result.report.title}, weights {result.report.weights}",
        f"noise of its signal range, median band: {middle[0]:.1f} % before, {middle[1]:.1f} % after",
        f"the noisiest bands: {worst}",
        f"was it noise? {result.audit.describe(seen.before.wavelengths)}",
    ]


def run_real(folder: Path, console: Console) -> Path:
    """Restore Indian Pines; write it before and after (ENVI) and ``real.png`` into ``folder``."""
    cube, _ = indian_pines()
    make_folder(folder)
    size = " x ".join(map(str, cube.shape))
    console.print(f"Indian Pines, AVIRIS: {size} (band, row, col); half a minute", markup=False)
    begin = time.monotonic()
    result = denoise(cube)
    seen = BeforeAfter(cube, result.cube)
    for line in tell(seen, result):
        console.print(line, markup=False)
    paths = [folder / "pines.hdr", folder / "pines-clean.hdr"]
    for path, shown in zip(paths, (cube, result.cube), strict=True):
        save_cube(shown, path, overwrite=True)
    paths += write_files(folder, {"real.png": draw_png(seen.draw_page())})
    seconds = time.monotonic() - begin
    console.print(f"written: {', '.join(map(str, paths))} ({seconds:.0f} s)", markup=False)
    print_next(console)
    return paths[-1]
