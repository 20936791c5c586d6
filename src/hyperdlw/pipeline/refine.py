"""One more step of the solver, whose prior is learned.

The model has found x from y and its weights w. A step of half-quadratic splitting goes on from there,

    v  =  argmin_z  w (y - z)^2 + (z - x)^2  =  (w y + x) / (w + 1),

and what a network leaves of the eigenimages of v is the result. It was trained on such steps: it sees x
beside v, and how much of v was measured. The model knows smooth maps and edges; the network knows texture.

The level of the noise in v is taken from the sample of blocks, the components from sums over all pixels, and
the network reaches :data:`REACH` rows, so strips give the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..models import find_eigenimages, guess_refined
from ..weights import Read
from .sample import Sample

LEAST = 1e-4
"""The lowest noise level of v, in ranges."""


def find_level(sample: Sample, weights: Tensor | Read, image: Tensor | Read) -> float:
    """The largest noise level that v can have, from the weights and the model's image.

    The weights say that the noise of a voxel has the variance c / w, with c the mean of w (y - x)^2; in v
    it has c w / (w + 1)^2, at most c / 4.
    """
    w, x = map(sample.blocks_of, (weights, image))
    total = float((w * (sample.y - x).square() * sample.ok).sum(dtype=torch.float64))
    return max(0.5 * math.sqrt(total / max(1, int(sample.ok.sum()))), LEAST)


def approach(y: Tensor, w: Tensor, x: Tensor) -> Tensor:
    """v, from rows of an image (NaN where w = 0, perhaps), its weights and the model's."""
    return torch.where(w > 0, (w * y + x) / (w + 1), x)


def sum_moments(v: Tensor) -> Tensor:
    """Second moments of the bands, summed over pixels in float64."""
    flat = v.flatten(1).double()
    return flat @ flat.T


@dataclass(frozen=True, eq=False)
class Refinement:
    """What a step must know of the whole image: the level of the noise and the components (band, image)."""

    level: float
    basis: Tensor

    @classmethod
    def learn(cls, moments: Tensor, pixels: int, level: float) -> Refinement:
        """From the :func:`sum_moments` of all pixels."""
        every = torch.full((len(moments),), level)
        basis = find_eigenimages(moments.cpu(), pixels, every).basis
        # The network is not odd, and the sign of an eigenvector is a matter of chance.
        return cls(level, basis * torch.where(basis.pow(3).sum(0) < 0, -1.0, 1.0))

    def rotate(self, v: Tensor, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the network sees: eigenimages of v and of x in units of the noise, and the part of y in v."""
        basis = self.basis.to(v)
        images, known = (torch.tensordot(basis.T, q / self.level, 1) for q in (v, x))
        return images, known, torch.tensordot(basis.T.square(), w / (w + 1), 1)

    def rotate_back(self, images: Tensor) -> Tensor:
        """The image (band, row, col) of eigenimages."""
        found: Tensor = torch.tensordot(self.basis.to(images), images, 1)
        return found * self.level

    def denoise(
        self, y: Tensor, w: Tensor, x: Tensor, look: int = 0, mirror: bool = False
    ) -> Tensor:
        """The result on rows that begin at a multiple of FOLD.

        Args:
            look: number of the step; the result of a second one is the mean of both.
            mirror: the network sees the mirrored image, too, and the mean counts.
        """
        seen = self.rotate(approach(y, w, x), w, x)
        images = guess_refined(*seen)
        if mirror:
            images = (images + guess_refined(*(q.flip(2) for q in seen)).flip(2)) / 2
        found = self.rotate_back(images)
        return (x + found) / 2 if look else found


def refine_image(
    y: Tensor, w: Tensor, x: Tensor, level: float, looks: int = 1, mirror: bool = False
) -> Tensor:
    """One or more steps on a whole image."""
    for look in range(looks):
        moments = sum_moments(approach(y, w, x))
        x = Refinement.learn(moments, x[0].numel(), level).denoise(y, w, x, look, mirror)
    return x
