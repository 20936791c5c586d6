"""A cube before and after with every so many pixels left out: for pictures and pages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube
from ..io import CubeReader

if TYPE_CHECKING:
    from .job import Job
    from .report import Result

SMALL = 512
"""Longest side of a quick look in pixels."""
PAGE_VOXELS = 2**23
"""Voxels that a page looks at, at most."""


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
