"""Was it only noise? What a restoration took away, looked at band by band.

With y the noisy and x the restored image on the unit scale, z = (y - x) / sqrt(v(x)) is what was removed,
in standard deviations of the noise (v is its law), cut to four of them. Voxels that are no signal plus noise
(not measured, set aside, invented) take no part. White noise that is removed by whatever means has

- no positive correlation of neighbouring pixels, along rows or along columns. The smaller one counts: a
  removed stripe is correlated along one of them only, and is no part of the scene;
- none of neighbouring pixels summed over five bands, where what is removed from several bands adds up;
- none with the restored image around the pixel (the mean of its four neighbours, so that the noise of the
  pixel itself has no part in it): something in proportion to the image would be missing;
- none with its edges: neither has z^2 more energy where the gradient is long, nor does z follow the detail of
  the bands around, upright or reversed (eight pixels at a distance of one less eight of two: of other bands
  and pixels, since the noise that is left in x is in z as well). The larger one counts.

A good restoration of white noise has small correlations of its own: noise that it leaves in x is missing
in y - x, and some texture goes. So a correlation counts from a limit on,  floor + 4 / sqrt(pixels),  whose
floor lies above what restorations of white noise have on scenes made by code and on training scenes
(``benchmarks/audit.py`` measures both errors).

All are sums over pixels, so an image in strips has the same numbers up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cube import Cube
from ..errors import BadInput
from ..weights import NoiseLaw
from .guard import NOTHING
from .invented import Belief, find_least
from .mild import choose_blend
from .prepare import Range, prepare_cube
from .sample import Sample

CUT = 4.0
"""Standard deviations to which what was removed is cut."""
POOLED = 2
"""Bands on either side that are summed."""
SIGNS = ("neighbours", "pooled", "image", "edges")
FLOORS = (0.06, 0.08, 0.13, 0.14)
"""Correlations that a good restoration of white noise may have, for the four signs of structure."""
SURE = 4.0
"""Standard errors that are added to them."""
MOVED = 0.1
"""A band that lost less than this part of its noise lost nothing."""
DEEP = 0.5
"""Part of the noise, root mean square, from which faint signals go with it."""
PIECE = 2**19
"""Voxels that are looked at at once."""
AROUND = 2
"""Rows on either side that a pixel is compared with."""
EIGHT = tuple((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
KINDS = 7
"""Pairs whose moments are summed: neighbours and pooled along rows and columns, image, edges and detail."""


@dataclass(frozen=True, eq=False)
class AuditSums:
    """Sums over pixels.

    Attributes:
        pairs: (kind, band, 6) of every pair (a, b): count, a, b, a^2, b^2, ab.
        energy: (band, 4): voxels, z^2, noise variance, squared standard deviation of the result.
    """

    pairs: Tensor
    energy: Tensor

    def __add__(self, other: AuditSums) -> AuditSums:
        return AuditSums(self.pairs + other.pairs, self.energy + other.energy)

    @classmethod
    def start(cls, bands: int) -> AuditSums:
        """Nothing yet."""
        return cls(torch.zeros(KINDS, bands, 6).double(), torch.zeros(bands, 4).double())


@dataclass(frozen=True, eq=False)
class AuditRows:
    """Rows of an image with :data:`AROUND` more on either side, where it has them.

    Attributes:
        y, x: before and after, (band, row, col) on the unit scale.
        ok: voxels that take part.
        above, below: how many more there are.
        deviation: standard deviations of x, if they are known.
    """

    y: Tensor
    x: Tensor
    ok: Tensor
    above: int
    below: int
    deviation: Tensor | None = None


def cut_pieces(rows: slice, bands: int, cols: int, height: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of rows of an image of some height, and the same with more on either side."""
    step = max(4, PIECE // (bands * cols))
    for first in range(rows.start, rows.stop, step):
        last = min(first + step, rows.stop)
        yield slice(first, last), slice(max(0, first - AROUND), min(height, last + AROUND))


def sum_piece(piece: AuditRows, law: NoiseLaw) -> AuditSums:
    """The sums of the rows of a piece; pairs belong to their upper and left pixel."""
    y, x, ok = piece.y, piece.x, piece.ok
    variance = law.variance(x)
    z = torch.where(ok, (y - x) / variance.clamp_min(NOTHING**2).sqrt(), 0.0).clamp(-CUT, CUT)
    seen = ok.to(z)
    pooled = z + _sum_around(z)
    first, last = piece.above, z.shape[1] - piece.below
    own = slice(first, last)
    found = []
    for v in (z, pooled):
        down = slice(first, min(last, z.shape[1] - 1))
        next_row = slice(down.start + 1, down.stop + 1)
        found.append(_sum_pairs(v[:, down], v[:, next_row], seen[:, down] * seen[:, next_row]))
        a, b, m = v[:, own], v[:, own], seen[:, own]
        found.append(_sum_pairs(a[..., :-1], b[..., 1:], m[..., :-1] * m[..., 1:]))
    # The pixels that have the neighbours; those at the borders of the image have not.
    here = _cut_inner(piece, 1)
    up, under, left, right = (here(x, *d) for d in ((-1, 0), (1, 0), (0, -1), (0, 1)))
    steep = ((up - under).square() + (left - right).square()).sqrt()
    found.append(_sum_pairs(here(z), (up + under + left + right) / 4, here(seen)))
    found.append(_sum_pairs(here(z).square(), steep, here(seen)))
    there = _cut_inner(piece, AROUND)
    detail = sum(there(x, i, j) - there(x, AROUND * i, AROUND * j) for i, j in EIGHT)
    assert isinstance(detail, Tensor)
    found.append(_sum_pairs(there(z), _sum_around(detail), there(seen)))
    sd = torch.zeros_like(x) if piece.deviation is None else piece.deviation
    parts = (seen, z.square(), variance * seen, (sd * seen).square())
    energy = torch.stack([v[:, own].sum((1, 2), dtype=torch.float64) for v in parts], 1)
    return AuditSums(torch.stack(found), energy)


def _cut_inner(piece: AuditRows, margin: int) -> Callable[..., Tensor]:
    """What cuts the pixels out that have so many on all sides, or those some rows and columns further."""
    rows, cols = piece.x.shape[1:]
    top, bottom = max(margin, piece.above), rows - max(margin, piece.below)

    def cut(v: Tensor, down: int = 0, right: int = 0) -> Tensor:
        r, c = (top + down, bottom + down), (margin + right, cols - margin + right)
        return v[:, r[0] : max(r), c[0] : max(c)]

    return cut


def _sum_around(v: Tensor) -> Tensor:
    """For every band the sum of the bands on either side of it."""
    total = torch.zeros_like(v)
    for k in range(1, POOLED + 1):
        total[k:] += v[:-k]
        total[:-k] += v[k:]
    return total


def _sum_pairs(a: Tensor, b: Tensor, seen: Tensor) -> Tensor:
    """Moments (band, 6) of the pairs that are seen."""
    a, b = a * seen, b * seen
    pairs = ((seen, seen), (a, seen), (b, seen), (a, a), (b, b), (a, b))
    return torch.stack([(v * w).sum((1, 2), dtype=torch.float64) for v, w in pairs], 1)


def find_correlations(pairs: Tensor) -> Tensor:
    """Correlations (...) of moments (..., 6); 0 where there is no variance."""
    n, a, b, aa, bb, ab = pairs.unbind(-1)
    n = n.clamp_min(1)
    spread = ((aa / n - (a / n) ** 2) * (bb / n - (b / n) ** 2)).clamp_min(0).sqrt()
    return torch.where(spread > 1e-12, (ab / n - a * b / n**2) / spread.clamp_min(1e-12), 0.0)


@dataclass(frozen=True)
class BandAudit:
    """What was removed from a band.

    Attributes:
        band: its number, from 0.
        voxels: that took part.
        removed: root mean square of what was removed, in standard deviations of the noise.
        neighbours, pooled, image, edges: the correlations that white noise does not have.
        level: of the noise before, root mean square, in units of the range.
        left: standard deviation of the result in the same units, None where it was not found.
        signs: those of the four that are above their limit.
    """

    band: int
    voxels: int
    removed: float
    neighbours: float
    pooled: float
    image: float
    edges: float
    level: float
    left: float | None
    signs: tuple[str, ...]

    @property
    def structured(self) -> bool:
        """Whether what was removed looks like a part of the scene."""
        return bool(self.signs)

    @property
    def gain(self) -> float | None:
        """Gain of the signal-to-noise ratio in dB."""
        if not self.left or not self.level:
            return None
        return float(20 * np.log10(self.level / self.left))


@dataclass(frozen=True)
class Audit:
    """The bands of a cube, and whether anything was removed at all."""

    bands: tuple[BandAudit, ...]

    @property
    def structured(self) -> tuple[int, ...]:
        """Numbers, from 0, of the bands that lost more than noise."""
        return tuple(b.band for b in self.bands if b.structured)

    @property
    def removed(self) -> bool:
        """Whether anything was."""
        return any(b.removed > MOVED for b in self.bands)

    @property
    def deep(self) -> bool:
        """Whether most of the noise went, and with it what a pixel has below it: nothing tells the two."""
        removed = [b.removed for b in self.bands]
        return bool(removed) and float(np.median(removed)) > DEEP

    def as_dict(self) -> dict[str, object]:
        """For the report."""
        return {"structured": list(self.structured), "bands": [asdict(b) for b in self.bands]}

    def describe(self, wavelengths: NDArray[np.float64] | None = None, most: int = 6) -> str:
        """One line: white or structured, in how many bands, and which (number from 1, wavelength)."""
        if not self.removed:
            return "nothing was removed"
        hit, count = self.structured, len(self.bands)
        if not hit:
            return f"what was removed is white in all {count} bands"
        named = [
            f"{b + 1}" + ("" if wavelengths is None else f" ({wavelengths[b]:.0f} nm)")
            for b in hit[:most]
        ]
        more = f" and {len(hit) - most} more" if len(hit) > most else ""
        return (
            f"what was removed is structured in {len(hit)} of {count} bands: "
            f"{', '.join(named)}{more}"
        )


def judge_sums(sums: AuditSums, use: NDArray[np.bool_]) -> Audit:
    """The audit, from the sums of all pixels; ``use``: which bands of the cube they belong to."""
    found = find_correlations(sums.pairs)
    near = torch.minimum(found[0], found[1])
    pooled = torch.minimum(found[2], found[3])
    edges = torch.maximum(found[5], found[6].abs())
    values = torch.stack([near, pooled, found[4], edges], 1)
    counts = sums.pairs[[0, 2, 4, 5], :, 0].T.clamp_min(1)
    over = values > torch.tensor(FLOORS) + SURE / counts.sqrt()
    voxels, square, noise, left = sums.energy.unbind(1)
    size = voxels.clamp_min(1)
    removed = (square / size).sqrt()
    level, sd = (noise / size).sqrt(), (left / size).sqrt()
    bands = []
    for i, b in enumerate(np.flatnonzero(use).tolist()):
        moved = float(removed[i])
        signs = tuple(s for s, is_so in zip(SIGNS, over[i].tolist(), strict=True) if is_so)
        bands.append(
            BandAudit(
                b,
                int(voxels[i]),
                moved,
                **dict(zip(SIGNS, values[i].tolist(), strict=True)),
                level=float(level[i]),
                left=float(sd[i]) or None,
                signs=signs if moved > MOVED else (),
            )
        )
    return Audit(tuple(bands))


def audit(
    noisy: Cube,
    restored: Cube,
    weights: NDArray[np.float32] | None = None,
    range: Range = "auto",
) -> Audit:
    """What denoising took away: is it noise?

    Args:
        noisy, restored: before and after, of the same shape; from whatever method.
        weights: of the noisy cube (:func:`hyperdlw.predict_weights`); voxels with less than a twentieth of
            the middle weight of their band are left out. None: outliers are.
        range: how bands are scaled to [0, 1].
    """
    if noisy.shape != restored.shape:
        shapes = f"{noisy.shape} and {restored.shape}"
        raise BadInput(f"the cubes have different (band, row, col) shapes: {shapes}")
    ready = prepare_cube(noisy, range)
    y, use = ready.rows.y, ready.use
    held = torch.from_numpy(restored.valid[use] & np.isfinite(restored.data[use]))
    x = torch.from_numpy(ready.limits.to_unit(restored.data[use]))
    x = torch.where(held, x, ready.y)
    y = torch.where(held, y, torch.nan)
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    dead = float(ready.scaling.dead.mean())
    blend = choose_blend(sample, sample.blocks_of(x), sample.law, dead)
    belief, w = Belief(ready.scaling, False, blend), torch.ones_like(x)
    if weights is not None:
        w = torch.from_numpy(np.ascontiguousarray(weights[use]))
        belief = replace(belief, blend=None, least=find_least(sample, sample.blocks_of(w)))
    return judge_sums(sum_image(AuditImage(y, x, x, w), belief, blend.law), use)


@dataclass(frozen=True, eq=False)
class AuditImage:
    """An image, or rows of one.

    Attributes:
        y, x: before (NaN: no value is believed) and after; ``model``: before it was blended.
        w: the weights. ``deviation``: standard deviations of x, if they are known.
    """

    y: Tensor
    x: Tensor
    model: Tensor
    w: Tensor
    deviation: Tensor | None = None

    def cut(self, rows: slice) -> AuditImage:
        """Some rows of it."""
        y, x, model, w = (v[:, rows] for v in (self.y, self.x, self.model, self.w))
        return AuditImage(
            y, x, model, w, None if self.deviation is None else self.deviation[:, rows]
        )


def sum_rows(
    read: Callable[[slice], AuditImage],
    rows: slice,
    shape: Sequence[int],
    belief: Belief,
    law: NoiseLaw,
    include: bool = False,
) -> AuditSums:
    """The sums of rows of an image (band, row, col) that is read a few rows at a time."""
    bands, height, cols = shape
    sums = AuditSums.start(bands)
    for own, wide in cut_pieces(rows, bands, cols, height):
        part = read(wide)
        ok = belief.find_known(part.y, part.model, part.w, include)
        ends = own.start - wide.start, wide.stop - own.stop
        sums = sums + sum_piece(AuditRows(part.y, part.x, ok, *ends, part.deviation), law)
    return sums


def sum_image(image: AuditImage, belief: Belief, law: NoiseLaw, include: bool = False) -> AuditSums:
    """The sums of an image in memory."""
    whole = slice(0, image.y.shape[1])
    return sum_rows(image.cut, whole, image.y.shape, belief, law, include)
