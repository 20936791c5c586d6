"""HSID-CNN (Yuan et al., TGRS 2019): a band is restored from itself and its spectral neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import BadInput, BadModel
from .dlwnet import initialise_kaiming

KERNELS = (3, 5, 7)
"""Sides of the three parallel convolutions of either branch."""
WIDTH, BRANCH, HEAD, TRUNK = 60, 20, 15, 9
"""Filters of the trunk, of one branch convolution and of one head; layers of the trunk."""
TAPS = (3, 5, 7, 9)
"""Trunk layers, counted from one, whose outputs go to a head."""
PIXELS = 1 << 16
"""Pixels that go through the network together."""


def neighbour_indices(bands: int, count: int) -> Tensor:
    """The ``count`` spectral neighbours of every band, a (band, count) table.

    Half of them lie on either side and the band itself is left out. Where that would leave the
    spectrum, the first or the last ``count`` bands are taken, the band itself among them. A
    spectrum of fewer than ``count`` bands is continued by reflection.

    >>> neighbour_indices(7, 4)[0].tolist(), neighbour_indices(7, 4)[3].tolist()
    ([0, 1, 2, 3], [1, 2, 4, 5])
    >>> neighbour_indices(3, 4)[0].tolist()
    [2, 1, 1, 2]
    """
    half = count // 2
    offsets = torch.tensor([k for k in range(-half, half + 1) if k != 0])
    table = torch.arange(bands).unsqueeze(1) + offsets
    if bands < count:
        period = 2 * (bands - 1)
        folded = table % period
        return torch.minimum(folded, period - folded)
    table[:half] = torch.arange(count)
    table[bands - half :] = torch.arange(bands - count, bands)
    return table


class HSIDCNN(nn.Module):
    """x_b = y_b + f(y_b, the ``neighbours`` bands around b), for (..., band, row, col) images.

    Convolutions of 3, 5 and 7 pixels look at the band and at its neighbours; nine convolutions
    follow, and four heads of their own on the third, fifth, seventh and ninth are joined into the
    correction. Any number of bands from two on.

    >>> sum(p.numel() for p in HSIDCNN().parameters())
    399161
    """

    summary = "HSID-CNN: a network that restores a band from itself and 24 neighbours."
    plan: ClassVar[dict[str, int]] = {}
    """What its training plan changes; ``minutes`` may end a run earlier."""

    def __init__(self, neighbours: int = 24) -> None:
        super().__init__()
        if neighbours < 2 or neighbours % 2:
            raise ValueError(f"neighbours must be even, half on either side, not {neighbours}")
        self.config: dict[str, int | str] = {"architecture": "hsid-cnn", "neighbours": neighbours}
        self.neighbours = neighbours
        self.spectral = _branch(neighbours)
        self.spatial = _branch(1)
        first = 2 * len(KERNELS) * BRANCH
        self.trunk = nn.ModuleList(
            nn.Conv2d(WIDTH if i else first, WIDTH, 3, padding=1) for i in range(TRUNK)
        )
        self.heads = nn.ModuleList(nn.Conv2d(WIDTH, HEAD, 3, padding=1) for _ in TAPS)
        self.last = nn.Conv2d(len(TAPS) * HEAD, 1, 3, padding=1)
        initialise_kaiming(self)

    @staticmethod
    def sizes_for(bands: int) -> dict[str, int]:
        """Arguments of a network for images of so many bands: it takes any number."""
        return {}

    def correction(self, band: Tensor, around: Tensor) -> Tensor:
        """What is added to bands (n, 1, row, col) with neighbours (n, K, row, col)."""
        parts = [conv(around) for conv in self.spectral] + [conv(band) for conv in self.spatial]
        t = F.relu(torch.cat(parts, 1))
        taps: list[Tensor] = []
        for i, conv in enumerate(self.trunk, start=1):
            t = F.relu(conv(t))
            if i in TAPS:
                taps.append(self.heads[len(taps)](t))
        out: Tensor = self.last(F.relu(torch.cat(taps, 1)))
        return out

    def forward(self, y: Tensor) -> Tensor:
        bands, rows, cols = y.shape[-3:]
        table = self._table(bands).to(y.device)
        images = y.reshape(-1, bands, rows, cols)
        step = max(1, PIXELS // (rows * cols))
        restored = [
            image[some, None] + self.correction(image[some, None], image[table[some]])
            for image in images
            for some in torch.split(torch.arange(bands, device=y.device), step)
        ]
        return torch.cat(restored).view_as(y)

    def sample(
        self, noisy: Tensor, clean: Tensor, rng: np.random.Generator, targets: int
    ) -> tuple[Tensor, Tensor]:
        """``targets`` random bands of every training patch, restored and clean."""
        count, bands = noisy.shape[:2]
        table = self._table(bands).to(noisy.device)
        patch = torch.arange(count, device=noisy.device).repeat_interleave(targets)
        band = torch.from_numpy(rng.integers(0, bands, count * targets)).to(noisy.device)
        target = noisy[patch, band].unsqueeze(1)
        around = noisy[patch.unsqueeze(1), table[band]]
        return target + self.correction(target, around), clean[patch, band].unsqueeze(1)

    def _table(self, bands: int) -> Tensor:
        if bands < 2:
            raise BadInput(
                "hsid-cnn restores a band from its spectral neighbours, so it needs at least two "
                "bands and this image has one"
            )
        return neighbour_indices(bands, self.neighbours)


def _branch(channels: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Conv2d(channels, BRANCH, k, padding=k // 2) for k in KERNELS)


# The authors' Caffe files, read without Caffe. A file is a protocol buffer: fields of (number, kind,
# value), of which a net holds layers, a layer its name and blobs, a blob its shape and numbers.

LAYER, OLD_LAYER = 100, 2
"""Numbers of the layers in a net, of today's files and of those before 2014."""
NAMES = {LAYER: (1, 7), OLD_LAYER: (4, 6)}
"""Numbers of the name and of the blobs in a layer of either kind."""
SIZES, NUMBERS, SHAPE = (1, 2, 3, 4), 5, 7
"""In a blob: four sizes of old files, the numbers, and the shape of today's."""

HSIDCNN_LAYERS = {
    **{f"spectral.{i}": f"feature{k}" for i, k in enumerate((3, 5, 7))},
    **{f"spatial.{i}": f"feature{k}_2" for i, k in enumerate((3, 5, 7))},
    **{f"trunk.{i}": f"conv{i + 1}" for i in range(9)},
    **{f"heads.{i}": f"feature_conv{k}" for i, k in enumerate((3, 5, 7, 9))},
    "last": "conv10",
}
"""Layers of HSID-CNN: their names here and in its authors' files."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadModel("the file ends in the middle of a number")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers and values.

    >>> list(read_fields(bytes([8, 150, 1, 18, 2, 72, 105])))
    [(1, 150), (2, b'Hi')]
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield number, value
            continue
        if kind not in (1, 2, 5):
            raise BadModel(f"a field of kind {kind} is not known")
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, at = read_varint(data, at)
        if at + size > len(data):
            raise BadModel("the file ends in the middle of a field")
        yield number, data[at : at + size]
        at += size


def read_blob(data: bytes) -> Tensor:
    """The tensor of a blob."""
    sizes: list[int] = []
    parts: list[bytes] = []
    for number, value in read_fields(data):
        if number in SIZES and isinstance(value, int):
            sizes.append(value)
        elif number == NUMBERS and isinstance(value, bytes):
            parts.append(value)
        elif number == SHAPE and isinstance(value, bytes):
            for _, packed in read_fields(value):
                at = 0
                while isinstance(packed, bytes) and at < len(packed):
                    size, at = read_varint(packed, at)
                    sizes.append(size)
                sizes += [packed] if isinstance(packed, int) else []
    numbers = np.frombuffer(b"".join(parts), "<f4")
    if numbers.size != np.prod(sizes or [0], dtype=object):
        raise BadModel(f"a blob of shape {sizes} holds {numbers.size} numbers")
    return torch.from_numpy(numbers.astype(np.float32)).view(sizes)


def list_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a Caffe file by layer: "conv1.weight", "conv1.bias"."""
    found: dict[str, Tensor] = {}
    for number, layer in read_fields(data):
        if number not in NAMES or not isinstance(layer, bytes):
            continue
        name_of, blobs_of = NAMES[number]
        fields = [(n, v) for n, v in read_fields(layer) if isinstance(v, bytes)]
        name = b"".join(v for n, v in fields if n == name_of).decode("utf-8", "replace")
        blobs = [read_blob(v) for n, v in fields if n == blobs_of]
        found |= {f"{name}.weight": w for w in blobs[:1]}
        found |= {f"{name}.bias": b.flatten() for b in blobs[1:2]}
    return found
