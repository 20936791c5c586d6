"""Experiments beside the tables: automatic choices, and noise outside the training."""

from pathlib import Path

import numpy as np
import pytest

from hyperdlw.bench import auto, catalogue, everything, figures, report, robust
from hyperdlw.bench.catalogue import BenchOptions
from hyperdlw.bench.experiment import Scene
from hyperdlw.bench.tables import NETWORKS
from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, BadOption, DlwError
from hyperdlw.testbed import CASES, FIELD_NOISES, NOISES, scenes


@pytest.fixture
def scene() -> Scene:
    return Scene("made", scenes.synthetic(12, 24, 24, rng=np.random.default_rng(1)).data)


def test_automatic_choices_are_measured_once(scene: Scene, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(auto, "OCTAVES", (0.5, 1.0))
    names = ("nn", "tv")
    said: list[str] = []
    (path,) = auto.run([scene], tmp_path, names=names, noise=("case1", "case5"), tell=said.append)
    assert len(said) == 2
    first = path.read_text()
    auto.run([scene], tmp_path, names=names, noise=("case1", "case5"), tell=said.append)
    assert len(said) == 2
    assert path.read_text() == first
    assert "| made | case 5 |" in first


def test_losses_are_against_the_best_of_the_grid() -> None:
    def record(found: float, advice: float) -> dict[str, object]:
        every = {m: {"psnr": found, "best": 30.0, "one": 29.0} for m in auto.MODELS}
        method = ["nn", "N", 1.0]
        return {
            "scene": "a",
            "noise": "case1",
            "automatic": every,
            "advice": {"method": method, "psnr": advice},
            "best": {"method": method, "psnr": 31.0},
        }

    text = auto.write_markdown([record(29.5, 30.0), record(29.9, 31.0)])
    assert "| nn | 0.30 | 1.00 |" in text
    assert "is 0.50 dB below the best of the grid on average, 1.00 dB at worst" in text


def test_robustness_table(scene: Scene, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(robust, "MODELS", ("nn",))
    monkeypatch.setattr(robust, "COUNTS", (7, 20))
    said: list[str] = []
    (path,) = robust.run([scene], tmp_path, tell=said.append)
    assert len(said) == len(NOISES) - len(CASES) - len(FIELD_NOISES) + 1 + 2
    assert said[-1] == "made by code, Case 5, 20 bands"
    robust.run([scene], tmp_path, tell=said.append)
    assert len(said) == len(NOISES) - len(CASES) - len(FIELD_NOISES) + 1 + 2
    rows = [line for line in path.read_text().splitlines() if line.startswith(("| Case", "| Str"))]
    assert len(rows) == len(said) - 1


def test_everything_in_one_run(tmp_path: Path, monkeypatch) -> None:
    """Parts without data are left out and said, one that fails does not stop the others."""
    seen: list[tuple[str, BenchOptions]] = []

    def broken(asked: BenchOptions) -> None:
        raise BadFile("no such scene")

    for name in catalogue.EXPERIMENTS:
        if name != "all":
            note = lambda asked, name=name: seen.append((name, asked))  # noqa: E731
            monkeypatch.setitem(catalogue.EXPERIMENTS, name, note)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "pnp", broken)
    with pytest.raises(DlwError, match="not every table was filled: pnp"):
        everything.run_all(BenchOptions(tmp_path, data=tmp_path, remote=tmp_path, quiet=True))
    text = (tmp_path / "index.md").read_text()
    assert "| colour | left out: needs --photos FOLDER |" in text
    assert "| pnp | failed: no such scene |" in text
    assert "| remote-31-bands | [simple](remote-31-bands/simple.md) |" in text
    assert [n for n, _ in seen].count("simple") == 3
    told = dict(seen)
    assert told["theory"].records == tmp_path / "simple" / "simple.jsonl"
    assert told["targets"].seeds == 2
    assert told["targets"].crop is None
    assert told["networks"].crop == 0
    remote = [a for n, a in seen if n == "simple" and a.bands == 31]
    assert "abu-beach-1" in remote[0].without


def test_networks_are_compared_in_their_own_models_only() -> None:
    table = catalogue.pick_table("networks")
    assert len(table.rows) == 3 * 1 + 3 * 2 + 3
    assert {m for _, m in table.cells([r for r in table.rows if r.weights == "N+TS"])} == {
        "nn",
        "tvs",
    }
    one = catalogue.pick_table("networks", models=("tv",))
    assert {r.weights for r in one.rows} == {"T", "N+T", "T+TS", "N+T+TS"}
    assert {m for _, m in one.cells(one.panel)} == {"tv"}
    with pytest.raises(BadOption, match="lrtv"):
        catalogue.pick_table("networks", models=("lrtv",))
    # Records without some pairs of network and model: the best is one of those that are there.
    db = {(r.weights, r.model or "", n): 30.0 for r in table.rows for n in table.noise}
    db["T+TS", "tvs", "case1"] = 31.0
    assert "- best network for tvs: T+TS" in report.write_headlines(table, db)


def test_what_is_left_out_at_the_end_is_said(tmp_path: Path, monkeypatch) -> None:
    for name in ("classify", "cost", "real"):
        monkeypatch.setitem(catalogue.EXPERIMENTS, name, lambda asked: None)
    everything.run_all(BenchOptions(tmp_path / "new", quiet=True))
    text = (tmp_path / "new" / "index.md").read_text()
    assert "| robust | left out: needs --data FOLDER |" in text
    assert len(text.splitlines()) == 4 + len(everything.ALL_PARTS) + 2
    assert text.splitlines()[-1].startswith("Made by hyperdlw ")


def test_all_fills_a_table(scene: Scene, tmp_path: Path, monkeypatch) -> None:
    np.savez(tmp_path / "made.npz", cube=scene.data)
    only = tuple(p for p in everything.ALL_PARTS if p.folder == "targets")
    monkeypatch.setattr(everything, "ALL_PARTS", only)
    asked = BenchOptions(
        tmp_path / "out",
        data=tmp_path,
        crop=16,
        noise=("case1",),
        models=("ctv",),
        seeds=1,
        pictures=False,
        quiet=True,
    )
    everything.run_all(asked)
    assert (tmp_path / "out" / "targets" / "targets.md").exists()
    assert "(targets/targets.md)" in (tmp_path / "out" / "index.md").read_text()


def test_the_seven_networks_in_pictures(tmp_path: Path) -> None:
    scene = Scene("made", scenes.synthetic(6, 20, 20, rng=np.random.default_rng(0)).data)
    report_path, *pictures = figures.draw_figures(scene, tmp_path)
    rows = [x.split(" | ") for x in report_path.read_text().splitlines() if x.startswith("| ")]
    ratios = {
        r[0].strip("| "): float(r[3].strip("| ")) for r in rows if len(r) == 4 and "." in r[3]
    }
    assert set(NETWORKS) < set(ratios)
    assert min(ratios[n] for n in NETWORKS) > 1.1  # the noisier corner is trusted less
    assert [p.name for p in pictures] == ["weights.png", "restorations.png"]


def test_real_images_have_no_clean_one(tmp_path: Path, monkeypatch) -> None:
    clean = scenes.synthetic(8, 24, 24, rng=np.random.default_rng(0)).data
    noisy = clean + np.random.default_rng(1).normal(0, 0.1, clean.shape).astype(np.float32)
    cube = Cube.from_array(noisy)
    rows = [r for r in figures.RIVALS.rows if r.model in ("hyres", "hsi-denet", "lrtfdfr")]

    def refuse(*words: object, **more: object) -> None:
        raise BadFile("no trained network is restored twice")

    for _ in range(2):  # the second time everything is known but what was skipped
        text = figures.run_real("made", cube, tmp_path, rows=rows)[0].read_text()
        monkeypatch.setattr(figures, "denoise", refuse)
    value = {x.split(" | ")[0]: x.split(" | ")[1] for x in text.splitlines() if x[:2] == "| "}
    assert float(value["| DLW-LRTFDFR"]) < 0.5 * float(value["| as it is"])
    assert "- HSI-DeNet: no trained network" in text
    stripes = np.random.default_rng(2).uniform(-0.2, 0.2, (8, 1, 24)).astype(np.float32)
    before, after = (figures.measure_stripes(y).mean() for y in (noisy, noisy + stripes))
    assert after > 2 * before


def test_sizes(tmp_path: Path, monkeypatch) -> None:
    seen: dict[str, BenchOptions] = {}
    for name in catalogue.EXPERIMENTS:
        monkeypatch.setitem(
            catalogue.EXPERIMENTS, name, lambda asked, name=name: seen.update({name: asked})
        )
    everything.run_all(BenchOptions(tmp_path, size="small", quiet=True))
    assert seen["simple"].only == ("made:1",)
    assert seen["dip"].iterations == 20
    assert seen["dip"].weights == NETWORKS
    assert seen["colour"].data is None
    assert "auto" not in seen
    text = (tmp_path / "index.md").read_text()
    assert "| auto | left out: not in size small |" in text
    with pytest.raises(BadOption, match="small"):
        everything.run_all(BenchOptions(tmp_path, size="smal", quiet=True))
