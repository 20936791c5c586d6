"""Caffe files of HSID-CNN: a file of their layout, written here, gives the same network."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

from hyperdlw.app.cli.main import run
from hyperdlw.errors import BadModel
from hyperdlw.networks import files as store
from hyperdlw.networks.hsidcnn import HSIDCNN, HSIDCNN_LAYERS, read_fields, read_varint


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def blob(tensor: torch.Tensor, old: bool) -> bytes:
    sizes = list(tensor.shape)
    if old:
        four = [1] * (4 - len(sizes)) + sizes
        shape = b"".join(field(i, n) for i, n in enumerate(four, 1))
    else:
        shape = field(7, field(1, b"".join(varint(n) for n in sizes)))
    numbers = tensor.flatten().tolist()
    return shape + field(5, struct.pack(f"<{len(numbers)}f", *numbers))


def write_caffemodel(net: HSIDCNN, old: bool) -> bytes:
    """Layers with their blobs, and fields that are of no interest."""
    state = net.state_dict()
    name_of, blobs_of, layer_of = (4, 6, 2) if old else (1, 7, 100)
    out = field(1, b"HSID-CNN")
    for ours, theirs in HSIDCNN_LAYERS.items():
        layer = field(name_of, theirs.encode())
        layer += b"" if old else field(2, b"Convolution") + field(10, 1)
        layer += b"".join(
            field(blobs_of, blob(state[f"{ours}.{kind}"], old)) for kind in ("weight", "bias")
        )
        out += field(layer_of, layer)
        out += field(layer_of, field(name_of, b"relu"))  # a layer without numbers
    return out


@pytest.mark.parametrize("old", [False, True])
def test_a_caffe_file_gives_the_same_network(tmp_path: Path, old: bool) -> None:
    torch.manual_seed(0)
    net = HSIDCNN(4)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.05)
    path = tmp_path / "HSID-CNN_noiselevel50.caffemodel"
    path.write_bytes(write_caffemodel(net, old))
    target = tmp_path / "hsid-cnn.safetensors"
    assert run(["import-weights", f"{path}", f"{target}", "--quiet"]) == 0
    found = store.load_rival(target)
    assert found.card["imported_from"] == path.name
    y = torch.rand(7, 9, 8)
    with torch.no_grad():
        torch.testing.assert_close(found.net(y), net(y), rtol=0, atol=0)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = write_caffemodel(HSIDCNN(2), old=False)
    path = tmp_path / "a.caffemodel"
    for data in (whole[:-5], whole[:100], b"\xff" * 12, b"", b"PK\x03\x04 no"):
        path.write_bytes(data)
        with pytest.raises(BadModel, match=r"a\.caffemodel"):
            store.import_network(path)
    other = field(100, field(1, b"conv1") + field(7, blob(torch.ones(2, 2), old=False)))
    path.write_bytes(other)
    with pytest.raises(BadModel, match="missing"):
        store.import_network(path)


def test_numbers_of_a_message() -> None:
    for value in (0, 1, 127, 128, 300, 2**40):
        assert read_varint(varint(value), 0) == (value, len(varint(value)))
    assert dict(read_fields(field(3, 9) + field(5, b"ab"))) == {3: 9, 5: b"ab"}
