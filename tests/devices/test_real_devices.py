"""With a graphics card: ``make gpu-test``. Without one, what is said about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import hyperdlw
from hyperdlw.errors import BadOption
from hyperdlw.networks import find_device, solver_device
from hyperdlw.testbed import scenes
from hyperdlw.train.bilevel import train
from hyperdlw.train.recipe import Recipe

CARDS = [name for name in ("cuda", "mps") if find_device("auto") == name]
needs_card = pytest.mark.skipif(not CARDS, reason="there is no graphics card")


def make_noisy() -> np.ndarray:
    rng = np.random.default_rng(0)
    clean = scenes.synthetic(8, 40, 32, rng=rng).data
    return (clean + 0.15 * rng.standard_normal(clean.shape)).astype(np.float32)


def test_a_device_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(BadOption, match="device is one of auto, cpu, cuda, mps"):
        hyperdlw.denoise(make_noisy(), device="gpu")
    with pytest.raises(BadOption, match="torch finds no device 'cuda'"):
        find_device("cuda", lambda name: False)


def test_the_rule_for_mps() -> None:
    assert find_device("auto", lambda name: True) == "cuda"
    assert find_device("auto", lambda name: False) == "cpu"
    assert [solver_device(d) for d in ("cpu", "cuda", "mps")] == ["cpu", "cuda", "cpu"]


def test_the_report_names_the_device() -> None:
    assert hyperdlw.denoise(make_noisy(), device="cpu", model="tv").report.device == "cpu"


def test_tensors_come_back_where_they_were() -> None:
    given = torch.from_numpy(make_noisy()).requires_grad_(True)
    back = hyperdlw.denoise(given, model="tv").restored
    assert isinstance(back, torch.Tensor)
    assert (back.device, back.dtype, back.requires_grad) == (given.device, given.dtype, False)


@needs_card
@pytest.mark.parametrize("tile", [None, 16])
@pytest.mark.parametrize("model", ["plain", "nn", "tv", "lrtv", "e3dtv", "ctv", "pnp"])
def test_a_card_gives_what_the_processor_gives(model: str, tile: int | None) -> None:
    noisy = make_noisy()
    here, there = (
        hyperdlw.denoise(noisy, model=model, tile=tile, device=device).cube.data
        for device in ("cpu", CARDS[0])
    )
    np.testing.assert_allclose(there, here, atol=2e-3)


@pytest.mark.parametrize("device", ["cpu", *CARDS])
def test_training(device: str, tmp_path: Path) -> None:
    recipe = Recipe(name="t", sources=("tv",), filters=4, steps=2, batch=2, patch=12)
    clean = {"a": scenes.synthetic(5, 32, 32, rng=np.random.default_rng(1)).data}
    assert train(recipe, clean, tmp_path, device=device).exists()
