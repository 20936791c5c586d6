"""A small Gaussian denoiser that is told the noise level, after FFDNet (Zhang, Zuo, Zhang 2018).

The image is folded 2x2 into four channels, the noise level joins them as a fifth, eight 3x3
convolutions estimate the noise, which is unfolded and subtracted. One set of weights serves every
noise level, because the level is an input.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import BadInput
from .dlwnet import initialise_kaiming


class FFDNet(nn.Module):
    """Grey images with white noise in, clean images out: x = y - net(y, sigma).

    >>> net = FFDNet()
    >>> sum(p.numel() for p in net.parameters())
    128644
    >>> net(torch.zeros(2, 5, 7), torch.tensor(0.1)).shape
    torch.Size([2, 5, 7])
    """

    def __init__(self, filters: int = 48, layers: int = 8) -> None:
        super().__init__()
        sizes = {"filters": filters, "layers": layers}
        self.config: dict[str, int | str] = {"architecture": "ffdnet", **sizes}
        widths = [5] + [filters] * (layers - 1) + [4]
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths)
        )
        initialise_kaiming(self)
        # No noise is found at first: training starts from the identity.
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, y: Tensor, sigma: Tensor) -> Tensor:
        """Denoise images (image, row, col) of any size, values near [0, 1].

        ``sigma`` is in the units of y: one number, one per image, or a map that broadcasts to y.
        """
        if y.dim() != 3:
            raise BadInput(f"the grey denoiser wants (image, row, col), not shape {tuple(y.shape)}")
        rows, cols = y.shape[-2:]
        level = sigma[:, None, None] if sigma.dim() == 1 else sigma
        level = level.to(y).expand(y.shape)
        both = torch.stack([y, level], 1)
        both = F.pad(both, (0, cols % 2, 0, rows % 2), mode="replicate")
        folded = F.pixel_unshuffle(both[:, :1], 2)
        t = torch.cat([folded, F.avg_pool2d(both[:, 1:], 2)], 1)
        t = t.contiguous(memory_format=torch.channels_last)
        for i, layer in enumerate(self.layers):
            t = layer(t) if i == len(self.layers) - 1 else F.relu(layer(t), inplace=True)
        return y - F.pixel_shuffle(t, 2)[:, 0, :rows, :cols]
