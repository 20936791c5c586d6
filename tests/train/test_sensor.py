"""Adaptation to a sensor: what it learns of the noise, what it refuses, and that it can be resumed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

import hyperdlw
from hyperdlw.app.cli.main import run
from hyperdlw.cube import make_cube
from hyperdlw.errors import BadInput, BadModel, BadOption, OutputExists
from hyperdlw.models import Sensor, load_maps
from hyperdlw.networks import files
from hyperdlw.testbed import make_textured_scene, psnr
from hyperdlw.train import MapRecipe
from hyperdlw.train import sensor as room
from hyperdlw.train.loop import TrainingStopped
from hyperdlw.weights import DEFAULT, Net

SIGMA = 6 / 255


def make_lagging(side: int = 48, bands: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A scene, and the same with noise that every pixel hands on to the next of its row."""
    x = make_textured_scene(bands, side, side, rng=np.random.default_rng(5))
    n = lfilter([1], [1, -0.6], np.random.default_rng(6).standard_normal(x.shape), axis=2)
    return x, (x + SIGMA * n / n.std()).astype(np.float32)


def _let_pass(monkeypatch, hidden: float) -> None:
    """The judges say what the test wants."""
    monkeypatch.setattr(room, "measure_hidden", lambda cubes, sensor: hidden)
    monkeypatch.setattr(room, "measure_error", lambda patches, net: 1.0 + (net is load_maps()))


@pytest.fixture(scope="module")
def lagging() -> tuple[np.ndarray, np.ndarray]:
    return make_lagging()


def test_noise_is_told_that_differences_of_neighbours_do_not_show(lagging, tmp_path):
    """With a correlation of 0.6 along the rows, differences show 0.4 of the variance."""
    scene = room.NoisyScene.learn(make_cube(lagging[1]), "lagging")
    assert scene.excess == pytest.approx(1 / 0.4, rel=0.25)
    assert torch.allclose(scene.noise.var((1, 2)), torch.ones(()), atol=0.01)
    white = (
        lagging[0] + SIGMA * np.random.default_rng(1).standard_normal(lagging[0].shape)
    ).astype("f4")
    assert room.NoisyScene.learn(make_cube(white), "white").excess == pytest.approx(1, rel=0.15)
    with pytest.raises(TrainingStopped, match="which the default knows"):
        hyperdlw.adapt([white], tmp_path / "white.safetensors")


def test_a_sensor_restores_more_than_the_default(lagging):
    """Also in strips, which give the same numbers."""
    x, y = lagging
    stored = files.load_network(DEFAULT)
    scene = room.NoisyScene.learn(make_cube(y), "lagging")
    known = Net(stored.net, "own", "", sensor=Sensor(load_maps(), scene.excess, 2.0))
    plain, adapted = (hyperdlw.denoise(y, weights=w).cube.data for w in (DEFAULT, known))
    assert psnr(x, adapted) > psnr(x, plain) + 0.4
    strips = hyperdlw.denoise(y, weights=known, tile=20).cube.data
    assert np.abs(strips - adapted).max() < 1e-4


def test_a_run_can_be_cut_short_and_resumed(lagging, tmp_path, monkeypatch):
    _let_pass(monkeypatch, 0.9)
    scenes = [lagging[1]]
    whole = hyperdlw.adapt(scenes, tmp_path / "a.safetensors", steps=3)
    for _ in range(3):
        parts = hyperdlw.adapt(
            scenes, tmp_path / "b.safetensors", steps=3, minutes=0.0, resume=True
        )
    one, other = (files.load_sensor(done) for done in (whole, parts))
    for a, b in zip(one.net.parameters(), other.net.parameters(), strict=True):
        assert torch.equal(a, b)
    assert one.card["hidden"] == 0.9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]
    found = hyperdlw.denoise(lagging[1], weights=str(whole))
    assert found.report.networks == {"a": one.sha256}
    with pytest.raises(OutputExists, match="exists; choose another"):
        hyperdlw.adapt(scenes, whole)


def test_judges_know_worse_from_better(lagging):
    """A network that takes the image fails on further draws, and a wrong level on hidden voxels."""
    cube = make_cube(lagging[1])
    scene = room.NoisyScene.learn(cube, "lagging")
    patches = room.SensorPatches([scene], MapRecipe("sensor", patch=48))
    ruined = load_maps().__class__()
    torch.nn.init.normal_(ruined.last.weight, std=0.3, generator=torch.Generator().manual_seed(0))
    start = room.measure_error(patches, load_maps())
    assert room.measure_error(patches, files.freeze(ruined)) > 2 * start
    fair, loud = (
        room.measure_hidden([cube], Sensor(load_maps(), factor * scene.excess, 2.0))
        for factor in (1, 400)
    )
    assert fair < 1 < loud


def test_what_is_worse_is_told_in_a_sentence(lagging, tmp_path, monkeypatch, capsys):
    _let_pass(monkeypatch, 1.02)
    with pytest.raises(TrainingStopped, match="not handed over"):
        hyperdlw.adapt([lagging[1]], tmp_path / "a.safetensors", steps=1)
    assert not (tmp_path / "a.safetensors").exists()
    np.save(tmp_path / "noisy.npy", lagging[1])
    words = ["adapt", f"{tmp_path}/noisy.npy", "--out", f"{tmp_path}/c.safetensors", "--steps", "1"]
    assert run(words) == 3
    _let_pass(monkeypatch, 0.97)
    assert run([*words, "--resume"]) == 0
    assert "--weights" in capsys.readouterr().out
    assert (tmp_path / "c.safetensors").exists()


def test_what_cannot_be_learned_from_is_refused(tmp_path):
    few = np.random.default_rng(0).random((4, 32, 32)).astype(np.float32)
    with pytest.raises(BadInput, match="less than 20 good bands"):
        hyperdlw.adapt([few], tmp_path / "a.safetensors")
    with pytest.raises(BadOption, match=r"\.safetensors"):
        hyperdlw.adapt([few], tmp_path / "a.pt")
    files.save_network(tmp_path / "b.safetensors", load_maps(), {"sensor": {"excess": -1.0}})
    with pytest.raises(BadModel, match="does not tell a sensor"):
        hyperdlw.weights.resolve(str(tmp_path / "b.safetensors"))
