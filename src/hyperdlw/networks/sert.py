"""SERT: a transformer that denoises cubes (Li, Fu, Zhang, CVPR 2023).

A stem convolution, stages of transformer blocks with a convolution and a residual each, two
convolutions back to the bands, and the input added. A block attends inside rectangles that lie
across its window: half of the channels in tall ones, half in wide ones; and it adds a gate per
window and channel, looked up in a small learned memory. It guesses the noise level by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import BadInput, BadModel
from .skip import reflect_to

WIDTH, HEADS, GROUPS, SQUEEZED, LOW, MEMORY = 96, 6, 4, 24, 12, 128


class Stage(NamedTuple):
    """Blocks that share a window (side in pixels) and a rectangle (its short side)."""

    blocks: int
    window: int
    strip: int


VARIANTS: dict[str, tuple[Stage, ...]] = {
    "sert": (Stage(6, 16, 1), Stage(6, 32, 2), Stage(6, 32, 4)),
    "sert-small": (Stage(4, 16, 1), Stage(4, 32, 2), Stage(4, 32, 4)),
    "sert-tiny": (Stage(4, 16, 2), Stage(4, 32, 4)),
}


class SERT(nn.Module):
    """(..., band, row, col) noisy -> clean, for a fixed number of bands and any image size.

    >>> sum(p.numel() for p in SERT().parameters())
    1905319
    """

    def __init__(self, channels: int = 31, variant: str = "sert") -> None:
        super().__init__()
        self.config: dict[str, int | str] = {"architecture": variant, "channels": channels}
        stages = VARIANTS[variant]
        self.multiple = max(s.window for s in stages)
        self.first = nn.Conv2d(channels, WIDTH, 3, padding=1)
        self.stages = nn.ModuleList(_Stage(s) for s in stages)
        self.join = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.last = nn.Conv2d(WIDTH, channels, 3, padding=1)

    def forward(self, y: Tensor) -> Tensor:
        rows, cols = y.shape[-2:]
        if y.dim() < 3 or y.shape[-3] != self.config["channels"]:
            raise BadInput(
                f"this SERT was made for {self.config['channels']} bands, the image has shape "
                f"{tuple(y.shape)}; the denoiser 'eigen' takes any number"
            )
        t = first = self.first(reflect_to(y.reshape(-1, *y.shape[-3:]), self.multiple))
        for stage in self.stages:
            t = stage(t)
        out: Tensor = self.last(self.join(t + first))[..., :rows, :cols]
        return y + out.reshape(y.shape)


class _Stage(nn.Module):
    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            _Block(stage, shift=0 if i % 2 == 0 else stage.window // 2) for i in range(stage.blocks)
        )
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        t = x.permute(0, 2, 3, 1)
        for block in self.blocks:
            t = block(t)
        out: Tensor = self.conv(t.permute(0, 3, 1, 2))
        return x + out


class _Block(nn.Module):
    """Attention and a two-layer perceptron on (image, row, col, channel), each with a residual."""

    def __init__(self, stage: Stage, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.before_attention = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.tall = _Rectangles(stage.window, stage.strip)
        self.wide = _Rectangles(stage.strip, stage.window)
        self.spectral = _Spectral(stage.window)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.before_mlp = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        # Windows wrap around the image in every other block, so that they overlap.
        t = torch.roll(self.before_attention(x), (-self.shift, -self.shift), (1, 2))
        half = WIDTH // 2
        qkv = self.qkv(t).chunk(3, -1)
        both = [self.tall(*(a[..., :half] for a in qkv)), self.wide(*(a[..., half:] for a in qkv))]
        mixed = torch.cat(both, -1).reshape(*t.shape[:3], GROUPS, -1).transpose(-1, -2).flatten(-2)
        t = self.project(mixed + 0.1 * self.spectral(t))
        x = x + torch.roll(t, (self.shift, self.shift), (1, 2))
        out: Tensor = x + self.narrow(F.gelu(self.widen(self.before_mlp(x))))
        return out


class _Rectangles(nn.Module):
    """Attention among the pixels of each rectangle, plus a depthwise convolution of the values."""

    def __init__(self, rows: int, cols: int) -> None:
        super().__init__()
        self.sides = (rows, cols)
        self.local = nn.Conv2d(WIDTH // 2, WIDTH // 2, 3, padding=1, groups=WIDTH // 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shape = q.shape
        pieces = [self._cut(a) for a in (q, k, v)]
        local = self.local(pieces[2].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        heads = [a.reshape(len(a), -1, HEADS // 2, WIDTH // HEADS).transpose(1, 2) for a in pieces]
        seen = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        seen = seen.transpose(1, 2).flatten(2).view_as(local)
        return self._join(seen + local, shape)

    def _cut(self, t: Tensor) -> Tensor:
        """(image, row, col, c) -> (rectangle, row, col, c)."""
        (a, b), (n, rows, cols, c) = self.sides, t.shape
        t = t.reshape(n, rows // a, a, cols // b, b, c).transpose(2, 3)
        return t.reshape(-1, a, b, c)

    def _join(self, t: Tensor, shape: torch.Size) -> Tensor:
        (a, b), (n, rows, cols, c) = self.sides, shape
        return t.reshape(n, rows // a, cols // b, a, b, c).transpose(2, 3).reshape(shape)


class _Spectral(nn.Module):
    """A bottleneck over channels, times a gate that a memory gives for the mean of the window."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        self.squeeze = nn.Linear(WIDTH, SQUEEZED)
        self.expand = nn.Linear(SQUEEZED, WIDTH)
        self.ask = nn.Linear(WIDTH, LOW)
        self.memory = nn.Parameter(torch.randn(LOW, MEMORY))
        self.answer = nn.Linear(LOW, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        t = self.expand(F.gelu(self.squeeze(x)))
        n, rows, cols, c = t.shape
        s = self.window
        windows = t.reshape(n, rows // s, s, cols // s, s, c)
        question = self.ask(windows.mean((2, 4)))
        likeness = torch.softmax(question @ self.memory * LOW**-0.5, -1)
        gate = torch.sigmoid(self.answer(likeness @ self.memory.T))
        out: Tensor = (windows * gate[:, :, None, :, None]).reshape(t.shape)
        return out


_NAMES = {
    "first": "conv_first",
    "join": "output",
    "last": "conv_delasta",
    "before_attention": "norm1",
    "before_mlp": "norm2",
    "widen": "mlp.fc1",
    "narrow": "mlp.fc2",
    "qkv": "attns.qkv",
    "project": "attns.proj",
    "tall.local": "attns.attns.0.get_v",
    "wide.local": "attns.attns.1.get_v",
    "spectral.squeeze": "attns.c_attns.cab.0",
    "spectral.expand": "attns.c_attns.cab.2",
    "spectral.ask": "attns.c_attns.cab.3.subnet.0",
    "spectral.answer": "attns.c_attns.cab.3.upnet.0",
    "spectral.memory": "attns.c_attns.cab.3.mb",
}
"""Our layers and the names they have in the authors' checkpoints."""


def released_name(key: str) -> str:
    """The authors' name of one of our tensors.

    >>> released_name("stages.1.blocks.0.widen.bias")
    'layers.1.smsblock.0.mlp.fc1.bias'
    """
    parts = key.split(".")
    prefix: list[str] = []
    if parts[0] == "stages":
        prefix = ["layers", parts[1]]
        if parts[2] == "conv":
            return ".".join([*prefix, *parts[2:]])
        prefix += ["smsblock", parts[3]]
        parts = parts[4:]
    if parts[-1] == "memory":
        return ".".join([*prefix, _NAMES["spectral.memory"]])
    return ".".join([*prefix, _NAMES[".".join(parts[:-1])], parts[-1]])


def from_released(tensors: Mapping[str, Tensor]) -> SERT:
    """An empty SERT of the size of a released checkpoint."""
    stages = {k.split(".")[1] for k in tensors if k.startswith("layers.")}
    blocks = {k.split(".")[3] for k in tensors if k.startswith("layers.0.smsblock.")}
    for name, variant in VARIANTS.items():
        if (len(stages), len(blocks)) == (len(variant), variant[0].blocks):
            return SERT(tensors["conv_first.weight"].shape[1], name)
    raise BadModel(
        f"this SERT has {len(stages)} stages of {len(blocks)} blocks, which is no variant we know "
        f"({', '.join(VARIANTS)})"
    )
