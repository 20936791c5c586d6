"""Cubes in the form the solver wants, and back: usable bands, the unit interval, no gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cube import BandRange, Cube
from ..errors import BadOption, DlwError, NothingToDenoise
from ..io import atomic
from ..weights import Read, gather_blocks
from .columns import Columns, find_columns
from .limits import limits_of_sample
from .set_aside import find_dead_columns, find_wild, keep_detector_faults
from .shifted import find_shifted

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


@dataclass(frozen=True)
class BandFacts:
    """A stored band: measured voxels, why it is not used or "", extremes, dead columns."""

    count: int
    why: str = ""
    low: float = 0.0
    high: float = 0.0
    dead: tuple[int, ...] = ()


def look_at_band(raw: NDArray[np.float32], good: bool) -> BandFacts:
    """The facts of a band (row, col), NaN where nothing was measured."""
    count = int(np.count_nonzero(~np.isnan(raw)))
    if not good:
        return BandFacts(count, "marked bad")
    if not count:
        return BandFacts(count, "no valid voxel")
    low, high = float(np.nanmin(raw)), float(np.nanmax(raw))
    dead = tuple(np.flatnonzero(find_dead_columns(raw)).tolist())
    return BandFacts(count, "constant" if low == high else "", low, high, dead)


def select_usable(facts: Sequence[BandFacts]) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Which bands can be denoised, and why the others cannot (band number -> reason).

    A cube without a band that can be denoised is refused.
    """
    use = np.array([not f.why for f in facts])
    skipped = {b: f.why for b, f in enumerate(facts) if f.why}
    if not use.any():
        reasons = ", ".join(sorted(set(skipped.values())))
        raise NothingToDenoise(f"none of the {len(use)} bands can be denoised ({reasons})")
    return use, skipped


def look_at_cube(cube: Cube) -> tuple[NDArray[np.float32], list[BandFacts]]:
    """The numbers of a cube, NaN where nothing was measured, and the facts of its bands."""
    raw = np.where(cube.valid, cube.data, np.float32(np.nan))
    pairs = zip(raw, cube.good_bands, strict=True)
    return raw, [look_at_band(band, bool(good)) for band, good in pairs]


def find_usable_bands(cube: Cube) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """As :func:`select_usable`, of a cube."""
    return select_usable(look_at_cube(cube)[1])


class UnitRows(NamedTuple):
    """Rows of an image on the unit scale, NaN where no value is believed, and what was set aside.

    Attributes:
        wild: (band, row, col) voxels that come back as they were, unless gaps are filled.
        bright: (row, col) pixels that come back as they were.
    """

    y: Tensor
    wild: Tensor
    bright: Tensor

    def leave(self, pixels: NDArray[np.bool_]) -> UnitRows:
        """The same with more pixels that come back as they were."""
        return self._replace(bright=self.bright | torch.from_numpy(pixels))

    def touched(
        self, valid: NDArray[np.bool_], fill: bool, gaps_only: bool = False
    ) -> NDArray[np.bool_]:
        """Voxels that get restored values; others, and wild ones, do if gaps are filled.

        Args:
            gaps_only: there was nothing else to do.
        """
        known = valid & ~self.wild.numpy()
        own = ~known & fill if gaps_only else known | fill
        return np.asarray(own & ~self.bright.numpy())


@dataclass(frozen=True, eq=False)
class Scaling:
    """How rows of the bands in use become rows on the unit scale.

    Attributes:
        limits: of the bands.
        columns: offsets or gains of the columns, which are removed for good.
        dead: (band, col) of dead detector elements, whose values are not believed.
    """

    limits: BandRange
    columns: Columns
    dead: NDArray[np.bool_]

    def save(self, path: Path) -> None:
        """Into a file."""
        columns, limits = self.columns, self.limits
        parts, gain = columns.parts, np.array([columns.rows, columns.gain])
        with atomic(path, overwrite=True) as tmp, open(tmp, "wb") as file:
            np.savez(file, lo=limits.lo, hi=limits.hi, parts=parts, gain=gain, dead=self.dead)

    @classmethod
    def load(cls, path: Path) -> Scaling:
        """From a file."""
        with np.load(path, allow_pickle=False) as held:
            rows, gain = held["gain"].tolist()
            columns = Columns(held["parts"], int(rows), bool(gain))
            return cls(BandRange(held["lo"], held["hi"]), columns, held["dead"])

    def to_unit(self, raw: NDArray[np.float32], first: int = 0) -> UnitRows:
        """Rows of the cube, NaN unmeasured; the first of them is number ``first``."""
        y = torch.from_numpy(self.limits.to_unit(self.columns.removed(raw, first)))
        wild, bright = find_wild(y, torch.from_numpy(raw))
        lost = wild | bright | torch.from_numpy(self.dead)[:, None]
        return UnitRows(y.masked_fill(lost, torch.nan), wild, bright)

    def fill(self, y: Tensor, middle: Tensor, bands: slice = slice(None)) -> Tensor:
        """Rows of some bands with the median of the band in gaps, and black in dead columns.

        Networks have learned what neighbours of a black column are worth, not those of a grey one.
        """
        dead = torch.from_numpy(self.dead[bands])[:, None]
        return torch.where(y.isnan(), torch.where(dead, 0.0, middle[:, None, None]), y)


def find_scaling(
    read: Callable[[slice], NDArray[np.float32]],
    shape: Sequence[int],
    facts: Sequence[BandFacts],
    range: Range,
    columns: bool,
) -> Scaling:
    """The scaling of the bands in use of a cube that is read by rows, NaN unmeasured.

    Args:
        range: "auto": limits of the signal, found jointly over the bands. "minmax": smallest and
            largest value (the paper's scaling of clean data). Two numbers: the same for all bands.
        columns: whether offsets and gains of columns, and dead ones, are looked for.
    """
    check_range(range)
    bands, rows, cols = shape
    dead = np.zeros((bands, cols), bool)
    for b, band in enumerate(facts if columns else ()):
        dead[b, list(band.dead)] = True
    dead = keep_detector_faults(dead)
    found = find_columns(read, shape, find_shifted) if columns else Columns.none(shape)
    if range == "minmax":
        low, high = ([getattr(f, name) for f in facts] for name in ("low", "high"))
        limits = BandRange(np.array(low, np.float32), np.array(high, np.float32))
    elif range == "auto":
        hidden = torch.from_numpy(dead)[:, None]

        def believed(part: slice) -> Tensor:
            raw = torch.from_numpy(found.removed(read(part), part.start))
            return raw.masked_fill(hidden, torch.nan)

        found_limits = limits_of_sample(*gather_blocks(believed, (bands, rows, cols)))
        limits = BandRange(*(v.numpy() for v in found_limits))
    else:
        limits = BandRange(*(np.full(bands, v, np.float32) for v in range))
    return Scaling(limits, found, dead)


def count_poor(y: Tensor) -> int:
    """Pixels of rows (band, row, col) that are known (not NaN) in less than half of their bands."""
    return int((2 * y.isnan().sum(0) > len(y)).sum())


def check_believed(believed: int, measured: int, range: Range) -> None:
    """Refuse a told range that most values are far from."""
    if 2 * believed < measured:
        share = 100 * (1 - believed / measured)
        raise BadOption(
            f"{share:.0f} % of the values lie far outside the range {range}; give the limits of the "
            "data, or leave the range out"
        )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A cube in the form the solver wants: usable bands, unit scale, gaps filled.

    Attributes:
        y: (band, row, col), without gaps (:meth:`Scaling.fill`).
        valid: where one is.
        rows: what was set aside.
        use: which bands of the cube take part; ``skipped``: why others do not.
    """

    y: Tensor
    valid: Tensor
    rows: UnitRows
    use: NDArray[np.bool_]
    skipped: dict[int, str]
    scaling: Scaling

    @property
    def limits(self) -> BandRange:
        return self.scaling.limits

    @property
    def read(self) -> Read:
        """Rows of the image, NaN where no value is believed."""
        return lambda rows: self.rows.y[:, rows]


def prepare_cube(cube: Cube, range: Range = "auto", columns: bool = True) -> Prepared:
    """Scale, drop unusable bands, set wild voxels aside and fill gaps.

    The filled values carry no weight; they only keep NaN out of the convolutions.
    """
    raw, facts = look_at_cube(cube)
    use, skipped = select_usable(facts)
    raw = raw[use]
    kept = [f for f in facts if not f.why]
    scaling = find_scaling(lambda rows: raw[:, rows], raw.shape, kept, range, columns)
    rows = scaling.to_unit(raw)
    valid = ~rows.y.isnan()
    check_believed(int(valid.sum()), sum(f.count for f in kept), range)
    y = scaling.fill(rows.y, torch.tensor([find_middle(band) for band in rows.y]))
    return Prepared(y, valid, rows, use, skipped, scaling)


def find_middle(band: Tensor) -> float:
    """The median of what is believed of a band; 0 where nothing is."""
    known = band[~band.isnan()].numpy()
    return float(np.median(known)) if known.size else 0.0


def check_finite(values: NDArray[np.float32], touched: NDArray[np.bool_]) -> None:
    """Refuse a result with voxels that are no numbers: it must not be written."""
    count = np.count_nonzero(touched & ~np.isfinite(values))
    if count:
        raise DlwError(
            f"the result has {count} voxels that are not finite, so nothing is handed over; look for "
            "wild values in the input, give --range, or try another model or network"
        )


def put_back(
    cube: Cube, ready: Prepared, x: Tensor, fill: bool = False, gaps_only: bool = False
) -> Cube:
    """Undo scaling and selection.

    Voxels that were not measured and wild ones keep what they held, or are filled; bright pixels keep it, and
    so do all others if only gaps are to be filled.
    """
    data, valid = cube.data.copy(), cube.valid.copy()
    touched = ready.rows.touched(cube.valid[ready.use], fill, gaps_only)
    values = ready.limits.from_unit(x.numpy())
    check_finite(values, touched)
    data[ready.use] = np.where(touched, values, data[ready.use])
    valid[ready.use] |= touched
    return replace(cube.with_data(data), valid=valid)
