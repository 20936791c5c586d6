"""Tables of the rivals, of plug and play, of the deep image prior and of cost, on tiny scenes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw.app.cli.main import run
from hyperdlw.bench import cost, dip, experiment, report, runner
from hyperdlw.bench.catalogue import pick_table
from hyperdlw.bench.experiment import Files, Scene
from hyperdlw.bench.report import WIDEST, make_panels
from hyperdlw.bench.tables import MAIN, NETWORKS, ORIGINAL, PNP, RIVALS, Row
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import save_cube
from hyperdlw.models.denoisers import catalogue as denoisers
from hyperdlw.networks import files as store
from hyperdlw.networks.ffdnet import FFDNet
from hyperdlw.networks.hsidenet import HSIDeNet
from hyperdlw.testbed import CASES, scenes
from hyperdlw.testbed.metrics import psnr


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene("made", scenes.synthetic(6, 20, 20, rng=np.random.default_rng(0)).data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    cube = scenes.synthetic(6, 20, 20, rng=np.random.default_rng(0))
    save_cube(cube, tmp_path / "data" / "made.npz")
    return tmp_path / "data"


def test_the_table_of_rivals_is_complete() -> None:
    competitors = [r for r in RIVALS.rows if r.weights in ("", ORIGINAL)]
    assert len(competitors) == 10
    assert {r.model for r in RIVALS.rows if r.weights == MAIN} >= {"nn", "lrtv", "e3dtv", "pnp"}
    assert RIVALS.noise == CASES
    assert all(RIVALS.name_of(r) != r.method for r in RIVALS.rows)
    assert [r.weights for r in PNP.rows if r.weights in NETWORKS] == list(NETWORKS)


def test_rivals(scene: Scene, tmp_path: Path) -> None:
    table = replace(RIVALS, noise=("case5",))
    records = runner.run_table(table, [scene], tmp_path)
    text = report.write_markdown(table, records)
    figures = {r["model"]: r for r in records if r["weights"] == "" and r["noise"] == "case5"}
    for row in table.rows:
        name = table.name_of(row)
        own = text.partition("## Beside the paper")[0]
        lines = [x for x in own.splitlines() if x.startswith(f"| {name} |")]
        assert len(lines) == (0 if name == "HSI-DeNet" else len(table.figures)), name
    assert f"{figures['hyres']['sam']:.2f}" in text
    assert "- hsi-denet: no trained network hsi-denet is inside the package" in text
    lines = [x for x in text.splitlines() if x.startswith("| DLW-PnP |")]
    default = sum(p.numel() for p in store.load_network(MAIN).net.parameters())
    assert lines[0].endswith(f"| {default + 128_644:,} |".replace(",", " "))
    assert "- mean: " in text


def test_marks_of_first_and_second() -> None:
    def record(model: str, value: float) -> dict[str, object]:
        words = {"scene": "s", "seed": 0, "noise": "case1", "strength": 1.0, "seconds": 1.0}
        return {**words, "model": model, "weights": "", "psnr": value, "sam": value, "ssim": 0.5}

    models = {"lrmr": 30.0, "nmog": 31.0, "hyres": 29.0}
    rows = tuple(r for r in RIVALS.rows if r.model in models)
    table = replace(RIVALS, noise=("case1",), rows=rows)
    text = report.write_markdown(table, [record(m, v) for m, v in models.items()])
    lines = text.partition("## Beside the paper")[0].splitlines()
    found = [x for x in lines if x.startswith(("| LRMR", "| NMoG", "| HyRes"))]
    cells = [x.split(" | ")[1] for x in found]
    assert cells[:3] == ["*30.00*", "**31.00**", "29.00"]  # the larger PSNR is better
    assert cells[6:] == ["*30.00*", "31.00", "**29.00**"]  # the smaller angle is better


def test_a_network_of_the_user_joins_the_table(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="hsi-denet"):
        experiment.find_published_networks(tmp_path)
    store.save_network(tmp_path / "hsi-denet.safetensors", HSIDeNet(6), {"name": "mine"})
    files = Files(networks=experiment.find_published_networks(tmp_path))
    table = pick_table("rivals", ("case1",), ["hsi-denet"])
    without, cases = (runner.plan_cases(table, [scene], range(1), f) for f in (Files(), files))
    assert without[1].key != cases[1].key
    assert "skipped" in runner.run_table(table, [scene], tmp_path)[1]
    record = runner.run_table(table, [scene], tmp_path, files=files)[1]
    assert record["parameters"] == 2_731_968 + 1_152 * 6
    assert "| HSI-DeNet |" in report.write_markdown(table, [record])
    with pytest.raises(BadOption, match="did you mean 'hyres'"):
        pick_table("rivals", (), ["hyrse"])


def test_panels_are_wrapped(scene: Scene) -> None:
    table = replace(RIVALS, panel=tuple(r for r in RIVALS.rows if r.model in ("lrmr", "hyres")) * 3)
    lines = make_panels(table, scene, "case1")
    assert [len(line) for line in lines] == [WIDEST, 2]
    assert lines[0][2][0].startswith("LRMR: ")


def test_plug_and_play(scene: Scene, tmp_path: Path) -> None:
    table = replace(
        PNP, noise=("case1",), rows=tuple(r for r in PNP.rows if r.weights not in NETWORKS[1:])
    )
    records = runner.run_table(table, [scene], tmp_path)
    found = {(r["model"], report.label_record(r)): r for r in records}
    y = torch.from_numpy(runner.make_noisy(scene, 1, 0).y)
    alone = denoisers.resolve_denoiser("eigen")(y, 50 / 255)
    assert found["pnp", "original"]["psnr"] == pytest.approx(psnr(scene.data, alone.numpy()))
    assert found["pnp", "original"]["parameters"] == 128_644
    best = found["pnp", "original, best strength"]
    assert best["psnr"] >= found["pnp", "original"]["psnr"]
    assert ("pnp-hqs", "original") not in found
    text = report.write_markdown(table, records)
    assert "| denoiser alone, best level |" in text
    gain = found["pnp", "N"]["psnr"] - found["pnp", "uniform"]["psnr"]
    assert gain > 0


def test_another_denoiser_is_another_case(scene: Scene, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = FFDNet(filters=4, layers=2)
    store.save_network(tmp_path / "own.safetensors", net, {"name": "own"})
    files = Files(denoiser=str(tmp_path / "own.safetensors"))
    table = replace(PNP, noise=("case1",), models=("pnp",), rows=(Row(ORIGINAL),))
    ours, theirs = (runner.plan_cases(table, [scene], range(1), f)[1] for f in (Files(), files))
    assert ours.key != theirs.key
    noisy = runner.make_noisy(scene, 1, 0)
    x, facts = runner.Restorer(scene, noisy, files)(Row(ORIGINAL), "pnp")
    assert facts["parameters"] == sum(p.numel() for p in net.parameters())
    y = torch.from_numpy(noisy.y)
    expected = denoisers.resolve_denoiser(files.denoiser or "")(y, 50 / 255)
    torch.testing.assert_close(torch.from_numpy(x), expected)


def test_curves_resume(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = dip.run([scene], tmp_path, noise=("case1",), iterations=3)
    lines = (tmp_path / "dip.jsonl").read_text().splitlines()
    assert [json.loads(x)["method"] for x in lines] == ["S2DIP", "DLW-S2DIP"]
    curves = [json.loads(x)["psnr"] for x in lines]
    assert [len(c) for c in curves] == [3, 3]
    assert curves[0] != curves[1]
    e = dip.find_ends(curves[1])
    assert (
        f"| case 1 | DLW-S2DIP | {e.final:.2f} | {e.best:.2f} | {e.lost:.2f} |"
        in paths[0].read_text()
    )
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    # One curve is lost: it alone is run again, to the same values.
    (tmp_path / "dip.jsonl").write_text(lines[0] + "\n" + lines[1][:40])
    done: list[str] = []
    measure = dip.measure

    def count(curve: dip.DipCurve, *rest: object) -> dict[str, object]:
        done.append(curve.method)
        return measure(curve, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(dip, "measure", count)
    dip.run([scene], tmp_path, noise=("case1",), iterations=3)
    assert done == ["DLW-S2DIP"]
    again = json.loads((tmp_path / "dip.jsonl").read_text().splitlines()[-1])
    assert again["psnr"] == curves[1]
    with pytest.raises(BadOption, match="from 1 to 7000"):
        dip.run([scene], tmp_path, iterations=7001)


def test_curves_of_the_released_network(scene: Scene, tmp_path: Path, shared: Path) -> None:
    released = experiment.find_reference_networks(shared / "reference/dlwnet-release")
    words = {"noise": ("case1",), "weights": NETWORKS, "iterations": 2}
    dip.run([scene], tmp_path, files=Files(released), **words)
    records = [json.loads(x) for x in (tmp_path / "dip.jsonl").read_text().splitlines()]
    assert [r["method"] for r in records] == list(dip.METHODS)
    assert len({r["source"] for r in records}) == len(dip.METHODS) == 9
    assert records[1]["psnr"] != records[2]["psnr"]
    assert "| case 1 | DLW-S2DIP, authors' N+T+TS |" in (tmp_path / "dip.md").read_text()


def test_cost(tmp_path: Path) -> None:
    wanted = (Row("", model="hyres"), Row("", model="hsi-denet"), Row(MAIN, model="lrtfdfr"))
    rows = tuple(r for r in cost.TABLE.rows if r in wanted)
    table = replace(cost.TABLE, rows=rows)
    calls: list[int] = []

    def slow(y: np.ndarray) -> float:
        calls.append(y.shape[-1])
        return float(y.shape[-1])

    others = (cost.Extra("slow", slow, 7),)
    for _ in range(2):
        (path,) = cost.run(tmp_path, sides=(8, 16), table=table, others=others)
    assert calls == [8, 16]  # the second run finds everything in the records
    text = path.read_text()
    assert "| slow | 8.00 | 16.00 | 2.0 |" in text
    assert "| DLW-LRTFDFR |" in text
    assert "- hsi-denet: " in text
    default = sum(p.numel() for p in store.load_network(MAIN).net.parameters())
    weighted = f"{default:,}".replace(",", " ")
    for count in (weighted, "1 905 319", "1 687 531", "2 767 680", "399 161", "128 644"):
        assert count in text
    assert next(x for x in text.splitlines() if x.startswith("| DLW-LRTF")).endswith(
        f"| {weighted} | 41.2 |"
    )


def test_parameters_of_a_method() -> None:
    assert runner.count_source_parameters(runner.resolve("N")) == 64_225
    assert runner.count_source_parameters(runner.resolve("N*robust")) == 64_225
    assert runner.count_source_parameters(runner.resolve("uniform")) == 0
    assert {e.name.split(",")[0] for e in cost.list_extras()} == {"SERT", "S2DIP", "DLW-S2DIP"}


@pytest.mark.parametrize("kind", cost.list_extras(), ids=lambda e: e.name.split(",")[0])
def test_extra_times(kind: cost.Extra) -> None:
    assert kind.run(np.random.default_rng(0).random((31, 8, 8), np.float32)) > 0


def test_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["--data", f"{folder}", "--out", f"{out}", "--seeds", "1", "--cases", "1"]
    assert run(["bench", "rivals", *words, "--models", "hyres,nn"]) == 0
    assert "| DLW-NN |" in (out / "rivals.md").read_text()
    assert (out / "rivals-case1.png").read_bytes().startswith(b"\x89PNG")
    assert run(["bench", "dip", *words, "--iterations", "2", "--crop", "16"]) == 0
    assert "made (16x16)" in (out / "dip.md").read_text()
    capsys.readouterr()
    assert run(["bench", "dip"]) == 2
    assert "--data" in capsys.readouterr().err
    assert run(["bench", "rivals", *words, "--networks", f"{tmp_path}/none"]) == 2
    assert "hsi-denet.safetensors" in capsys.readouterr().err


def test_a_case_of_a_rival_ignores_the_denoiser(scene: Scene) -> None:
    one = runner.plan_cases(pick_table("rivals", ("case1",), ["hyres"]), [scene], range(1))
    two = runner.plan_cases(
        pick_table("rivals", ("case1",), ["hyres"]), [scene], range(1), Files(denoiser="eigen")
    )
    assert one == two
