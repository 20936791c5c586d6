"""The benchmark: cases are data, nothing is run twice, reports say what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.app.cli.experiments import bench
from hyperdlw.bench import experiment, report, runner
from hyperdlw.bench.catalogue import BenchOptions, pick_table
from hyperdlw.bench.experiment import Experiment, Files, Scene
from hyperdlw.bench.report import draw_table, make_panels
from hyperdlw.bench.runner import Case
from hyperdlw.bench.tables import REFERENCE, SIMPLE, TABLES, Row
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import save_cube
from hyperdlw.testbed import SceneChoice, load_scenes, scenes
from hyperdlw.testbed.metrics import psnr

TABLE = replace(
    SIMPLE,
    noise=("case1", "case5"),
    rows=(Row("uniform"), Row("robust"), Row("oracle"), Row("oracle", "best")),
)


@pytest.fixture
def scene() -> Scene:
    return Scene("made", scenes.synthetic(6, 20, 20, rng=np.random.default_rng(0)).data)


def test_keys_name_cases() -> None:
    case = Case("s", "h", "case1", 0, "nn", "uniform")
    assert case.key == Case("s", "h", "case1", 0, "nn", "uniform").key
    others = [replace(case, seed=1), replace(case, strength="best"), replace(case, source="x")]
    assert len({c.key for c in [case, *others]}) == 4


def test_a_run_resumes_and_repeats_nothing(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "simple.jsonl"
    cases = runner.plan_cases(TABLE, [scene], range(1))
    assert len(cases) == 2 * (1 + 3 * len(TABLE.rows))
    first = runner.run_cases(cases[:7], [scene], Experiment("simple", tmp_path))
    path.write_text(path.read_text() + '{"key": "cut off')
    everything = runner.run_table(TABLE, [scene], tmp_path)
    assert everything[:7] == first
    monkeypatch.setattr(runner, "run_each", lambda group: pytest.fail("a case was run again"))
    assert runner.run_table(TABLE, [scene], tmp_path) == everything


def test_records_are_true(scene: Scene, tmp_path: Path) -> None:
    made = runner.run_table(replace(TABLE, noise=("case1",)), [scene], tmp_path)
    records = {(report.label_record(r), r["model"]): r for r in made}
    noisy = runner.make_noisy(scene, 1, 0)
    assert records["noisy", "noisy"]["psnr"] == pytest.approx(psnr(scene.data, noisy.y, clip=False))
    for model in TABLE.models:
        plain, best = records["oracle", model], records["oracle, best strength", model]
        assert best["psnr"] >= plain["psnr"]
        assert best["strength_used"] in runner.GRID


def test_two_processes_give_the_same_figures(scene: Scene, tmp_path: Path) -> None:
    table = replace(TABLE, rows=(Row("uniform"),))
    one = runner.run_table(table, [scene], tmp_path / "one")
    two = runner.run_table(table, [scene], tmp_path / "two", workers=2)
    for a, b in zip(one, two, strict=True):
        assert a["key"] == b["key"]
        assert a["psnr"] == pytest.approx(b["psnr"], abs=1e-4)


def test_a_case_that_cannot_run_says_why(scene: Scene, tmp_path: Path) -> None:
    table = replace(TABLE, noise=("case1",), rows=(Row("uniform"), Row("no-such-network")))
    records = runner.run_table(table, [scene], tmp_path)
    skipped = [r for r in records if "skipped" in r]
    assert len(skipped) == 3
    assert "no-such-network" in report.write_markdown(table, records)


def test_reports(scene: Scene, tmp_path: Path) -> None:
    records = runner.run_table(TABLE, [scene], tmp_path)
    pages = report.write_report(TABLE, records, tmp_path, {"a.png": b"png"})
    text, rows = (p.read_text() for p in pages[:2])
    assert pages[2].read_bytes() == b"png"
    for model in TABLE.models:
        value = report.mean_figures(records)["uniform", model, "case5"]
        assert f"{value:.2f}" in text
    assert len(rows.splitlines()) == len(records) + 1
    assert "![a](a.png)" in text


def test_reference_rows_follow_ours(scene: Scene, tmp_path: Path, shared: Path) -> None:
    found = experiment.find_reference_networks(shared / "reference/dlwnet-release")
    assert sorted(found) == sorted(
        REFERENCE + n for n in (["N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS"])
    )
    name = REFERENCE + "N"
    table = replace(TABLE, noise=("case1",), rows=(Row("uniform"), Row("N")), models=("nn",))
    records = runner.run_table(table, [scene], tmp_path, files=Files({name: found[name]}))
    db = report.mean_figures(records)
    assert db[name, "nn", "case1"] > db["uniform", "nn", "case1"]
    with pytest.raises(BadFile):
        experiment.find_reference_networks(tmp_path)


def test_scenes_of_a_folder(tmp_path: Path) -> None:
    save_cube(scenes.synthetic(5, 12, 16, rng=np.random.default_rng(0)), tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"junk")
    gaps = scenes.synthetic(5, 12, 16, rng=np.random.default_rng(0)).data.copy()
    gaps[2, 3, 4] = np.nan
    np.save(tmp_path / "gaps.npy", gaps.transpose(1, 2, 0))
    found, left_out = load_scenes(tmp_path, SceneChoice(crop=8, first=4))
    assert {name: x.shape for name, x in found.items()} == {"a": (4, 8, 8)}
    assert list(left_out) == ["b.npz", "gaps.npy"]
    assert left_out["gaps.npy"] == "has voxels without a value"
    assert (found["a"].min(), found["a"].max()) == (0.0, 1.0)
    with pytest.raises(BadFile):
        load_scenes(tmp_path, SceneChoice(colour=True))
    with pytest.raises(BadFile, match="5 bands, not 31"):
        load_scenes(tmp_path, SceneChoice(only=("a",), bands=31))
    (named,) = BenchOptions(tmp_path, tmp_path, crop=8, bands=4, only=("a",)).load_scenes("simple")
    assert named.name == "a[4]"
    np.testing.assert_array_equal(named.data, found["a"])


def test_tables() -> None:
    assert pick_table("simple", ("case1", "case5")).noise == ("case1", "case5")
    with pytest.raises(BadOption, match="did you mean 'simple'"):
        bench("simpel")
    for table in TABLES.values():
        assert len({r.method for r in table.rows}) == len(table.rows)


def test_rows_that_name_their_model(scene: Scene, tmp_path: Path) -> None:
    table = replace(TABLE, models=(), rows=(Row("uniform", model="tv"), Row("robust", model="nn")))
    records = runner.run_table(table, [scene], tmp_path)
    assert len(records) == 2 * (1 + 2)
    text = report.write_markdown(table, records)
    value = report.mean_figures(records)["robust", "nn", "case5"]
    assert f"{value:.2f}" in next(line for line in text.splitlines() if "| nn, robust |" in line)
    assert "case 1: " in text


def test_figures(scene: Scene) -> None:
    table = replace(SIMPLE, noise=("case1",), panel=(Row("uniform"), Row("oracle")))
    lines = make_panels(table, scene, "case1")
    assert [len(line) for line in lines] == [4, 4, 4]
    assert lines[0][2][0].startswith("nn, uniform: ")
    found = draw_table(table, scene)
    assert list(found) == ["simple-case1.png"]
    assert found["simple-case1.png"].startswith(b"\x89PNG")
