"""Pruning a network: exact where channels are superfluous, near where they are not."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw.errors import BadOption
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.train import Recipe, train
from hyperdlw.train.bilevel import prune_network


@pytest.fixture
def images() -> list[torch.Tensor]:
    make = torch.Generator().manual_seed(0)
    return [torch.rand(7, 24, 24, generator=make) for _ in range(3)]


def net_of(filters: int) -> DLWnet3d:
    torch.manual_seed(3)
    return DLWnet3d(filters).requires_grad_(False)


def test_dead_channels_go_without_a_trace(images: list[torch.Tensor]) -> None:
    net = net_of(8)
    for layer in (*net.space, *net.spectrum):
        layer.weight[[1, 4]], layer.bias[[1, 4]] = 0.0, -1.0
    small = prune_network(net, 6, images)
    for image in images:
        torch.testing.assert_close(small(image), net(image), rtol=1e-4, atol=1e-5)


def test_equal_channels_are_joined(images: list[torch.Tensor]) -> None:
    net = net_of(8)
    for layer in (*net.space, *net.spectrum):
        layer.weight[5], layer.bias[5] = layer.weight[2], layer.bias[2]
    small = prune_network(net, 7, images)
    for image in images:
        torch.testing.assert_close(small(image), net(image), rtol=1e-3, atol=1e-4)


def test_refitting_beats_cutting(images: list[torch.Tensor]) -> None:
    net = net_of(16)
    small = prune_network(net, 12, images)
    cut = DLWnet3d(12).requires_grad_(False)
    with torch.no_grad():
        for a, b in zip(cut.parameters(), net.parameters(), strict=True):
            a.copy_(b[tuple(slice(n) for n in a.shape)])

    def error(other: DLWnet3d) -> float:
        def centred(t: torch.Tensor) -> torch.Tensor:  # the softmax does not see a constant
            return t - t.mean()

        return sum(float((centred(other(i)) - centred(net(i))).detach().norm()) for i in images)

    assert error(small) < 0.5 * error(cut)


def test_training_starts_from_a_wider_network(tmp_path: Path) -> None:
    store.save_network(tmp_path / "wide.safetensors", net_of(6), {"name": "wide"})
    scene = {"a": np.random.default_rng(0).random((5, 16, 16), np.float32)}
    recipe = Recipe(
        "narrow",
        ("nn",),
        filters=4,
        patch=8,
        batch=1,
        steps=1,
        start=str(tmp_path / "wide.safetensors"),
    )
    assert store.load_network(train(recipe, scene, tmp_path / "out")).net.config["filters"] == 4
    wider = Recipe("wider", ("nn",), filters=8, start=str(tmp_path / "wide.safetensors"))
    with pytest.raises(BadOption, match="filters"):
        train(wider, scene, tmp_path / "wider")
