"""How the image must agree with the noisy cube: f(x; y, w) and its proximal map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .prox import soft


@dataclass(frozen=True)
class Fidelity:
    """A data term.

    Attributes:
        prox: (v, t, y, w) -> argmin_x  t f(x; y, w) + 1/2 ||x - v||^2.
        value: (x, y, w) -> f(x; y, w).
    """

    name: str
    prox: Callable[[Tensor, float, Tensor, Tensor], Tensor]
    value: Callable[[Tensor, Tensor, Tensor], Tensor]


def weighted_l2(scale: float = 1.0) -> Fidelity:
    """scale/2 sum w (y - x)^2, the data term of the scheme (equation (2) of the paper, w = W^2).

    The prox is a weighted average of y and v, (t scale w y + v) / (t scale w + 1). A voxel with
    w = 0 is not measured and keeps v.
    """

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        a = w * (t * scale)
        return torch.addcmul(v, a, y) / (a + 1.0)

    def value(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return 0.5 * scale * (w * (y - x) ** 2).sum()

    return Fidelity("weighted_l2", prox, value)


def l1(strength: float = 1.0) -> Fidelity:
    """strength sum w |y - x|: the robust data term of the original LRTV, E3DTV and CTV (w = 1)."""

    def prox(v: Tensor, t: float, y: Tensor, w: Tensor) -> Tensor:
        r = v - y
        limit = w * (t * strength)
        return v - r.clamp(-limit, limit)

    def value(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return strength * (w * (y - x).abs()).sum()

    return Fidelity("l1", prox, value)


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
