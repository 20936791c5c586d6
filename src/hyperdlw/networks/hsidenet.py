"""HSI-DeNet (Chang et al., TGRS 2019): a deep 2-D network that sees all bands as channels."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from ..errors import BadInput
from .dlwnet import initialise_kaiming

WIDTHS = (64, 64, 64, 128, 128, 128, 256, 256, 256, 128, 128, 128, 64, 64, 64, 64)
"""Filters of the sixteen inner layers; those of 256 look at every second pixel."""


class HSIDeNet(nn.Module):
    """x = y - f(y) for (..., band, row, col) images of a fixed number of bands.

    f is 18 convolutions of 3x3, all but the first and the last with batch normalisation.

    >>> sum(p.numel() for p in HSIDeNet().parameters())
    2767680
    """

    summary = "HSI-DeNet: a deep network for a fixed number of bands (31)."
    plan: ClassVar[dict[str, int]] = {"patch": 32, "batch": 8, "steps": 3000}
    """What its training plan changes; ``minutes`` may end a run earlier."""

    def __init__(self, channels: int = 31) -> None:
        super().__init__()
        self.config: dict[str, int | str] = {"architecture": "hsi-denet", "channels": channels}
        self.channels = channels
        layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1), nn.ReLU()]
        for a, b in itertools.pairwise((64, *WIDTHS)):
            reach = 2 if b == 256 else 1
            layers += [
                nn.Conv2d(a, b, 3, padding=reach, dilation=reach, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(),
            ]
        layers.append(nn.Conv2d(WIDTHS[-1], channels, 3, padding=1, bias=False))
        self.layers = nn.Sequential(*layers)
        initialise_kaiming(self)

    @staticmethod
    def sizes_for(bands: int) -> dict[str, int]:
        """Arguments of a network for images of so many bands."""
        return {"channels": bands}

    def forward(self, y: Tensor) -> Tensor:
        if y.shape[-3] != self.channels:
            raise BadInput(
                f"this hsi-denet takes images of {self.channels} bands and this one has "
                f"{y.shape[-3]}; give it groups of {self.channels} neighbouring bands, one at a time"
            )
        images = y.reshape(-1, *y.shape[-3:])
        out: Tensor = images - self.layers(images)
        return out.view_as(y)

    def sample(
        self, noisy: Tensor, clean: Tensor, rng: np.random.Generator, targets: int
    ) -> tuple[Tensor, Tensor]:
        """Whole training patches, restored and clean."""
        return self(noisy), clean
