"""Training of rival networks: it learns, and a stopped run goes on as if it had not stopped."""

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
from hyperdlw.testbed import scenes
from hyperdlw.train.rival import RivalPlan, train_rival

PLANS = {
    "hsid-cnn": RivalPlan("hsid-cnn", patch=8, batch=2, targets=2, steps=6, warmup=2, validate=3),
    "hsi-denet": RivalPlan("hsi-denet", patch=8, batch=2, steps=4, warmup=2, validate=3),
}


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    found = {}
    for i in range(2):
        x = scenes.synthetic(6, 24, 20, rng=np.random.default_rng(i)).data
        low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
        found[f"scene{i}"] = (x - low) / (high - low)
    return found


@pytest.mark.parametrize("name", list(PLANS))
def test_a_resumed_run_equals_an_uninterrupted_one(
    name: str, data: dict[str, np.ndarray], tmp_path: Path
) -> None:
    plan, held = PLANS[name], {"v": data["scene1"]}
    whole = train_rival(plan, {"a": data["scene0"]}, tmp_path / "a", held_out=held)
    for _ in range(plan.steps):  # one step at a time
        parts = train_rival(
            plan, {"a": data["scene0"]}, tmp_path / "b", held_out=held, resume=True, minutes=0
        )
    one, two = store.load_rival(whole), store.load_rival(parts)
    for key, value in one.net.state_dict().items():
        assert torch.equal(value, two.net.state_dict()[key]), key
    assert one.card["steps"] == two.card["steps"] == plan.steps
    assert one.card["architecture"] == name
    steps = [json.loads(x)["step"] for x in (tmp_path / "b/log.jsonl").read_text().splitlines()]
    assert steps == list(range(1, plan.steps + 1))


def test_it_learns(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    plan = replace(PLANS["hsid-cnn"], steps=40, batch=3, warmup=5)
    train_rival(plan, data, tmp_path)
    loss = [json.loads(x)["loss"] for x in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert np.mean(loss[-10:]) < 0.5 * np.mean(loss[:5])


def test_wrong_requests(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no network to train 'unet'"):
        RivalPlan("unet")
    mixed = {**data, "b": data["scene0"][:4]}
    with pytest.raises(BadOption, match="same number of bands"):
        train_rival(PLANS["hsi-denet"], mixed, tmp_path)
    train_rival(replace(PLANS["hsid-cnn"], steps=1), data, tmp_path)
    with pytest.raises(BadFile, match=r"another recipe .*name = hsid-cnn, not hsi-denet"):
        train_rival(PLANS["hsi-denet"], data, tmp_path, resume=True)
    with pytest.raises(BadFile, match="seed = 0, not 5"):
        train_rival(replace(PLANS["hsid-cnn"], steps=1, seed=5), data, tmp_path, resume=True)
    (tmp_path / "checkpoint.pt").write_bytes(b"no")
    with pytest.raises(BadFile, match="not a checkpoint"):
        train_rival(PLANS["hsid-cnn"], data, tmp_path, resume=True)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    for i in range(2):
        cube = scenes.synthetic(6, 24, 24, rng=np.random.default_rng(i))
        save_cube(cube, tmp_path / "data" / f"s{i}.npz")
    words = ["train-rival", "hsid-cnn", "--data", f"{tmp_path}/data", "--out", f"{tmp_path}/out"]
    assert run([*words, "--steps", "2", "--held-out", "s1"]) == 0
    card = store.load_rival(tmp_path / "out" / "hsid-cnn.safetensors").card
    assert (card["data"], card["validation"], card["kind"]) == (["s0"], ["s1"], "rival")
    for wrong in (["--held-out", "s9"], ["--held-out", "s0,s1"], ["--steps", "0"]):
        assert run([*words, *wrong]) == 2
    assert run(["train-rival", "unet", *words[2:]]) == 2
    assert "Traceback" not in capsys.readouterr().err
