"""A cube worked on in strips: where it is read, what is known of it so far, and where it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import io
from ..cube import Cube
from ..errors import BadOption
from ..io import CubeReader
from ..solver import DiskArray, Model
from .choose import Chosen
from .invented import Belief
from .options import Options
from .plan import Plan
from .prepare import Scaling, check_finite
from .protect import Keeper
from .report import Report


class MemoryReader:
    """A cube in memory, read by windows."""

    lazy = False

    def __init__(self, cube: Cube) -> None:
        self.cube, self.shape, self.good_bands = cube, cube.shape, cube.good_bands
        self.wavelengths = cube.wavelengths

    def read(self, rows: slice) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        return self.cube.data[:, rows], self.cube.valid[:, rows]

    def read_inexact(self, rows: slice) -> None:
        """The outputs are in memory, too, and hold what the cube has kept."""


Reader = CubeReader | MemoryReader
"""A cube that is read by windows. A lazy one can be sent to other processes, which then read theirs."""


@dataclass(frozen=True)
class Band:
    """A band in use, on the unit interval: voxels that are believed, their median and their mean."""

    count: int
    median: float
    mean: float


@dataclass(frozen=True, eq=False)
class Job:
    """What is known of a run so far; it can be sent to another process."""

    folder: Path
    plan: Plan
    options: Options = field(repr=False)
    stored: int
    """Bands of the source, used or not."""
    use: tuple[int, ...] = ()
    scaling: Scaling | None = None
    bands: tuple[Band, ...] = ()
    quiet: bool = False
    """Whether there is mild noise and nothing else."""
    spared: bool = False
    """Whether neither network nor model is needed."""
    untouched: bool = False
    """Whether there is nothing to do, and the cube goes back as it is."""
    chosen: Chosen | None = None
    result: DiskArray | None = None
    """The restored image on the unit interval."""
    tag: str = ""
    """Put before the names of arrays: a second restoration has its own, but the same weights."""
    keeper: Keeper | None = None
    """What must not be smoothed away."""
    deviation: DiskArray | None = None
    """The standard deviation of every voxel on the unit interval."""
    model: DiskArray | None = None
    """The image before it was blended."""
    belief: Belief | None = None
    """What tells invented voxels."""

    @property
    def use_mask(self) -> NDArray[np.bool_]:
        """Which of the stored bands are used."""
        return np.isin(np.arange(self.stored), self.use)

    def array(self, name: str, bands: int | None = None) -> DiskArray:
        shape = len(self.use) if bands is None else bands, *self.plan.shape[1:]
        return DiskArray(self.folder / f"{self.tag}{name}", shape)

    @property
    def raw(self) -> DiskArray:
        return self.array("raw", self.stored)

    @property
    def y(self) -> DiskArray:
        return self.array("y")

    @property
    def image(self) -> DiskArray:
        """The restored image, once there is one."""
        assert self.result is not None
        return self.result

    @property
    def w(self) -> DiskArray:
        return replace(self, tag="").array("w")

    @property
    def measured(self) -> int:
        """Believed voxels of the bands in use."""
        return sum(b.count for b in self.bands)

    def filled(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Rows of the noisy image without gaps (:meth:`Scaling.fill`), and where it was measured."""
        assert self.scaling is not None
        y = self.y.read(rows)
        middle = torch.tensor([b.median for b in self.bands])
        return self.scaling.fill(y, middle), ~y.isnan()

    def band(self, b: int) -> tuple[Tensor, Tensor]:
        """The same for one band, counted among those in use."""
        assert self.scaling is not None
        y = self.y.read_band(b)[None]
        middle = torch.tensor([self.bands[b].median])
        return self.scaling.fill(y, middle, slice(b, b + 1)), ~y.isnan()

    def restored(self, b: int) -> NDArray[np.float32]:
        """The restored image of a band in use."""
        return self.image.read_band(b)[None].numpy()

    def build(self, rows: int, last: bool = True) -> Model:
        """The model for so many rows."""
        assert self.chosen is not None
        shape = len(self.use), rows, self.plan.shape[2]
        return self.options.build(shape, self.chosen.total(last), self.chosen.rank)

    def restored_strip(self, reader: Reader, i: int) -> RestoredStrip:
        """A strip of the result in the units of the cube, with the bands that are not used."""
        assert self.scaling is not None
        rows, use = self.plan.window(i, 0).own, list(self.use)
        data, valid = reader.read(rows)
        values, w = data.copy(), np.zeros_like(data)
        values[use] = self.scaling.limits.from_unit(self.image.read(rows).numpy())
        w[use] = self.w.read(rows).numpy()
        raw = np.where(valid[use], data[use], np.float32(np.nan))
        restored, code = np.zeros_like(valid), np.zeros(valid.shape, np.uint8)
        unit = self.scaling.to_unit(raw, rows.start)
        if self.keeper is not None:
            unit = unit.leave(self.keeper.pixels[rows])
        restored[use] = unit.touched(valid[use], self.options.fill)
        if self.belief is not None and self.model is not None:
            told = unit, valid[use], self.model.read(rows), torch.from_numpy(w[use])
            code[use] = self.belief.find(*told)
        touched = restored
        if self.untouched:
            assert self.belief is not None
            assert self.belief.blend is not None
            assert self.model is not None
            gaps = self.belief.blend.fill(unit.y, self.model.read(rows))[0]
            values[use] = self.scaling.limits.from_unit(gaps.numpy())
            touched = np.zeros_like(valid)
            touched[use] = unit.touched(valid[use], self.options.fill, gaps_only=True)
        check_finite(values, touched)
        found = np.where(touched, values, data)
        sd = None
        if self.deviation is not None:
            sd = np.full_like(data, np.nan)
            sd[use] = self.deviation.read(rows).numpy() * self.scaling.limits.span.reshape(-1, 1, 1)
            sd[~restored | ((code > 0) & (not self.options.include_invented))] = np.nan
        stored = reader.read_inexact(rows)
        return RestoredStrip(found, valid | touched, valid, w, stored, sd, code)


class RestoredStrip(NamedTuple):
    """Rows of the restored cube, where it holds, where it was measured, the weights, the numbers
    of the file where float32 does not hold them exactly, the standard deviations, if asked for, and the
    codes of invented voxels."""

    values: NDArray[np.float32]
    ok: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    weights: NDArray[np.float32]
    stored: NDArray[np.generic] | None
    uncertainty: NDArray[np.float32] | None
    invented: NDArray[np.uint8]


def chain_cubes(
    source: Path, target: Path, keys: Sequence[str], overwrite: bool, one: Callable[..., Report]
) -> Report:
    """Restore cubes of a file one by one: ``one`` makes a copy in which one more of them is clean.

    The report is that of the last cube, with the seconds of all.
    """
    with io.open_reader(source, key=keys[0]) as first:
        if not io.is_copy(target, first):
            raise BadOption(
                f"a series is written in the format of its input, and {target} is of another; give it "
                f"the ending of {source.name}, or take one cube with --key '{keys[0]}'"
            )
    last, total = source, 0.0
    with TemporaryDirectory(prefix=".hyperdlw-", dir=target.absolute().parent) as folder:
        for i, key in enumerate(keys):
            made = Path(folder) / f"{i % 2}{target.suffix}"
            report = one(last, made, key)
            last, total = made, total + report.seconds["total"]
            if not made.exists():  # a strict run that did not converge
                return report
        with io.atomic(target, overwrite=overwrite, directory=last.is_dir()) as tmp:
            for part in last.iterdir() if last.is_dir() else ():
                part.rename(tmp / part.name)
            if last.is_file():
                last.rename(tmp)
    notes = (f"{len(keys)} cubes were cleaned, {keys[0]} to {keys[-1]}", *report.notes)
    return replace(report, notes=notes, seconds={**report.seconds, "total": total})
