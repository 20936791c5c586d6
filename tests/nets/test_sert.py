"""SERT: sizes, shapes, what it may not depend on, and that it learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hyperdlw.errors import BadInput, BadModel
from hyperdlw.networks import files as store
from hyperdlw.networks.sert import SERT, released_name
from hyperdlw.networks.skip import reflect_to


@pytest.mark.parametrize(
    ("variant", "count"), [("sert", 1_905_319), ("sert-small", 1_398_799), ("sert-tiny", 978_079)]
)
def test_number_of_parameters(variant: str, count: int) -> None:
    assert sum(p.numel() for p in SERT(31, variant).parameters()) == count


@pytest.fixture(scope="module")
def tiny() -> SERT:
    torch.manual_seed(0)
    return SERT(4, "sert-tiny").eval().requires_grad_(False)


@pytest.mark.parametrize("shape", [(48, 48), (100, 100), (31, 33), (3, 40), (1, 1)])
def test_any_image_size(shape: tuple[int, int], tiny: SERT) -> None:
    y = torch.rand(4, *shape)
    assert tiny(y).shape == y.shape


def test_padding_is_a_reflection_that_is_cut_off(tiny: SERT) -> None:
    y = torch.rand(4, 31, 33)
    torch.testing.assert_close(tiny(y), tiny(reflect_to(y, 32))[:, :31, :33])


def test_batches_are_images_one_by_one(tiny: SERT) -> None:
    y = torch.rand(2, 1, 4, 32, 32)
    torch.testing.assert_close(tiny(y)[1, 0], tiny(y[1, 0]), atol=1e-5, rtol=1e-4)


def test_rectangles_attend_only_inside() -> None:
    """A pixel changes what shares its rectangle, and nothing else."""
    from hyperdlw.networks.sert import _Rectangles

    torch.manual_seed(0)
    layer = _Rectangles(16, 2).requires_grad_(False)
    q, k, v = torch.rand(3, 1, 32, 32, 48).unbind(0)
    changed = v.clone()
    changed[0, 5, 6] += 1.0
    moved = (layer(q, k, v) - layer(q, k, changed)).abs().amax(-1)[0] > 1e-7
    inside = torch.zeros(32, 32, dtype=torch.bool)
    inside[:16, 6:8] = True
    assert torch.equal(moved, inside)


def test_learns_a_small_patch() -> None:
    torch.manual_seed(0)
    net = SERT(3, "sert-tiny")
    clean = torch.rand(1, 3, 32, 32).cumsum(-1) / 32
    noisy = clean + 0.2 * torch.randn(clean.shape)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-4)
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = ((net(noisy) - clean) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in net.parameters())


def test_checkpoint_with_the_names_of_the_authors(tmp_path: Path, tiny: SERT) -> None:
    own = tiny.state_dict()
    names = {released_name(k): tuple(v.shape) for k, v in own.items()}
    assert "layers.1.smsblock.3.attns.c_attns.cab.3.mb" in names
    assert names["layers.0.smsblock.0.attns.attns.1.get_v.weight"] == (48, 1, 3, 3)
    foreign = {f"module.{n}": v for n, v in zip(names, own.values(), strict=True)}
    path = tmp_path / "sert_tiny.pth"
    torch.save({"net": foreign, "epoch": 1}, path)
    net, card = store.import_network(path)
    assert card["kind"] == "denoiser"
    y = torch.rand(4, 32, 32)
    assert torch.equal(net(y), tiny(y))
    store.save_network(tmp_path / "s.safetensors", net, card)
    assert torch.equal(store.load_denoiser(tmp_path / "s.safetensors").net(y), tiny(y))
    del foreign["module.conv_first.weight"]
    torch.save({"net": foreign}, path)
    with pytest.raises(BadModel, match="tensors missing"):
        store.import_network(path)


def test_another_number_of_bands_is_refused(tiny: SERT) -> None:
    with pytest.raises(BadInput, match="made for 4 bands"):
        tiny(torch.rand(5, 32, 32))


@pytest.mark.parametrize("size", [1, 2, 3, 31, 33, 64])
def test_reflection_goes_to_and_fro(size: int) -> None:
    t = torch.arange(size)[None].expand(size, -1)
    out = reflect_to(t, 32)
    assert out.shape[-1] % 32 == 0
    assert out.shape[-1] - size < 32
    assert torch.equal(out[:size, :size], t)
    assert bool((out.diff(dim=-1).abs() <= 1).all())
    assert out.shape == (out.shape[-1], out.shape[-1])
