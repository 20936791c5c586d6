"""A training keeps to its folder, to its recipe and to sense."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.app.cli.train import TrainingOptions
from hyperdlw.errors import BadFile, BadOption, OutOfResources, OutputExists
from hyperdlw.train import Recipe, RecipeFile, train_recipe
from hyperdlw.train.bilevel import WeightTraining

TINY = {"sources": ["tv"], "filters": 2, "patch": 8, "batch": 1, "steps": 1}
SCENES = {"a": np.random.default_rng(1).random((4, 16, 16)).astype(np.float32)}


def make_recipe(**values: object) -> RecipeFile:
    return RecipeFile((Recipe.from_dict({"name": "n", **TINY, **values}),))


def test_a_finished_run_is_not_replaced(tmp_path):
    first = train_recipe(make_recipe(), SCENES, tmp_path)
    held = first.read_bytes()
    with pytest.raises(OutputExists, match="--resume"):
        train_recipe(make_recipe(seed=1), SCENES, tmp_path)
    with pytest.raises(BadFile, match=r"another recipe \(rate = 0.001, not 0.002\)"):
        train_recipe(make_recipe(rate=0.002), SCENES, tmp_path, resume=True)
    assert first.read_bytes() == held
    assert train_recipe(make_recipe(), SCENES, tmp_path, resume=True) == first
    assert first.read_bytes() == held


@pytest.mark.parametrize("key", ["name", "stage"])
@pytest.mark.parametrize("value", ["../../x", "/tmp/x", "..", ".x", "a\nb", "a\x1b[2J", "", 7])
def test_a_name_stays_in_its_folder(key, value):
    if key == "stage" and not value:
        return
    with pytest.raises(BadOption, match="cannot be named"):
        make_recipe(**{key: value if isinstance(value, str) else "\\"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rate", float("nan")),
        ("rate", 0.0),
        ("rate", 1e9),
        ("clip", float("nan")),
        ("clip", 0.0),
        ("average", 1.5),
        ("decay", float("inf")),
        ("steps", 10**12),
        ("steps", 1.5),
        ("seed", -1),
        ("warmup", -1),
        ("depth", float("nan")),
        ("patch", 10**10),
    ],
)
def test_absurd_values_are_refused(key, value):
    with pytest.raises(BadOption, match=f"{key} in the recipe must be"):
        make_recipe(**{key: value})


def test_a_full_disk_under_a_checkpoint_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = WeightTraining.begin(Recipe("tiny", ("tvs",), filters=4, patch=8, steps=2))
    run.save(tmp_path / "checkpoint.pt")
    old = (tmp_path / "checkpoint.pt").read_bytes()
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OutOfResources, match="free space"):
        run.save(tmp_path / "checkpoint.pt")
    assert (tmp_path / "checkpoint.pt").read_bytes() == old
    assert WeightTraining.resume(tmp_path / "checkpoint.pt").step == 0


def test_a_scene_of_the_recipe_that_is_cut_short_is_refused(tmp_path):
    folder = tmp_path / "scenes"
    folder.mkdir()
    for name in "ab":
        np.save(folder / f"{name}.npy", np.zeros((6, 24, 20), np.float32))
    os.truncate(folder / "a.npy", 300)
    with pytest.raises(BadFile, match=r"names the scene a\.npy"):
        TrainingOptions().read_scenes(folder, named={"a", "b"})
