"""The default: a model for loud and mixed noise, eigenimages for mild noise."""

from __future__ import annotations

from collections.abc import Sequence

from ..solver import Model
from . import lrtfdfr

MILD = True
"""The pipeline blends the model with eigenimages where the noise is mild."""


def build(shape: Sequence[int], strength: float = 1.0, *, rank: int | None = None) -> Model:
    """lrtfdfr where the noise is loud or has outliers, noise-whitened eigenimages where it is mild."""
    return lrtfdfr.build(shape, strength, rank=rank)


original = lrtfdfr.original
