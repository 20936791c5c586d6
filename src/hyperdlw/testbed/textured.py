"""Scenes made by code that can judge good data: texture, edges, many materials, no noise at all.

They have names: "made:7" is the scene of seed 7, "roads:7" the same with roads along the whole track.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadOption
from .sensor_laws import spread_wavelengths

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

MADE = ("made:", "roads:")
"""How the names of scenes made by code begin; their seed follows."""
ROADS, EDGE = ((20, 1), (47, 3), (90, 5)), 105
"""First column and width of the roads of "roads:N", and where it gets darker, in 128ths of the width."""

FINE = 2
"""Samples per pixel and direction; a pixel is their mean, so that edges are mixed as a sensor mixes them."""


def make_named_scene(name: str, bands: int, side: int) -> F32:
    """The scene "made:SEED" or "roads:SEED" of so many bands and pixels per side.

    >>> make_named_scene("made:7", 3, 16).shape
    (3, 16, 16)
    """
    kind, _, seed = name.partition(":")
    if f"{kind}:" not in MADE or not seed.isdecimal():
        raise BadOption(f"a scene made by code is called made:7 or roads:7, not '{name}'")
    x = make_textured_scene(bands, side, side, rng=np.random.default_rng(int(seed)))
    if kind == "roads":
        spectrum = np.linspace(0.3, 0.7, bands, dtype=np.float32)[:, None, None]
        for columns in find_roads(side):
            x[:, :, columns] = 0.1 * x[:, :, columns] + 0.9 * spectrum
        x[:, :, EDGE * side // 128 :] *= 0.6
    return x


def find_roads(side: int) -> list[slice]:
    """The columns of the roads of "roads:N"."""
    return [slice(left * side // 128, left * side // 128 + wide) for left, wide in ROADS]


def make_textured_scene(
    bands: int = 31,
    rows: int = 128,
    cols: int = 128,
    *,
    rng: np.random.Generator,
    materials: int = 24,
    wavelengths: ArrayLike | None = None,
) -> F32:
    """A clean scene (band, row, col), every band on [0, 1].

    x_b(p) = mean over a pixel of light(p) s_m(p)(b) exp(t(p) v_m(b)): the material m is constant on
    polygons, roofs, roads and posts; t is a texture with a power spectrum 1/f^2.4 to 1/f^3 that moves the
    spectrum of its material along a smooth curve v_m; light has relief, shadows and texture. Texture is
    shared by all bands, noise is not: that is what a method may use to tell them apart. The exponential
    and the many materials let the singular values fall slowly, as in photographs, with no flat floor.

    Args:
        rng: source of randomness; the same state gives the same scene.
        materials: number of different spectra.
        wavelengths: band centres in nm; None: evenly from 400 to 700, or to 2450 above 31 bands.

    >>> x = make_textured_scene(8, 24, 32, rng=np.random.default_rng(0))
    >>> x.shape, float(x.min()), float(x.max())
    ((8, 24, 32), 0.0, 1.0)
    """
    nm = spread_wavelengths(bands) if wavelengths is None else np.ravel(wavelengths)
    place = (nm - nm.min()) / max(float(np.ptp(nm)), 1e-9)
    fine = (FINE * rows, FINE * cols)
    broad, narrow = _curves(materials, place, 0.2, rng), _curves(materials, place, 0.05, rng)
    spectra = 0.08 + 0.5 * _sigmoid(1.2 * broad + 0.5 * narrow)
    change = 0.2 * _curves(materials, place, 0.3, rng) + 0.04 * _curves(materials, place, 0.05, rng)
    kind = _materials(materials, *fine, rng)
    texture = _texture(materials, kind, rng)
    light = _light(*fine, rng)
    out = np.empty((bands, rows, cols), np.float32)
    for b in range(bands):
        value = light * spectra[kind, b] * np.exp(texture * change[kind, b])
        out[b] = value.reshape(rows, FINE, cols, FINE).mean(axis=(1, 3))
    low = out.min(axis=(1, 2), keepdims=True)
    high = out.max(axis=(1, 2), keepdims=True)
    return np.asarray((out - low) / np.where(high > low, high - low, 1), np.float32)


def draw_power_law(
    rows: int, cols: int, slope: float, rng: np.random.Generator, stretch: float = 1.0
) -> F64:
    """A random field with power spectrum 1/f^slope, mean 0 and standard deviation 1.

    Args:
        stretch: factor by which structures are longer along the rows than across.
    """
    f = np.hypot(np.fft.fftfreq(rows)[:, None], stretch * np.fft.rfftfreq(cols)[None])
    f[0, 0] = np.inf
    field = np.fft.irfft2(
        np.fft.rfft2(rng.standard_normal((rows, cols))) * f ** (-slope / 2), (rows, cols)
    )
    return np.asarray(field / max(float(field.std()), 1e-12))


def _sigmoid(x: F64) -> F64:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def _curves(number: int, place: F64, width: float, rng: np.random.Generator) -> F64:
    """Random smooth curves over the bands, (number, band), of standard deviation 1.

    ``width`` is that of a feature, as a share of the spectral range.
    """
    centres = np.arange(-2 * width, 1 + 2 * width, width)
    bumps = np.exp(-0.5 * ((place[:, None] - centres) / width) ** 2)
    bumps /= np.sqrt((bumps**2).sum(axis=1, keepdims=True))
    return np.asarray(rng.standard_normal((number, len(centres))) @ bumps.T)


def _materials(kinds: int, rows: int, cols: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The material of every sample: polygons with straight and winding borders, and objects on them."""
    r, c = np.mgrid[0:rows, 0:cols].astype(float)
    side = min(rows, cols)
    bend = side / 40 * np.clip(draw_power_law(rows, cols, 3.5, rng), 0, 2)
    rr = r + bend * draw_power_law(rows, cols, 3.0, rng)
    cc = c + bend * draw_power_law(rows, cols, 3.0, rng)
    seeds = rng.uniform(0, 1, (3 * kinds, 2)) * (rows, cols)
    nearest, cell = np.full((rows, cols), np.inf), np.zeros((rows, cols), int)
    for k, (a, b) in enumerate(seeds):
        distance = (rr - a) ** 2 + (cc - b) ** 2
        cell = np.where(distance < nearest, k, cell)
        nearest = np.minimum(nearest, distance)
    kind = rng.permutation(np.arange(3 * kinds) % kinds)[cell]

    for _ in range(3):  # roads, two of them straight along or across the track
        angle = rng.choice([0.0, np.pi / 2, rng.uniform(0, np.pi)])
        across = (r - rng.uniform(0, rows)) * np.cos(angle) + (c - rng.uniform(0, cols)) * np.sin(
            angle
        )
        kind[np.abs(across) < rng.uniform(1.0, 4.0)] = rng.integers(kinds)
    for _ in range(40):  # roofs, as rotated rectangles
        angle = rng.uniform(0, np.pi)
        y, x = r - rng.uniform(0, rows), c - rng.uniform(0, cols)
        u, v = y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)
        long, wide = (rng.uniform(2, max(2.0, side / part)) for part in (16, 24))
        inside = (np.abs(u) < long) & (np.abs(v) < wide)
        kind[inside] = rng.integers(kinds)
    for _ in range(30):  # posts and cars, down to half a pixel
        y, x = r - rng.uniform(0, rows), c - rng.uniform(0, cols)
        kind[np.hypot(y, x) < rng.uniform(0.7, 4)] = rng.integers(kinds)
    return np.asarray(kind)


def _texture(kinds: int, kind: NDArray[np.int64], rng: np.random.Generator) -> F64:
    """Texture of every sample: every material has one of four fields at its own contrast."""
    rows, cols = kind.shape
    fields = [
        draw_power_law(rows, cols, s, rng, t) for s, t in ((2.4, 1), (2.7, 1), (3.0, 1), (2.6, 4))
    ]
    contrast = rng.uniform(0.3, 1.5, kinds)
    # Calm materials exist too: water, roofs.
    contrast[rng.permutation(kinds)[: kinds // 4]] = 0.05
    return np.asarray(np.choose(kind % len(fields), fields) * contrast[kind])


def _light(rows: int, cols: int, rng: np.random.Generator) -> F64:
    """Brightness of every sample: relief, fine texture and shadows with sharp borders."""
    relief = (
        1
        + 0.15 * draw_power_law(rows, cols, 3.5, rng)
        + 0.04 * draw_power_law(rows, cols, 2.4, rng)
    )
    shadow = np.where(draw_power_law(rows, cols, 3.2, rng) > 1.4, 0.55, 1.0)
    return np.asarray(np.maximum(relief, 0.2) * shadow)
