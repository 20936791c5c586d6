"""What colour pictures get: a model for loud noise and impulses, eigenimages for mild noise."""

from __future__ import annotations

from collections.abc import Sequence

from ..solver import Model
from . import svtv

MILD = True
"""The pipeline blends the model with eigenimages where the noise is mild."""
BANDS = svtv.BANDS
NETWORK = "colour-T"
"""Trained on photographs; the weights that go with the model."""


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """svtv where the noise is loud or has impulses, noise-whitened eigenimages where it is mild."""
    return svtv.build(shape, strength)


original = svtv.original
