"""How the image must agree with the noisy cube: f(x; y, w) and its proximal map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .penalties import soft


@dataclass(frozen=True)
class Fidelity:
    """A data term.

    Attributes:
        prox: (v, t, y, w) -> argmin_x  t f(x; y, w) + 1/2 ||x - v||^2.
        value: (x, y, w) -> f(x; y, w).
        held: the data term is held/2 ||x - u||^2 with the copy u = prox(x) (see :func:`l2`).
    """

    name: str
    prox: Callable[[Tensor, float, Tensor, Tensor], Tensor]
    value: Callable[[Tensor, Tensor, Tensor], Tensor]
    held: float | None = None


def weighted_l2(scale: float = 1.0) -> Fidelity:
    """scale/2 sum w (y - x)^2, the data term of the scheme (equation (2) of the paper, w = W^2).

    The prox is a weighted average of y and v, (t scale w y + v) / (t scale w + 1). A voxel with
    w = 0 is not measured and keeps v.
    """

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        a = w * (t * scale)
        return torch.addcmul(v, a, y) / (a + 1.0)

    return Fidelity("weighted_l2", prox, lambda x, y, w: 0.5 * scale * (w * (y - x) ** 2).sum())


def l1(strength: float = 1.0) -> Fidelity:
    """strength sum w |y - x|: the robust data term of the original LRTV, E3DTV and CTV (w = 1)."""

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        r = v - y
        limit = w * (t * strength)
        return v - r.clamp(-limit, limit)

    return Fidelity("l1", prox, lambda x, y, w: strength * (w * (y - x).abs()).sum())


def l2_sparse(strength: float) -> Fidelity:
    """min over S of 1/2 ||y - x - S||^2 + strength ||S||_1, weighted by w outside the minimum.

    Eliminating the sparse part S = soft(y - x, strength) leaves the Huber function, so no extra
    variable is needed: with r = v - y the prox is v - clamp(t w r / (1 + t w), +-t w strength).
    """

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        a = w * t
        limit = a * strength
        return v - ((v - y) * (a / (1.0 + a))).clamp(-limit, limit)

    def value(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        r = y - x
        s = soft(r, strength)
        return (w * (0.5 * (r - s) ** 2 + strength * s.abs())).sum()

    return Fidelity("l2_sparse", prox, value)


def l2(scale: float = 1.0) -> Fidelity:
    """scale/2 sum w (y - x)^2 for weights that are a mask (0 or 1), solved in Fourier space.

    A constant weight is diagonal there, so the image update can contain the data term itself, as
    the original SV-TV does: the copy is held at y, and at x where nothing was measured, and drawn
    to the image with the fixed penalty ``scale``. Weights between 0 and 1 give the majorant
    u = x + w (y - x), whose fixed point is the same minimiser; larger ones count as 1.
    """

    def copy(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        return torch.lerp(v, y, w.clamp_max(1.0))

    def value(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return 0.5 * scale * (w.clamp_max(1.0) * (y - x) ** 2).sum()

    return Fidelity("l2", copy, value, held=scale)


def reweighted_l1(strength: float) -> Fidelity:
    """Sparse noise S = y - x under a reweighted l1 norm: the data term of the original LRTF-DFR.

    S = soft(r, t w strength / |r|) with r = y - v: an entry survives only if r^2 > t w strength, and
    is then hardly shrunk. That is one reweighting of the logarithm strength sum w log |y - x|,
    which is not convex.
    """

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        r = y - v
        limit = w * (t * strength)
        # y - S, with S = r - limit / r where r^2 > limit and 0 elsewhere
        kept = r * r > limit
        return torch.where(kept, v + limit / torch.where(kept, r, torch.ones_like(r)), y)

    def value(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return strength * (w * (y - x).abs().clamp_min(1e-12).log()).sum()

    return Fidelity("reweighted_l1", prox, value)
