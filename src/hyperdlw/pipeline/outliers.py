"""Voxels that are not signal plus noise, and what they get: impulses, what is far from the model and from
other bands; and, in mild noise, what the other bands of its pixel say a voxel is."""

from __future__ import annotations

import math
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

AT_ONCE = 8192
"""Pixels that are worked on together."""
LEAST_PIXELS = 4
"""Pixels per band that the moments need."""


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


@dataclass(frozen=True, eq=False)
class Expected:
    """What the other bands of its pixel say of a voxel, for cubes of mild noise.

    Spectra are taken for normal, with the moments of the sample of blocks. In units of the noise,
    y = V c + n with the strong components V, c of variance l, and n of variance one. From the bands that are
    known, the mean of c is the solution of

        (V_k' V_k + diag(1 / l)) c  =  V_k' y_k ,

    and V c is what is expected in the others. It looks at one pixel at a time, so it is the same in strips.

    Attributes:
        middle, level: (band,) mean and noise level.
        basis: (band, component) strong components in units of the noise.
        inverse: (component,) one over their variance.
    """

    middle: Tensor
    level: Tensor
    basis: Tensor
    inverse: Tensor

    @classmethod
    def learn(cls, blocks: Tensor, ok: Tensor, law: NoiseLaw) -> Expected | None:
        """From a sample of blocks (band, block, 8, 8) and its mask; None where that says too little."""
        whole = ok.all(0).flatten()
        y = blocks.flatten(1)[:, whole].double()
        bands, pixels = y.shape
        if pixels < LEAST_PIXELS * bands or bands < 2:
            return None
        level = law.level.double()
        level = level.clamp_min(max(1e-4 * float(level.max()), 1e-7))
        middle = y.mean(1)
        z = (y - middle[:, None]) / level[:, None]
        values, vectors = torch.linalg.eigh(z @ z.T / pixels)
        strong = values > 2 * (1 + math.sqrt(bands / pixels)) ** 2
        return cls(middle, level, vectors[:, strong], 1 / (values[strong] - 1))

    def fill(self, y: Tensor, lost: Tensor) -> Tensor:
        """Rows (band, row, col) with the expected values in place of lost ones."""
        places = lost.any(0).flatten().nonzero().squeeze(1)
        if not len(places):
            return y
        out = y.flatten(1).clone()
        gone = lost.flatten(1)
        for part in torch.split(places, AT_ONCE):
            values, away = out[:, part], gone[:, part]
            out[:, part] = torch.where(away, self.predict(values, ~away).to(y), values)
        return out.view_as(y)

    def predict(self, y: Tensor, known: Tensor) -> Tensor:
        """The expected spectra (band, pixel) from the bands that are known."""
        z = (y.double() - self.middle[:, None]) / self.level[:, None]
        z = torch.where(known, z, 0.0)
        seen = known.T.double()
        outer = (self.basis.unsqueeze(2) * self.basis.unsqueeze(1)).flatten(1)
        size = len(self.inverse)
        gram = (seen @ outer).view(-1, size, size) + torch.diag(self.inverse)
        scores = torch.linalg.solve(gram, (z.T @ self.basis).unsqueeze(2)).squeeze(2)
        found: Tensor = (self.basis @ scores.T) * self.level[:, None] + self.middle[:, None]
        return found
