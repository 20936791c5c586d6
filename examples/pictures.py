"""How the examples draw: not an example itself. Needs matplotlib, which hyperdlw brings.

Pictures are at most three panels wide, and their letters are large: they are read on a phone, too.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

SIDE = 2.4
"""Inches of a panel."""
TEXT = {"fontsize": 12}
NOISY, RESTORED = "0.6", "#d1495b"


def start_figure(rows, columns, high=SIDE + 0.3):
    """A figure and the axes of its panels."""
    figure = Figure(figsize=(SIDE * columns, high * rows), dpi=150, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure, path):
    figure.savefig(path)
    print(f"picture: {Path(path).name}")


def show_bands(path, panels, limits=None, columns=None):
    """Draw bands (row, col) side by side on one grey scale; colour pictures (row, col, 3) as they are.

    The scale is that of the last panel, or ``limits``.
    """
    limits = np.nanquantile(list(panels.values())[-1], [0.005, 0.985]) if limits is None else limits
    columns = columns or {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    across, down = next(iter(panels.values())).shape[1::-1]
    figure, axes = start_figure(rows, columns, SIDE * min(down / across, 2) + 0.36)
    for ax in axes.ravel():
        ax.set_axis_off()
    for ax, (title, band) in zip(axes.ravel(), panels.items(), strict=False):
        show_band(ax, title, band, limits)
    save_figure(figure, path)


def show_band(ax, title, band, limits):
    """Draw one band; what was not measured is red."""
    rgb = np.clip(band, 0, 1)
    if band.ndim == 2:
        grey = np.clip((band - limits[0]) / (limits[1] - limits[0]), 0, 1)
        rgb = np.repeat(grey[..., None], 3, axis=2)
    ax.imshow(np.where(np.isnan(rgb), [0.8, 0.2, 0.2], rgb), interpolation="nearest")
    ax.set_title(title, **TEXT)
    ax.set_axis_off()


def compare(path, clean, noisy, restored, band=None):
    """Draw a band before, after and clean, its errors, and the error of every band.

    The band is the one that gains most unless it is given. Gaps are NaN and do not count.
    """

    def rms(x):
        return np.sqrt(np.nanmean((x - clean) ** 2, axis=(1, 2)))

    before, after = rms(noisy), rms(restored)
    band = int((before - after).argmax()) if band is None else band
    figure, ((one, two, three), (four, five, curve)) = start_figure(2, 3)
    limits = np.quantile(clean[band], [0.005, 0.985])
    show_band(one, f"noisy, band {band}", noisy[band], limits)
    show_band(two, "restored", restored[band], limits)
    show_band(three, "clean", clean[band], limits)
    error = 3 * before[band] * np.array([-1, 1])
    show_band(four, "error before", noisy[band] - clean[band], error)
    show_band(five, "error after", restored[band] - clean[band], error)
    curve.plot(100 * before, label="noisy", color=NOISY)
    curve.plot(100 * after, label="restored", color=RESTORED)
    place_beside(curve, "error of bands in %")
    save_figure(figure, path)
    print(f"error {np.sqrt((before**2).mean()):.4f} before, {np.sqrt((after**2).mean()):.4f} after")
    print(f"bands made worse: {int((after > 1.01 * before).sum())} of {len(clean)}")


def show_curves(path, curves, x, y, log=False):
    """Draw curves by name, each a pair (x values, y values)."""
    figure, ((ax,),) = start_figure(1, 1, 3.6)
    figure.set_figwidth(6.6)
    for name, (at, values) in curves.items():
        single = np.ndim(at) == 0
        colour = {"noisy": NOISY, "restored": RESTORED}.get(name)
        form = {"markersize": 11 if single else 7, "color": colour}
        ax.plot(at, values, "o" if single else ".-", label=name, **form)
    if log:
        ax.set_xscale("log")
        ticks = next(iter(curves.values()))[0]
        ax.set_xticks(ticks, labels=[f"{v:g}" for v in ticks])
        ax.minorticks_off()
    ax.set_xlabel(x, **TEXT)
    ax.set_ylabel(y, **TEXT)
    tidy(ax)
    save_figure(figure, path)


def place_beside(ax, title):
    """A plot in the last column of panels: as high as they are, with its numbers on the right."""
    ax.set_title(title, **TEXT)
    ax.set_box_aspect(1)
    ax.set_ylim(bottom=0)
    ax.yaxis.tick_right()
    ax.legend(frameon=False)
    ax.spines[["top", "left"]].set_visible(False)


def tidy(ax):
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
