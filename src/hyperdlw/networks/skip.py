"""The hourglass with skip connections that a deep image prior fits to one image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, SKIP, SCALES = 128, 4, 4
MULTIPLE = 2 ** (SCALES + 1)
"""Sides of the image: the lowest scale must have two pixels, or there is nothing to reflect."""


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


class SkipNet(nn.Module):
    """(1, band, row, col) noise -> image, sides multiples of 32 (Luo et al. 2021, S2DIP).

    At each of four scales: 128 channels down (convolution, 2x2 maximum) and up (bilinear), and four
    channels that skip what is below.

    >>> sum(p.numel() for p in SkipNet(31).parameters())
    1687531
    """

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.scales = nn.ModuleList(_Scale(bands if i == 0 else WIDTH) for i in range(SCALES))
        self.last = nn.Conv2d(WIDTH, bands, 1)

    def forward(self, z: Tensor) -> Tensor:
        passed: list[Tensor] = []
        scales = [s for s in self.scales if isinstance(s, _Scale)]
        for scale in scales:
            passed.append(scale.across(z))
            z = scale.down(z)
        for scale, skip in zip(reversed(scales), reversed(passed), strict=True):
            z = F.interpolate(z, scale_factor=2, mode="bilinear")
            z = scale.up(torch.cat([skip, z], 1))
        out: Tensor = self.last(z)
        return out


class _Scale(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.across = _layer(channels, SKIP, 1)
        self.down = nn.Sequential(_layer(channels, WIDTH, 3, pool=True), _layer(WIDTH, WIDTH, 3))
        self.up = nn.Sequential(nn.BatchNorm2d(SKIP + WIDTH), _layer(SKIP + WIDTH, WIDTH, 3))


def _layer(before: int, after: int, kernel: int, pool: bool = False) -> nn.Sequential:
    """Convolution (reflected at the border), maximum over 2x2 if asked, normalisation, leaky ReLU."""
    conv = nn.Conv2d(before, after, kernel, padding=kernel // 2, padding_mode="reflect")
    parts = [conv, *([nn.MaxPool2d(2)] if pool else []), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts)
