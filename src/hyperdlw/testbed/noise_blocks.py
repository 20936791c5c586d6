"""What a noise is made of: blocks that add one kind of damage and note it in the truth.

A block takes ``x``, a clean cube in [0, 1] or the result of another block, and ``rng``, the source of
randomness. ``affected`` is the number of bands that are hit; None: 10 of 31, in proportion. Blocks
that add (``gaussian``, ``spatial_gaussian``, ``stripes``) come before those that overwrite voxels
(``impulses``, ``dead_columns``): that is the order of the paper, and in it the truth is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, BadOption

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
Clean = NDArray[np.generic]
Pair = tuple[float, float]
Rng = np.random.Generator

SIGMA: Pair = (10 / 255, 70 / 255)
"""Limits of the standard deviation, for data in [0, 1]."""
RATIO: Pair = (0.1, 0.5)
"""Limits of the share of the voxels of a band that are impulses."""
COLUMNS: Pair = (0.05, 0.2)
"""Limits of the share of the columns of a band that are striped or dead."""
OFFSET = 0.25
"""Largest absolute offset of a stripe."""
RADIUS: Pair = (0.3, 1.5)
"""Limits of the radius (standard deviation) of a bump of noise, in longer image sides."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What was done to the clean cube.

    On the voxels of ``intact``, y = x + bright + stripe + sigma * n exactly, where n has mean 0 and
    variance 1 and is standard normal for every noise but photons.

    Attributes:
        sigma: standard deviation of n's part, shape (band, row, col) or (band, 1, 1).
        impulse: True where an impulse stands (and has not been overwritten by a dead column).
        dead: True on dead columns.
        stripe: the offset added, 0 off the stripes; kept as drawn where an impulse overwrote it.
        clipped: True where the value was cut to 0 or 1 before impulses were set in that band.
        bright: what bright pixels add to the scene, (band, row, col) or (1, 1, 1) for none; it belongs
            to the clean image.
    """

    sigma: F32
    impulse: Mask
    dead: Mask
    stripe: F32
    clipped: Mask
    bright: F32 = field(default_factory=lambda: np.zeros((1, 1, 1), np.float32))

    @property
    def intact(self) -> Mask:
        """True where only additive noise acted."""
        return ~(self.impulse | self.dead | self.clipped)


@dataclass(frozen=True, eq=False)
class Noisy:
    """A noisy cube ``y``, float32 (band, row, col), and the truth about its noise; NaN is a gap."""

    y: F32
    truth: Truth

    @property
    def valid(self) -> Mask:
        """True where a value was measured."""
        return np.isfinite(self.y)

    @property
    def judged(self) -> Mask | None:
        """True where a restoration is judged: off gaps and bright pixels; None: everywhere."""
        judged: Mask = self.valid & ~(self.truth.bright != 0).any(axis=0)
        return None if judged.all() else judged

    def find_target(self, x: Clean) -> F32:
        """What should come back, for the clean cube ``x`` that was given: bright pixels stay."""
        return np.asarray(x, np.float32) + self.truth.bright

    @classmethod
    def clean(cls, x: Clean) -> Noisy:
        """The cube without any noise: the start of a chain of blocks."""
        x = np.asarray(x)
        if x.ndim != 3 or 0 in x.shape:
            raise BadInput(f"noise needs a cube (band, row, col); this array has shape {x.shape}")
        if x.dtype.kind not in "buif":
            raise BadInput(f"noise needs real numbers; this array is of type {x.dtype}")
        none = np.zeros(x.shape, bool)
        sigma, stripe = np.zeros((len(x), 1, 1), np.float32), np.zeros(x.shape, np.float32)
        truth = Truth(sigma, impulse=none, dead=none, stripe=stripe, clipped=none)
        return cls(x.astype(np.float32, order="C"), truth)


Start = Clean | Noisy
"""A clean cube in [0, 1], or the result of another block."""


def affected_bands(bands: int, affected: int | None = None) -> int:
    """How many bands carry impulses, stripes or dead columns: 10 of 31, and in proportion.

    >>> [affected_bands(b) for b in (1, 3, 31, 224)]
    [1, 1, 10, 72]
    """
    if affected is None:
        return max(1, round(10 / 31 * bands))
    if not 0 <= affected <= bands:
        raise BadOption(f"affected must lie between 0 and the {bands} bands, not {affected}")
    return affected


def gaussian(x: Start, rng: Rng, *, sigma: Pair = SIGMA) -> Noisy:
    """Add Gaussian noise whose standard deviation is drawn anew for every band.

    y_b = x_b + sigma_b n,  sigma_b uniform in ``sigma`` (data in [0, 1]),  n standard normal.

    >>> x = np.zeros((3, 4, 5), np.float32)
    >>> gaussian(x, np.random.default_rng(0)).truth.sigma.shape
    (3, 1, 1)
    """
    noisy = start_chain(x)
    return add_gaussian(noisy, draw_band_sigma(len(noisy.y), rng, sigma), rng)


def spatial_gaussian(x: Start, rng: Rng, *, sigma: Pair = SIGMA, radius: Pair = RADIUS) -> Noisy:
    """Add Gaussian noise that is strongest around one random point of every band.

    y = x + s n, where s is an affine image of the bumps exp(-|p - c_b|^2 / (2 r_b^2)) that sends
    their minimum and maximum over the whole cube to the two limits ``sigma``; ``radius`` has the
    limits of r_b, in units of the longer image side.
    """
    noisy = start_chain(x)
    return add_gaussian(noisy, draw_bump_sigma(noisy.y.shape, rng, sigma, radius), rng)


def stripes(
    x: Start,
    rng: Rng,
    *,
    affected: int | None = None,
    columns: Pair = COLUMNS,
    offset: float = OFFSET,
) -> Noisy:
    """Shift a share within ``columns`` of some bands' columns, by offsets uniform in [-offset, offset]."""
    noisy = start_chain(x)
    if not offset >= 0:
        raise BadOption(f"offset must not be negative, not {offset}")
    bands = _draw_bands(noisy, rng, affected)
    cols = noisy.y.shape[2]
    shift = rng.uniform(-offset, offset, (len(bands), 1, cols)).astype(np.float32)
    shift *= _draw_columns(len(bands), cols, rng, columns)
    stripe = noisy.truth.stripe.copy()
    stripe[bands] += shift
    y = noisy.y.copy()
    y[bands] += shift
    return Noisy(y, replace(noisy.truth, stripe=stripe))


def impulses(
    x: Start,
    rng: Rng,
    *,
    affected: int | None = None,
    ratio: Pair = RATIO,
    clip: bool = True,
) -> Noisy:
    """Replace a share of the voxels of some bands by 0 or 1 with equal probability.

    A voxel is replaced with probability p_b, uniform in ``ratio``; its neighbours do not matter.
    ``clip`` cuts the affected bands to [0, 1] first, as MATLAB's ``imnoise`` does.
    """
    noisy = start_chain(x)
    _check_pair("ratio", ratio, 1.0)
    bands = _draw_bands(noisy, rng, affected)
    _, rows, cols = noisy.y.shape
    share = rng.uniform(*ratio, (len(bands), 1, 1))
    draw = rng.random((len(bands), rows, cols))
    hit = draw < share
    before = noisy.y[bands]
    kept = np.clip(before, 0.0, 1.0) if clip else before
    y = noisy.y.copy()
    # One draw decides both: below half the share is pepper, the upper half is salt.
    y[bands] = np.where(hit, (draw >= share / 2).astype(np.float32), kept)
    impulse = noisy.truth.impulse.copy()
    impulse[bands] |= hit
    clipped = noisy.truth.clipped.copy()
    clipped[bands] |= (kept != before) & ~hit
    return Noisy(y, replace(noisy.truth, impulse=impulse, clipped=clipped))


def dead_columns(
    x: Start, rng: Rng, *, affected: int | None = None, columns: Pair = COLUMNS
) -> Noisy:
    """Set a share within ``columns`` of the columns of some bands to 0."""
    noisy = start_chain(x)
    bands = _draw_bands(noisy, rng, affected)
    dead = noisy.truth.dead.copy()
    dead[bands] |= _draw_columns(len(bands), noisy.y.shape[2], rng, columns)
    impulse, clipped = noisy.truth.impulse & ~dead, noisy.truth.clipped & ~dead
    truth = replace(noisy.truth, dead=dead, impulse=impulse, clipped=clipped)
    return Noisy(np.where(dead, np.float32(0), noisy.y), truth)


def start_chain(x: Start) -> Noisy:
    """The result of another block as it is, or a clean cube without any noise yet."""
    return x if isinstance(x, Noisy) else Noisy.clean(x)


def _check_pair(name: str, pair: Pair, top: float = np.inf) -> None:
    if not 0 <= pair[0] <= pair[1] <= top:
        limit = f" and at most {top:g}" if np.isfinite(top) else ""
        raise BadOption(f"{name} must be (low, high) with 0 <= low <= high{limit}, not {pair}")


def draw_band_sigma(bands: int, rng: Rng, sigma: Pair = SIGMA) -> F32:
    """One standard deviation per band, uniform in ``sigma``, (band, 1, 1)."""
    _check_pair("sigma", sigma)
    return rng.uniform(*sigma, (bands, 1, 1)).astype(np.float32)


def draw_bump_sigma(
    shape: tuple[int, ...], rng: Rng, sigma: Pair = SIGMA, radius: Pair = RADIUS
) -> F32:
    """A standard deviation per voxel with one bump in every band; see :func:`spatial_gaussian`."""
    _check_pair("sigma", sigma)
    _check_pair("radius", radius)
    if radius[0] == 0:
        raise BadOption("radius must be positive")
    bands, rows, cols = shape
    r = rng.uniform(*radius, (bands, 1, 1)) * max(rows, cols)
    row = np.arange(rows)[None, :, None] - rng.uniform(0, rows - 1, (bands, 1, 1))
    col = np.arange(cols)[None, None, :] - rng.uniform(0, cols - 1, (bands, 1, 1))
    # The bump is separable: rows + cols exponentials in place of rows * cols.
    bump = np.exp(-((row / r) ** 2) / 2).astype(np.float32)
    bump = bump * np.exp(-((col / r) ** 2) / 2).astype(np.float32)
    low, high = bump.min(), bump.max()
    # One single voxel has no minimum and maximum to map: it gets the middle of the range.
    unit = (bump - low) / (high - low) if high > low else np.full_like(bump, 0.5)
    level: F32 = np.float32(sigma[0]) + np.float32(sigma[1] - sigma[0]) * unit
    return level


def add_gaussian(noisy: Noisy, sigma: F32, rng: Rng) -> Noisy:
    """Add sigma * n with n standard normal; ``sigma`` is (band, row, col) or (band, 1, 1)."""
    y = rng.standard_normal(noisy.y.shape, dtype=np.float32)
    y *= sigma
    y += noisy.y
    before = noisy.truth.sigma
    total = np.hypot(before, sigma) if before.any() else sigma
    return Noisy(y, replace(noisy.truth, sigma=total))


def _draw_bands(noisy: Noisy, rng: Rng, affected: int | None) -> NDArray[np.int64]:
    bands = len(noisy.y)
    return rng.permutation(bands)[: affected_bands(bands, affected)]


def _draw_columns(count: int, cols: int, rng: Rng, columns: Pair) -> Mask:
    """A (count, 1, cols) mask with a random number of columns in every line."""
    _check_pair("columns", columns, 1.0)
    # The tolerance keeps 0.05 * 20 at one column whatever the rounding of the product.
    low, high = (max(1, int(share * cols + 1e-9)) for share in columns)
    number = rng.integers(low, high, (count, 1), endpoint=True)
    rank = rng.random((count, cols)).argsort(axis=1).argsort(axis=1)
    chosen: Mask = (rank < number)[:, None, :]
    return chosen
