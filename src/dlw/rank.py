"""How many spectra a noisy image is made of."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def estimate_rank(y: Tensor, w: Tensor) -> int:
    """The number of spectral components that are stronger than the noise.

    With trust o = min(w / q, 1), q the upper decile of w in the band, a voxel is first replaced by
    z = o y + (1 - o) m, where m is the mean of its 5 x 5 neighbours weighted by o: impulses, stripes and
    dead columns have no part in z if the weights see them. The noise variance sigma_b^2 of a band of z
    is the mean square of mixed second differences over 4, which hardly see the image. In units of
    the noise, sum_pixels z_b z_c / (n sigma_b sigma_c), the noise alone has eigenvalues near one,
    and a component with an eigenvalue above two carries more signal than noise: keeping it lowers
    the error of a projection (the rule of HySime, Bioucas-Dias and Nascimento 2008).

    Args:
        y: noisy image (band, row, col).
        w: weights of the same shape, 0 on voxels that were not measured.
    """
    y, w = y.double(), w.double()
    top = torch.quantile(_sample(w.flatten(1)), 0.9, dim=1).clamp_min(1e-12)
    trust = (w / top[:, None, None]).clamp_max(1.0)
    z = _filled(torch.where(w > 0, y, torch.zeros_like(y)), trust)
    d = z[:, :-1, :-1] - z[:, 1:, :-1] - z[:, :-1, 1:] + z[:, 1:, 1:]
    sigma = (d.square().mean((1, 2)) / 4.0).clamp_min(1e-12).sqrt()
    scaled = (z / sigma[:, None, None]).flatten(1)
    values = torch.linalg.eigvalsh(scaled @ scaled.mT / scaled.shape[1])
    return max(1, int((values > 2.0).sum()))


def _filled(y: Tensor, trust: Tensor) -> Tensor:
    """trust y + (1 - trust) times the weighted mean of the neighbours, or of the band."""

    def blur(v: Tensor) -> Tensor:
        return F.avg_pool2d(v.unsqueeze(0), 5, stride=1, padding=2).squeeze(0)

    near = blur(trust)
    band = (trust * y).sum((1, 2), keepdim=True) / trust.sum((1, 2), keepdim=True).clamp_min(1e-12)
    mean = torch.where(near > 1e-3, blur(trust * y) / near.clamp_min(1e-3), band)
    return torch.lerp(mean, y, trust)


def _sample(values: Tensor, most: int = 100_000) -> Tensor:
    """Every n-th column, so that a quantile of a large image stays cheap."""
    return values[:, :: max(1, values.shape[1] // most)]
