"""FastHyMix (Zhuang and Ng, TNNLS 2023): mask the outliers, then denoise a few eigenimages.

The core of the released program is encrypted, so this follows the published description and agrees
with it in structure, not digit by digit. Where the values that the description leaves open come from
is in docs/decisions.md.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..denoisers.catalogue import PlaneDenoiser, resolve_plane_denoiser
from .hyres import clamp_deviation, regression_residual

COMPONENTS, ROUNDS = 3, 60
OUTLIER = 3.0
"""Distance from which a residual is an outlier, in standard deviations."""
RIDGE = 1e-3
"""Keeps the least squares of a pixel with many masked bands solvable."""
CHUNK = 1 << 16
"""Pixels that are solved for together."""


def run(
    y: Tensor,
    *,
    rank: int | None = None,
    seed: int = 0,
    denoiser: str | Path | PlaneDenoiser = "framelet",
) -> Tensor:
    """FastHyMix: outliers are masked, each pixel is fitted in a subspace, its eigenimages are denoised.

    1 residual of every band regressed on the others; 2 a Gaussian mixture of it gives the noise
    level and the mask; 3 whitening; 4 the subspace E of the unmasked voxels; 5 least squares
    z_i = (E'M_iE)^-1 E'M_i y_i for every pixel; 6 denoising of the eigenimages, whose noise level
    is the root of the diagonal of (E'M_iE)^-1; 7 X = E Z in the old scale.

    Args:
        rank: dimension of the subspace; None: 8, or 4 for fewer than 64 bands.
        denoiser: of the eigenimages, with a map of their noise level: "framelet" (local Wiener
            shrinkage), "gauss" (the shipped network; the published one is FFDNet), a file or a
            callable.
    """
    bands, rows, cols = y.shape
    data = y.reshape(bands, -1).double()
    std, mask = gaussian_part(regression_residual(data, "fasthymix"))
    white = data / std
    r = min(rank if rank is not None else (8 if bands >= 64 else 4), bands)
    basis = masked_subspace(white, mask, r)
    z, spread = _fit(white, mask, basis)
    clean = resolve_plane_denoiser(denoiser)
    images = clean(z.view(r, rows, cols).to(y.dtype), spread.sqrt().view(r, rows, cols).to(y.dtype))
    x = std * (basis @ images.reshape(r, -1).double())
    return x.view(bands, rows, cols).to(y.dtype)


def gaussian_part(residual: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation (band, 1) of the Gaussian part of residuals (band, pixel), and its mask.

    A zero-mean mixture of three Gaussians is fitted to every band by EM. The narrow components that
    hold half of the voxels, and those up to twice as wide, are the Gaussian part; voxels within three
    of its standard deviations belong to it.
    """
    square = _representatives(residual.square())
    scale = clamp_deviation(residual.abs().median(1).values / 0.6745).square().unsqueeze(1)
    variance = scale * residual.new_tensor([0.5, 1.5, 10.0])
    share = torch.full_like(variance, 1 / COMPONENTS)
    for _ in range(ROUNDS):
        log = share.log() - 0.5 * variance.log()
        weight = torch.softmax(
            log.unsqueeze(1) - 0.5 * square.unsqueeze(2) / variance.unsqueeze(1), 2
        )
        count = weight.sum(1)
        share = (count / square.shape[1]).clamp_min(1e-12)
        total = torch.einsum("bnk,bn->bk", weight, square)
        variance = (total / count.clamp_min(1e-12)).clamp_min(1e-12)
    order = variance.argsort(1)
    variance, share = variance.gather(1, order), share.gather(1, order)
    before = share.cumsum(1) - share
    inside = before < 0.5
    level = (share * variance * inside).sum(1, keepdim=True) / (share * inside).sum(1, keepdim=True)
    inside = inside | (variance < 4 * level)
    level = (share * variance * inside).sum(1, keepdim=True) / (share * inside).sum(1, keepdim=True)
    std = clamp_deviation(level.sqrt())
    return std, residual.abs() <= OUTLIER * std


def _representatives(values: Tensor, count: int = 1024) -> Tensor:
    """Means of ``count`` equally large groups of the sorted values of each row: EM sees no difference."""
    ordered = values.sort(1).values
    if values.shape[1] < 2 * count:
        return ordered
    return torch.stack([part.mean(1) for part in ordered.tensor_split(count, 1)], 1)


def masked_subspace(y: Tensor, mask: Tensor, rank: int) -> Tensor:
    """Leading eigenvectors (band, rank) of the Gram matrix over pairs of unmasked voxels."""
    m = mask.to(y.dtype)
    known = y * m
    gram = (known @ known.T) / (m @ m.T).clamp_min(1.0)
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors
    return vectors[:, -rank:].flip(1)


def _fit(y: Tensor, mask: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Least squares of every pixel on its unmasked bands: coordinates (rank, pixel), variances."""
    bands, rank = basis.shape
    outer = (basis.unsqueeze(2) * basis.unsqueeze(1)).view(bands, -1)
    ridge = RIDGE * torch.eye(rank, dtype=y.dtype, device=y.device)
    found, spread = [], []
    for some in torch.split(torch.arange(y.shape[1]), CHUNK):
        m = mask[:, some].to(y.dtype)
        inverse = torch.linalg.inv((m.T @ outer).view(-1, rank, rank) + ridge)
        right = (m * y[:, some]).T @ basis
        found.append((inverse @ right.unsqueeze(2)).squeeze(2))
        spread.append(inverse.diagonal(dim1=1, dim2=2))
    return torch.cat(found).T.contiguous(), torch.cat(spread).T.contiguous()
