"""What the other bands of its pixel say of a voxel, for cubes of mild noise.

Spectra are taken for normal, with the moments of the sample of blocks. In units of the noise, y = V c + n
with the strong components V, c of variance l, and n of variance one. From the bands that are known, the mean
of c is the solution of

    (V_k' V_k + diag(1 / l)) c  =  V_k' y_k ,

and V c is what is expected in the others. It looks at one pixel at a time, so it is the same in strips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..weights import NoiseLaw

AT_ONCE = 8192
"""Pixels that are worked on together."""
LEAST_PIXELS = 4
"""Pixels per band that the moments need."""


@dataclass(frozen=True, eq=False)
class Expected:
    """The law of the spectra of a cube.

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
