"""MapNet: removes white noise from the eigenimages of a cube, all of them guided by the strongest.

Everything is in units of the noise, u = z / sigma, so one network serves every level and nothing hangs on
the range of an image. The input is the differences of box means over 1, 3, 9 and 25 pixels, through asinh:
nearly linear for what is of the size of the noise, and bounded growth for edges a thousand times as large.
An image sees its own details and those of the three strongest others, which have the same edges and less
noise. A U of two levels, folded 2x2 and 4x4, estimates the noise, which is subtracted.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import BadInput
from .dlwnet import initialise_kaiming

BOXES = (1, 4, 12)
"""Half sides of the boxes whose means are compared."""
GUIDES = 3
"""Images that guide another one."""
FOLD = 4
"""Pixels of the coarsest grid: rows of a strip must start at a multiple of it."""


class MapNet(nn.Module):
    """Eigenimages in units of their noise (image, row, col) in, clean ones out, strongest first.

    With ``hints`` it sees as many more images beside every one, of what else is known of it.

    >>> net = MapNet()
    >>> sum(p.numel() for p in net.parameters()) < 600_000
    True
    >>> net(torch.zeros(5, 9, 7)).shape
    torch.Size([5, 9, 7])
    """

    reach = 48
    """Pixels further away than this have no influence."""

    def __init__(
        self, filters: int = 48, coarse: int = 80, layers: int = 4, hints: int = 0
    ) -> None:
        super().__init__()
        sizes = {"filters": filters, "coarse": coarse, "layers": layers}
        self.config: dict[str, int | str] = {"architecture": "mapnet", **sizes}
        if hints:
            self.config["hints"] = hints
        self.own = nn.Conv2d(4 * (len(BOXES) + hints), filters, 3, padding=1)
        self.other = nn.Conv2d(4 * 2 * GUIDES, filters, 3, padding=1, bias=False)
        self.before = nn.Conv2d(filters, filters, 3, padding=1)
        self.down = nn.Conv2d(filters, coarse, 2, stride=2)
        self.middle = nn.ModuleList(nn.Conv2d(coarse, coarse, 3, padding=1) for _ in range(layers))
        self.up = nn.ConvTranspose2d(coarse, filters, 2, stride=2)
        self.after = nn.Conv2d(filters, filters, 3, padding=1)
        self.last = nn.Conv2d(filters, 4, 3, padding=1)
        initialise_kaiming(self)
        # No noise is found at first: training starts from the identity.
        for parameter in self.last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, u: Tensor, hints: Tensor | None = None) -> Tensor:
        """Denoise images whose noise is white with variance one.

        Args:
            hints: (image, hint, row, col) what else is known of every image, as details.
        """
        if u.dim() != 3:
            raise BadInput(f"the denoiser of maps wants (image, row, col), not {tuple(u.shape)}")
        rows, cols = u.shape[-2:]
        wide = _pad_fold(u[:, None])
        known = None if hints is None else _pad_fold(hints)
        # The strongest guide the others.
        strongest = find_details(wide[: GUIDES + 1])

        def details(k: slice) -> Tensor:
            own = find_details(wide[k])
            return own if known is None else torch.cat([own, known[k]], 1)

        if torch.is_grad_enabled():
            others = torch.stack([guide(strongest, k) for k in range(len(u))])
            noise = self.find_noise(details(slice(None)), self.other(_fold(others)))
            return u - noise[:, :rows, :cols]
        # One image after the other stays in the cache. From the fourth on the guides are the same.
        parts = []
        for k in range(len(u)):
            if k <= GUIDES:
                guides = self.other(_fold(guide(strongest, k)[None]))
            parts.append(self.find_noise(details(slice(k, k + 1)), guides))
        return u - torch.cat(parts)[:, :rows, :cols]

    def find_noise(self, own: Tensor, guides: Tensor) -> Tensor:
        """The noise of images from their details (image, detail, row, col) and what their guides say."""
        # In place: neither an addition nor a convolution needs its own result for the gradient.
        t = (self.own(_fold(own)) + guides).relu_()
        t = fine = self.before(t).relu_()
        t = self.down(t).relu_()
        for layer in self.middle:
            t = layer(t).relu_()
        t = (self.up(t) + fine).relu_()
        t = self.after(t).relu_()
        return F.pixel_shuffle(self.last(t), 2)[:, 0]


def guide(strongest: Tensor, k: int) -> Tensor:
    """Details (guide * 2, row, col) of the strongest images but image k, zeros where there are too few."""
    chosen = [i for i in range(len(strongest)) if i != k][:GUIDES]
    found = strongest.new_zeros(GUIDES, 2, *strongest.shape[-2:])
    found[: len(chosen)] = strongest[chosen, :2]
    return found.flatten(0, 1)


def find_details(u: Tensor) -> Tensor:
    """Differences of box means (image, 3, row, col) of images (image, 1, row, col), through asinh."""
    means = [u, *(_box_mean(u, half) for half in BOXES)]
    parts = [a - b for a, b in itertools.pairwise(means)]
    return torch.asinh(torch.cat(parts, 1))


def _box_mean(u: Tensor, half: int) -> Tensor:
    """Means over squares, of the pixels that the image has."""
    side = 2 * half + 1
    for kernel, padding in (((side, 1), (half, 0)), ((1, side), (0, half))):
        u = F.avg_pool2d(u, kernel, 1, padding, count_include_pad=False)
    return u


def _pad_fold(t: Tensor) -> Tensor:
    """Images (image, channel, row, col) with sides that are multiples of FOLD."""
    rows, cols = t.shape[-2:]
    return F.pad(t, (0, -cols % FOLD, 0, -rows % FOLD), mode="replicate")


def _fold(t: Tensor) -> Tensor:
    """Squares of 2x2 pixels as channels."""
    return F.pixel_unshuffle(t, 2).contiguous(memory_format=torch.channels_last)
