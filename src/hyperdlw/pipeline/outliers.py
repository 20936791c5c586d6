"""Voxels that are not signal plus noise: impulses, and what is far from the model and from other bands."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..weights import NoiseLaw, Regression, find_medians
from .sample import MILD, Sample, mean_level

OUTLIER = 6.0
"""Distance of an outlier, in standard deviations."""
RARE = 0.15
"""Share of the bands of a pixel up to which outliers of mild noise are believed to be outliers."""
IMPULSE, BESIDE = 8.0, 3.0
"""Distances, in standard deviations: of an impulse in mild noise, and of a neighbour that makes it a part of
the scene."""


def find_spread(away: Tensor, ok: Tensor) -> Tensor:
    """Robust standard deviation (band,) of distances."""
    found: Tensor = find_medians(away.flatten(1), ok.flatten(1)) / 0.6745
    return found


@dataclass(frozen=True, eq=False)
class Isolated:
    """What tells impulses in mild noise: far from what other bands say, alone among its neighbours.

    A line of a gas or a small target is far in neighbouring bands or pixels as well, and is no outlier.

    Attributes:
        spread: (band,) robust standard deviation of y less what other bands say.
    """

    law: NoiseLaw
    regression: Regression
    spread: Tensor

    @classmethod
    def learn(cls, sample: Sample, law: NoiseLaw) -> Isolated:
        """From a sample of the image."""
        regression = sample.regression
        away = regression.residual(sample.y, sample.ok).abs()
        return cls(law, regression, find_spread(away, sample.ok))

    def find(self, y: Tensor, x: Tensor | None = None) -> Tensor:
        """Lost voxels among rows (band, ..., col): impulses, and those that are not believed (NaN)."""
        ok = ~y.isnan()
        shape = (-1, *(1,) * (y.dim() - 1))
        known = torch.where(ok, y, 0.0)
        noise = torch.maximum(self.law.variance(known).sqrt(), self.law.level.view(shape))
        away = self.regression.residual(known, ok)
        # Where bands are missing, what the others say is not known.
        whole = ok.all(0)
        z = torch.where(whole, away / torch.maximum(self.spread.view(shape), noise), 0.0)
        # Through what it says of others, an impulse is seen in other bands, too, but less.
        far = z.abs() > (0.4 * z.abs().amax(0)).clamp_min(IMPULSE)
        alike = torch.zeros_like(far)
        for dim in (0, y.dim() - 1):
            size = y.shape[dim] - 1
            a, b = ((slice(None),) * dim + (s,) for s in (slice(1, None), slice(size)))
            for here, there in ((a, b), (b, a)):
                alike[here] |= z[there] * z[here].sign() > (z[here].abs() / 2).clamp_min(BESIDE)
        out = far & ~alike
        return (out & (out.sum(0) <= RARE * len(y))) | ~ok


@dataclass(frozen=True, eq=False)
class Outliers:
    """What tells voxels that are not signal plus noise: six spreads from the model and from other bands.

    Where only the model is far off, it has smoothed the image; there the other bands agree with the voxel.

    Attributes:
        spread, apart: (band,) robust standard deviation of y - x, and of y less what other bands say.
    """

    law: NoiseLaw
    regression: Regression
    spread: Tensor
    apart: Tensor

    @classmethod
    def learn(cls, sample: Sample, x: Tensor, law: NoiseLaw) -> Outliers:
        """From a sample of the image and the same blocks of the model's."""
        y, ok = sample.y, sample.ok
        regression = sample.regression
        other = regression.residual(y, ok).abs()
        return cls(law, regression, find_spread((y - x).abs(), ok), find_spread(other, ok))

    def find(self, y: Tensor, x: Tensor) -> Tensor:
        """Lost voxels among rows (band, ...): outliers, and those of which no value is believed (NaN)."""
        ok = ~y.isnan()
        shape = (-1, *(1,) * (y.dim() - 1))
        away = (y - x).abs()
        other = self.regression.residual(y, ok).abs()
        noise = torch.maximum(self.law.variance(x).sqrt(), self.law.level.view(shape))
        far = [
            v > OUTLIER * torch.maximum(s.view(shape), noise)
            for v, s in ((away, self.spread), (other, self.apart))
        ]
        out = far[0] & far[1] & (other > 0.5 * away)
        if mean_level(self.law) <= MILD:
            # A pixel that is odd in many bands is a rare material; impulses hit single bands.
            out &= out.sum(0) <= RARE * len(y)
        return out | ~ok
