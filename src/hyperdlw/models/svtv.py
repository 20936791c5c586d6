"""Saturation and value total variation of colour images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..solver import COL, ROW, Model, Schedule, gradient, l2, opponent, saturation_value, term

BANDS = 3
EDGES = opponent(gradient(ROW, COL))


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """Smooth saturation and value: 0.2 sum |D(p1, p2)| + 0.1 sum |D p3|, colour (DLW-SVTV).

    p1, p2 are the opponent channels of the colour, p3 is the brightness. Twenty steps.
    """
    return Model(
        terms=(term(saturation_value(0.5), EDGES, strength=0.2 * strength),),
        schedule=Schedule(steps=20, mu=0.1, growth=1.05),
    )


def original(shape: Sequence[int], strength: float = 1.0, *, noise: float = 0.05) -> Model:
    """alpha (sum |D(p1, p2)| + 0.1 |D p3|) + 1/2 ||Y - X||^2, opponent channels p (Jia et al.).

    alpha = 0.01 ``noise`` sqrt(number of values), ``noise`` the standard deviation on [0, 1]. A
    hundred steps with a small penalty: stopped early, as published.
    """
    alpha = 0.01 * noise * math.sqrt(3 * shape[1] * shape[2])
    return Model(
        terms=(term(saturation_value(0.1), EDGES, strength=alpha * strength),),
        fidelity=l2(),
        schedule=Schedule(steps=100, mu=0.01, order=("data", "image", "terms")),
    )
