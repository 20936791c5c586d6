"""Small pictures for notebooks and pages: pseudo colour, weights as a heat map, PNG bytes."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cube import Cube
from ..errors import BadInput
from ..io import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RGB = NDArray[np.uint8]
Limits = NDArray[np.float64]
Colours = tuple[int, int, int]

LARGEST = 256
"""Longest side of a panel in pixels: a notebook keeps every picture inside its file."""
SMALLEST = 128
"""Tiny images are enlarged to about this side, so that single pixels can be seen."""
COLOURS_NM = (640.0, 550.0, 460.0)
UNUSED = (200, 200, 200)
"""Grey of voxels without a weight; the heat map has no grey in it."""

# Nine samples of viridis (CC0): lightness grows evenly, and colour-blind readers see the order.
_VIRIDIS = "440154 472c7a 3b518b 2c718e 21908d 27ad81 5cc863 aadc32 fde725"
HEAT = np.array([tuple(bytes.fromhex(colour)) for colour in _VIRIDIS.split()], np.float64)


def colour_bands(image: Cube | ArrayLike) -> Colours:
    """Bands to show as red, green and blue.

    The usable bands nearest to 640, 550 and 460 nm if the wavelengths cover them, else the bands
    at 5/6, 1/2 and 1/6 of the range; three bands without wavelengths are taken as red, green, blue.

    >>> colour_bands(np.zeros((31, 2, 2)))
    (25, 15, 5)
    """
    cube = _cube(image)
    usable = np.flatnonzero(cube.good_bands & cube.valid.any(axis=(1, 2)))
    usable = usable if usable.size else np.arange(cube.bands)
    if cube.wavelengths is not None:
        nm = cube.wavelengths[usable]
        if nm.min() <= min(COLOURS_NM) and nm.max() >= max(COLOURS_NM):
            r, g, b = (int(usable[np.abs(nm - centre).argmin()]) for centre in COLOURS_NM)
            return r, g, b
    elif cube.bands == 3:
        return 0, 1, 2
    r, g, b = (int(usable[round(part * (len(usable) - 1))]) for part in (5 / 6, 1 / 2, 1 / 6))
    return r, g, b


def stretch(reference: Cube | ArrayLike, bands: Colours | None = None) -> Limits:
    """2 % and 98 % quantiles of three bands, shape (3, 2): one stretch for several pictures."""
    cube = _cube(reference)
    limits = np.zeros((3, 2))
    for i, b in enumerate(_checked(cube, bands)):
        values = cube.data[b][cube.valid[b]]
        limits[i] = np.quantile(values, [0.02, 0.98]) if values.size else (0.0, 1.0)
    return limits


def pseudo_colour(
    image: Cube | ArrayLike, bands: Colours | None = None, limits: ArrayLike | None = None
) -> RGB:
    """Three bands as a picture (row, col, 3); pixels without a measurement are black.

    Args:
        image: a cube, or an array (band, row, col).
        bands: red, green and blue; see :func:`colour_bands`.
        limits: values shown as 0 and 255, one pair or one per colour. Pictures that are to be
            compared need the same ones: take ``stretch`` of one of them. None: of this one.

    >>> pseudo_colour(np.random.default_rng(0).random((5, 4, 6))).shape
    (4, 6, 3)
    """
    cube = _cube(image)
    chosen = _checked(cube, bands)
    pairs = stretch(cube, chosen) if limits is None else np.asarray(limits, np.float64)
    if pairs.shape not in ((2,), (3, 2)):
        raise BadInput(f"limits are one pair or three pairs of numbers, not shape {pairs.shape}")
    lo, hi = np.broadcast_to(pairs, (3, 2)).T
    ok: NDArray[np.bool_] = np.all(cube.valid[list(chosen)], axis=0)
    values = np.where(ok, cube.data[list(chosen)], 0.0).transpose(1, 2, 0)
    span = np.where(hi > lo, hi - lo, 1.0)
    rgb = np.rint(np.clip((values - lo) / span, 0, 1) * 255).astype(np.uint8)
    return np.where(ok[..., None], rgb, np.uint8(0))


def heat(w: ArrayLike, limits: tuple[float, float] = (0.03, 10.0)) -> RGB:
    """A plane of weights (row, col) on a logarithmic colour scale; 0 (not used) is grey.

    Args:
        w: weights, 1 on average.
        limits: weights at the dark and at the bright end.

    >>> heat([[0.03, 10.0, 0.0]]).tolist()
    [[[68, 1, 84], [253, 231, 37], [200, 200, 200]]]
    """
    plane = np.asarray(w, np.float64)
    if plane.ndim != 2:
        raise BadInput(f"a heat map shows one plane (row, col), not shape {plane.shape}")
    low, high = np.log(limits)
    used = np.asarray(plane > 0)
    height = (np.log(np.where(used, plane, 1.0)) - low) / (high - low)
    at = np.clip(height, 0, 1) * (len(HEAT) - 1)
    colours = [np.interp(at, np.arange(len(HEAT)), column) for column in HEAT.T]
    rgb = np.rint(np.stack(colours, axis=-1)).astype(np.uint8)
    return np.where(used[..., None], rgb, np.array(UNUSED, np.uint8))


def draw_change(noisy: Cube, restored: Cube) -> RGB:
    """How much every pixel was changed: root mean square over bands, in ranges; dark is little."""
    total, count = np.zeros(noisy.shape[1:]), np.zeros(noisy.shape[1:])
    for b in range(noisy.bands):
        ok = noisy.valid[b] & restored.valid[b]
        values = restored.data[b][ok]
        low, high = np.quantile(values, [0.01, 0.99]) if values.size else (0.0, 0.0)
        if high > low:
            change = (noisy.data[b].astype(np.float64) - restored.data[b]) / (high - low)
            total += np.where(ok, change**2, 0.0)
            count += ok
    change = np.sqrt(total / np.maximum(count, 1))
    middle = max(float(np.median(change)), 1e-6)
    return heat(change, (middle / 5, middle * 5))


def draw_panels(noisy: Cube, restored: Cube, weights: ArrayLike) -> list[RGB]:
    """Noisy, restored and the mean weight over the bands in use.

    Both images have the stretch of the restored one: that of the noisy one shows its noise.
    """
    w = np.asarray(weights, np.float64)
    bands = colour_bands(restored)
    limits = stretch(restored, bands)
    images = [pseudo_colour(cube, bands, limits) for cube in (noisy, restored)]
    return [*images, heat(w.sum(axis=0) / np.maximum((w > 0).sum(axis=0), 1))]


def side_by_side(noisy: Cube | ArrayLike, restored: Cube | ArrayLike, weights: ArrayLike) -> RGB:
    """Noisy, restored and the mean weight, as one small picture.

    Its panels have at most LARGEST pixels a side. Pixels are dropped, not averaged: a mean would
    hide noise.
    """
    panels = draw_panels(_cube(noisy), _cube(restored), weights)
    side = max(panels[0].shape[:2])
    step, times = -(-side // LARGEST), max(1, SMALLEST // side)
    a, b, c = (p[::step, ::step].repeat(times, axis=0).repeat(times, axis=1) for p in panels)
    gap = np.full((len(a), 4, 3), 255, np.uint8)
    return np.concatenate([a, gap, b, gap, c], axis=1)


def encode_png(rgb: NDArray[np.generic]) -> bytes:
    """The bytes of a PNG file.

    Args:
        rgb: uint8 (row, col, 3).

    >>> encode_png(np.zeros((2, 3, 3), np.uint8))[1:4]
    b'PNG'
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or 0 in rgb.shape:
        raise BadInput(f"a picture is uint8 (row, col, 3), not {rgb.dtype} {rgb.shape}")
    from rasterio.io import MemoryFile

    from ..io import silence_gdal

    rows, cols, _ = rgb.shape
    with silence_gdal(), MemoryFile() as memory:
        with memory.open(driver="PNG", count=3, height=rows, width=cols, dtype="uint8") as file:
            file.write(np.ascontiguousarray(rgb.transpose(2, 0, 1)))
        return bytes(memory.getbuffer())


def data_url(rgb: NDArray[np.generic]) -> str:
    """A picture inside an address, for the ``src`` of an HTML picture."""
    return "data:image/png;base64," + base64.b64encode(encode_png(rgb)).decode("ascii")


# --- a quick look


def draw_quicklook(
    noisy: Cube, restored: Cube, weights: ArrayLike, path: str, *, overwrite: bool = False
) -> None:
    """Before, after, mean weight, and the spectra of three pixels, as one PNG."""
    figure = new_figure(13, 3.6, dpi=100)
    axes = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
    titles = "noisy", "restored", "mean weight (bright: trusted)"
    shown = draw_panels(noisy, restored, weights)
    for ax, title, image in zip(axes, titles, shown, strict=False):
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
        tmp.write_bytes(draw_png(figure))


def new_figure(
    width: float,
    height: float,
    dpi: int = 110,
    layout: Literal["constrained", "tight"] | None = "constrained",
) -> Figure:
    """An empty figure, without pyplot: no window system, and no global state left behind."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=dpi, layout=layout, facecolor="white")


def draw_png(figure: Figure) -> bytes:
    """A figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def measure_noise(image: Cube | ArrayLike, most: int = 40_000) -> NDArray[np.float64]:
    """Noise of every band over its signal range, for pictures; NaN where a band is empty or flat.

    Donoho's rule on mixed second differences, of about ``most`` pixels; no model, no torch. It sees
    texture as noise: :func:`hyperdlw.weights.noise_of_sample` tells them apart.

    >>> ramp = np.broadcast_to(np.linspace(0, 1, 64), (2, 64, 64))
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (64, 64))
    >>> measure_noise(ramp + [noise, 0 * noise]).round(2).tolist()
    [0.05, 0.0]
    """
    cube = _cube(image)
    _, rows, cols = cube.shape
    step = max(1, rows * cols // most)
    top = np.arange(0, max(rows - 1, 1), step)
    found = np.full(cube.bands, np.nan)
    for b, (band, ok) in enumerate(zip(cube.data, cube.valid, strict=True)):
        pair, known = band[top].astype(np.float64), ok[top]
        if not known.any():
            continue
        low, high = np.quantile(pair[known], [0.01, 0.99])
        below = np.minimum(top + 1, rows - 1)
        mixed = np.diff(band[below].astype(np.float64) - pair, axis=1)
        both = known & ok[below]
        both = both[:, 1:] & both[:, :-1]
        if high > low and both.any():
            found[b] = np.median(np.abs(mixed[both])) / (2 * 0.6745) / (high - low)
    return found


# --- pieces


def _cube(image: Cube | ArrayLike) -> Cube:
    return image if isinstance(image, Cube) else Cube.from_array(image)


def _checked(cube: Cube, bands: Colours | None) -> Colours:
    chosen = colour_bands(cube) if bands is None else bands
    if len(chosen) != 3 or not all(0 <= b < cube.bands for b in chosen):
        raise BadInput(f"a picture shows three bands of 0 to {cube.bands - 1}, not {chosen}")
    return chosen
