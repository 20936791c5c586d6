"""Cubes in the form the solver wants, and back: usable bands, the unit interval, no gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cube import BandRange, Cube, minmax_range, robust_range
from ..errors import BadOption, DlwError, NothingToDenoise

Range = Literal["auto", "minmax"] | tuple[float, float]


def check_range(range: Range) -> None:
    """Refuse what is no range."""
    if isinstance(range, str):
        if range not in ("auto", "minmax"):
            raise BadOption(f"range must be 'auto', 'minmax' or two numbers, not '{range}'")
        return
    lo, hi = map(float, range) if len(range) == 2 else (np.nan, np.nan)
    if not (np.isfinite([lo, hi]).all() and hi > lo):
        raise BadOption(f"range needs two numbers, the lower one first, not {range}")
    # The numbers of an image are float32: a span of 0 or infinity there would be lost in silence.
    limits = np.finfo(np.float32)
    if not (max(-lo, hi, hi - lo) <= float(limits.max) and hi - lo >= float(limits.tiny)):
        raise BadOption(f"range {range} is beyond float32; give limits near those of the data")


def find_limits(cube: Cube, range: Range) -> BandRange:
    """The per-band limits that map a cube to the unit interval.

    "auto": limits of the signal from a median-filtered band (for noisy data). "minmax": smallest
    and largest value (the paper's scaling of clean data). A pair (lo, hi): the same for all bands.
    """
    check_range(range)
    if range == "auto":
        return robust_range(cube.data, cube.valid)
    if range == "minmax":
        return minmax_range(cube.data, cube.valid)
    lo, hi = map(float, range)
    return BandRange(np.full(cube.bands, lo, np.float32), np.full(cube.bands, hi, np.float32))


def find_usable_bands(cube: Cube) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Which bands can be denoised, and why the others cannot (band number -> reason)."""
    planes = zip(cube.data, cube.valid, cube.good_bands, strict=True)
    return select_usable([explain_unusable(band, ok, bool(good)) for band, ok, good in planes])


def explain_unusable(band: NDArray[np.float32], ok: NDArray[np.bool_], good: bool) -> str:
    """Why a band cannot be denoised, or ""."""
    if not good:
        return "marked bad"
    if not ok.any():
        return "no valid voxel"
    return "constant" if band[ok].min() == band[ok].max() else ""


def select_usable(why: Sequence[str]) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """The same from the reasons of all bands; refuses a cube without a band that can be denoised."""
    use = np.array([not text for text in why])
    skipped = {b: text for b, text in enumerate(why) if text}
    if not use.any():
        reasons = ", ".join(sorted(set(skipped.values())))
        raise NothingToDenoise(f"none of the {len(use)} bands can be denoised ({reasons})")
    return use, skipped


@dataclass(frozen=True, eq=False)
class Prepared:
    """A cube in the form the solver wants: usable bands, unit interval, gaps filled."""

    y: Tensor
    valid: Tensor
    use: NDArray[np.bool_]
    skipped: dict[int, str]
    limits: BandRange


def prepare_cube(cube: Cube, range: Range = "auto") -> Prepared:
    """Scale, drop unusable bands and fill invalid voxels with the median of their band.

    The filled values carry no weight; they only keep NaN out of the convolutions.
    """
    use, skipped = find_usable_bands(cube)
    limits = find_limits(cube, range)
    data = np.where(cube.valid, cube.data, np.float32(0))
    unit = limits.to_unit(data)[use]
    ok = cube.valid[use]
    for band, good in zip(unit, ok, strict=True):
        if not good.all():
            band[~good] = np.median(band[good])
    y = torch.from_numpy(np.ascontiguousarray(unit))
    return Prepared(y, torch.from_numpy(ok), use, skipped, limits)


def check_finite(values: NDArray[np.float32], touched: NDArray[np.bool_]) -> None:
    """Refuse a result with voxels that are no numbers: it must not be written."""
    count = np.count_nonzero(touched & ~np.isfinite(values))
    if count:
        raise DlwError(
            f"the result has {count} voxels that are not finite, so nothing is handed over; look for "
            "wild values in the input, give --range, or try another model or network"
        )


def put_back(cube: Cube, ready: Prepared, x: Tensor, fill: bool = False) -> Cube:
    """Undo scaling and selection; voxels that were not measured keep what they held, or are filled."""
    unit = np.zeros(cube.shape, np.float32)
    unit[ready.use] = x.numpy()
    values = ready.limits.from_unit(unit)
    touched = (cube.valid | fill) & ready.use[:, None, None]
    check_finite(values, touched)
    restored = cube.with_data(np.where(touched, values, cube.data))
    return replace(restored, valid=cube.valid | touched) if fill else restored
