"""Pruning: a network with fewer filters from a wider one, without the channels that others replace."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..networks import DLWnet3d, factor

SAMPLES = 20_000
"""Voxels whose activations are looked at, per image."""


@torch.no_grad()
def prune_network(net: DLWnet3d, filters: int, images: Sequence[Tensor]) -> DLWnet3d:
    """A network with fewer filters whose layers give about the same outputs on some noisy images.

    The layer after activations a computes W a. Without channel q, and with the other columns of W
    refitted, the smallest expected squared error is ||W_q||^2 / (C^-1)_qq with C the covariance of
    a, reached by W - W_q (C^-1)_q / (C^-1)_qq (the optimal brain surgeon of Hassibi and Stork, layer
    by layer). Channels go one by one, the cheapest first; what the means lose goes into the bias.

    Args:
        images: noisy images (band, row, col) like those to be met later.
    """
    state = {k: v.clone() for k, v in net.state_dict().items()}
    names = [f"{kind}.{i}" for i in range(len(net.space)) for kind in ("space", "spectrum")]
    layers = [m for pair in zip(net.space, net.spectrum, strict=True) for m in pair]
    activations = [image[None, ..., None] for image in images]
    for k, name in enumerate(names):
        activations = [factor(t, layers[k], along_bands=k % 2 == 1) for t in activations]
        following = "last" if k + 1 == len(names) else names[k + 1]
        weight = state[f"{following}.weight"]
        out = weight.shape[0]
        columns = weight.double().transpose(0, 1).flatten(1)
        a = torch.cat([_some(t) for t in activations])
        kept, refitted = _drop(columns, torch.cov(a.T), filters)
        mean = a.mean(0)
        lost = (mean @ columns - mean[kept] @ refitted).view(out, -1).sum(1)
        state[f"{following}.weight"] = (
            refitted.view(len(kept), out, *weight.shape[2:]).transpose(0, 1).to(weight.dtype)
        )
        state[f"{following}.bias"] += lost.to(weight.dtype)
        for part in ("weight", "bias"):
            state[f"{name}.{part}"] = state[f"{name}.{part}"][kept]
    small = DLWnet3d(filters, len(net.space))
    small.load_state_dict(state)
    return small


def _some(t: Tensor) -> Tensor:
    """Activations of evenly spread voxels, (voxel, channel), in double precision."""
    flat = t.flatten(0, -2)
    return flat[:: max(1, len(flat) // SAMPLES)].double()


def _drop(columns: Tensor, covariance: Tensor, keep: int) -> tuple[list[int], Tensor]:
    """The channels to keep, and their refitted columns (channel, ...)."""
    size = len(columns)
    ridge = 1e-8 * covariance.diagonal().mean() * torch.eye(size, dtype=covariance.dtype)
    inverse = torch.linalg.inv(covariance + ridge)
    kept, w = list(range(size)), columns.clone()
    while len(kept) > keep:
        q = int((w.square().sum(1) / inverse.diagonal()).argmin())
        rest = [i for i in range(len(kept)) if i != q]
        share = inverse[rest, q] / inverse[q, q]
        w = w[rest] - share[:, None] * w[q]
        inverse = inverse[rest][:, rest] - share[:, None] * inverse[q, rest]
        kept.pop(q)
    return kept, w
