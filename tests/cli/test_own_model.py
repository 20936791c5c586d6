"""A model of somebody else's package works wherever a built-in one does."""

from __future__ import annotations

import json
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from hyperdlw import models
from hyperdlw.io import save_cube
from hyperdlw.networks import files as store
from hyperdlw.solver.operators import COL, ROW, gradient
from hyperdlw.solver.penalties import GROUP
from hyperdlw.solver.solve import Model, Schedule, term
from hyperdlw.testbed import scenes

# --- the other package: the whole model


def isotropic(shape, strength: float = 1.0) -> Model:
    """Smooth in space: 0.1 sum of the lengths of the gradients."""
    return Model(
        terms=(term(GROUP, gradient(ROW, COL), strength=0.1 * strength),),
        schedule=Schedule(steps=10, mu=0.1, growth=1.05),
    )


# ---


@pytest.fixture(params=["function", "module"])
def installed(request, monkeypatch) -> str:
    """The entry point may name a build function, or a module with ``build``."""
    given = isotropic
    if request.param == "module":
        given = ModuleType("package.model")
        given.build = isotropic
        given.original = lambda shape, strength=1.0: isotropic(shape, 2 * strength)
    point = SimpleNamespace(name="isotropic", load=lambda: given)
    monkeypatch.setattr(models, "entry_points", lambda group: [point])
    return request.param


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
    assert store.load(found[0]).card["sources"] == ["isotropic"]


def test_rank_option(hyperdlw, noisy, tmp_path):
    run = ("denoise", noisy, tmp_path / "a.npy", "-m", "lrtfdfr", "-w", "uniform", "--json")
    assert json.loads(hyperdlw(*run, "--rank", "2").out)["rank"] == 2
    assert json.loads(hyperdlw(*run, "--rank", "auto", "--overwrite").out)["rank"] >= 1
    wrong = hyperdlw(*run, "--rank", "2.5", "--overwrite")
    assert wrong.code == 1
    assert wrong.err.count("\n") == 1
