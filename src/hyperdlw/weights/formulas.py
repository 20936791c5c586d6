"""Weights that need no network: from the noisy image and its residual, from the truth, from the user."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadInput
from ..testbed import Truth
from .source import Sees, Source


def estimate_noise_level(y: Tensor, valid: Tensor) -> Tensor:
    """Robust standard deviation of the noise of every band, shape (band,).

    Median absolute value of mixed second differences y_ij - y_i+1,j - y_i,j+1 + y_i+1,j+1, which
    have standard deviation 2 sigma and hardly see the image (Donoho's rule). Bands without four
    valid neighbours fall back to the spread of their values.
    """
    levels = []
    for band, ok in zip(y, valid, strict=True):
        d = band[:-1, :-1] - band[1:, :-1] - band[:-1, 1:] + band[1:, 1:]
        m = ok[:-1, :-1] & ok[1:, :-1] & ok[:-1, 1:] & ok[1:, 1:]
        if bool(m.any()):
            level = d[m].abs().median() / (2 * 0.6745)
        elif bool(ok.any()):
            level = (band[ok] - band[ok].median()).abs().median() / 0.6745
        else:
            level = band.new_tensor(1.0)
        levels.append(level)
    return torch.stack(levels).clamp_min(1e-4)


@dataclass(frozen=True)
class Uniform(Source):
    """w = 1: the ablation of the paper."""

    name: str = "uniform"
    follows_noise: bool = False
    sees: Sees = "rows"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return y.new_ones(1, 1, 1)


@dataclass(frozen=True)
class Original(Uniform):
    """w = 1, and a model's published version in place of the weighted one."""

    name: str = "original"
    wants_original: bool = True


@dataclass(frozen=True)
class Precision(Source):
    """w = 1 / sigma_b^2 with a robust noise level of every band."""

    name: str = "precision"
    follows_noise: bool = False
    sees: Sees = "band"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return (1 / estimate_noise_level(y, valid) ** 2)[:, None, None]


TRUST = 0.4
"""Smallest spread of a residual that is believed, in noise levels of its band."""


def _residual_level(y: Tensor, x: Tensor, valid: Tensor) -> Tensor:
    """Robust standard deviation of the residual y - x in every band, shape (band,).

    It is at least ``TRUST`` noise levels. Without that limit a band that is fitted closely gets more
    weight, is fitted more closely still, and in the end holds all the weight there is: low rank
    then loses 3 dB against the noisy image itself.
    """
    levels = [
        b[ok].abs().median() / 0.6745 if bool(ok.any()) else b.new_tensor(1.0)
        for b, ok in zip(y - x, valid, strict=True)
    ]
    return torch.maximum(torch.stack(levels), TRUST * estimate_noise_level(y, valid))


@dataclass(frozen=True)
class Robust(Source):
    """Reweighting w = exp(-xi r^2 / s_b^2) / s_b^2, r = y - x, s_b the robust spread of band b.

    The first round has no residual and uses the precision; every further one uses the image of the
    round before (half-quadratic minimisation of the Welsch loss).
    """

    xi: float = 0.1
    rounds: int = 4
    name: str = "robust"
    sees: Sees = "band"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        if x is None:
            return Precision().raw(y, valid)
        s = _residual_level(y, x, valid)[:, None, None]
        return torch.exp(-self.xi * ((y - x) / s) ** 2) / s**2


@dataclass(frozen=True)
class Mixture(Source):
    """Expected precision under a Gaussian mixture of the residual of every band, fitted by EM.

    w = sum_k gamma_k / sigma_k^2, gamma_k the probability that the voxel belongs to component k;
    zero means, so that impulses and stripes land in the wide components.
    """

    components: int = 3
    steps: int = 30
    rounds: int = 4
    name: str = "mixture"
    sees: Sees = "band"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        if x is None:
            return Precision().raw(y, valid)
        # A band at a time: there are several images per component.
        bands = (self._band(y[b : b + 1], valid[b : b + 1], x[b : b + 1]) for b in range(len(y)))
        return torch.cat(list(bands))

    def _band(self, y: Tensor, valid: Tensor, x: Tensor) -> Tensor:
        square = (y - x) ** 2
        ok = valid.to(y.dtype)
        count = ok.sum((1, 2)).clamp_min(1)
        least = (TRUST * estimate_noise_level(y, valid)) ** 2
        # (component, band): variances one decade apart from the robust spread upwards.
        spread = _residual_level(y, x, valid) ** 2
        variance = torch.stack([spread * 9.0**k for k in range(self.components)])
        share = torch.full_like(variance, 1 / self.components)
        gamma = torch.empty(0)
        for _ in range(self.steps):
            log = (share / variance.sqrt()).log()[:, :, None, None] - square / (
                2 * variance[:, :, None, None]
            )
            gamma = torch.softmax(log, 0) * ok
            mass = gamma.sum((2, 3)).clamp_min(1e-12)
            variance = torch.maximum((gamma * square).sum((2, 3)) / mass, least)
            share = (mass / count).clamp_min(1e-12)
        return (gamma / variance[:, :, None, None]).sum(0)


@dataclass(frozen=True)
class Oracle(Source):
    """w = 1 / (sigma^2 + stripe^2) from the true noise, floor on impulses and dead voxels.

    For benchmarks only: it shows what knowing the noise alone would bring.
    """

    truth: Truth
    name: str = "oracle"
    follows_noise: bool = False
    sees: Sees = "rows"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        self.check_shape(y.shape)
        sigma = torch.as_tensor(np.broadcast_to(self.truth.sigma, self.truth.impulse.shape).copy())
        stripe = torch.as_tensor(self.truth.stripe)
        lost = torch.as_tensor(self.truth.impulse | self.truth.dead)
        w = 1 / (sigma**2 + stripe**2).clamp_min(1e-6)
        return torch.where(lost, torch.zeros_like(w), w).to(y)

    def check_shape(self, shape: Sequence[int]) -> None:
        known = self.truth.impulse.shape
        if known != tuple(shape):
            raise BadInput(f"the truth has shape {known}, the image {tuple(shape)}")

    def on_bands(self, use: NDArray[np.bool_]) -> Source:
        return self._cut((use,))

    def on_rows(self, rows: slice) -> Source:
        return self._cut((slice(None), rows))

    def _cut(self, index: tuple[slice | NDArray[np.bool_], ...]) -> Source:
        shape = self.truth.impulse.shape
        cut = {k: np.broadcast_to(v, shape)[index] for k, v in vars(self.truth).items()}
        return replace(self, truth=Truth(**cut))


@dataclass(frozen=True, eq=False)
class Given(Source):
    """A user's own weights or mask, (band, row, col) or one plane for all bands."""

    values: Tensor
    name: str = "given"
    follows_noise: bool = False
    sees: Sees = "rows"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        self.check_shape(y.shape)
        v = self.values.to(y)
        if not bool(torch.isfinite(v).all()) or bool((v < 0).any()):
            raise BadInput("the given weights must be finite and not negative")
        return v if v.dim() == 3 else v.unsqueeze(0)

    def scale(self, count: int, total: float) -> float:
        if not total > 0:
            raise BadInput(
                "the given weights are 0 on every valid voxel, so there is nothing to fit"
            )
        return super().scale(count, total)

    def check_shape(self, shape: Sequence[int]) -> None:
        known = tuple(self.values.shape)
        bands, rows, cols = shape
        if known[-2:] != (rows, cols) or known[:-2] not in ((), (1,), (bands,)):
            raise BadInput(
                f"the weights have (band, row, col) shape {known}, the image {tuple(shape)}"
            )

    def on_bands(self, use: NDArray[np.bool_]) -> Source:
        if self.values.dim() < 3 or self.values.shape[0] != len(use):
            return self
        return replace(self, values=self.values[torch.from_numpy(use)])

    def on_rows(self, rows: slice) -> Source:
        return replace(self, values=self.values[..., rows, :])

    @property
    def digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.values.numpy()).tobytes()).hexdigest()
