"""Weights of Caffe networks (``.caffemodel``), read without Caffe: tensors by layer, nothing else.

The file is a protocol buffer: fields of (number, kind, value), of which a net holds layers, a layer its
name and its blobs, a blob its shape and its numbers. Other fields are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..errors import BadModel

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

Value = int | bytes


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


def read_fields(data: bytes) -> Iterator[tuple[int, Value]]:
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
                sizes += [packed] if isinstance(packed, int) else _read_numbers(packed)
    numbers = np.frombuffer(b"".join(parts), "<f4")
    if numbers.size != np.prod(sizes or [0], dtype=object):
        raise BadModel(f"a blob of shape {sizes} holds {numbers.size} numbers")
    return torch.from_numpy(numbers.astype(np.float32)).view(sizes)


def _read_numbers(packed: bytes) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        value, at = read_varint(packed, at)
        found.append(value)
    return found


def read_caffemodel(data: bytes) -> dict[str, list[Tensor]]:
    """The blobs of every layer that has some: weights, then biases."""
    layers: dict[str, list[Tensor]] = {}
    for number, layer in read_fields(data):
        if number not in NAMES or not isinstance(layer, bytes):
            continue
        name_of, blobs_of = NAMES[number]
        fields = list(read_fields(layer))
        names = [v for n, v in fields if n == name_of and isinstance(v, bytes)]
        blobs = [read_blob(v) for n, v in fields if n == blobs_of and isinstance(v, bytes)]
        if names and blobs:
            layers[names[0].decode("utf-8", "replace")] = blobs
    return layers


def list_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a Caffe file by layer: "conv1.weight", "conv1.bias"."""
    return {
        f"{layer}.{kind}": blob.flatten() if kind == "bias" else blob
        for layer, blobs in read_caffemodel(data).items()
        for kind, blob in zip(("weight", "bias"), blobs, strict=False)
    }
