"""Plug and play: a Gaussian denoiser in the place of a regulariser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..solver import Model, Schedule, Term
from .denoisers.catalogue import Denoiser, EigenDenoiser, resolve_denoiser

SIGMA, MU = 50 / 255, 0.5
SCHEDULE = Schedule(steps=12, mu=MU, order=("image", "terms"), guard=3)
CubeSpec = str | Path | Denoiser


def build(
    shape: Sequence[int],
    strength: float = 1.0,
    denoiser: CubeSpec = "eigen",
    multipliers: bool = True,
) -> Model:
    """A clean image is what a Gaussian denoiser leaves alone (DLW-PnP), by ADMM.

    The prox of lambda R at step t is denoiser(v, sqrt(lambda t)) with lambda = strength mu sigma^2: at
    strength 1 and the mu of the schedule the denoiser is told 50/255. Twelve steps; the result is
    the denoised copy. A denoiser need not be a prox, so the schedule has a guard.
    """
    denoise = resolve_denoiser(denoiser)
    weight = strength * MU * SIGMA**2

    def level(t: float) -> float:
        return math.sqrt(weight * t)

    staged = denoise.staged(level) if isinstance(denoise, EigenDenoiser) else None
    return Model(
        terms=(Term(lambda v, t, carry: (denoise(v, level(t)), carry), staged=staged),),
        schedule=replace(SCHEDULE, multipliers=multipliers),
        central="data",
        output=0,
        degree=2,
    )


def original(shape: Sequence[int], strength: float = 1.0, denoiser: CubeSpec = "eigen") -> Model:
    """The denoiser alone, once, at the noise level it has in the loop: sqrt(strength) 50/255."""
    once = Schedule(steps=1, mu=MU, order=("terms",), multipliers=False)
    return replace(build(shape, strength, denoiser), schedule=once)


def build_hqs(shape: Sequence[int], strength: float = 1.0, denoiser: CubeSpec = "eigen") -> Model:
    """The same by half-quadratic splitting: no multipliers, slower and safer than ADMM."""
    return build(shape, strength, denoiser, multipliers=False)
