"""DLWnet: a noisy cube in, one logit per voxel out; the weights room turns logits into weights.

Three blocks of a spatial 3x3 and a spectral 3-tap convolution, each followed by ReLU, then one full
3x3x3 convolution to a single channel (section 5.1 of the paper). Zero padding, no normalisation, any
number of bands. Radius 4 in space and in bands, so a tile with a halo of 4 has exact logits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import BadInput

GROUP = 8
"""Rows worked on at a time without gradients: enough for fast kernels, few enough for the cache."""


class DLWnet3d(nn.Module):
    """The hyperspectral network, (..., band, row, col) -> logits of the same shape.

    Activations are kept as (image, band, row, col, channel). In that layout the spatial factor is a
    2-D convolution over bands as batch, and the spectral factor a 2-D convolution over (band,
    pixel), both without copying; CPU kernels are two to three times faster than with Conv3d.

    Without gradients the image is worked through from top to bottom, :data:`GROUP` rows at a time:
    activations stay in the cache, and memory does not grow with the number of rows.

    >>> sum(p.numel() for p in DLWnet3d().parameters())
    113281
    """

    radius = 4
    channels: int | None = None

    def __init__(self, filters: int = 64, blocks: int = 3) -> None:
        super().__init__()
        sizes = {"filters": filters, "blocks": blocks}
        self.config: dict[str, int | str] = {"architecture": "dlwnet3d", **sizes}
        self.filters = filters
        widths = [1] + [filters] * blocks
        self.space = nn.ModuleList(nn.Conv2d(a, filters, 3, padding=1) for a in widths[:-1])
        self.spectrum = nn.ModuleList(
            nn.Conv2d(filters, filters, (3, 1), padding=(1, 0)) for _ in range(blocks)
        )
        self.last = nn.Conv3d(filters, 1, 3, padding=1)
        initialise_kaiming(self)

    def forward(self, y: Tensor) -> Tensor:
        shape = y.shape
        if y.dim() < 3:
            raise BadInput(f"the network wants (band, row, col) images, not shape {tuple(shape)}")
        images = y.reshape(-1, *shape[-3:])
        if not (torch.is_grad_enabled() and any(p.requires_grad for p in (y, *self.parameters()))):
            return torch.stack([self._logits_by_rows(image) for image in images]).view(shape)
        t = images.unsqueeze(-1)
        for space, spectrum in zip(self.space, self.spectrum, strict=True):
            t = factor(t, space, along_bands=False)
            t = factor(t, spectrum, along_bands=True)
        return self.last_layer(t, padding=1).view(shape)

    @torch.no_grad()
    def _logits_by_rows(self, y: Tensor) -> Tensor:
        """Logits of an image (band, row, col), some rows at a time."""
        blocks = list(zip(self.space, self.spectrum, strict=True))
        # The first group has to reach the last layer, and each 3x3 layer holds back one row.
        group = max(GROUP, len(blocks) + 2)
        # With the rows below the image each layer has one more to give than the one before.
        windows = [_RowWindow(group + 3 + k) for k in range(len(blocks) + 1)]
        parts = []
        for top in range(0, y.shape[1], group):
            done = top + group >= y.shape[1]
            t = windows[0].add(y[:, top : top + group, :, None], done)
            for (space, spectrum), window in zip(blocks, windows[1:], strict=True):
                t = window.add(_spectral_factor(spectrum, _plane_factor(space, t)), done, 0.0)
            parts.append(self.last_layer(t[None], padding=0)[0])
        return torch.cat(parts, 1)

    def last_layer(self, t: Tensor, padding: int) -> Tensor:
        """The 3x3x3 convolution to one channel: a 2-D one per band offset, then a shifted sum.

        ``padding`` zero rows lie above and below the image; there is one zero column and band anyway.
        """
        n, bands, _, cols, _ = t.shape
        image = _as_image(t, along_bands=False)
        kernel = self.last.weight[0].transpose(0, 1)
        parts = F.conv2d(image, kernel, padding=(padding, 1)).view(n, bands, 3, -1, cols)
        below, here, above = parts.unbind(2)
        assert self.last.bias is not None
        out = here + self.last.bias
        out = out + F.pad(below[:, :-1], (0, 0, 0, 0, 1, 0))
        return out + F.pad(above[:, 1:], (0, 0, 0, 0, 0, 1))


def factor(t: Tensor, layer: nn.Module, along_bands: bool) -> Tensor:
    """ReLU of one factor of a block."""
    assert isinstance(layer, nn.Conv2d)
    return _conv_relu(t, layer.weight, layer.bias, along_bands)


class _RowWindow:
    """At most ``most`` rows for a 3x3 layer: new ones, the two before them, zeros beyond the image."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.memory: Tensor | None = None
        self.rows: Tensor | None = None

    def add(self, t: Tensor, done: bool, smallest: float = -math.inf) -> Tensor:
        """The window with new rows (band, row, col, channel) at its end.

        Args:
            done: these are the last rows of the image.
            smallest: ReLU is done while copying, as max(t, smallest): it costs no pass of its own.
        """
        bands, new, cols, channels = t.shape
        if self.memory is None:
            self.memory = t.new_empty(bands * self.most * cols * channels)
        above = 1 if self.rows is None else 2
        shape = (bands, above + new + done, cols, channels)
        rows = self.memory[: math.prod(shape)].view(shape)
        if self.rows is None:
            rows[:, 0] = 0
        else:
            last = self.rows[:, -2:]
            rows[:, :2] = last if self.rows.shape == shape else last.clone()
        torch.clamp_min(t, smallest, out=rows[:, above : above + new])
        if done:
            rows[:, -1] = 0
        self.rows = rows
        return rows


def _plane_factor(layer: nn.Module, t: Tensor) -> Tensor:
    """The 3x3 factor and ReLU, (band, row + 2, col, channel) -> (band, row, col, filter)."""
    assert isinstance(layer, nn.Conv2d)
    assert layer.bias is not None
    bands, rows, cols, channels = t.shape
    if channels > 1:
        kernel = layer.weight.contiguous(memory_format=torch.channels_last)
        out = F.conv2d(t.permute(0, 3, 1, 2), kernel, layer.bias, padding=(0, 1))
        return out.relu_().permute(0, 2, 3, 1)
    # One channel in: nine neighbours and a one, times a matrix.
    taps = t.new_ones(10, bands, rows - 2, cols)
    wide = F.pad(t[..., 0], (1, 1))
    for k in range(9):
        taps[k] = wide[:, k // 3 : k // 3 + rows - 2, k % 3 : k % 3 + cols]
    matrix = torch.cat([layer.weight.flatten(1), layer.bias[:, None]], 1)
    return torch.mm(taps.flatten(1).T, matrix.T).relu_().view(bands, rows - 2, cols, -1)


def _spectral_factor(layer: nn.Module, t: Tensor) -> Tensor:
    """The spectral factor without ReLU, (band, row, col, channel) -> the same."""
    assert isinstance(layer, nn.Conv2d)
    kernel = layer.weight.contiguous(memory_format=torch.channels_last)
    flat = t.flatten(1, 2).permute(2, 0, 1).unsqueeze(0)
    out = F.conv2d(flat, kernel, layer.bias, padding=(1, 0))
    return out[0].permute(1, 2, 0).view(*t.shape[:-1], -1)


class _ConvReLU(torch.autograd.Function):
    """relu(conv(t)) over space or over bands, with a backward pass made of fast kernels.

    Written out because the stock backward of the spectral factor spends most of its time on the weight
    gradient, which is three matrix products over contiguous slices.
    """

    @staticmethod
    def forward(ctx: Any, t: Tensor, weight: Tensor, bias: Tensor, along_bands: bool) -> Tensor:
        n, bands, rows, cols, _c = t.shape
        image = _as_image(t, along_bands)
        padding = (1, 0) if along_bands else (1, 1)
        kernel = weight.contiguous(memory_format=torch.channels_last)
        out = F.conv2d(image, kernel, bias, padding=padding).relu_()
        out = out.permute(0, 2, 3, 1).reshape(n, bands, rows, cols, -1)
        ctx.save_for_backward(t, kernel, out)
        ctx.along_bands, ctx.padding = along_bands, padding
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        t, kernel, out = ctx.saved_tensors
        # threshold_backward is the masked copy g * (out > 0) in one pass.
        g = torch.ops.aten.threshold_backward(grads[0].contiguous(), out, 0)
        mask = [ctx.needs_input_grad[0], not ctx.along_bands, False]
        pulled, image = (_as_image(v, ctx.along_bands) for v in (g, t))
        stride = dilation = [1, 1]
        rest = (stride, list(ctx.padding), dilation, False, [0, 0], 1, mask)
        grad_t, grad_w, _ = torch.ops.aten.convolution_backward(pulled, image, kernel, None, *rest)
        if ctx.along_bands:
            grad_w = _spectral_weight_gradient(t, g)
        if grad_t is not None:
            grad_t = grad_t.permute(0, 2, 3, 1).reshape(t.shape)
        return grad_t, grad_w, g.sum((0, 1, 2, 3)), None


_conv_relu: Callable[[Tensor, Tensor, Tensor | None, bool], Tensor] = _ConvReLU.apply


def _as_image(t: Tensor, along_bands: bool) -> Tensor:
    n, bands, rows, cols, c = t.shape
    if along_bands:
        return t.reshape(n, bands, rows * cols, c).permute(0, 3, 1, 2)
    return t.reshape(n * bands, rows, cols, c).permute(0, 3, 1, 2)


def _spectral_weight_gradient(t: Tensor, g: Tensor) -> Tensor:
    n, bands, rows, cols, _ = t.shape
    a, b = g.reshape(n, -1, g.shape[-1]), t.reshape(n, -1, t.shape[-1])
    pixels = rows * cols
    out = g.new_zeros(3, g.shape[-1], t.shape[-1])
    for k, shift in enumerate((-1, 0, 1)):
        low, high = max(0, -shift) * pixels, (bands - max(0, shift)) * pixels
        for i in range(n):
            out[k].addmm_(a[i, low:high].T, b[i, low + shift * pixels : high + shift * pixels])
    return out.permute(1, 2, 0).unsqueeze(-1)


class DLWnet2d(nn.Module):
    """The colour network: four 3x3 convolutions, channels -> 32 -> 32 -> 32 -> channels.

    >>> sum(p.numel() for p in DLWnet2d().parameters())
    20259
    """

    radius = 4

    def __init__(self, channels: int = 3, filters: int = 32, layers: int = 4) -> None:
        super().__init__()
        sizes = {"channels": channels, "filters": filters, "layers": layers}
        self.config: dict[str, int | str] = {"architecture": "dlwnet2d", **sizes}
        self.channels: int | None = channels
        self.filters = filters
        widths = [channels] + [filters] * (layers - 1) + [channels]
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths)
        )
        initialise_kaiming(self)

    def forward(self, y: Tensor) -> Tensor:
        if y.shape[-3] != self.channels:
            raise BadInput(
                f"this colour network takes {self.channels} bands and the image has {y.shape[-3]}; "
                "use one of the hyperspectral networks (hyperdlw nets)"
            )
        t = y.reshape(-1, *y.shape[-3:])
        for i, layer in enumerate(self.layers):
            t = layer(t) if i == len(self.layers) - 1 else F.relu(layer(t))
        return t.view_as(y)


Network = DLWnet3d | DLWnet2d

ARCHITECTURES: dict[str, type[DLWnet3d] | type[DLWnet2d]] = {
    "dlwnet3d": DLWnet3d,
    "dlwnet2d": DLWnet2d,
}


def initialise_kaiming(net: nn.Module) -> None:
    """Kaiming normal weights (fan in, ReLU), zero biases: the start of the paper's networks."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
