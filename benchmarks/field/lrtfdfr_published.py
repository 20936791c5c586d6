"""The published LRTF-DFR on any scene: the inner penalty backs off where it wipes the image out.

The penalty beta of the inner ADMM is a number of the algorithm, not of the model; the authors set it by
hand, 15000 for 224 bands. The first inner pass smooths the maps by beta / A'A. In a dark scene, where few
bright pixels press the rest into a corner, no difference is then left above the threshold sqrt(tau / beta)
of the logarithm. Every map becomes flat and the bright pixels go to the sparse part. The map stays flat:
the logarithm has no slope that leads back. Rule: where the result has lost the large structures of the
cube, start again from the leading singular vectors with a quarter of beta.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hyperdlw.models import lrtfdfr
from hyperdlw.solver import FactorPenalty, Problem, product, solve

LOST = 0.1
"""Share of the standard deviation of the block medians of the cube below which a result is wiped out."""
TRIES = 5


def run(y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor:
    """LRTF-DFR as published (Zheng et al. 2020), with a penalty that leaves the image alive.

    Args:
        y: noisy image (band, row, col), bands in [0, 1].
        rank: number of spectra; None: 5, or 6 from 151 bands.
        seed: not used, no random number is drawn.
    """
    wanted = LOST * structure(y)
    beta = 16.0 * len(y)
    x = y
    for attempt in range(TRIES):
        model = lrtfdfr.original(y.shape, rank=rank, coupling=beta)
        if attempt:
            penalty = FactorPenalty(edges=0.2, smooth=0.01, coupling=beta)
            assert model.rank is not None
            model = replace(model, terms=(product(model.rank, penalty, "leading"),))
        x = solve(Problem(model, y, torch.ones_like(y))).x
        if structure(x) >= wanted:
            break
        beta /= 4
    return x


def structure(y: Tensor, side: int = 8) -> float:
    """Standard deviation over the image of the medians of blocks, mean over the bands."""
    rows, cols = (n // side * side for n in y.shape[1:])
    if rows < 2 * side or cols < 2 * side:
        return 0.0
    blocks = y[:, :rows, :cols].reshape(len(y), rows // side, side, cols // side, side)
    medians = blocks.transpose(2, 3).flatten(3).median(-1).values
    return float(medians.flatten(1).std(1).mean())
