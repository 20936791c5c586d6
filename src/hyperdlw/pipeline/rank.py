"""How many spectra a noisy image is made of."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def estimate_rank(y: Tensor, w: Tensor) -> int:
    """The number of spectral components that are stronger than the noise.

    A voxel is believed if its weight is above a third of the median weight of its band; any other is
    replaced by the mean of the believed ones among its 5 x 5 neighbours, so that impulses, stripes and dead
    columns have no part in what follows, if the weights see them. The noise variance of a band is
    the mean square of mixed second differences of believed voxels over 4; these hardly see the
    image. In units of the noise, sum_pixels z_b z_c / (n sigma_b sigma_c), the noise alone has
    eigenvalues near one, and a component with an eigenvalue above two carries more signal than
    noise: keeping it lowers the error of a projection (the rule of HySime, Bioucas-Dias and
    Nascimento 2008).

    Args:
        y: noisy image (band, row, col).
        w: weights of the same shape, 0 on voxels that were not measured.
    """
    y, w = y.double(), w.double()
    middle = torch.stack([b[b > 0].median() if bool((b > 0).any()) else b.new_ones(()) for b in w])
    good = (w > middle[:, None, None] / 3).double()
    z = _filled(torch.where(good > 0, y, torch.zeros_like(y)), good)
    d = z[:, :-1, :-1] - z[:, 1:, :-1] - z[:, :-1, 1:] + z[:, 1:, 1:]
    known = good[:, :-1, :-1] * good[:, 1:, :-1] * good[:, :-1, 1:] * good[:, 1:, 1:]
    variance = (known * d * d).sum((1, 2)) / (4.0 * known.sum((1, 2))).clamp_min(1.0)
    scaled = (z / variance.clamp_min(1e-12).sqrt()[:, None, None]).flatten(1)
    values = torch.linalg.eigvalsh(scaled @ scaled.mT / scaled.shape[1])
    return max(1, int((values > 2.0).sum()))


def _filled(y: Tensor, trust: Tensor) -> Tensor:
    """y where it is trusted, elsewhere the mean of the trusted neighbours, or of the band."""

    def blur(v: Tensor) -> Tensor:
        return F.avg_pool2d(v.unsqueeze(0), 5, stride=1, padding=2).squeeze(0)

    near = blur(trust)
    band = (trust * y).sum((1, 2), keepdim=True) / trust.sum((1, 2), keepdim=True).clamp_min(1e-12)
    mean = torch.where(near > 1e-3, blur(trust * y) / near.clamp_min(1e-3), band)
    return torch.lerp(mean, y, trust)
