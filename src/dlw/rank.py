"""How many spectra a noisy image is made of."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def estimate_rank(y: Tensor, w: Tensor) -> int:
    """The number of spectral components that are stronger than the noise.

    With trust o = min(w / q, 1), q the upper decile of w in the band, the signal part of the Gram matrix is
    estimated entry by entry,

        G_ij = sum o_i o_j y_i y_j / sum o_i o_j ,   minus sigma_i^2 where i = j,

    because noise is independent between bands. sigma_i^2 is the weighted mean square of mixed second
    differences (over 4), which hardly see the image. In units of the noise,
    G_ij / (sigma_i sigma_j), a component whose eigenvalue is above one carries more signal
    than noise: keeping it lowers the error of a projection (the rule of HySime, Bioucas-Dias and
    Nascimento 2008). Impulses, stripes and dead columns have no part in it if the weights see them.

    Args:
        y: noisy image (band, row, col).
        w: weights of the same shape, 0 on voxels that were not measured.
    """
    y, w = y.double(), w.double()
    bands = y.shape[0]
    top = torch.quantile(_sample(w.flatten(1)), 0.9, dim=1).clamp_min(1e-12)
    trust = (w / top[:, None, None]).clamp_max(1.0)
    noise = _noise_variance(y, trust).clamp_min(1e-12)
    a, b = (trust * y).flatten(1), trust.flatten(1)
    gram = (a @ a.mT) / (b @ b.mT).clamp_min(1e-12)
    own = (trust * y * y).flatten(1).sum(1) / b.sum(1).clamp_min(1e-12)
    gram.diagonal().copy_(own - noise)
    scale = noise.rsqrt()
    values = torch.linalg.eigvalsh(scale[:, None] * gram * scale[None, :])
    return max(1, min(bands, int((values > 1.0).sum())))


def _noise_variance(y: Tensor, trust: Tensor) -> Tensor:
    """Weighted mean of (y_ij - y_i+1,j - y_i,j+1 + y_i+1,j+1)^2 / 4 in every band."""
    d = y[:, :-1, :-1] - y[:, 1:, :-1] - y[:, :-1, 1:] + y[:, 1:, 1:]
    o = trust[:, :-1, :-1] * trust[:, 1:, :-1] * trust[:, :-1, 1:] * trust[:, 1:, 1:]
    return (o * d * d).sum((1, 2)) / (4.0 * o.sum((1, 2))).clamp_min(1e-12)


def _sample(values: Tensor, most: int = 100_000) -> Tensor:
    """Every n-th column, so that a quantile of a large image stays cheap."""
    return values[:, :: max(1, values.shape[1] // most)]
