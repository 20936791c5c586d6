"""A cube denoised by windows: where it is read, what is to be done, and what is known so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import models
from ..cube import BandRange, Cube
from ..models import denoisers
from ..solver import DiskArray, Model, Problem, Schedule
from ..weights import Source
from .journal import Work
from .plan import Plan
from .prepare import Range
from .run import ScheduleName, Strength, chosen_schedule, denoiser_network

ALL = slice(None)


class Reader(Protocol):
    """A cube read by windows: a :class:`hyperdlw.io.CubeReader`, or :class:`InMemory`."""

    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def good_bands(self) -> NDArray[np.bool_]: ...
    @property
    def lazy(self) -> bool:
        """Whether it can be sent to other processes, which then read their windows only."""

    def read(
        self, rows: slice, cols: slice, bands: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]: ...


@dataclass(frozen=True)
class InMemory:
    """A cube in memory, read by windows."""

    cube: Cube
    lazy: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.cube.shape

    @property
    def good_bands(self) -> NDArray[np.bool_]:
        return self.cube.good_bands

    def read(
        self, rows: slice, cols: slice, bands: Any = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        index = ALL if bands is None else bands
        return self.cube.data[index, rows, cols], self.cube.valid[index, rows, cols]


@dataclass(frozen=True)
class Options:
    """What is to be done, as for :func:`hyperdlw.denoise`."""

    model: str
    source: Source
    strength: Strength = 1.0
    rank: Any = None
    schedule: ScheduleName | Schedule = "paper"
    range: Range = "auto"
    seed: int | None = None
    fill: bool = False
    denoiser: denoisers.DenoiserSpec | None = None

    @property
    def original(self) -> bool:
        return self.source.wants_original

    def build(self, shape: Sequence[int], strength: float = 1.0, rank: int | None = None) -> Model:
        return models.build(
            self.model,
            shape,
            strength,
            original=self.original,
            rank=rank,
            denoiser=self.denoiser,
        )

    @property
    def networks(self) -> dict[str, str]:
        """Every network at work, with its hash."""
        shipped = "eigen" if models.find(self.model).takes_denoiser else None
        return self.source.networks | denoiser_network(self.denoiser or shipped)


@dataclass(frozen=True)
class Band:
    """A stored band: why it is not used, or its range and, on the unit interval, its statistics."""

    count: int
    why: str = ""
    lo: float = 0.0
    hi: float = 1.0
    median: float = 0.0
    mean: float = 0.0


@dataclass(frozen=True, eq=False)
class Job:
    """What is known of a run so far; it can be sent to another process."""

    folder: Path
    plan: Plan
    options: Options = field(repr=False)
    stored: int
    """Bands of the source, used or not."""
    use: tuple[int, ...] = ()
    bands: tuple[Band, ...] = ()
    strength: float = 1.0
    rank: int | None = None
    result: DiskArray | None = None
    """The restored image on the unit interval."""

    def array(self, name: str, bands: int | None = None) -> DiskArray:
        shape = len(self.use) if bands is None else bands, *self.plan.shape[1:]
        return DiskArray(self.folder / name, shape)

    @property
    def raw(self) -> DiskArray:
        return self.array("raw", self.stored)

    @property
    def y(self) -> DiskArray:
        return self.array("y")

    @property
    def w(self) -> DiskArray:
        return self.array("w")

    @property
    def limits(self) -> BandRange:
        lo, hi = ([getattr(b, name) for b in self.bands] for name in ("lo", "hi"))
        return BandRange(np.array(lo, np.float32), np.array(hi, np.float32))

    @property
    def measured(self) -> int:
        """Measured voxels of the bands in use."""
        return sum(b.count for b in self.bands)

    @property
    def means(self) -> Tensor:
        return torch.tensor([b.mean for b in self.bands])

    def filled(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Rows of the noisy image, the median of the band in its gaps, and where it was measured."""
        y = self.y.read(rows)
        valid = ~y.isnan()
        middle = torch.tensor([b.median for b in self.bands])[:, None, None]
        return torch.where(valid, y, middle), valid

    def band(self, b: int) -> tuple[Tensor, Tensor]:
        """The same for one band, counted among those in use."""
        y = self.y.read_band(b)[None]
        valid = ~y.isnan()
        return torch.where(valid, y, self.bands[b].median), valid

    def restored(self, b: int) -> NDArray[np.float32]:
        """The restored image of a band in use."""
        assert self.result is not None
        return self.result.read_band(b)[None].numpy()

    @property
    def model(self) -> Model:
        return self.options.build(self.plan.shape, self.strength, self.rank)

    def schedule(self, model: Model) -> Schedule:
        return chosen_schedule(self.options.schedule, model.schedule)

    def part(self, rows: slice, model: Model) -> Problem:
        """The problem on some rows, as if they were the image."""
        y, w = self.y.read(rows).nan_to_num_(), self.w.read(rows)
        return Problem(model, y, w, self.options.seed or 0)


@dataclass
class Run:
    """A run under way: the job as far as it is known, and what does and remembers the work."""

    job: Job
    work: Work
