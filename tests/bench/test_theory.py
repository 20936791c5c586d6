"""``hyperdlw bench theory``: the ranking, the report, the picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.app.cli import main as cli
from hyperdlw.bench import theory
from hyperdlw.bench.experiment import Scene, read_records
from hyperdlw.bench.tables import NETWORKS, REFERENCE
from hyperdlw.errors import BadFile


@pytest.fixture
def scene() -> Scene:
    return theory.make_scenes(1, 24)[0]


def fake(scene: Scene, turned: bool = False) -> list[dict[str, object]]:
    """Records in which the PSNR falls (or rises) with U exactly."""
    u = theory.measure_divergences([scene], theory.EPSILONS[-1])
    return [
        {
            "key": f"{n} {t}",
            "weights": REFERENCE + n,
            "model": t,
            "strength": 1.0,
            "psnr": 30.0 + (u[n, t] if turned else -u[n, t]),
        }
        for n in NETWORKS
        for t in theory.TARGETS
    ]


def test_a_network_of_the_target_alone_has_divergence_zero(scene: Scene) -> None:
    for eps in theory.EPSILONS:
        u = theory.measure_divergences([scene], eps)
        for network, target in (("N", "nn"), ("T", "tv"), ("TS", "tvs")):
            assert u[network, target] == 0.0
        assert u["T", "nn"] == pytest.approx(u["N", "tv"])
        assert 0 < u["N+T", "nn"] < u["T", "nn"]


def test_the_rank_correlation_of_a_perfect_and_of_a_turned_order(scene: Scene) -> None:
    for turned, rho in ((False, 1.0), (True, -1.0)):
        every = [c for c in theory.compare_networks(fake(scene, turned), [scene]) if c.eps == 1.0]
        found = [c for c in every if c.whose == REFERENCE]
        assert [c.target for c in found] == list(theory.TARGETS)
        assert [c.rho for c in found] == pytest.approx([rho] * 3)
        theirs = [c for c in every if c.whose in theory.PAPER]
        assert len(theirs) == 6  # two data sets, three targets
        assert all(len(c.psnr) == 7 for c in theirs)
        assert next(c for c in theirs if "CAVE" in c.whose).psnr["N"] == pytest.approx(31.066)


def test_records_of_networks_that_were_replaced_do_not_count(scene: Scene) -> None:
    old = [{**r, "weights": str(r["weights"]).removeprefix(REFERENCE)} for r in fake(scene)]
    assert theory.compare_networks([{**r, "source": "0" * 16} for r in old], [scene]) == []


def test_spearman_without_an_order_is_nan() -> None:
    assert np.isnan(theory.correlate_ranks([1, 2], [1, 2]))
    assert np.isnan(theory.correlate_ranks([1, 1, 1], [1, 2, 3]))


def test_the_command_writes_table_and_picture(
    tmp_path: Path, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "a.npy", scene.data.transpose(1, 2, 0))
    lines = "\n".join(json.dumps(r) for r in fake(scene))
    (tmp_path / "r.jsonl").write_text(lines)
    out = tmp_path / "out"
    where = ["--data", str(data), "--records", str(tmp_path / "r.jsonl"), "--out", str(out)]
    code = cli.run(["bench", "theory", *where])
    assert code == 0
    assert "| the authors' | tv | 1 | 1.00 | T | T |" in capsys.readouterr().out
    assert (out / "theory.png").read_bytes()[:4] == b"\x89PNG"


def test_missing_or_empty_records_are_told(tmp_path: Path, scene: Scene) -> None:
    with pytest.raises(BadFile, match="no file"):
        theory.run([scene], tmp_path / "none.jsonl", tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(BadFile, match="no PSNR of at least three"):
        theory.run([scene], tmp_path / "empty.jsonl", tmp_path)


def test_the_other_tables_need_scenes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "simple"]) == 2
    assert "add --data FOLDER" in capsys.readouterr().err


def test_measuring_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are made on scenes made by code, seven networks and three targets each."""
    monkeypatch.setattr(theory, "NETWORKS", ("N", "T", "TS"))
    theory.run(theory.make_scenes(1, 16), None, tmp_path)
    rows = read_records(tmp_path / "theory.jsonl").values()
    assert len([r for r in rows if r["model"] != "noisy"]) == 2 * 3 * 3
