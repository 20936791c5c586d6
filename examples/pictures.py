"""How the examples draw: not an example itself. Needs matplotlib, which hyperdlw brings."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


def show_bands(path, panels, limits=None, columns=None):
    """Draw bands (row, col) side by side on one grey scale; colour pictures (row, col, 3) as they are.

    The scale is that of the last panel, or ``limits``.
    """
    limits = np.nanquantile(list(panels.values())[-1], [0.002, 0.998]) if limits is None else limits
    columns = columns or len(panels)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.9 * columns, 3.1 * rows), dpi=100, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (title, band) in zip(axes, panels.items(), strict=True):
        show_band(ax, title, band, limits)
    figure.savefig(path)
    print(f"picture: {Path(path).name}")


def show_band(ax, title, band, limits):
    """Draw one band; what was not measured is red."""
    grey = np.clip((band - limits[0]) / (limits[1] - limits[0]), 0, 1)
    rgb = grey if band.ndim == 3 else np.repeat(grey[..., None], 3, axis=2)
    ax.imshow(np.where(np.isnan(rgb), [0.8, 0.2, 0.2], rgb), interpolation="nearest")
    ax.set_title(title, fontsize=10)
    ax.set_axis_off()


def compare(path, clean, noisy, restored, band=None):
    """Draw a band before, after and clean, its errors, and the error of every band.

    The band is the one with the largest error unless it is given. Gaps are NaN and do not count.
    """

    def rms(x):
        return np.sqrt(np.nanmean((x - clean) ** 2, axis=(1, 2)))

    before, after = rms(noisy), rms(restored)
    band = int(before.argmax()) if band is None else band
    figure = Figure(figsize=(9.4, 6.4), dpi=100, layout="constrained")
    (one, two, three), (four, five, curve) = figure.subplots(2, 3)
    limits = np.quantile(clean[band], [0.002, 0.998])
    show_band(one, f"noisy, band {band}", noisy[band], limits)
    show_band(two, "restored", restored[band], limits)
    show_band(three, "clean", clean[band], limits)
    error = 3 * before[band] * np.array([-1, 1])
    show_band(four, "error before (grey is none)", noisy[band] - clean[band], error)
    show_band(five, "error after, same scale", restored[band] - clean[band], error)
    curve.plot(before, label="noisy", color="0.6")
    curve.plot(after, label="restored", color="#d1495b")
    curve.set_yscale("log")
    curve.set_xlabel("band")
    curve.set_title("root mean square error", fontsize=10)
    curve.legend(frameon=False)
    figure.savefig(path)
    print(f"error {np.sqrt((before**2).mean()):.4f} before, {np.sqrt((after**2).mean()):.4f} after")
    print(f"bands made worse: {int((after > 1.01 * before).sum())} of {len(clean)}")
    print(f"picture: {Path(path).name}")


def show_curves(path, curves, x, y, log=False):
    """Draw curves by name, each a pair (x values, y values)."""
    figure = Figure(figsize=(6.4, 3.8), dpi=100, layout="constrained")
    ax = figure.subplots()
    for name, (at, values) in curves.items():
        single = np.ndim(at) == 0
        ax.plot(at, values, "o" if single else ".-", label=name, markersize=9 if single else 6)
    if log:
        ax.set_xscale("log")
        ticks = next(iter(curves.values()))[0]
        ax.set_xticks(ticks, labels=[f"{v:g}" for v in ticks])
        ax.minorticks_off()
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    print(f"picture: {Path(path).name}")
