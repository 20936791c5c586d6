"""How a cube that does not fit in memory is cut: the plan.

A cube is cut into strips of rows, with all their columns and bands. Every model of the package is
solved as a whole, with the image and its copies on disk: each step of the solver runs over the strips,
and what mixes all pixels (sums, a Fourier transform) is added up or transformed in between (see
:mod:`hyperdlw.solver.strip_solver`). The numbers are those of the whole cube, up to the order of sums.

A model with a function of which nothing is known (``Term.reach`` and ``Term.staged`` are None) or with a
method of its own works on the whole cube only, and strips are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ..errors import BadOption, OutOfResources
from ..io import format_size, measure_memory
from ..models import REACH
from ..solver import ROW, Model, Strips
from ..weights import BLOCKS, SIDE, sample_step
from .choose import MOST_VOXELS
from .options import Options

Way = Literal["whole", "strips"]

BASE = 340 * 2**20
"""Bytes of an idle process: Python, torch and its libraries."""
NETWORK = 320 * 2**20
"""Bytes of a network at work on one of its own tiles (see ``TILE_BYTES`` of the weights)."""
RESERVE = 32 * 2**20
"""Bytes for everything that is not counted."""
BAND_COPIES = 12
"""Float32 copies of one band while its range is found (median filter, mask, quantiles)."""
WINDOW_COPIES = 14
"""Float32 copies of a window that is only read, weighted or written."""
METHOD_COPIES = 200
"""Float32 copies of an image while a model with a method of its own is at work: a network is fitted."""
MILD_COPIES = 14
"""Float32 copies of a window whose eigenimages are denoised."""
SAMPLE_BYTES = 220
"""Bytes for a voxel of the sample of blocks while the noise is read from it."""
ADVICE_COPIES = 70
"""Float32 copies of the rows that are looked at for advice; the largest model needs the most."""


@dataclass(frozen=True)
class Plan(Strips):
    """How a cube is worked on.

    Attributes:
        way: "whole" (in memory, at once) or "strips".
        memory: estimated largest memory of a process in bytes.
        limit: what was allowed.
        disk: bytes of scratch files.
        seconds: a rough guess for one core.
        tile: the height that was asked for.
    """

    way: Way
    memory: int
    limit: int
    disk: int
    seconds: float
    tile: int | None = None

    @property
    def tiled(self) -> bool:
        return self.way != "whole"

    @property
    def guarantee(self) -> str:
        """What holds for the numbers, in a sentence."""
        return {
            "whole": "the whole cube at once",
            "strips": "exact: every step is taken over the whole cube",
        }[self.way]

    def as_dict(self) -> dict[str, object]:
        """For the report."""
        bands, rows, cols = self.shape
        shape = bands, min(self.height, rows), cols
        more = {"tiles": len(self.strips), "tile_shape": shape, "exact": True}
        return asdict(self) | more | {"guarantee": self.guarantee}

    def __str__(self) -> str:
        if not self.tiled:
            return f"whole cube in memory, about {format_size(self.memory)}"
        bands, _, cols = self.shape
        over = f"halo {self.halo}" if self.halo else "no halo"
        minutes = max(1, round(self.seconds / 60))
        time = f"{minutes} min" if self.seconds < 3600 else f"{self.seconds / 3600:.1f} h"
        return (
            f"{len(self.strips)} tiles of {bands} x {self.height} x {cols}, {over}; "
            f"about {format_size(self.memory)} of memory (limit {format_size(self.limit)}), "
            f"{format_size(self.disk)} of scratch on disk, about {time}; {self.guarantee}"
        )


def count_copies(model: Model) -> int:
    """Float32 images that a step of the solver holds at once, counted from the terms.

    Image, data, weights, right side, spectrum; copy, multiplier and K x of every difference, old and
    new, and what a prox needs.
    """
    if model.method is not None:
        return METHOD_COPIES
    stacked = sum(max(1, len(t.operator.axes)) for t in model.terms)
    fourier = 8 if any(t.operator.axes for t in model.terms) else 0
    carried = 10 * sum(t.staged is None and t.reach != 0 for t in model.terms)
    return 12 + 6 * stacked + fourier + carried


def count_state_images(model: Model) -> int:
    """Float32 images of a state on disk."""
    held = (2 * max(1, len(t.operator.axes)) + (2 if t.reach else 0) for t in model.terms)
    return (3 if model.central is None else 1) + sum(held)


def find_halo(model: Model) -> tuple[int, bool] | None:
    """Rows that a strip of a model needs beside it, and whether they wrap around; None: no strips."""
    wrap = any(ROW in t.operator.axes for t in model.terms)
    reach = max((t.reach or 0 for t in model.terms if t.staged is None), default=0)
    known = all(t.staged is not None or t.reach is not None for t in model.terms)
    if model.method is not None or not known or (wrap and reach) or model.schedule.seconds:
        return None
    # One row for K x, one for K'u.
    return (2 if wrap else reach), wrap


def plan_run(shape: Sequence[int], options: Options) -> Plan:
    """How to work on a cube of ``shape`` (band, row, col) with the limit of memory of the options.

    A cube that fits is worked on whole, unless the options ask for strips. A published method, and a
    model of which not enough is known, sees the whole cube: otherwise it is refused.
    """
    model = options.build_sketch(shape)
    bands, rows, cols = map(int, shape[-3:])
    full, voxels = (bands, rows, cols), bands * rows * cols
    total = measure_memory()
    limit = options.memory or (2**33 if total is None else 3 * total // 4)
    net = NETWORK if options.source.modules else 0
    copies = count_copies(model)
    # Numbers per pixel that are held whole while a function mixes all pixels.
    mixed = sum(t.staged.values_per_pixel for t in model.terms if t.staged is not None)
    each, mix = 4 * copies, 4 * mixed * rows * cols
    at_once = BASE + max(each * voxels + mix, net + 4 * WINDOW_COPIES * voxels)
    # Measured on one core: a network costs as much as hundreds of steps.
    steps = 2e-9 * model.schedule.steps * copies
    seconds = voxels * ((3.6e-6 if net else 0) + steps * (1 + options.uncertainty))
    fits = at_once <= limit
    cut = None if options.published else find_halo(model)
    if cut is None and (
        options.in_strips or (not fits and (options.memory or not options.published))
    ):
        raise (BadOption if fits else OutOfResources)(
            f"the model '{options.model}' works on the whole cube, because it does not say how far its "
            f"pixels depend on each other; that takes about {format_size(at_once)}, the limit is "
            f"{format_size(limit)}: raise --memory and leave out --tile and --workers, or take another "
            "model"
        )
    if cut is None or (fits and not options.in_strips):
        return Plan(full, rows, 0, False, "whole", at_once, limit, 0, seconds)
    halo, wrap = cut
    row = 4 * bands * cols
    fixed = BASE + RESERVE
    window, solving = WINDOW_COPIES * row, each * bands * cols
    band = 4 * BAND_COPIES * rows * cols
    step = SIDE * sample_step(shape, BLOCKS)
    sample = SAMPLE_BYTES * bands * -(-rows // step) * -(-cols // step) * SIDE**2
    auto = "auto" in (options.strength, options.rank)
    choosing = each * min(voxels, MOST_VOXELS) if auto else 0

    def needed(height: int) -> int:
        """Bytes for strips of some height."""
        solved = solving * min(rows, height + 2 * halo)
        net_step = net + window * min(rows, height + 8)
        mild = MILD_COPIES * row * min(rows, height + 2 * REACH) if options.mild else 0
        return fixed + max(band, mix, choosing, solved, net_step, mild, sample)

    tile = options.tile
    least = needed(min(rows, 8))
    if tile is None and least > limit:
        hint = ", or choose strength and rank yourself" if least == fixed + choosing else ""
        raise OutOfResources(
            f"a cube of {bands} bands x {rows} x {cols} needs at least {format_size(least)} of memory "
            f"with this model, even in tiles; the limit is {format_size(limit)}: raise --memory{hint}"
        )
    height = tile or rows
    while tile is None and needed(height) > limit:
        height = max(8, height * 7 // 8)
    height = -(-rows // -(-rows // height))  # as even as may be
    disk = 4 * voxels * (4 + 4 * options.mild + 3 * count_state_images(model))
    disk += 4 * voxels * (options.protect is not None)
    if options.uncertainty:  # the second restoration, beside what the first one leaves
        disk += 4 * voxels * (3 + 4 * options.mild + 3 * count_state_images(model))
    again = (height + 2 * halo) / height
    peak = needed(height)
    return Plan(full, height, halo, wrap, "strips", peak, limit, disk, 2 * seconds * again, tile)


def check_advice(shape: Sequence[int], options: Options) -> None:
    """Refuse to look for advice with a limit of memory that is too small for it."""
    voxels = min(math.prod(shape), MOST_VOXELS)
    need = BASE + max(4 * ADVICE_COPIES * voxels, NETWORK + 4 * WINDOW_COPIES * voxels)
    if options.memory is not None and need > options.memory:
        raise OutOfResources(
            f"finding model and strength for this cube takes about {format_size(need)}; the limit "
            f"is {format_size(options.memory)}: raise --memory, or choose them yourself"
        )
