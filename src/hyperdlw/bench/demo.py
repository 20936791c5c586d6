"""A made-up scene, every model with every weight source: one table and one page."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..cube import Cube
from ..errors import BadFile
from ..io import save_cube
from ..networks import files as store
from ..pipeline import (
    HEAT,
    colour_bands,
    denoise,
    draw_png,
    heat,
    new_figure,
    predict_weights,
    pseudo_colour,
    stretch,
)
from ..testbed import find_noise, metrics, noise, scenes
from ..weights import resolve
from .experiment import F32, write_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

MODELS = ("nn", "tv", "tvs", "lrtfdfr")
FORMULAS = ("uniform", "precision", "robust", "mixture", "oracle")
NETWORKS = ("N", "T", "TS", "N+T+TS")
CASE = 5
SEED = 7
SIZE = (128, 128, 31)
"""Rows, columns and bands of the scene."""
HEAT_LIMITS = (0.03, 10.0)


@dataclass(frozen=True, eq=False)
class DemoRun:
    """One restored scene with the weights it was made with."""

    weights: str
    model: str
    restored: F32
    w: F32
    psnr: float
    ssim: float

    @property
    def name(self) -> str:
        return f"{self.weights} weights, {self.model}"


@dataclass(frozen=True, eq=False)
class Demo:
    """Scene, noise and every run."""

    clean: Cube
    noisy: noise.Noisy
    runs: tuple[DemoRun, ...]

    @property
    def best(self) -> DemoRun:
        """The best run that a user could have made: the oracle knows the noise."""
        return max((r for r in self.runs if r.weights != "oracle"), key=lambda r: r.psnr)


def make_scene(rows: int, cols: int, bands: int) -> tuple[Cube, noise.Noisy]:
    """The clean scene and its noise."""
    clean = scenes.synthetic(bands, rows, cols, rng=np.random.default_rng(SEED))
    return clean, noise.case(CASE, clean.data, np.random.default_rng(SEED))


def run_models(rows: int = SIZE[0], cols: int = SIZE[1], bands: int = SIZE[2]) -> Demo:
    """Make the scene, its noise, and restore it with every model and weight source."""
    clean, noisy = make_scene(rows, cols, bands)
    cube = clean.with_data(noisy.y)
    runs = []
    for name in (*FORMULAS, *(n for n in NETWORKS if n in store.list_networks())):
        source = resolve(name, noisy.truth)
        # Weights that do not look at the restored image are the same for every model.
        fixed = (
            predict_weights(cube, source, range=(0, 1), columns=False)
            if source.rounds == 1
            else None
        )
        for model in MODELS:
            spec = source if fixed is None else fixed
            result = denoise(cube, model=model, weights=spec, range=(0, 1), paper=True)
            x = result.cube.data
            psnr, ssim = metrics.psnr(clean.data, x), metrics.ssim(clean.data, x)
            runs.append(DemoRun(name, model, x, result.weights, psnr, ssim))
    return Demo(clean, noisy, tuple(runs))


def make_table(demo: Demo) -> Table:
    """PSNR and SSIM, a row for each weight source; the best of each column is bold."""
    title = f"PSNR in dB and SSIM, noise case {CASE} ({find_noise(CASE).about})"
    shown = Table("weights", title=title, title_justify="left", title_style="bold")
    for model in MODELS:
        shown.add_column(model, justify="right")
    psnr = metrics.psnr(demo.clean.data, demo.noisy.y, clip=False)
    ssim = metrics.ssim(demo.clean.data, demo.noisy.y, clip=False)
    shown.add_row("none (noisy)", *[f"{psnr:.2f}  {ssim:.3f}"] * len(MODELS), end_section=True)
    fair = [r for r in demo.runs if r.weights != "oracle"]
    best = {m: max(r.psnr for r in fair if r.model == m) for m in MODELS}
    for name in dict.fromkeys(r.weights for r in demo.runs):
        cells = []
        for run in (r for r in demo.runs if r.weights == name):
            text = f"{run.psnr:.2f}  {run.ssim:.3f}"
            top = name != "oracle" and run.psnr == best[run.model]
            cells.append(f"[bold]{text}[/bold]" if top else text)
        shown.add_row(f"{name} (knows the noise)" if name == "oracle" else name, *cells)
    return shown


def draw_page(demo: Demo) -> Figure:
    """The page as a matplotlib figure: three pictures, one band with its weights, two spectra."""
    figure = new_figure(12, 11.4, dpi=100, layout=None)
    title = f"Noise case {CASE} ({find_noise(CASE).about}), restored with {demo.best.name}"
    figure.suptitle(title, fontsize=14, fontweight="bold", y=0.975)
    rows = figure.add_gridspec(
        3, 1, left=0.07, right=0.925, top=0.925, bottom=0.085, hspace=0.17, height_ratios=(5, 5, 3)
    )
    spots = choose_pixels(demo.clean.data)
    _pictures(_split_row(figure, rows[0], 3, 0.06), demo, spots)
    _planes(_split_row(figure, rows[1], 3, 0.06), demo)
    last = _split_row(figure, rows[2], 2, 0.08)
    _spectra(last, demo, spots)
    lines, names = last[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="lower center", ncols=3, frameon=False, fontsize=10)
    return figure


def _split_row(figure: Figure, row: SubplotSpec, columns: int, space: float) -> list[Axes]:
    grid = row.subgridspec(1, columns, wspace=space)
    return [figure.add_subplot(grid[0, i]) for i in range(columns)]


Spots = tuple[tuple[int, int], tuple[int, int]]


def _pictures(axes: list[Axes], demo: Demo, spots: Spots) -> None:
    bands = colour_bands(demo.clean)
    limits = stretch(demo.clean, bands)
    noisy = metrics.psnr(demo.clean.data, demo.noisy.y, clip=False)
    shown = (
        (f"noisy, {noisy:.2f} dB", demo.noisy.y),
        (f"restored, {demo.best.psnr:.2f} dB", demo.best.restored),
        ("clean", demo.clean.data),
    )
    for ax, (title, data) in zip(axes, shown, strict=True):
        ax.imshow(pseudo_colour(data, bands, limits), interpolation="nearest")
        _bare(ax, title)
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=3, foreground="black")]
    for letter, (row, col) in zip("AB", spots, strict=True):
        axes[2].plot(col, row, "o", ms=9, mfc="none", mec="white", mew=1.6, path_effects=edge)
        # The letter goes to the side that has room.
        side, ha = (-9, "right") if col > demo.clean.shape[2] * 0.85 else (9, "left")
        axes[2].annotate(
            letter,
            (col, row),
            xytext=(side, 0),
            textcoords="offset points",
            color="white",
            fontsize=12,
            fontweight="bold",
            ha=ha,
            va="center",
            path_effects=edge,
        )
    centres = ", ".join(f"{_nm(demo)[b]:.0f}" for b in bands)
    axes[0].set_xlabel(f"red, green, blue: {centres} nm", fontsize=9)


def _planes(axes: list[Axes], demo: Demo) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    band = choose_band(demo.noisy.truth)
    lo, hi = np.quantile(demo.clean.data[band], [0.001, 0.999])
    one = slice(band, band + 1)
    shown = {"noisy": demo.noisy.y, "restored": demo.best.restored}
    for ax, (name, data) in zip(axes, shown.items(), strict=False):
        ax.imshow(data[band], cmap="gray", vmin=lo, vmax=hi, interpolation="nearest")
        score = metrics.psnr(demo.clean.data[one], data[one], clip=name != "noisy")
        _bare(ax, f"{name}, band at {_nm(demo)[band]:.0f} nm, {score:.2f} dB")
    axes[2].imshow(heat(demo.best.w[band], HEAT_LIMITS), interpolation="nearest")
    _bare(axes[2], f"weights, band at {_nm(demo)[band]:.0f} nm")
    colours = LinearSegmentedColormap.from_list("heat", list(HEAT / 255))
    bar = axes[2].figure.colorbar(
        ScalarMappable(LogNorm(*HEAT_LIMITS), colours),
        cax=axes[2].inset_axes((1.03, 0.0, 0.045, 1.0)),
    )
    bar.set_ticks([0.1, 1, 10], labels=["0.1", "1", "10"])
    bar.set_label("weight (mean 1)", fontsize=9)
    bar.ax.tick_params(labelsize=9)


def _spectra(axes: list[Axes], demo: Demo, spots: Spots) -> None:
    nm = _nm(demo)
    for ax, letter, (row, col) in zip(axes, "AB", spots, strict=True):
        ax.plot(nm, demo.noisy.y[:, row, col], color="0.7", lw=1, marker=".", ms=5, label="noisy")
        ax.plot(nm, demo.clean.data[:, row, col], color="black", lw=1.8, label="clean")
        ax.plot(nm, demo.best.restored[:, row, col], color="#d1495b", lw=1.8, label="restored")
        ax.set_title(f"pixel {letter} (row {row}, column {col})", fontsize=11)
        ax.set_xlabel("wavelength in nm", fontsize=10)
        ax.set_xlim(nm[0], nm[-1])
        ax.tick_params(labelsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].sharey(axes[0])
    axes[1].tick_params(labelleft=False)
    axes[0].autoscale(axis="y")
    axes[0].set_ylabel("value (0 to 1)", fontsize=10)


def choose_band(truth: noise.Truth) -> int:
    """A band with impulses, and with as many dead or striped columns as there are."""
    hit = truth.impulse.any(axis=(1, 2))
    dead = truth.dead.any(axis=1).mean(axis=1)
    striped = (np.abs(truth.stripe) > 0.1).any(axis=1).mean(axis=1)
    return int(np.argmax(hit * (dead + striped + 1e-3)))


def choose_pixels(clean: F32) -> Spots:
    """Two pixels inside even areas: the one with the liveliest spectrum, and one unlike it."""
    bands, rows, cols = clean.shape
    rough = np.zeros((rows, cols))
    for axis, step in itertools.product((1, 2), (-2, -1, 1, 2)):
        rough += np.abs(clean - np.roll(clean, step, axis)).max(axis=0)
    calm = (rough <= np.quantile(rough, 0.5)).ravel()
    spectra = clean.reshape(bands, -1)
    centred = spectra - spectra.mean(axis=0)
    spread = np.linalg.norm(centred, axis=0)
    first = int(np.where(calm, spread, -1).argmax())
    unlike = -(centred.T @ centred[:, first])
    second = int(np.where(calm, unlike, -np.inf).argmax())
    return (first // cols, first % cols), (second // cols, second % cols)


def _nm(demo: Demo) -> NDArray[np.float64]:
    assert demo.clean.wavelengths is not None
    return demo.clean.wavelengths


def _bare(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=11)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)


def write_scene(folder: Path, console: Console) -> list[Path]:
    """Write ``noisy.hdr`` and ``clean.hdr`` (ENVI) into ``folder``: something to try things on."""
    make_folder(folder)
    clean, noisy = make_scene(*SIZE)
    paths = [folder / "noisy.hdr", folder / "clean.hdr"]
    for path, cube in zip(paths, (clean.with_data(noisy.y), clean), strict=True):
        save_cube(cube, path, overwrite=True)
        console.print(f"written: {path}", markup=False)
    print_next(console)
    return paths


def make_folder(folder: Path) -> None:
    """The folder for what is written, or one sentence why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"cannot make the folder {folder}: {error.strerror}") from error


def run(folder: Path, console: Console) -> Path:
    """Compute, print the table, write ``demo.png`` into ``folder`` (made if missing)."""
    make_folder(folder)
    console.print("A made-up scene with every model and weight source; about a minute")
    demo = run_models()
    console.print(make_table(demo))
    (target,) = write_files(folder, {"demo.png": draw_png(draw_page(demo))})
    console.print(f"written: {target}", markup=False)
    print_next(console)
    return target


def print_next(console: Console) -> None:
    """Where to go from here."""
    console.print("next, with a file of your own: hyperdlw info YOUR_FILE", markup=False)
