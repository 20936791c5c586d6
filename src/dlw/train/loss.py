"""The upper level: how good are the images that the models restore with these weights?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import models
from ..solver import Backward, Problem, solve
from ..weighting import softmax_weights


def restored(
    logits: Tensor, noisy: Tensor, sources: Sequence[str], backward: Backward = "unroll"
) -> list[Tensor]:
    """The images of every source model under the weights of ``logits`` (..., band, row, col)."""
    w = softmax_weights(logits)
    return [
        solve(Problem(models.build(s, noisy.shape), noisy, w), backward=backward).x for s in sources
    ]


def bilevel_loss(
    logits: Tensor,
    noisy: Tensor,
    clean: Tensor,
    sources: Sequence[str],
    *,
    kind: str = "mse",
    backward: Backward = "unroll",
) -> tuple[Tensor, Tensor]:
    """Mean over source models and patches of the error (equation (3)), and the MSE of each source.

    ``kind`` "mse": mean squared error. "log": mean over sources and patches of log(MSE), so that every
    patch counts by its ratio, as it does in a mean of PSNR values.
    """
    images = restored(logits, noisy, sources, backward)
    errors = torch.stack([((x - clean) ** 2).flatten(1).mean(1) for x in images])
    loss = errors.mean() if kind == "mse" else torch.log(errors + 1e-8).mean()
    return loss, errors.detach().mean(1)
