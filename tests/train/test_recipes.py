"""Recipe files: stages follow each other, survive a kill, and are those of the shipped networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw.errors import BadFile, BadOption
from hyperdlw.networks import files as store
from hyperdlw.testbed import scenes
from hyperdlw.train import Recipe, TrainingPlan, read_recipe, split_scenes, train_recipe
from hyperdlw.train.bilevel import WeightTraining

RECIPES = Path(__file__).parents[2] / "recipes"
PARENT = """
name = "P"
sources = ["tv"]
patch = 8
batch = 2
warmup = 1
rate = 0.01
held_out = ["c"]
[[stage]]
stage = "wide"
filters = 6
steps = 5
stop = 3
scenes = ["a"]
[[stage]]
stage = "pruned"
filters = 4
optimiser = "soap"
steps = 4
[[stage]]
stage = "last"
filters = 4
steps = 2
"""
CHILD = """
name = "C"
sources = ["nn"]
start = "P.toml#pruned"
patch = 8
batch = 1
filters = 4
[[stage]]
stage = "one"
steps = 2
[[stage]]
stage = "two"
steps = 3
seed = 7
"""


class Killed(Exception):
    """Stands for a kill of the process after some step."""


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return {
        name: scenes.synthetic(6, 20, 20, rng=np.random.default_rng(i)).data
        for i, name in enumerate("abc")
    }


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "P.toml").write_text(PARENT)
    (tmp_path / "C.toml").write_text(CHILD)
    return tmp_path


def tensors(path: Path) -> dict[str, bytes]:
    return {k: v.numpy().tobytes() for k, v in store.load_network(path).net.state_dict().items()}


def test_stages_follow_each_other(data: dict[str, np.ndarray], files: Path) -> None:
    recipe = read_recipe(files / "P.toml")
    assert [r.stage for r in recipe.stages] == ["wide", "pruned", "last"]
    assert [r.start for r in recipe.stages] == [None, "P.toml#wide", "P.toml#pruned"]
    path = train_recipe(recipe, data, files / "out")
    assert path == files / "out/P.safetensors"
    card = store.load_network(path).card
    assert card["filters"] == 4
    assert [h["steps"] for h in card["history"]] == [3, 4]
    assert [h["data"] for h in card["history"]] == [["a"], ["a", "b"]]
    assert [h["recipe"]["stage"] for h in card["history"]] == ["wide", "pruned"]
    assert "/" not in json.dumps(card["recipe"]["start"])


def test_killed_at_any_step_equals_uninterrupted(data: dict[str, np.ndarray], files: Path) -> None:
    """Every step of every stage is the last one once, those of the recipe before included."""
    recipe = read_recipe(files / "C.toml")
    whole = train_recipe(recipe, data, files / "whole/C")
    count, kills = 0, 0

    def kill(plan: TrainingPlan, figures: object) -> None:
        nonlocal count
        count += 1
        if count % 2 == 0:
            raise Killed(plan.stage)

    for _ in range(40):
        try:
            cut = train_recipe(
                recipe, data, files / "cut/C", resume=True, checkpoint_minutes=0.0, report=kill
            )
            break
        except Killed:
            kills += 1
    assert kills >= 11
    assert tensors(cut) == tensors(whole)
    for stage in ("P/wide/P", "P/pruned/P", "C/one/C"):
        a, b = (files / place / f"{stage}.safetensors" for place in ("whole", "cut"))
        assert tensors(a) == tensors(b)
    # The recipe before ran as far as it is needed, and the next one that starts there finds it.
    assert not (files / "whole/P/last").exists()
    assert [h["recipe"]["name"] for h in store.load_network(whole).card["history"]] == [
        "P",
        "P",
        "C",
    ]


def test_time_is_for_all_stages(data: dict[str, np.ndarray], files: Path) -> None:
    recipe = read_recipe(files / "C.toml")
    path = train_recipe(recipe, data, files / "out/C", minutes=0.0)
    assert path == files / "out/P/wide/P.safetensors"
    assert store.load_network(path).card["steps"] == 1
    for _ in range(20):
        path = train_recipe(recipe, data, files / "out/C", minutes=0.0, resume=True)
    assert path == files / "out/C/C.safetensors"


def test_another_recipe_is_not_resumed(data: dict[str, np.ndarray], files: Path) -> None:
    train_recipe(read_recipe(files / "P.toml"), data, files / "out")
    (files / "P.toml").write_text(PARENT.replace("rate = 0.01", "rate = 0.02"))
    with pytest.raises(BadFile, match=r"rate = 0\.01, not 0\.02"):
        train_recipe(read_recipe(files / "P.toml"), data, files / "out", resume=True)


def test_scenes_of_a_stage(data: dict[str, np.ndarray]) -> None:
    plan = Recipe("x", ("tv",), scenes=("a", "c"), held_out=("c", "elsewhere"))
    assert [list(part) for part in split_scenes(data, plan)] == [["a"], ["c"]]
    others = {"mine": data["a"], "yours": data["b"]}
    assert split_scenes(others, plan) == (others, {})
    with pytest.raises(BadOption, match="nothing to train on"):
        split_scenes(data, replace(plan, held_out=("a", "b", "c")))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("**/*.toml")), ids=lambda p: p.stem)
def test_recipes_can_be_read(path: Path) -> None:
    chain = read_recipe(path).list_chain()
    assert chain[0].start is None, "it begins from scratch"
    for recipe in chain:
        WeightTraining.begin(recipe)


@pytest.mark.parametrize("name", store.list_networks())
def test_a_shipped_network_has_its_recipe(name: str) -> None:
    """The stages in the card are the last ones of the recipe, with the same data."""
    chain = read_recipe(RECIPES / f"{name}.toml").list_chain()
    card = store.load_network(name).card
    told = [*card.get("history", ()), card]
    assert len(told) <= len(chain)
    for recipe, stage in zip(chain[-len(told) :], told, strict=True):
        done = Recipe.from_dict(stage["recipe"])
        same = {"start": None, "stage": "", "stop": None, "scenes": (), "name": "x"}
        assert replace(recipe, **same) == replace(done, **same)
        assert recipe.last_step == stage["steps"]
        assert list(recipe.scenes) == (stage["data"] if recipe.scenes else [])
    assert chain[-1].name == name


def test_the_recipe_of_case_1_differs_in_its_noise_alone() -> None:
    joint, single = (read_recipe(RECIPES / f"N+T+TS{end}.toml").stages for end in ("", "-case1"))
    assert {r.noise for r in single} == {(1,)}
    same = {"noise": (1, 2, 3, 4, 5), "name": "N+T+TS"}
    starts = [r.start and r.start.replace("-case1", "") for r in single]
    found = [replace(r, **same, start=s) for r, s in zip(single, starts, strict=True)]
    assert found == list(joint)


def test_the_networks_before_are_those_of_the_recipe() -> None:
    """Where one recipe starts from a stage of another, the card's history begins with that stage."""
    joint = read_recipe(RECIPES / "N+T+TS.toml").stages
    assert read_recipe(RECIPES / "N+T.toml").list_chain()[:6] == list(joint[:6])
    assert read_recipe(RECIPES / "N.toml").list_chain()[:3] == list(joint[:3])


def test_faults(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    with pytest.raises(BadFile, match="no recipe"):
        read_recipe(path)
    for text, error, words in (
        ("name='x'\nsources=['tv']\nbatches=3\n", BadOption, "did you mean 'batch'"),
        ("name='x'\nsources=['tv']\nstart='r.toml#a'\n", BadFile, "starts from itself"),
        ("name='x'\nsources=['tv']\n[[stage]]\n[[stage]]\n", BadOption, "a name of its own"),
        ("name='x'\nsources=['tv']\nstart='o.toml#b'\n", BadOption, "no stage"),
        ("name=", BadFile, "cannot read"),
    ):
        path.write_text(text)
        (tmp_path / "o.toml").write_text("name='o'\nsources=['tv']\n[[stage]]\nstage='a'\n")
        with pytest.raises(error, match=words):
            read_recipe(path)


def test_torch_is_not_seeded_by_a_run(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    recipe = Recipe("x", ("tv",), filters=2, patch=8, batch=1, steps=1)
    WeightTraining.begin(recipe)
    assert torch.equal(before, torch.get_rng_state())
