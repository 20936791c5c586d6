"""The weighted models with the constants that the paper prints, to compare with ours.

The paper gives kappa, tau, lambda and the ranks, but no penalty mu, growth or number of steps; these
come from the original of each model (LRTV, E3DTV) or, where that has another loop, from our version.
Our own constants are in ``lrtv.py`` and its neighbours; docs/decisions.md compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..solver import (
    AXES,
    FactorPenalty,
    Model,
    Schedule,
    gradient,
    nuclear_of_rank,
    product,
    saturation_value,
    shared_basis,
    term,
    total_variation,
    weighted_l2,
)
from . import svtv

INHERITED = Schedule(steps=40, mu=1e-2, growth=1.5, largest=1e6)
"""Penalty, growth and steps of the published LRTV and E3DTV."""


def choose_rank(bands: int, few: int, more: int, many: int) -> int:
    """The rank for CAVE and ICVL (31 bands), for PaviaU and DC Mall, for Indian Pines and Urban."""
    return min(bands, few if bands <= 40 else more if bands <= 160 else many)


def build_lrtv(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """lrtv with the paper's constants: kappa 0.14, tau 0.001, rank 3 or 5.

    The program of LRTV minimises twice the tau it is given, and so does this.
    """
    rank = rank or choose_rank(shape[0], 3, 5, 5)
    return Model(
        terms=(term(nuclear_of_rank(rank)), total_variation(0.002 * strength, passes=10)),
        fidelity=weighted_l2(0.14),
        schedule=INHERITED,
        central="data",
        output=0,
        rank=rank,
    )


def build_e3dtv(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """e3dtv with the paper's constants: tau 1e-4 (many bands: 5e-4) sqrt(rows cols), rank 4 or 5."""
    rank = rank or choose_rank(shape[0], 4, 5, 5)
    tau = (1e-4 if shape[0] <= 160 else 5e-4) * math.sqrt(shape[1] * shape[2]) * strength
    return Model(
        terms=tuple(shared_basis(gradient(k), rank, tau) for k in AXES),
        schedule=INHERITED,
        rank=rank,
    )


def build_lrtfdfr(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """lrtfdfr with the paper's constants: tau 0.01, lambda 0.1, rank 3, 5 or 6."""
    rank = rank or choose_rank(shape[0], 3, 5, 6)
    penalty = FactorPenalty(edges=0.01 * strength, smooth=0.1 * strength, coupling=10.0)
    return Model(
        terms=(product(rank, penalty),),
        schedule=Schedule(steps=20, mu=0.1, growth=1.15),
        central="data",
        output=0,
        rank=rank,
        selects=True,
    )


def build_svtv(shape: Sequence[int], strength: float = 1.0) -> Model:
    """svtv with the published balance of saturation and value, 1 to 0.1; the paper prints no other."""
    edges = term(saturation_value(0.1), svtv.EDGES, strength=0.2 * strength)
    return Model(terms=(edges,), schedule=Schedule(steps=20, mu=0.1, growth=1.05))


class PaperPreset(NamedTuple):
    """What the registry wants of a module: how the model is built, and the bands it is for."""

    build: Callable[..., Model]
    BANDS: int | None = None


PRESETS = {
    "lrtv-paper": PaperPreset(build_lrtv),
    "e3dtv-paper": PaperPreset(build_e3dtv),
    "lrtfdfr-paper": PaperPreset(build_lrtfdfr),
    "svtv-paper": PaperPreset(build_svtv, svtv.BANDS),
}
"""Every preset by its name."""
