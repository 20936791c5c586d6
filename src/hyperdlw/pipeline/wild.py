"""Voxels far beyond their band: set aside before anything is computed from them."""

from __future__ import annotations

import torch
from torch import Tensor

FAR = 3.0
"""Distance from the limits of a band, in ranges, from which a value is wild."""
BRIGHT = 1.0
"""Distance above the upper limit, in ranges, from which a pixel is bright, if it is so in many bands."""
SHARED = 0.3
"""Share of the bands in which a bright pixel is far; a wild voxel is far in fewer."""


def wild_voxels(y: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Wild voxels (band, row, col) and bright pixels (row, col) of an image on the unit scale.

    Wild: beyond [-3, 4] in a few bands only (a spike, an undeclared fill value), or not finite. They are
    treated as not measured: no weight, filled by the model. Bright: above 2 in 30 % of the bands
    (a glint, a flare, a lamp). They are measured well, and no model of the others describes them:
    they get no weight, so that nothing of them spreads, and keep their own values in the result.
    """
    far = valid & ((y > 1 + FAR) | (y < -FAR))
    up = (valid & (y > 1 + BRIGHT)).sum(0)
    bright = up > SHARED * valid.sum(0).clamp_min(1)
    bad = valid & ~y.isfinite()
    bright = bright & (up >= min(2, len(y)))
    # A fill value in all bands is no light: the same number again and again, or far below.
    same = (y - y[:1]).abs().amax(0) == 0 if len(y) > 1 else torch.zeros_like(bright)
    bright = bright & ~same & (y.abs() < 1e6).all(0)
    return (far & ~bright) | bad, bright


def set_aside(y: Tensor, valid: Tensor, wild: Tensor, bright: Tensor) -> tuple[Tensor, Tensor]:
    """The image with the mean of the nearest valid pixels where something was set aside, and its mask."""
    out = wild | (bright & torch.ones_like(wild)) | ~valid
    ok = ~out
    if not bool(out.any()):
        return y, ok
    filled = torch.where(ok, y, 0.0)
    for radius in (2, 8, 10**6):
        if radius > max(y.shape[1:]):
            mean = (filled * ok).sum((1, 2), keepdim=True) / ok.sum((1, 2), keepdim=True).clamp_min(
                1
            )
            near = torch.ones_like(ok)
        else:
            pool = [
                torch.nn.functional.avg_pool2d(v, 2 * radius + 1, 1, radius)
                for v in (filled * ok, ok.to(y))
            ]
            near = pool[1] > 1e-6
            mean = pool[0] / pool[1].clamp_min(1e-6)
        take = out & near
        filled = torch.where(take, mean.expand_as(y), filled)
        out = out & ~near
    return filled, ok
