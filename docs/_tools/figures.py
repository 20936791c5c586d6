"""Draw the pictures of the documentation: ``make figures``.

    python docs/_tools/figures.py [--cube CLEAN_CUBE --name NAME] [--out docs/figures]

Without a cube the scene is the one of ``hyperdlw demo``; a cube of your own adds ``weights-NAME.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from hyperdlw import Cube, denoise, open_cube, predict_weights
from hyperdlw.bench import demo
from hyperdlw.cube import minmax_range
from hyperdlw.pipeline import HEAT, heat
from hyperdlw.testbed import metrics, noise

NETWORKS = ("N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS")
LIMITS = (0.03, 10.0)
KINDS = {
    "Gaussian only": "#4c9f70",
    "stripe": "#edae49",
    "impulse": "#d1495b",
    "dead column": "#2e4057",
}


def figure(width: float, height: float) -> Figure:
    made = Figure(figsize=(width, height), dpi=110, facecolor="white", layout="constrained")
    FigureCanvasAgg(made)
    return made


def bare(ax: Any, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)


def bar(made: Figure, axes: Any) -> None:
    """The colour scale of weights."""
    colours = LinearSegmentedColormap.from_list("heat", list(HEAT / 255))
    shown = made.colorbar(ScalarMappable(LogNorm(*LIMITS), colours), ax=axes, pad=0.01, aspect=30)
    shown.set_ticks([0.1, 1, 10], labels=["0.1", "1", "10"])
    shown.set_label("weight (mean 1)", fontsize=9)


def chosen_bands(truth: noise.Truth) -> tuple[int, int, int]:
    """One band each with impulses, stripes and dead columns."""
    stripes = (np.abs(truth.stripe) > 0.05).any(axis=1).mean(axis=1)
    dead = truth.dead.any(axis=1).mean(axis=1)
    hit = truth.impulse.mean(axis=(1, 2))
    lonely = [hit - 2 * (stripes + dead), stripes - 2 * (hit + dead), dead - 2 * (hit + stripes)]
    first, second, third = (int(np.argmax(score)) for score in lonely)
    return first, second, third


def idea(clean: Cube, dirty: noise.Noisy) -> Figure:
    """Three bands: noisy, its weights, restored without and with them, clean."""
    cube = clean.with_data(dirty.y)
    plain = denoise(cube, model="lrtfdfr", weights="uniform", range=(0, 1), paper=True)
    ours = denoise(cube, model="lrtfdfr", weights="N+T+TS", range=(0, 1), paper=True)
    made = figure(12.4, 7.6)
    axes = made.subplots(3, 5)
    names = ("impulses", "stripes", "dead columns")
    for row, band, name in zip(axes, chosen_bands(dirty.truth), names, strict=True):
        low, high = np.quantile(clean.data[band], [0.001, 0.999])
        one = slice(band, band + 1)
        shown = {
            f"noisy: {name}": dirty.y,
            "weights": None,
            "all trusted alike": plain.cube.data,
            "with the weights": ours.cube.data,
            "clean": clean.data,
        }
        for ax, (title, data) in zip(row, shown.items(), strict=True):
            if data is None:
                ax.imshow(heat(ours.weights[band], LIMITS), interpolation="nearest")
            else:
                ax.imshow(data[band], cmap="gray", vmin=low, vmax=high, interpolation="nearest")
                if title != "clean":
                    score = metrics.psnr(clean.data[one], data[one], clip="noisy" not in title)
                    title = f"{title}, {score:.1f} dB"
            bare(ax, title)
        row[0].set_ylabel(f"band {band}", fontsize=9)
    bar(made, axes)
    return made


def maps(clean: Cube, dirty: noise.Noisy, weights: dict[str, Any], band: int) -> Figure:
    """A noisy band and what every network thinks of it."""
    made = figure(12.4, 6.2)
    axes = made.subplots(2, 4).ravel()
    low, high = np.quantile(clean.data[band], [0.001, 0.999])
    axes[0].imshow(dirty.y[band], cmap="gray", vmin=low, vmax=high, interpolation="nearest")
    bare(axes[0], f"noisy, band {band}")
    for ax, (name, w) in zip(axes[1:], weights.items(), strict=True):
        ax.imshow(heat(w[band], LIMITS), interpolation="nearest")
        bare(ax, name)
    bar(made, axes)
    return made


def trust(dirty: noise.Noisy, weights: dict[str, Any]) -> Figure:
    """How the weights follow the noise: over the bands, and by the kind of voxel."""
    truth = dirty.truth
    sigma = np.broadcast_to(truth.sigma, dirty.y.shape)
    stripe = np.abs(truth.stripe) > 0.05
    kinds = {
        "Gaussian only": ~(stripe | truth.impulse | truth.dead),
        "stripe": stripe & ~truth.impulse & ~truth.dead,
        "impulse": truth.impulse & ~truth.dead,
        "dead column": truth.dead,
    }
    made = figure(12.4, 4.4)
    left, right = made.subplots(1, 2)
    ordinary = kinds["Gaussian only"]
    level = sigma[ordinary] * 255
    edges = np.quantile(level, np.linspace(0, 1, 13))
    middle = 0.5 * (edges[1:] + edges[:-1])
    where = np.clip(np.searchsorted(edges, level) - 1, 0, 11)
    for name, w in weights.items():
        mean = [w[ordinary][where == k].mean() for k in range(12)]
        left.plot(middle, mean, marker=".", lw=2 if name == "N+T+TS" else 1, label=name)
    left.set_yscale("log")
    left.set_yticks([0.5, 1, 2], labels=["0.5", "1", "2"])
    left.yaxis.set_minor_locator(NullLocator())
    left.set_xlabel("true noise level of the voxel (of 255)")
    left.set_ylabel("mean weight")
    left.set_title("voxels with Gaussian noise only", fontsize=10)
    left.legend(frameon=False, fontsize=8, ncols=2)
    width = 0.2
    for i, (kind, mask) in enumerate(kinds.items()):
        means = [w[mask].mean() for w in weights.values()]
        at = np.arange(len(weights)) + (i - 1.5) * width
        right.bar(at, means, width, label=kind, color=KINDS[kind])
    right.set_yscale("log")
    right.set_yticks([0.1, 0.3, 1], labels=["0.1", "0.3", "1"])
    right.yaxis.set_minor_locator(NullLocator())
    right.set_xticks(range(len(weights)), list(weights), fontsize=8)
    right.set_title("mean weight by what happened to the voxel", fontsize=10)
    right.legend(frameon=False, fontsize=8, ncols=4, loc="upper center")
    low, high = right.get_ylim()
    right.set_ylim(low, 2 * high)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return made


def all_weights(cube: Cube) -> dict[str, Any]:
    return {name: predict_weights(cube, name, range=(0, 1)) for name in NETWORKS}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cube", help="a clean cube of your own")
    options.add_argument("--name", default="own", help="for the file name")
    options.add_argument("--size", type=int, default=128, help="side of its central crop")
    options.add_argument("--out", type=Path, default=Path("docs/figures"))
    asked = options.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    clean, dirty = demo.make_scene(*demo.SIZE)
    weights = all_weights(clean.with_data(dirty.y))
    drawn = {
        "idea": idea(clean, dirty),
        "weights": maps(clean, dirty, weights, demo.choose_band(dirty.truth)),
        "trust": trust(dirty, weights),
    }
    if asked.cube:
        own = open_cube(asked.cube)
        unit = minmax_range(own.data, own.valid).to_unit(own.data)
        top, left = ((n - asked.size) // 2 for n in own.shape[1:])
        part = unit[:, top : top + asked.size, left : left + asked.size]
        noisy = noise.case(demo.CASE, part, np.random.default_rng(demo.SEED))
        band = demo.choose_band(noisy.truth)
        found = all_weights(Cube.from_array(noisy.y))
        drawn[f"weights-{asked.name}"] = maps(Cube.from_array(part), noisy, found, band)
    for name, made in drawn.items():
        made.savefig(asked.out / f"{name}.png")
        print(f"written: {asked.out / name}.png")


if __name__ == "__main__":
    main()
