"""Where the noise is mild, eigenimages take the place of the model.

A model with a smooth or low-rank image behind it removes some of the image with the noise. That is right
for loud noise and for outliers, and wrong for a cube with a signal-to-noise ratio of 100. There
noise-whitened eigenimages (:mod:`hyperdlw.models.denoisers.eigenimages`) are better, which know the level of
the noise and leave alone what stands above it. Between the two the result is their mean,

    x  =  part * model  +  (1 - part) * (y + g (eigenimages - y)),

with y replaced by the model where a voxel is lost: not measured, or an outlier. The factor g <= 1 of every
band is the guard: with noise of variance v, a restoration that changes a band by d on the average removes
image where mean d^2 is above v, and the best part of the change is at most v / mean d^2.

Where the eigenimages stand alone, what they took away is looked at once more, and its structure comes back:
a weak signal of few bands or pixels is spread over many components, none of which shows it.

Whatever holds for the whole image is read from the sample of blocks, so the numbers are the same in strips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from ..models import CAUTION, Eigenimages, Sensor, look_again
from ..weights import (
    BLOCKS,
    SIDE,
    NoiseLaw,
    sample_step,
)
from .guard import spare_floor
from .outliers import OUTLIER, Expected, Isolated, Outliers, find_spread
from .sample import LOUD, MILD, Sample, mean_level

PUBLISHED = 40 / 255
"""The noise level, in ranges, at which the published strengths are right (mean of 10 to 70/255)."""
WEAKEST = 1e-6
"""Smallest factor on a strength."""
FEW, SOME = 1e-4, 0.01
"""Shares of suspicious voxels below which a cube of mild noise has no outliers, and below which it needs no
network to tell them."""
LEAST_BANDS = 8
"""With fewer bands, as in colour pictures, others do not tell what a voxel is."""
IMPULSES = 0.007
"""Share of lone voxels from which a colour picture has impulses."""
FIRM = 10 / 255
"""Noise level for which the strength is right that removes impulses from a colour picture, at least."""
GENTLE, SECOND = 1.75, 2.5
"""Factors on the noise variance in the shrinkage of eigenimages that stand alone, and of what they took."""
GRAIN, COARSER = (0.15, 0.25), 0.3
"""Correlations of neighbours from which noise is not white, and not at all; and what the network that
denoises eigenimages is told then, as a part more than the level of the white noise."""
ALONE = 0.38, 0.72
"""The largest part of the model for white noise, and for noise with stripes."""
TAILS = 0.003, 0.007
"""Shares of voxels far from the model (:func:`measure_tails`) from which it has a larger part, and stands
alone."""


def strength_factor(law: NoiseLaw, degree: int, least: float = 0.0) -> float:
    """The factor on the published strength that is right for a noise level, at most 1.

    With y scaled by c, 1/2 ||y - x||^2 + t R(x) has the solution scaled by c if t is scaled by c for a
    penalty R of degree one, and by c^2 for a logarithm of edges: (level / PUBLISHED)^degree. The level
    counts as ``least`` if it is below.
    """
    return min(1.0, max(WEAKEST, (max(least, mean_level(law)) / PUBLISHED) ** degree))


def count_components(sample: Sample, law: NoiseLaw) -> int:
    """Spectral components of an image that stand above its noise, from the sample of blocks.

    Bands are divided by their noise level. Of the mean Gram matrix, eigenvalues above (1 + sqrt(b/n))^2
    are not noise (Marchenko and Pastur); those above twice that carry more signal than noise and
    lower the error of a projection. Pixels that are not known in all bands have no part; with too few
    others the answer is 1.
    """
    level = law.level.double().clamp_min(max(1e-4 * float(law.level.max()), 1e-7))
    whole = sample.ok.all(0).flatten()
    flat = sample.y.flatten(1)[:, whole].double() / level[:, None]
    n = flat.shape[1]
    if n < 4 * len(flat):
        return 1
    values = torch.linalg.eigvalsh(flat @ flat.T / n)
    return max(1, int((values > 2 * (1 + math.sqrt(len(flat) / n)) ** 2).sum()))


def is_quiet(sample: Sample, law: NoiseLaw) -> bool:
    """Whether a cube has mild noise and nothing else: then neither network nor model has anything to add."""
    if mean_level(law) > MILD:
        return False
    blocks, ok = sample.y, sample.ok
    away = sample.regression.residual(blocks, ok).abs()
    spread = find_spread(away, ok)[:, None, None, None]
    noise = torch.maximum(law.variance(blocks).sqrt(), law.level[:, None, None, None])
    far = (away > OUTLIER * torch.maximum(spread, noise)) & ok
    return int(far.sum()) < FEW * max(1, int(ok.sum()))


def spare_model(sample: Sample, law: NoiseLaw, dead: float, quiet: bool) -> Blend | None:
    """The blend of a cube of mild noise that needs neither network nor model, or None.

    Dead elements and isolated impulses get what the other bands of their pixel say.

    Args:
        dead: share of the voxels that belong to dead detector elements.
        quiet: whether nothing is missing and there are no outliers (:func:`is_quiet`).
    """
    if len(sample.y) < LEAST_BANDS:
        return Blend(0.0, 0.0, law) if quiet else None
    if mean_level(law) > MILD and sample.sensor is None:
        return None
    expected = Expected.learn(sample.y, sample.ok, law)
    if expected is None:
        return None
    isolated = Isolated.learn(sample, law)
    y = torch.where(sample.ok, sample.y, torch.nan)
    found = int((isolated.find(y) & sample.ok).sum()) / max(1, int(sample.ok.sum()))
    if found > SOME:
        return None
    grain = judge_grain(sample)
    return Blend(0.0, dead + found, law, isolated, expected, grain, sensor=sample.sensor)


def measure_unevenness(sample: Sample, x: Tensor, law: NoiseLaw) -> float:
    """How much the noise varies over the image beyond its law: spread of log variance, mean over bands.

    Variances are means of (y - x)^2 over three by three blocks of the sample, relative to the law at x.
    """
    y, seen = sample.y, sample.ok.to(sample.y)
    across = -(-sample.shape[2] // SIDE)
    cols = -(-across // sample_step(sample.shape, BLOCKS))
    pool = []
    for v in ((y - x).square() * seen, law.variance(x) * seen):
        grid = v.sum((2, 3)).view(len(y), -1, cols)
        side = min(3, *grid.shape[1:])
        pool.append(F.avg_pool2d(grid, side))
    ratio = (pool[0].clamp_min(1e-12) / pool[1].clamp_min(1e-12)).log().flatten(1)
    return float(ratio.std(1).mean()) if ratio.shape[1] > 1 else 0.0


def measure_grain(sample: Sample) -> float:
    """Correlation of neighbouring pixels of what other bands do not say: median of the bands, largest axis.

    White noise has none; scan lines of an instrument, or texture of bands that others do not know, do.
    """
    rest = sample.regression.residual(sample.y, sample.ok)
    bound = 4 * find_spread(rest.abs(), sample.ok)[:, None, None, None]
    rest = torch.where(sample.ok, rest.clamp(-bound, bound), 0.0)
    power = rest.square().flatten(1).mean(1).clamp_min(1e-30)
    near = [
        (rest[:, :, 1:] * rest[:, :, :-1]).flatten(1).mean(1),
        (rest[..., 1:] * rest[..., :-1]).flatten(1).mean(1),
    ]
    return max(float((v / power).median()) for v in near)


def judge_grain(sample: Sample) -> float:
    """How far the noise is from white, 0 to 1."""
    low, high = GRAIN
    return min(1.0, max(0.0, (measure_grain(sample) - low) / (high - low)))


def measure_tails(sample: Sample, x: Tensor) -> float:
    """Share of voxels that lie four robust standard deviations of their band from the model.

    Impulses in loud noise are no further away, and cannot be told one by one. White noise has 0.0001, stripes
    have 0.0003, impulses in a third of the bands 0.01 and more.
    """
    away = (sample.y - x).abs()
    far = away > 4 * find_spread(away, sample.ok)[:, None, None, None]
    return int((far & sample.ok).sum()) / max(1, int(sample.ok.sum()))


def measure_stripes(sample: Sample, x: Tensor) -> float:
    """How much more the means of columns, or of rows, of y - x vary than those of white noise do.

    Over the eight pixels of a block, mean over bands; at most 7. White noise has 0 to 0.1, stripes in a third
    of the bands 0.3 and more.
    """
    side = sample.y.shape[-1]
    rest = torch.where(sample.ok, sample.y - x, 0.0)
    bound = 4 * find_spread(rest.abs(), sample.ok)[:, None, None, None]
    rest = rest.clamp(-bound, bound)
    power = rest.square().flatten(1).mean(1).clamp_min(1e-30)
    means = (rest.mean(dim).square().flatten(1).mean(1) for dim in (2, 3))
    return max(float((side * m / power).mean()) for m in means) - 1


def model_part(law: NoiseLaw, mixed: float = 0.0, stripes: float = 0.0) -> float:
    """How much of the result comes from the weighted model, 0 to 1; the rest from the eigenimages.

    0 up to a level of 12/255, then linear to its largest value at 20/255. The two err differently, and for
    white noise and stripes their mean is better than either.

    Args:
        mixed: 0 for noise that is alike everywhere, 1 for what the eigenimages do not forgive.
        stripes: :func:`measure_stripes`.
    """
    low, high = ALONE
    part = low + (high - low) * min(1.0, max(0.0, (stripes - 0.1) / 0.2))
    loud = min(1.0, max(0.0, (mean_level(law) - MILD) / (LOUD - MILD)))
    return loud * (part + (1 - part) * mixed)


@dataclass(frozen=True, eq=False)
class Blend:
    """How model and eigenimages become the result.

    Attributes:
        part: of the model.
        lost: share of the measured voxels that are dead or outliers.
        law: of the noise without what is lost.
        outliers: what finds lost voxels; None where nothing is lost.
        expected: what lost voxels are filled with; None: the model.
        grain: how far the noise is from white, 0 to 1 (:func:`judge_grain`).
        maps: whether the network may denoise eigenimages.
        sensor: what is known of the noise beforehand; its network needs neither frame nor doubt.
    """

    part: float
    lost: float
    law: NoiseLaw
    outliers: Outliers | Isolated | None = None
    expected: Expected | None = None
    grain: float = 0.0
    maps: bool = True
    sensor: Sensor | None = None

    @cached_property
    def learned(self) -> float:
        """The part of the network that denoises eigenimages, the rest being a shrinkage.

        All for noise that is alike everywhere, half for noise that varies with the signal or is not white,
        of which it knows less.
        """
        if not self.maps:
            return 0.0
        alike = float((self.law.a / self.law.level.square().clamp_min(1e-30)).median())
        part = 0.5 + 0.5 * min(1.0, alike) * (1 - self.grain)
        return 1.0 if part > 0.9 else part

    @cached_property
    def spared(self) -> NoiseLaw:
        """The law of the noise that may go (:func:`hyperdlw.pipeline.guard.spare_floor`)."""
        return spare_floor(self.law)

    def find_lost(self, y: Tensor, x: Tensor) -> Tensor:
        """Which voxels of rows are lost."""
        return y.isnan() if self.outliers is None else self.outliers.find(y, x)

    def fill(self, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (NaN where no value is believed) without what is lost; and which voxels are."""
        lost = self.find_lost(y, x)
        if self.expected is not None:
            return self.expected.fill(y, lost), lost
        return torch.where(lost, x, y), lost

    def shrink(self, images: Eigenimages, filled: Tensor) -> Tensor:
        """The eigenimages of rows without their noise."""
        if self.sensor is not None:
            net = self.sensor.net
            return images.denoise(filled, self.spared.variance, learned=1.0, net=net)
        caution = GENTLE if self.part == 0 else CAUTION
        doubt = 1 + COARSER * self.grain
        return images.denoise(filled, self.spared.variance, caution, self.learned, doubt)

    def look(self, filled: Tensor, shrunk: Tensor) -> Tensor:
        """The same with what comes back; beside a model nothing does, which knows loud noise better."""
        if self.part > 0:
            return shrunk
        # What is coarse in the noise itself must not come back.
        coarse = 1.0 if self.sensor is None else max(1.0, self.sensor.coarse)
        return look_again(filled, shrunk, self.spared.variance, SECOND * coarse)

    def mix(self, x: Tensor, filled: Tensor, mild: Tensor, share: Tensor) -> Tensor:
        """The result on some rows."""
        kept = torch.lerp(filled, mild, share.view(-1, 1, 1))
        return torch.lerp(kept, x, self.part) if self.part else kept


def choose_blend(sample: Sample, x: Tensor, law: NoiseLaw, dead: float) -> Blend:
    """How to blend, from a sample of the image, the same blocks of the model's, and the noise.

    Args:
        law: of the noise, from voxels with some weight.
        dead: share of the voxels that belong to dead detector elements.
    """
    outliers = Outliers.learn(sample, x, law)
    found = outliers.find(sample.y, x) & sample.ok
    clean = replace(sample, ok=sample.ok & ~found)
    share = dead + int(found.sum()) / max(1, int(sample.ok.sum()))
    law = clean.law
    # Outliers, and noise that varies over the image, are for the weights.
    uneven = measure_unevenness(clean, x, law)
    mixed = min(1.0, max(0.0, (share - 0.002) / 0.006, (uneven - 0.1) / 0.1))
    part = model_part(law, mixed, measure_stripes(clean, x))
    if mean_level(law) > MILD:
        part = max(part, min(1.0, (measure_tails(clean, x) - TAILS[0]) / (TAILS[1] - TAILS[0])))
    if sample.impulses > IMPULSES:
        part = 1.0  # the bands do not tell which voxels are lost
    grain = judge_grain(sample)
    return Blend(part, share, law, outliers, grain=grain, sensor=sample.sensor)
