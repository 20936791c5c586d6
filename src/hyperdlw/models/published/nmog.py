"""NMoG (Chen et al., IEEE Trans. Cybernetics 2018): low rank, every band with its own noise mixture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

ALPHA, BETA, MEAN, C, ETA, LAMBDA, A, B = 1e-3, 1e3, 1e-4, 1e-3, 1e-3, 1e-3, 1e-6, 1e-6
"""Parameters of the priors, as released."""
COMPONENTS, STEPS, TOLERANCE = 3, 30, 1e-4
"""Gaussians per band; largest number of steps; tolerance on the relative change of the residual."""
FIRST_RANK, DROP = 30, 7
"""Rank at the start (at most the number of bands), and columns less per step."""
CHUNK_BYTES = 64 * 2**20
"""Memory for the second moments of the pixels that are treated together."""
STORE_BYTES = 256 * 2**20
"""Up to this size the covariances of all pixels are kept, beyond it they are computed twice."""


def run(
    y: Tensor, *, rank: int | None = None, seed: int = 0, labels: Tensor | None = None
) -> Tensor:
    """NMoG: low rank by variational Bayes, the noise of every band a mixture of Gaussians.

    y_ij = u_i'v_j + e_ij with e_ij from a mixture of three zero-mean Gaussians that belongs
    to band j. Columns of U and V have a common precision each; the least useful are dropped until
    ``rank`` are left. Computed in float64, pixels in chunks.

    Args:
        rank: of the result; None: 5.
        seed: of the first assignment of voxels to components.
        labels: first component of every voxel (band, row, col), instead of a random one.
    """
    bands, rows, cols = y.shape
    data = y.reshape(bands, -1).T.double().contiguous()
    target = min(5 if rank is None else rank, *data.shape)
    u, v = _start(data, max(target, min(FIRST_RANK, *data.shape)))
    residual = data - u @ v.T
    if labels is None:
        index = assign(residual, COMPONENTS, np.random.default_rng(seed))
    else:
        index = labels.reshape(bands, -1).T.long()
    shares = torch.nn.functional.one_hot(index, COMPONENTS).double()
    level = float(data.square().mean().sqrt()) or 1.0
    width = v.shape[1]
    # The first two updates of the noise use the prior rate; from then on it is estimated.
    rate = ETA / LAMBDA
    noise, _ = _noise(shares, residual, residual.square(), rate)
    eye = torch.eye(width, dtype=data.dtype, device=data.device)
    cov_v = level * eye.expand(bands, width, width)
    # The precisions and the covariance of V that the factors are updated with. The released program
    # refreshes them only when it drops columns, and results depend on it.
    g = data.new_full((width,), level**-2)
    low = u @ v.T
    del residual
    for _ in range(STEPS):
        trust = torch.einsum("njk,jk->nj", shares, noise.tau)
        moments_v = cov_v + v.unsqueeze(2) * v.unsqueeze(1)
        pixels = partial(_update_pixels, data, trust, moments_v, v, g)
        kept_pixels = list(pixels()) if 8 * len(data) * width**2 <= STORE_BYTES else None
        # Sums over pixels that the update of V and of the precisions need.
        gram = data.new_zeros(bands, width * width)
        square = data.new_zeros(width)
        u = data.new_empty(len(data), width)
        for part, mean, moments in kept_pixels or pixels():
            u[part] = mean
            gram += trust[part].T @ moments.flatten(1)
            square += moments.diagonal(dim1=1, dim2=2).sum(0)
        new_cov_v = _inverse(gram.view(bands, width, width) + torch.diag(g))
        v = (new_cov_v @ ((trust * data).T @ u).unsqueeze(2)).squeeze(2)
        kept = torch.arange(width)
        if width > target:
            square_v = (v.square() + new_cov_v.diagonal(dim1=1, dim2=2)).sum(0)
            g = (2 * A + sum(data.shape)) / (2 * B + square + square_v)
            kept = g.argsort()[: max(width - DROP, target)].sort().values
            u, v, g = u[:, kept], v[:, kept], g[kept]
            new_cov_v = new_cov_v[:, kept][:, :, kept]
            cov_v = new_cov_v
            width = len(kept)
        moments_v = new_cov_v + v.unsqueeze(2) * v.unsqueeze(1)
        before, low = low, u @ v.T
        expected = data.square() - 2 * data * low
        for part, _mean, moments in kept_pixels or pixels():
            small = moments[:, kept][:, :, kept]
            expected[part] += small.flatten(1) @ moments_v.flatten(1).T
        noise, rate = _noise(shares, data - low, expected, rate)
        shares = _shares(expected, noise)
        change = torch.linalg.norm(low - before)
        if change < TOLERANCE * torch.linalg.norm(data - before):
            break
    return low.T.reshape(bands, rows, cols).to(y.dtype)


@dataclass(frozen=True)
class _Noise:
    """Posterior of the noise, one (band, component) table each."""

    alpha: Tensor
    beta: Tensor
    c: Tensor
    d: Tensor

    @property
    def tau(self) -> Tensor:
        """Expected precision."""
        return self.c / self.d


def _noise(shares: Tensor, e: Tensor, square: Tensor, rate: float) -> tuple[_Noise, float]:
    """Posterior of the noise from residuals e and their expected squares; and the next rate.

    ``rate`` is the expected rate of the Gamma prior of the precisions, shared by all bands.
    """
    n = shares.sum(0)
    first = torch.einsum("njk,nj->jk", shares, e)
    second = torch.einsum("njk,nj->jk", shares, square)
    beta = BETA + n
    c = C + n / 2
    # The means are fixed at zero, yet their term stays in d: so it is in the released program.
    spread = second + BETA * MEAN**2 - (first + BETA * MEAN).square() / beta
    noise = _Noise(ALPHA + n, beta, c, rate + spread / 2)
    prior = (ETA + shares[0].numel() * C) / (LAMBDA + float(noise.tau.sum()))
    return noise, prior


def _shares(square: Tensor, noise: _Noise) -> Tensor:
    """Probability of every component for every voxel, from the expected squared residuals."""
    constant = torch.digamma(noise.alpha) + 0.5 * (torch.digamma(noise.c) - noise.d.log())
    constant = constant - 0.5 / noise.beta
    return torch.softmax(constant - 0.5 * noise.tau * square.unsqueeze(2), 2)


def _update_pixels(
    y: Tensor, trust: Tensor, moments_v: Tensor, v: Tensor, g: Tensor
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Posterior mean and second moments of every u_i, in chunks.

    Sigma_i = (sum_j R_ij <v_j v_j'> + diag(g))^-1,  u_i = Sigma_i sum_j R_ij y_ij v_j.
    """
    width = v.shape[1]
    count = max(1, CHUNK_BYTES // (32 * width**2))
    for start in range(0, len(y), count):
        part = slice(start, start + count)
        precision = (trust[part] @ moments_v.flatten(1)).view(-1, width, width)
        cov = _inverse(precision + torch.diag(g))
        mean = (cov @ ((trust[part] * y[part]) @ v).unsqueeze(2)).squeeze(2)
        yield part, mean, cov + mean.unsqueeze(2) * mean.unsqueeze(1)


def _inverse(a: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(a))


def _start(data: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """U = u s^0.6 and V = v s^0.4 from the leading singular triplets of the data."""
    values, vectors = torch.linalg.eigh(data.T @ data)
    s = values[-rank:].clamp_min(0).sqrt().flip(0)
    v = vectors[:, -rank:].flip(1)
    s = s.clamp_min(1e-12 * float(s[0]) + torch.finfo(s.dtype).tiny)
    return data @ v * s**-0.4, v * s**0.4


def assign(residual: Tensor, components: int, rng: np.random.Generator) -> Tensor:
    """A first component for every voxel: the nearest of a few residuals of its band drawn at random.

    Drawn again until every component has a voxel; a band with too few different values is dealt out.
    """
    pixels, bands = residual.shape
    labels = residual.new_empty(pixels, bands, dtype=torch.long)
    for j in range(bands):
        for _ in range(20):
            centres = residual[torch.from_numpy(rng.integers(0, pixels, components)), j]
            nearest = (residual[:, j, None] - centres).abs().argmin(1)
            if int(torch.bincount(nearest, minlength=components).min()) > 0:
                break
        else:
            nearest = torch.arange(pixels) % components
        labels[:, j] = nearest
    return labels
