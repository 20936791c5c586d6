"""The default: a model for loud and mixed noise, eigenimages for mild noise."""

from __future__ import annotations

from collections.abc import Sequence

from ..solver import Model
from . import lrtfdfr
from .defaults import NORMAL, QUALITIES

MILD = True
"""The pipeline blends the model with eigenimages where the noise is mild."""


def build(
    shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None, quality: str = NORMAL
) -> Model:
    """lrtfdfr where the noise is loud or has outliers, noise-whitened eigenimages where it is mild."""
    row = QUALITIES[quality]
    return lrtfdfr.build(shape, strength, rank=rank, steps=row.steps, passes=row.passes)


original = lrtfdfr.original
