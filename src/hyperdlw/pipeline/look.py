"""A cube before and after with every so many pixels left out, and the pictures of the audit page of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube
from ..io import CubeReader
from .advice import dead_lines, striped_lines
from .invented import FAINT
from .pictures import RGB, colour_bands, draw_change, heat, pseudo_colour, stretch

if TYPE_CHECKING:
    from .job import Job
    from .report import Result

SMALL = 512
"""Longest side of a quick look in pixels."""
PAGE_VOXELS = 2**23
"""Voxels that a page looks at, at most."""
LARGEST = 320
"""Longest side of a picture in pixels: a page holds them all."""
COLOURS = ((31, 95, 174), (194, 87, 12), (29, 138, 107))
"""Of the three pixels whose spectra are shown; the lines of the page have the same."""
KINDS = {
    "dead": (179, 38, 30),
    "striped": (232, 152, 12),
    "replaced": (31, 95, 174),
    "hardly any weight": (120, 170, 230),
    "not measured": (150, 150, 150),
}
"""Flags of columns, and their colours."""
PALE = np.array((238, 240, 243), np.float64)


@dataclass(frozen=True, eq=False)
class Look:
    """A small cube before and after, weights and invented voxels; ``step``: of how many pixels one."""

    noisy: Cube
    restored: Cube
    weights: NDArray[np.float32]
    invented: NDArray[np.uint8]
    step: int = 1


def find_step(shape: tuple[int, ...], for_page: bool) -> int:
    """Of how many pixels one is looked at.

    >>> find_step((31, 2000, 900), False)
    4
    """
    bands, rows, cols = shape
    step = max(1, math.ceil(max(rows, cols) / SMALL))
    while for_page and bands * math.ceil(rows / step) * math.ceil(cols / step) > PAGE_VOXELS:
        step += 1
    return step


def shrink_pair(noisy: Cube, restored: Cube, for_page: bool = False) -> Look:
    """Of two cubes in memory, without weights. Pixels are dropped, not averaged: a mean would hide noise."""
    step = find_step(noisy.shape, for_page)
    cut = np.s_[:, ::step, ::step]
    before, after = (replace(c, data=c.data[cut], valid=c.valid[cut]) for c in (noisy, restored))
    none = np.zeros(before.shape, np.float32), np.zeros(before.shape, np.uint8)
    return Look(before, after, *none, step)


def shrink_result(result: Result, for_page: bool = False) -> Look:
    """Of a result in memory."""
    look = shrink_pair(result.noisy, result.cube, for_page)
    cut = np.s_[:, :: look.step, :: look.step]
    code = look.invented if result.invented is None else result.invented[cut]
    return replace(look, weights=result.weights[cut], invented=code)


def shrink_job(job: Job, file: CubeReader, for_page: bool = False) -> Look:
    """Of a cube in strips."""
    step = find_step(file.shape, for_page)
    kept = []
    for i in job.plan.strips:
        rows = job.plan.window(i, 0).own
        cut = np.s_[:, (-rows.start) % step :: step, ::step]
        strip = job.restored_strip(file, i)
        parts = *file.read(rows), strip.values, strip.ok, strip.weights, strip.invented
        kept.append([np.ascontiguousarray(part[cut]) for part in parts])
    data, valid, restored, ok, w, code = (
        np.concatenate(v, axis=1) for v in zip(*kept, strict=True)
    )
    about = file.wavelengths, file.good_bands
    return Look(Cube(data, valid, *about), Cube(restored, ok, *about), w, code, step)


# --- pictures


def _fit(picture: RGB) -> RGB:
    """With pixels left out until it is small, or repeated until it can be seen."""
    side = max(picture.shape[:2])
    step, times = -(-side // LARGEST), max(1, 160 // side)
    return picture[::step, ::step].repeat(times, axis=0).repeat(times, axis=1)


def find_spots(look: Look) -> list[tuple[int, int]]:
    """Three pixels of a look with as many measured bands as any around them."""
    _, rows, cols = look.noisy.shape
    known = look.noisy.valid.sum(0)
    spots = []
    for part in (0.25, 0.5, 0.75):
        r, c = int(part * (rows - 1)), int(part * (cols - 1))
        near = known[max(0, r - 8) : r + 9, max(0, c - 8) : c + 9]
        if known[r, c] < near.max():
            i, j = np.unravel_index(int(near.argmax()), near.shape)
            r, c = max(0, r - 8) + int(i), max(0, c - 8) + int(j)
        spots.append((r, c))
    return spots


def show_colours(look: Look, spots: Sequence[tuple[int, int]]) -> tuple[RGB, RGB, RGB]:
    """Before and after in pseudo colour, with dots, and the change."""
    bands = colour_bands(look.restored)
    limits = stretch(look.restored, bands)
    shown = [pseudo_colour(cube, bands, limits) for cube in (look.noisy, look.restored)]
    side = max(shown[0].shape[:2])
    radius = max(2, side // 60)
    for picture in shown:
        for (r, c), colour in zip(spots, COLOURS, strict=False):
            for grow, paint in ((radius + max(1, radius // 2), (255, 255, 255)), (radius, colour)):
                y, x = np.ogrid[: picture.shape[0], : picture.shape[1]]
                picture[(y - r) ** 2 + (x - c) ** 2 <= grow**2] = paint
    before, after = map(_fit, shown)
    return before, after, _fit(draw_change(look.noisy, look.restored))


def show_band(look: Look, band: int) -> tuple[RGB, RGB, RGB]:
    """A band before, after, and what was removed, in grey; invented voxels of the last are blue."""
    ok = look.noisy.valid[band] & look.restored.valid[band]
    before, after = look.noisy.data[band], look.restored.data[band]
    values = after[ok] if ok.any() else np.zeros(1, np.float32)
    low, high = np.quantile(values, [0.01, 0.99])
    gone = np.where(ok, before - after, np.float32(0))
    spread = 1.4826 * float(np.median(np.abs(gone[ok]))) if ok.any() else 0.0
    spread = spread or float(np.abs(gone).max()) or 1.0
    removed = _grey(gone, -3 * spread, 3 * spread, ok)
    removed[look.invented[band] > 0] = KINDS["hardly any weight"]
    shown = _grey(before, low, high, ok), _grey(after, low, high, ok), removed
    first, second, third = map(_fit, shown)
    return first, second, third


def _grey(plane: NDArray[np.float32], low: float, high: float, ok: NDArray[np.bool_]) -> RGB:
    span = (high - low) or 1.0
    grey = np.clip((np.where(ok, plane, low) - low) / span, 0, 1)
    found = np.rint(255 * grey).astype(np.uint8)
    return np.repeat(np.where(ok, found, np.uint8(0))[..., None], 3, axis=2)


def correlate_bands(look: Look, bands: Sequence[int]) -> NDArray[np.float64]:
    """Correlation (band, band) of what was removed, over the pixels where no voxel is invented."""
    use = list(bands)
    ok = look.noisy.valid[use] & look.restored.valid[use] & (look.invented[use] == 0)
    gone = np.where(ok, look.noisy.data[use] - look.restored.data[use], np.float32(0))
    flat, seen = gone.reshape(len(use), -1).astype(np.float64), ok.reshape(len(use), -1)
    count = np.maximum(seen.sum(1, keepdims=True), 1)
    flat = np.where(seen, flat - flat.sum(1, keepdims=True) / count, 0.0)
    spread = np.sqrt((flat**2).sum(1) / count[:, 0])
    flat = np.clip(flat, -4 * spread[:, None], 4 * spread[:, None])
    length = np.sqrt((flat**2).sum(1))
    return np.asarray(flat @ flat.T / np.maximum(length[:, None] * length, 1e-30))


def draw_correlations(matrix: NDArray[np.float64]) -> RGB:
    """Blue -1, white 0, red 1; colours grow with the square root, so that small ones are seen."""
    ends = np.array([(33, 102, 172), (178, 24, 43)], np.float64)
    part = np.sqrt(np.abs(matrix))[..., None]
    end = np.where((matrix < 0)[..., None], ends[0], ends[1])
    return _fit(np.rint(255 * (1 - part) + end * part).astype(np.uint8))


def draw_weights(look: Look) -> RGB:
    """The mean weight over the bands in use."""
    w = look.weights.astype(np.float64)
    return _fit(heat(w.sum(axis=0) / np.maximum((w > 0).sum(axis=0), 1)))


def draw_invented(look: Look) -> RGB:
    """The share of the bands that are invented."""
    share = (look.invented > 0).mean(axis=0)
    grey = np.rint(255 * np.sqrt(share)).astype(np.uint8)
    return _fit(np.repeat(grey[..., None], 3, axis=2))


def draw_columns(look: Look) -> RGB:
    """A row for each band, a column for each column: the flag that most of its pixels have, if a tenth has.

    Dead and striped lines are found in what was removed; whether a voxel was replaced, the run has told.
    """
    noisy, restored = look.noisy, look.restored
    bands, _, cols = noisy.shape
    picture = np.broadcast_to(PALE, (bands, cols, 3)).copy()
    for b in range(bands):
        valid = noisy.valid[b : b + 1]
        ok = valid & restored.valid[b : b + 1]
        values = restored.data[b : b + 1][ok]
        low, high = np.quantile(values, [0.01, 0.99]) if values.size else (0.0, 0.0)
        if high > low:
            unit = (noisy.data[b : b + 1] - low) / (high - low)
            gone = (noisy.data[b : b + 1] - restored.data[b : b + 1]) / (high - low)
            residual = np.where(ok, gone, 0.0).astype(np.float32)
            dead = dead_lines(unit, valid)
            striped = striped_lines(residual, dead)
        else:
            dead = striped = np.zeros((1, cols), bool)
        code = look.invented[b]
        found = {
            "not measured": ~valid[0].any(0),
            "hardly any weight": (code == FAINT).mean(0) > 0.1,
            "replaced": ((code > 0) & (code != FAINT)).mean(0) > 0.1,
            "striped": striped[0],
            "dead": dead[0],
        }
        for kind, where in found.items():
            picture[b, where] = KINDS[kind]
    times = max(1, 120 // bands)
    return picture.astype(np.uint8).repeat(times, axis=0)[:, :: -(-cols // (2 * LARGEST))]
