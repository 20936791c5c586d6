"""Logits of a DLWnet without gradients: the same function, fewer products, less memory.

The image is worked through from top to bottom, ``GROUP`` rows at a time, so that activations stay in
the cache and memory does not grow with the number of rows.

Four neighbouring outputs of a 3-tap filter need six products instead of twelve (Winograd 1980):

    y = O ((T g) * (I d)),   six inputs d, three taps g, I 6x6, T 6x3, O 4x6.

This is done along the rows of the 3x3 factors, where a product is a convolution along the columns. The
spectral factors have a third of the products, and there the sums I d and O m would cost what is saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from .dlwnet import DLWnet3d

GROUP = 8
"""Rows worked on at a time: enough for fast kernels, few enough for the cache."""

# T, for the points 0, 1, -1, 2, -2 and infinity; ``_at_points`` is I and ``_from_points`` is O.
TAPS = (
    (1 / 4, 0.0, 0.0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0.0, 0.0, 1.0),
)
ONE = 1
"""The point 1. It counts once in each of the four outputs, so a bias added there reaches them all."""


@torch.no_grad()
def logits(net: DLWnet3d, y: Tensor) -> Tensor:
    """Logits of an image (band, row, col)."""
    bands, rows, cols = y.shape
    blocks = [_Block.of(*pair) for pair in zip(net.space, net.spectrum, strict=True)]
    # The first group has to reach the last layer, and each 3x3 layer holds back one row.
    group = max(GROUP, len(blocks) + 2)
    # With the rows below the image each layer has one more to give than the one before.
    windows = [_Window(group + 3 + k) for k in range(len(blocks) + 1)]
    memory = _Memory(y)
    parts = []
    for top in range(0, rows, group):
        done = top + group >= rows
        t = windows[0].add(y[:, top : top + group, :, None], done)
        for block, window in zip(blocks, windows[1:], strict=True):
            plane = memory("plane", bands, t.shape[1] - 2, cols, block.channels)
            _plane(block, t, plane, memory)
            t = window.add(_bands(block, plane), done, smallest=0.0)
        parts.append(net.last_layer(t[None], padding=0)[0])
    return torch.cat(parts, 1)


@dataclass(frozen=True)
class _Block:
    """Filters of a block, as they are, and those of the plane at the six points."""

    plane: Tensor
    plane_at: Sequence[Tensor]
    plane_bias: Tensor
    bands: Tensor
    bands_bias: Tensor

    @classmethod
    def of(cls, space: nn.Module, spectrum: nn.Module) -> _Block:
        assert isinstance(space, nn.Conv2d)
        assert isinstance(spectrum, nn.Conv2d)
        assert space.bias is not None
        assert spectrum.bias is not None
        w = space.weight
        taps = torch.tensor(TAPS, dtype=torch.float64, device=w.device)
        plane_at = torch.einsum("pr,oirs->pois", taps, w.double()).to(w.dtype).unsqueeze(3)
        return cls(
            w.contiguous(memory_format=torch.channels_last),
            [g.contiguous(memory_format=torch.channels_last) for g in plane_at],
            space.bias,
            spectrum.weight.contiguous(memory_format=torch.channels_last),
            spectrum.bias,
        )

    @property
    def channels(self) -> int:
        return len(self.plane_bias)


class _Memory:
    """Scratch tensors by name, used again when the shape is the same."""

    def __init__(self, like: Tensor) -> None:
        self.like, self.kept = like, dict[str, Tensor]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        if name not in self.kept or self.kept[name].numel() < size:
            self.kept[name] = self.like.new_empty(size)
        return self.kept[name][:size].view(shape)


class _Window:
    """The rows that a 3x3 layer looks at: new ones, the two before them, zeros beyond the image.

    ReLU is done while copying, as max(t, smallest), so that it costs no pass of its own.

    Args:
        most: rows that are looked at at once, at most.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.memory: Tensor | None = None
        self.rows: Tensor | None = None

    def add(self, t: Tensor, done: bool, smallest: float = -math.inf) -> Tensor:
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


def _plane(block: _Block, t: Tensor, out: Tensor, memory: _Memory) -> None:
    """The 3x3 factor and ReLU: (band, row + 2, col, channel) -> (band, row, col, channel)."""

    def conv(t: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
        return F.conv2d(t.permute(0, 3, 1, 2), kernel, bias, padding=(0, 1)).permute(0, 2, 3, 1)

    def product(point: int, d: Tensor) -> Tensor:
        bias = block.plane_bias if point == ONE else None
        return conv(d.view(-1, 1, *d.shape[2:]), block.plane_at[point], bias).view(
            *d.shape[:-1], -1
        )

    if t.shape[3] == 1:
        _first(block, t[..., 0], out, memory)
    elif out.shape[1] % 4 == 0:
        _four_at_a_time(t, product, out, memory)
    else:
        out.copy_(conv(t, block.plane, block.plane_bias))
    out.relu_()


def _first(block: _Block, t: Tensor, out: Tensor, memory: _Memory) -> None:
    """The 3x3 factor with one channel in: nine neighbours and a one, times a matrix."""
    bands, rows, cols, channels = out.shape
    taps = memory("points", 10, bands, rows, cols)
    taps[9] = 1
    wide = F.pad(t, (1, 1))
    for k in range(9):
        taps[k] = wide[:, k // 3 : k // 3 + rows, k % 3 : k % 3 + cols]
    matrix = torch.cat([block.plane.reshape(channels, 9), block.plane_bias[:, None]], 1)
    torch.mm(taps.flatten(1).T, matrix.T, out=out.view(-1, channels))


def _bands(block: _Block, t: Tensor) -> Tensor:
    """The spectral factor, (band, row, col, channel) -> the same."""
    flat = t.flatten(1, 2).permute(2, 0, 1).unsqueeze(0)
    out = F.conv2d(flat, block.bands, block.bands_bias, padding=(1, 0))
    return out[0].permute(1, 2, 0).view(*t.shape[:-1], -1)


def _four_at_a_time(
    t: Tensor, product: Callable[[int, Tensor], Tensor], out: Tensor, memory: _Memory
) -> None:
    """A 3-tap filter along the rows of t, 4 k + 2 of them, into ``out`` with 4 k rows.

    Args:
        product: the products with the filter at point 0 .. 5; their memory is used up.
    """
    d = [t[:, i : t.shape[1] - 5 + i : 4] for i in range(6)]
    points = memory("points", 6, *d[0].shape).unbind()
    _at_points(d, points)
    m = [product(i, p) for i, p in enumerate(points)]
    _from_points(m, [out[:, i::4] for i in range(4)])


def _at_points(d: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """out = I d, in twelve passes."""
    torch.sub(d[4], d[2], alpha=4, out=out[0])
    torch.sub(d[3], d[1], alpha=4, out=out[5])
    torch.add(out[0], out[5], out=out[1])
    torch.sub(out[0], out[5], out=out[2])
    torch.sub(d[4], d[2], out=out[0])
    torch.sub(d[3], d[1], out=out[5])
    torch.add(out[0], out[5], alpha=2, out=out[3])
    torch.sub(out[0], out[5], alpha=2, out=out[4])
    out[0].add_(d[0], alpha=4).sub_(d[2], alpha=4)
    torch.sub(d[5], out[5], alpha=4, out=out[5]).sub_(d[3])


def _from_points(m: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """out = O m, in ten passes; m is used up."""
    even = torch.add(m[1], m[2])
    odd = m[1].sub_(m[2])
    even_2 = torch.add(m[3], m[4], out=m[2])
    odd_2 = m[3].sub_(m[4])
    torch.add(m[0].add_(even), even_2, out=out[0])
    torch.add(odd, odd_2, alpha=2, out=out[1])
    torch.add(even, even_2, alpha=4, out=out[2])
    torch.add(m[5].add_(odd), odd_2, alpha=8, out=out[3])
