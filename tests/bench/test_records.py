"""Honest records: a figure is found again only by the code and the constants that made it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw.bench import experiment, robust, runner
from hyperdlw.bench.experiment import (
    Experiment,
    Scene,
    Trial,
    describe_constants,
    hash_constants,
    strip_source,
)
from hyperdlw.bench.tables import SIMPLE, Row
from hyperdlw.models import REGISTRY, build_model, pnp, tv
from hyperdlw.testbed import noise, synthetic
from hyperdlw.weights import resolve

TABLE = replace(SIMPLE, noise=("case1",), models=("tv",), rows=(Row("uniform"), Row("robust")))
SHAPE = (6, 16, 16)


@pytest.fixture
def scene() -> Scene:
    return Scene("made", synthetic(*SHAPE, rng=np.random.default_rng(0)).data)


def count_lines(folder: Path) -> int:
    return len((folder / "simple.jsonl").read_text().splitlines())


def test_a_changed_constant_of_a_model_makes_new_rows(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = runner.run_table(TABLE, [scene], tmp_path)
    assert count_lines(tmp_path) == 3
    entry = replace(REGISTRY["tv"], build=lambda shape, s: tv.build(shape, 1.1 * s))
    monkeypatch.setitem(REGISTRY._made, "tv", entry)
    after = runner.run_table(TABLE, [scene], tmp_path)
    assert count_lines(tmp_path) == 5  # the noisy image is the same
    assert before[0] == after[0]
    for old, new in zip(before[1:], after[1:], strict=True):
        assert old["key"] != new["key"]
        assert old["psnr"] != new["psnr"]
    monkeypatch.undo()
    assert runner.run_table(TABLE, [scene], tmp_path) == before


def test_changed_weights_make_new_keys(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> list[str]:
        return [c.key for c in runner.plan_cases(TABLE, [scene], range(1))]

    first = keys()
    assert keys() == first
    other = replace(resolve("robust"), xi=0.2)
    monkeypatch.setattr(
        runner, "resolve", lambda name, truth: other if name == "robust" else resolve(name, truth)
    )
    second = keys()
    assert second[:2] == first[:2]
    assert second[2] != first[2]


def test_changed_code_makes_new_keys(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [c.key for c in runner.plan_cases(TABLE, [scene], range(1))]
    monkeypatch.setattr(runner, "hash_source", lambda: "another program")
    second = [c.key for c in runner.plan_cases(TABLE, [scene], range(1))]
    assert set(first).isdisjoint(second)


def test_every_constant_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nn", "tv", "tvs", "lrtv", "e3dtv", "lrtfdfr", "ctv", "pnp", "dip"):
        one, again, other = (build_model(name, SHAPE, s) for s in (1.0, 1.0, 1.01))
        assert hash_constants(one) == hash_constants(again), name
        assert hash_constants(one) != hash_constants(other), name
        slower = replace(one, schedule=replace(one.schedule, growth=1.01))
        assert hash_constants(one) != hash_constants(slower), name
        assert hash_constants(one) != hash_constants(replace(one, rank=99)), name
    before = hash_constants(build_model("pnp", SHAPE))
    monkeypatch.setattr(pnp, "SIGMA", 0.1)
    assert hash_constants(build_model("pnp", SHAPE)) != before
    net = torch.nn.Linear(2, 2)
    before = hash_constants(net)
    with torch.no_grad():
        net.bias[0] += 1
    assert hash_constants(net) != before


def test_objects_that_hold_themselves_are_described() -> None:
    loop: dict[str, object] = {"a": 1}
    loop["self"] = loop
    assert describe_constants(loop) == {"a": 1, "self": "..."}


def test_functions_of_other_packages_come_with_their_file(tmp_path: Path) -> None:
    def describe(constant: float) -> str:
        path = tmp_path / f"outside{constant}.py"
        path.write_text(f"SIGMA = {constant}\ndef add(x, rng):\n    return x + SIGMA\n")
        space: dict[str, object] = {"__name__": "outside"}
        exec(compile(path.read_text(), path, "exec"), space)
        return hash_constants(space["add"])

    assert describe(0.1) != describe(0.2)


def test_comments_and_docstrings_are_not_code() -> None:
    plain = "def f(x):\n    return x + 1\n"
    said = 'def f(x):\n    """Add."""\n    # why\n    return (x + 1)\n'
    assert strip_source(plain) == strip_source(said)
    assert strip_source(plain) != strip_source(plain.replace("1", "2"))


def test_what_was_skipped_is_tried_again(tmp_path: Path) -> None:
    answers: Iterator[dict[str, object]] = iter([{"skipped": "no network"}, {"psnr": 1.0}])
    trial = Trial({"name": "a"}, None, lambda: next(answers))
    assert "skipped" in Experiment("x", tmp_path).run([trial])[0]
    assert Experiment("x", tmp_path).run([trial])[0]["psnr"] == 1.0
    assert Experiment("x", tmp_path).run([trial])[0]["psnr"] == 1.0
    (line,) = (tmp_path / "x.jsonl").read_text().splitlines()
    assert json.loads(line)["code"] == experiment.hash_source()


def test_another_noise_makes_new_rows_of_the_robust_table(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robust, "MODELS", ("nn",))
    monkeypatch.setattr(robust, "COUNTS", ())
    said: list[str] = []
    robust.run([scene], tmp_path, tell=said.append)
    count = len(said)
    photons = replace(noise.NOISES["photons"], build=lambda x, rng: noise.gaussian(x, rng))
    monkeypatch.setitem(noise.NOISES._made, "photons", photons)
    robust.run([scene], tmp_path, tell=said.append)
    assert said[count:] == ["made, Photons and read-out"]
