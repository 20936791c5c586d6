"""The balance of data term and regulariser follows the noise level.

Weights have mean one, so nothing in the data term says how strong the noise is. The published constants are
right at a level of 40/255. For a penalty R of degree one, 1/2 ||y - x||^2 + t R(x) with y scaled by c has the
solution scaled by c if t is scaled by c: t ~ sigma. For a logarithm of edges, if t is scaled by c^2.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from hyperdlw.weights import NoiseLaw

PUBLISHED = 40 / 255
"""The noise level, in ranges, at which the published strengths are right (mean of 10 to 70/255)."""
WEAKEST, STRONGEST = 1e-6, 4.0
"""Limits of the factor. Below a level of 1e-3 ranges (SNR 500) the logarithmic model is not used anyway."""
LEAST_RANK = 8

Homogeneity = Literal["linear", "logarithmic"]
HOMOGENEITY: dict[str, Homogeneity] = {
    "lrtfdfr": "logarithmic",
    "pnp": "logarithmic",
    "pnp-hqs": "logarithmic",
}
"""Every other model is one-homogeneous. The prox of plug and play is told sqrt(strength) times its level."""


def strength_for(law: NoiseLaw, kind: Homogeneity) -> float:
    """The factor on the published strength: (level / (40/255))^p, p = 1 linear, 2 logarithmic.

    ``level`` is the root of the mean of the variances of the bands.
    """
    ratio = math.sqrt(float(law.level.double().square().mean())) / PUBLISHED
    return min(STRONGEST, max(WEAKEST, ratio if kind == "linear" else ratio * ratio))


def rank_for(y: Tensor, law: NoiseLaw) -> int:
    """Spectral components of an image (band, row, col) without outliers that stand above its noise.

    Bands are divided by their noise level. Eigenvalues of the mean Gram matrix above (1 + sqrt(b/n))^2
    are not noise; those above twice that carry more signal than noise and lower the error of a projection.
    At least 8 (or all bands): a model that also smooths its maps loses nothing by a component too many,
    and 7 dB by one too few.
    """
    level = law.level.double().clamp_min(max(1e-4 * float(law.level.max()), 1e-7))
    flat = y.double().flatten(1) / level[:, None]
    values = torch.linalg.eigvalsh(flat @ flat.T / flat.shape[1])
    edge = 2 * (1 + math.sqrt(len(y) / flat.shape[1])) ** 2
    return min(len(y), max(LEAST_RANK, int((values > edge).sum())))


def unevenness(rest: Tensor, law: NoiseLaw, x: Tensor, ok: Tensor) -> float:
    """How much the noise varies over the image beyond its law: spread of log variance, mean over bands.

    Variances are means of a residual y - x over 25 x 25 pixels, relative to the law at x.
    """
    seen = ok.to(rest)
    side = min(25, *rest.shape[1:])
    mean = [
        torch.nn.functional.avg_pool2d(v, side, max(1, side // 2))
        for v in (rest.square() * seen, law.variance(x) * seen)
    ]
    ratio = (mean[0].clamp_min(1e-12) / mean[1].clamp_min(1e-12)).log().flatten(1)
    return float(ratio.std(1).mean()) if ratio.shape[1] > 1 else 0.0


def model_share(law: NoiseLaw, outliers: float, uneven: float = 0.0) -> float:
    """How much of the result comes from the weighted model, 0 to 1; the rest from the eigenimages.

    0 up to a level of 12/255, then linear to its largest value at 32/255. That is 0.65 where there are no
    outliers: the two err differently, and their mean is better than either by 0.6 to 1 dB for even noise
    and stripes. It is 1 from 0.8 % of outliers, which the eigenimages do not forgive.

    Args:
        outliers: share of the voxels that are impulses, dead, or otherwise far from the model.
        uneven: :func:`unevenness`; noise that varies over the image is for the weights, from 0.2 alone.
    """
    level = float(law.level.double().square().mean().sqrt())
    mixed = min(1.0, max(0.0, (outliers - 0.002) / 0.006, (uneven - 0.1) / 0.1))
    loud = min(1.0, max(0.0, (level - 12 / 255) / (20 / 255)))
    return loud * (0.65 + 0.35 * mixed)
