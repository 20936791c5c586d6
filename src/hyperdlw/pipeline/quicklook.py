"""A quick look: before, after, weights and spectra in one picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..cube import Cube
from ..errors import MissingDependency
from ..io import atomic
from .pictures import colour_bands, heat, pseudo_colour, stretch


def quicklook(
    noisy: Cube, restored: Cube, weights: ArrayLike, path: str, *, overwrite: bool = False
) -> None:
    """Before, after, mean weight, and the spectra of three pixels, as one PNG."""
    figure = need_matplotlib()(figsize=(13, 3.6), layout="constrained")
    w = np.asarray(weights, np.float64)
    bands = colour_bands(restored)
    limits = stretch(restored, bands)
    plane = w.sum(axis=0) / np.maximum((w > 0).sum(axis=0), 1)
    axes = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
    shown = (
        ("noisy", pseudo_colour(noisy, bands, limits)),
        ("restored", pseudo_colour(restored, bands, limits)),
        ("mean weight (bright: trusted)", heat(plane)),
    )
    for ax, (title, image) in zip(axes, shown, strict=False):
        ax.imshow(image, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    spectra, (_, rows, cols) = axes[3], noisy.shape
    known = noisy.wavelengths is not None
    x = noisy.wavelengths if known else np.arange(noisy.bands)
    for k, part in enumerate((0.25, 0.5, 0.75)):
        r, c = int(part * (rows - 1)), int(part * (cols - 1))
        before, after = (
            np.where(cube.valid[:, r, c], cube.data[:, r, c], np.nan) for cube in (noisy, restored)
        )
        spectra.plot(x, before, color=f"C{k}", alpha=0.35, linewidth=0.8)
        spectra.plot(x, after, color=f"C{k}", linewidth=1.4)
        for ax in axes[:2]:
            ax.plot(c, r, "o", markersize=5, color=f"C{k}", markeredgecolor="white")
    spectra.set_xlabel("wavelength (nm)" if known else "band")
    spectra.set_title("three pixels (thin: noisy)")
    with atomic(path, overwrite=overwrite) as tmp:
        figure.savefig(tmp, format="png", dpi=100)


def need_matplotlib() -> Any:
    """The class of matplotlib's figures, for drawing without a screen."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "pictures need matplotlib; install it with: pip install 'hyperdlw[bench]'"
        ) from error
    return Figure
