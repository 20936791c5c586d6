"""Noise of a band as what the other bands do not explain."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import BadInput

RIDGE = 1e-6
"""Added to the Gram matrix, which is singular for a clean image of low rank."""


def regression_residual(y: Tensor, who: str) -> Tensor:
    """Residual of the regression of every band on all the others, for (band, pixel) data.

    With the inverse P of the Gram matrix of the bands the residual of band i is (P y)_i / P_ii: one
    inverse serves all bands. ``who`` is named when there is no other band to regress on.
    """
    if len(y) < 2:
        raise BadInput(
            f"{who} estimates the noise of a band from the other bands, so it needs at least two "
            "bands and this image has one"
        )
    gram = y @ y.T
    gram.diagonal().add_(RIDGE + 1e-12 * float(gram.diagonal().mean()))
    inverse: Tensor = torch.linalg.inv(gram)
    return (inverse @ y) / inverse.diagonal().unsqueeze(1)


def positive(std: Tensor) -> Tensor:
    """Standard deviations that can be divided by: bands without noise get a very small one."""
    return std.clamp_min(1e-6)
