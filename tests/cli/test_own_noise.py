"""A noise of somebody else's package works wherever a built-in one does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from outside import Package

from hyperdlw.errors import BadInput
from hyperdlw.io import save_cube
from hyperdlw.networks import files as store
from hyperdlw.testbed import NOISES, noise, scenes

OUTSIDE = '''
"""The other package: the whole noise."""

from hyperdlw.testbed.noise import gaussian, stripes


def add_banding(x, rng, *, affected=None):
    """Gaussian noise and stripes in every band."""
    return stripes(gaussian(x, rng), rng, affected=affected or len(x))


def forget_truth(x, rng):
    return x
'''


@pytest.fixture
def package(tmp_path) -> Iterator[Package]:
    points = {"banding": "other_noise:add_banding", "broken": "other_noise:forget_truth"}
    made = Package(tmp_path, {"other_noise": OUTSIDE}, {"hyperdlw.noise": points})
    with made.installed():
        yield made
    for name in points:
        NOISES._made.pop(name, None)


def write_scenes(folder, count: int) -> None:
    folder.mkdir()
    for i in range(count):
        cube = scenes.synthetic(5, 16, 16, rng=np.random.default_rng(i))
        save_cube(cube, folder / f"{i}.npz")


def test_a_process_of_its_own(package: Package, tmp_path) -> None:
    clean = scenes.synthetic(4, 12, 14, rng=np.random.default_rng(0)).data
    np.save(tmp_path / "clean.npy", clean.transpose(1, 2, 0))
    ran = package.run("noise", "clean.npy", "noisy.npy", "--case", "banding", "--truth", "t.npz")
    assert ran.returncode == 0, ran.stderr
    assert "banding, Gaussian noise and stripes in every band" in ran.stdout
    with np.load(tmp_path / "t.npz") as truth:
        assert (truth["stripe"] != 0).any(axis=(1, 2)).all()


def test_python(package: Package) -> None:
    x = np.full((4, 12, 14), 0.5)
    dirty = noise.case("banding", x, np.random.default_rng(0), affected=1)
    assert (dirty.truth.stripe != 0).any(axis=(1, 2)).sum() == 1
    with pytest.raises(BadInput, match="'broken' did not return a Noisy cube"):
        noise.case("broken", x, np.random.default_rng(0))


def test_bench(hyperdlw, package: Package, tmp_path) -> None:
    write_scenes(tmp_path / "in", 1)
    words = ("--data", tmp_path / "in", "--out", tmp_path / "out", "--quiet", "--seeds", "1")
    ran = hyperdlw("bench", "simple", *words, "--models", "tv", "--cases", "1,banding")
    assert ran.code == 0, ran.err
    lines = (tmp_path / "out" / "simple.jsonl").read_text().splitlines()
    assert {json.loads(line)["noise"] for line in lines} == {"case1", "banding"}
    assert "| method | case 1 | banding | mean |" in (tmp_path / "out" / "simple.md").read_text()
    assert (tmp_path / "out" / "simple-banding.png").exists()
    missing = hyperdlw("bench", "simple", *words, "--cases", "bandin")
    assert missing.code == 2
    assert "did you mean 'banding'" in missing.err


def test_train(hyperdlw, package: Package, tmp_path) -> None:
    write_scenes(tmp_path / "in", 2)
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'name = "own"\nsources = ["tv"]\nnoise = [1, "banding"]\naffected = [0.1, 0.9]\n'
        "filters = 2\npatch = 8\nbatch = 2\nsteps = 2\n"
    )
    ran = hyperdlw("train", recipe, "--data", tmp_path / "in", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    (found,) = (tmp_path / "out").rglob("*.safetensors")
    told = store.load_network(found).card["noise"]
    assert told[1] == "banding: Gaussian noise and stripes in every band"
    recipe.write_text('name = "own"\nsources = ["tv"]\nnoise = ["bandin"]\n')
    wrong = hyperdlw("train", recipe, "--data", tmp_path / "in", "--out", tmp_path / "out")
    assert wrong.code == 2
    assert "did you mean 'banding'" in wrong.err
