"""The upper level: how good are the images that the models restore with these weights?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .. import models
from ..networks import Network
from ..solver import Backward, Problem, solve
from ..weights import softmax_weights


def restored(
    logits: Tensor,
    noisy: Tensor,
    sources: Sequence[str],
    backward: Backward = "unroll",
    depth: float = 1.0,
) -> list[Tensor]:
    """The images of every source model under the weights of ``logits`` (..., band, row, col).

    Args:
        depth: factor on the number of steps of the solvers; the implicit gradient has no such number.
    """
    w = softmax_weights(logits)
    images = []
    for name in sources:
        model = models.build(name, noisy.shape)
        usual = model.schedule
        # The implicit gradient is that of the minimiser, so the minimiser has to be found.
        schedule = (
            usual.converged(1e-4, 300)
            if backward == "implicit"
            else replace(usual, steps=max(1, round(depth * usual.steps)))
        )
        images.append(solve(Problem(model, noisy, w), schedule, backward=backward).x)
    return images


def bilevel_loss(
    logits: Tensor,
    noisy: Tensor,
    clean: Tensor,
    sources: Sequence[str],
    *,
    kind: str = "mse",
    backward: Backward = "unroll",
    depth: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Mean over source models and patches of the error (equation (3)), and the MSE of each source.

    ``kind`` "mse": mean squared error. "log": mean over sources and patches of log(MSE), so that every
    patch counts by its ratio, as it does in a mean of PSNR values.
    """
    images = restored(logits, noisy, sources, backward, depth)
    errors = torch.stack([((x - clean) ** 2).flatten(1).mean(1) for x in images])
    loss = errors.mean() if kind == "mse" else torch.log(errors + 1e-8).mean()
    return loss, errors.detach().mean(1)


PART_VOXELS = 130_000
"""Voxels that go through network and solvers together: one 64x64x31 patch, or ten of 20x20x31."""


def add_gradients(
    net: Network,
    noisy: Tensor,
    clean: Tensor,
    sources: Sequence[str],
    *,
    batch: int | None = None,
    kind: str = "mse",
    backward: Backward = "unroll",
    depth: float = 1.0,
) -> Tensor:
    """Add the gradient of the loss to the network's; returns [loss, MSE of each source].

    The loss is a mean over patches, so the gradients of parts of the batch add up to the same, and the
    memory is that of one part.

    Args:
        batch: number of patches of the whole batch when these are only a share of it.
    """
    total = batch or len(noisy)
    figures = torch.zeros(1 + len(sources))
    count = max(1, PART_VOXELS // noisy[0].numel())
    for start in range(0, len(noisy), count):
        y, x = noisy[start : start + count], clean[start : start + count]
        loss, errors = bilevel_loss(
            net(y), y, x, sources, kind=kind, backward=backward, depth=depth
        )
        share = len(y) / total
        (loss * share).backward()  # type: ignore[no-untyped-call]
        figures += torch.cat([loss.detach().view(1), errors]) * share
    return figures
