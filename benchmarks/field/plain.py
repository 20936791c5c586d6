"""The plain command as one function: the order of the parts (a prototype for the pipeline)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from strength import model_share, strength_for, unevenness
from torch import Tensor

from hyperdlw import models
from hyperdlw.models.denoisers import denoise_eigenimages
from hyperdlw.pipeline.guard import guard, spare_floor
from hyperdlw.pipeline.limits import fit_limits
from hyperdlw.pipeline.wild import set_aside, wild_voxels
from hyperdlw.solver import Problem, solve
from hyperdlw.weights import NoiseLaw, estimate_noise, find_medians, spectral_residual

OUTLIER = 6.0
"""Distance of an outlier, in standard deviations."""
FEW = 1e-4
"""Share of suspicious voxels below which a cube of mild noise has no outliers."""


def restore(
    raw: Tensor,
    valid: Tensor,
    weigh: Callable[[Tensor, Tensor], Tensor],
    info: dict[str, object] | None = None,
) -> Tensor:
    """Restore a noisy cube (band, row, col) in any units.

    Args:
        raw: float32; what is not valid may be anything and is returned as it is.
        weigh: (image, valid) -> weights of mean one, for example ``hyperdlw.weights.resolve("N+T+TS")``.
        info: is filled with the level, the share of outliers, the part of the model and words for a user.
    """
    info = {} if info is None else info
    lo, hi = (v[:, None, None] for v in fit_limits(raw, valid))
    unit = (raw - lo) / (hi - lo)
    wild, bright = wild_voxels(unit, valid)
    y, ok = set_aside(unit, valid, wild, bright)
    dead = dead_columns(y, ok)
    ok = ok & ~dead
    law = estimate_noise(y, ok)
    if bool(ok.all()) and model_share(law, 0.0) == 0 and suspicious(y, ok, law) < FEW:
        # Mild noise and nothing else: the network and the model have nothing to add.
        x, lost = y, ~ok
    else:
        w = weigh(y, ok)
        soft = estimate_noise(y, ok, w)
        strength = min(1.0, strength_for(soft, "logarithmic"))
        x = solve(Problem(models.build_model("lrtfdfr", y.shape, strength), y, w)).x
        lost = find_outliers(y, x, ok, soft) | ~ok
    share = float((lost & valid).float().mean())
    law = estimate_noise(y, ~lost) if bool(lost.any()) else law
    part = model_share(law, share, unevenness(y - x, law, x, ~lost))
    words = ""
    if part < 1:
        spared = spare_floor(law)
        mild = denoise_eigenimages(torch.where(lost, x, y), spared.level, spared.variance)
        kept = guard(y, mild, spared, lost)
        x, words = part * x + (1 - part) * kept.x, kept.words
    info.update(
        uneven=unevenness(y - x, law, x, ~lost),
        part=part,
        share=share,
        level=float(law.level.mean()),
        words=words,
    )
    out = torch.where(bright & torch.ones_like(valid), unit, x)
    return torch.where(valid, out * (hi - lo) + lo, raw)


def suspicious(y: Tensor, ok: Tensor, law: NoiseLaw) -> float:
    """Share of the voxels that are far from what the other bands say, in noise levels."""
    other = spectral_residual(y, ok).abs()
    spread = find_medians(other.flatten(1), ok.flatten(1))[:, None, None] / 0.6745
    noise = torch.maximum(law.variance(y).sqrt(), law.level[:, None, None])
    return float((other > OUTLIER * torch.maximum(spread, noise)).float().mean())


def find_outliers(y: Tensor, x: Tensor, ok: Tensor, law: NoiseLaw) -> Tensor:
    """Voxels that are not signal plus noise: six spreads away from the model and from what other bands say.

    Where only the model is far off, it has smoothed the image; there the other bands agree with the voxel.
    """
    away = (y - x).abs()
    other = spectral_residual(y, ok).abs()
    spread = [
        find_medians(v.flatten(1), ok.flatten(1))[:, None, None] / 0.6745 for v in (away, other)
    ]
    noise = torch.maximum(law.variance(x).sqrt(), law.level[:, None, None])
    far = [
        v > OUTLIER * torch.maximum(s, noise) for v, s in ((away, spread[0]), (other, spread[1]))
    ]
    return far[0] & far[1] & (other > 0.5 * away)


def dead_columns(y: Tensor, ok: Tensor) -> Tensor:
    """Columns of a band on which one value is repeated from top to bottom, if not all columns are so."""
    low = torch.where(ok, y, torch.inf).amin(1, keepdim=True)
    high = torch.where(ok, y, -torch.inf).amax(1, keepdim=True)
    same = (low == high) & (ok.sum(1, keepdim=True) > 2)
    few = same.sum(2, keepdim=True) <= y.shape[2] // 2
    return (same & few).expand_as(y)
