"""Training of the Gaussian denoiser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw.app.cli.main import run
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import save_cube
from hyperdlw.networks import files as store
from hyperdlw.pipeline.pictures import encode_png
from hyperdlw.testbed import scenes
from hyperdlw.train import DenoiserRecipe, TrainingImages, load_photographs, train_denoiser
from hyperdlw.train.denoiser import GreyPatches, make_eigenimages

TINY = DenoiserRecipe(
    "tiny", filters=4, patch=8, batch=3, steps=6, warmup=2, validate=3, components=2
)


@pytest.fixture(scope="module")
def cubes() -> dict[str, np.ndarray]:
    return {
        f"scene{i}": scenes.synthetic(5, 20, 24, rng=np.random.default_rng(i)).data
        for i in range(2)
    }


@pytest.fixture(scope="module")
def photographs() -> list[np.ndarray]:
    return [scenes.synthetic(3, 24, 20, rng=np.random.default_rng(9)).data[0]]


def test_resumed_is_uninterrupted(
    photographs: list[np.ndarray], cubes: dict[str, np.ndarray], tmp_path: Path
) -> None:
    held_out = {"scene1": cubes["scene1"]}
    data = TrainingImages({"scene0": cubes["scene0"]}, photographs, held_out)
    whole = train_denoiser(TINY, data, tmp_path / "a")
    for _ in range(TINY.steps):  # the time is over after every step
        parts = train_denoiser(TINY, data, tmp_path / "b", resume=True, minutes=0.0)
    a, b = (store.load_denoiser(p) for p in (whole, parts))
    assert a.card["steps"] == b.card["steps"] == 6
    assert a.card["validation_psnr"] == b.card["validation_psnr"] != {}
    state = b.net.state_dict()
    for key, value in a.net.state_dict().items():
        assert value.numpy().tobytes() == state[key].numpy().tobytes()
    logs = [
        [json.loads(x) for x in (tmp_path / f / "log.jsonl").read_text().splitlines()] for f in "ab"
    ]
    assert [x["loss"] for x in logs[0]] == [x["loss"] for x in logs[1]]
    other = train_denoiser(replace(TINY, seed=1), data, tmp_path / "c")
    assert other.read_bytes() != whole.read_bytes()


def test_training_lowers_the_error(
    photographs: list[np.ndarray], cubes: dict[str, np.ndarray], tmp_path: Path
) -> None:
    recipe = replace(
        TINY, steps=200, warmup=100, filters=24, patch=20, batch=8, components=3, average=0.0
    )
    trained = train_denoiser(recipe, TrainingImages(cubes, photographs), tmp_path)
    net = store.load_denoiser(trained).net
    clean = torch.from_numpy(cubes["scene0"])
    noise = 0.2 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    left = net(clean + noise, torch.tensor(0.2)) - clean
    # Eight layers from the identity learn slowly at first.
    assert float(left.square().mean()) < 0.96 * float(noise.square().mean())


def test_patches_are_keyed_and_noisy_as_they_say(cubes: dict[str, np.ndarray]) -> None:
    kinds = {"bands": list(cubes["scene0"]), "eigenimages": make_eigenimages(cubes["scene0"], 3)}
    source = GreyPatches(kinds, {"bands": 0.5, "eigenimages": 0.5}, 16, 0.3, seed=4)
    together = source.cut_batch(3, range(6))
    alone = source.cut_batch(3, [5])
    for a, b in zip(together, alone, strict=True):
        assert torch.equal(a[5], b[0])
    clean, noisy, sigma = source.cut_batch(0, range(40))
    assert float(sigma.max()) <= 0.3
    measured = (noisy - clean).std((1, 2))
    torch.testing.assert_close(measured, sigma, rtol=0.25, atol=1e-3)


def test_eigenimages_are_orthogonal_before_scaling() -> None:
    cube = np.random.default_rng(0).random((6, 9, 8), np.float32)
    images = make_eigenimages(cube, 3)
    assert all(i.min() == 0 and i.max() == pytest.approx(1) for i in images)
    # The first principal image correlates with the mean over bands.
    assert abs(np.corrcoef(images[0].ravel(), cube.mean(0).ravel())[0, 1]) > 0.99


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no folder"):
        load_photographs(tmp_path / "nowhere")
    with pytest.raises(BadFile, match="no picture"):
        load_photographs(tmp_path)
    with pytest.raises(BadOption, match="sigma"):
        replace(TINY, sigma=0.0)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("grey", "cubes"):
        (tmp_path / name).mkdir()
    made = [scenes.synthetic(6, 52, 50, rng=np.random.default_rng(i)) for i in range(2)]
    picture = np.uint8(255 * np.moveaxis(made[0].data[:3], 0, -1))
    (tmp_path / "grey" / "p.png").write_bytes(encode_png(picture))
    for i, cube in enumerate(made):
        save_cube(cube, tmp_path / "cubes" / f"s{i}.npz")
    words = ["train-denoiser", "--grey", f"{tmp_path}/grey", "--cubes", f"{tmp_path}/cubes"]
    words += ["--out", f"{tmp_path}/out", "--name", "small", "--steps", "2", "--seed", "3"]
    assert run([*words, "--held-out", "s1"]) == 0
    card = store.load_denoiser(tmp_path / "out" / "small.safetensors").card
    assert (card["data"], card["validation"]) == (["1 photographs", "s0"], ["s1"])
    assert card["recipe"]["seed"] == 3
    assert run([*words, "--held-out", "s9"]) == 2
    assert "Traceback" not in capsys.readouterr().err
