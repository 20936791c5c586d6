"""Images of any size for networks that want multiples of something."""

from __future__ import annotations

import torch
from torch import Tensor


def reflect_to(t: Tensor, multiple: int) -> Tensor:
    """Extend (..., row, col) on the right and below, by reflection, to multiples of ``multiple``.

    The reflection goes on to and fro, so that an image may be much smaller than the padding.

    >>> reflect_to(torch.tensor([[0, 1, 2]]), 4)[0]
    tensor([0, 1, 2, 1])
    """
    for axis in (-2, -1):
        size = t.shape[axis]
        wanted = -(-size // multiple) * multiple
        if wanted == size:
            continue
        period = max(1, 2 * (size - 1))
        phase = torch.arange(wanted, device=t.device) % period
        t = t.index_select(axis, torch.minimum(phase, period - phase))
    return t
