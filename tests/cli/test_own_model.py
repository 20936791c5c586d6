"""A model of somebody else's package works wherever a built-in one does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from outside import Package

from hyperdlw.io import save_cube
from hyperdlw.networks import files as store
from hyperdlw.testbed import scenes

FUNCTION = '''
from hyperdlw.solver import COL, ROW, Model, Schedule, gradient, term
from hyperdlw.solver.penalties import GROUP


def build(shape, strength=1.0):
    """Smooth in space: 0.1 sum of the lengths of the gradients."""
    return Model(
        terms=(term(GROUP, gradient(ROW, COL), strength=0.1 * strength),),
        schedule=Schedule(steps=10, mu=0.1, growth=1.05),
    )
'''
MODULE = f"""{FUNCTION}

def original(shape, strength=1.0):
    return build(shape, 2 * strength)
"""


def make_package(folder: Path, kind: str) -> Package:
    source, target = (FUNCTION, "own_model:build") if kind == "function" else (MODULE, "own_model")
    return Package(folder, {"own_model": source}, {"hyperdlw.models": {"isotropic": target}})


@pytest.fixture(params=["function", "module"])
def installed(request, tmp_path_factory) -> Iterator[str]:
    """The entry point may name a build function, or a module with ``build``."""
    with make_package(tmp_path_factory.mktemp("outside"), request.param).installed():
        yield request.param


def test_a_process_of_its_own_whole_and_in_strips(tmp_path: Path) -> None:
    package = make_package(tmp_path, "module")
    np.save(tmp_path / "in.npy", np.random.default_rng(0).random((500, 600, 4), np.float32))
    found = {}
    for memory in ("2G", "420M"):
        out = f"{memory}.npy"
        options = ("-m", "isotropic", "-w", "uniform", "--memory", memory, "--json")
        ran = package.run("denoise", "in.npy", out, *options)
        assert ran.returncode == 0, ran.stderr
        report = json.loads(ran.stdout)
        assert report["steps"] == 10
        assert (report["tiling"] is None) == (memory == "2G")
        found[memory] = np.load(tmp_path / out)
    assert np.abs(found["2G"] - found["420M"]).max() <= 1e-5 * np.abs(found["2G"]).max()


METHOD = '''
def run(y, *, rank=None, seed=0):
    """Mean: every pixel of a band becomes its mean."""
    return y.mean((1, 2), keepdim=True).expand_as(y).contiguous()
'''


def test_a_published_method_of_another_package(hyperdlw, noisy: Path, tmp_path: Path) -> None:
    package = Package(tmp_path, {"own_mean": METHOD}, {"hyperdlw.models": {"mean": "own_mean"}})
    with package.installed():
        ran = hyperdlw("denoise", noisy, tmp_path / "out.npy", "-m", "mean", "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["weights"] == "none"
        refused = hyperdlw("denoise", noisy, tmp_path / "b.npy", "-m", "mean", "--strength", "2")
        assert "no strength" in refused.err
    data = np.load(tmp_path / "out.npy")
    assert float(np.ptp(data, axis=(0, 1)).max()) < 1e-5
    assert (
        "there is no model 'mean'"
        in hyperdlw("denoise", noisy, tmp_path / "c.npy", "-m", "mean").err
    )


def test_list_and_denoise(hyperdlw, installed, noisy, tmp_path):
    listed = json.loads(hyperdlw("models", "--json").out)
    assert listed["isotropic"]["summary"].startswith("Smooth in space")
    assert listed["isotropic"]["original"] == (installed == "module")
    assert "isotropic" in hyperdlw("models").out
    out = tmp_path / "out.npy"
    ran = hyperdlw(
        "denoise", noisy, out, "-m", "isotropic", "-w", "uniform", "--range", "0,1", "--json"
    )
    assert ran.code == 0
    assert json.loads(ran.out)["steps"] == 10
    assert np.load(out).std() < np.load(noisy).std()
    other = hyperdlw("denoise", noisy, tmp_path / "o.npy", "-m", "isotropic", "-w", "original")
    assert other.code == (0 if installed == "module" else 2)
    refused = hyperdlw("denoise", noisy, tmp_path / "r.npy", "-m", "isotropic", "--rank", "3")
    assert refused.code == 2
    assert "no rank to choose" in refused.err


@pytest.mark.usefixtures("installed")
def test_bench(hyperdlw, tmp_path):
    (tmp_path / "in").mkdir()
    save_cube(scenes.synthetic(6, 16, 16, rng=np.random.default_rng(0)), tmp_path / "in/a.npz")
    ran = hyperdlw(
        *("bench", "simple", "--data", tmp_path / "in", "--out", tmp_path / "out", "--quiet"),
        *("--models", "isotropic", "--cases", "1", "--seeds", "1"),
    )
    assert ran.code == 0
    lines = (tmp_path / "out" / "simple.jsonl").read_text().splitlines()
    assert {json.loads(line)["model"] for line in lines} == {"noisy", "isotropic"}


@pytest.mark.usefixtures("installed")
def test_train(hyperdlw, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(2):
        cube = scenes.synthetic(4, 16, 16, rng=np.random.default_rng(i))
        save_cube(cube, tmp_path / f"in/{i}.npz")
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'name = "own"\nsources = ["isotropic"]\nfilters = 2\npatch = 8\nbatch = 1\nsteps = 2\n'
    )
    ran = hyperdlw("train", recipe, "--data", tmp_path / "in", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    found = list((tmp_path / "out").rglob("*.safetensors"))
    assert store.load_network(found[0]).card["sources"] == ["isotropic"]


def test_rank_option(hyperdlw, noisy, tmp_path):
    run = ("denoise", noisy, tmp_path / "a.npy", "-m", "lrtfdfr", "-w", "uniform", "--json")
    assert json.loads(hyperdlw(*run, "--rank", "2").out)["rank"] == 2
    assert json.loads(hyperdlw(*run, "--rank", "auto", "--overwrite").out)["rank"] >= 1
    wrong = hyperdlw(*run, "--rank", "2.5", "--overwrite")
    assert wrong.code == 1
    assert wrong.err.count("\n") == 1
