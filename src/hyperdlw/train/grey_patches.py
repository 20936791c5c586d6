"""Grey patches with white noise, for Gaussian denoisers.

Three kinds of image: photographs, bands of clean cubes, and eigenimages of clean cubes, which
are what the denoiser meets inside plug-and-play.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

F32 = NDArray[np.float32]
RELATIVE = (0.005, 1.0)
"""Noise levels that eigenimages meet, as shares of the range of the clean one."""


def eigenimages(cube: F32, count: int) -> list[F32]:
    """The first principal images of a cube (band, row, col), each scaled to [0, 1]."""
    flat = cube.reshape(len(cube), -1)
    _, vectors = np.linalg.eigh(flat.astype(np.float64) @ flat.T.astype(np.float64))
    images = vectors[:, ::-1][:, :count].T.astype(np.float32) @ flat
    low, high = images.min(1, keepdims=True), images.max(1, keepdims=True)
    unit = (images - low) / np.maximum(high - low, np.float32(1e-12))
    return list(unit.reshape(-1, *cube.shape[1:]))


@dataclass(frozen=True)
class GreyPatches:
    """A source of (clean, noisy, sigma) batches; the stream is keyed by (seed, step, index).

    Attributes:
        kinds: images by kind; a patch draws its kind with the probability in ``shares``.
        sigma: largest noise level of photographs and bands; levels are uniform from 0. Those of
            eigenimages are uniform in the logarithm (:data:`RELATIVE`).
    """

    kinds: Mapping[str, Sequence[F32]]
    shares: Mapping[str, float]
    patch: int
    sigma: float
    seed: int

    def batch(self, step: int, indices: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Patches of a step as (patch, row, col) tensors, and their noise levels."""
        found = [self._patch(step, i) for i in indices]
        clean, noisy = (torch.from_numpy(np.stack([f[k] for f in found])) for k in (0, 1))
        return clean, noisy, torch.tensor([f[2] for f in found])

    def _patch(self, step: int, index: int) -> tuple[F32, F32, float]:
        rng = np.random.default_rng([self.seed, step, index + 1])
        kinds = [k for k in self.kinds if self.kinds[k]]
        p = np.array([self.shares[k] for k in kinds])
        kind = kinds[int(rng.choice(len(kinds), p=p / p.sum()))]
        image = self.kinds[kind][int(rng.integers(len(self.kinds[kind])))]
        stride = 2 if min(image.shape) >= 2 * self.patch and rng.random() < 0.25 else 1
        side = self.patch * stride
        top = int(rng.integers(image.shape[0] - side + 1))
        left = int(rng.integers(image.shape[1] - side + 1))
        clean = image[top : top + side : stride, left : left + side : stride]
        clean = np.rot90(clean, int(rng.integers(4)))
        if rng.integers(2):
            clean = clean[:, ::-1]
        sigma = float(rng.uniform(0.0, self.sigma))
        if kind == "eigenimages":
            # The noise is scaled to [0, 1] with the image: four sigma more at both ends. A strong
            # component is nearly clean then, a weak one has no contrast. Their sign is arbitrary.
            sigma = math.exp(rng.uniform(*np.log(RELATIVE)))
            scale = 1.0 / (1.0 + 8.0 * sigma)
            sigma *= scale
            clean = 0.5 + rng.choice((-1.0, 1.0)) * scale * (clean - 0.5)
        clean = np.ascontiguousarray(clean, np.float32)
        noise = rng.standard_normal(clean.shape, np.float32) * np.float32(sigma)
        return clean, clean + noise, sigma
