"""The signal table: known spectra before and after denoising."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw.bench import signal, signal_report
from hyperdlw.bench.catalogue import BenchOptions
from hyperdlw.bench.experiment import Record, Scene
from hyperdlw.errors import BadOption
from hyperdlw.testbed import scenes, signals


def test_a_run_measures_every_method_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(signal, "AMPLITUDES", (0.05,))
    made = [Scene("made:1", scenes.synthetic(12, 40, 40, rng=np.random.default_rng(0)).data)]
    said: list[str] = []
    chosen = {"names": ("mnf",), "noise": ("snr50",), "tell": said.append}
    paths = signal.run(made, tmp_path, **chosen)
    assert len(said) == 2 * 2  # implants and a mixture, noisy and MNF
    text = paths[0].read_text()
    assert "4 signals in cubes of made:1" in text
    assert "| MNF |" in text
    assert len(paths[1].read_text().splitlines()) == 1 + 4
    signal.run(made, tmp_path, **chosen)
    assert len(said) == 4
    with pytest.raises(BadOption, match="did you mean 'plain'"):
        signal.run(made, tmp_path, names=("plan",))


def test_ten_scenes_unless_some_are_named(tmp_path: Path) -> None:
    assert [s.name for s in signal.load_scenes(BenchOptions(tmp_path, crop=16, bands=4))] == [
        f"made:{n}[4]" for n in range(1, 11)
    ]
    (one,) = signal.load_scenes(BenchOptions(tmp_path, only=("made:11",)))
    assert one.data.shape == (signal.BANDS, signal.SIDE, signal.SIDE)


def look_at(rise: float, error: float, method: str, auc: float = 0.9) -> Record:
    values = {"auc": auc, "ace": auc, "bias": 0.0, "alarms": 0.1, "own": auc, "rise": rise}
    found = {f"gas_{k}": v for k, v in {**values, "error": error, "pixels": [30, 3000]}.items()}
    facts = {"part": "implants", "scene": "made:1", "noise": "snr50", "amplitude": 0.05}
    return {**facts, "seed": 0, "method": method, **found}


def test_the_bars_tell_loss_from_chance() -> None:
    """A fall counts from two standard errors, and only where the noisy cube shows the signal."""
    records = [
        look_at(0.0, 0.0, "noisy"),
        look_at(-0.05, 0.01, "plain"),
        look_at(-0.05, 0.04, "plain"),
        look_at(-0.05, 0.01, "plain", auc=0.46),
        look_at(-0.06, 0.01, "mnf"),
    ]
    looks = signal_report.list_looks(records)
    assert [(k.lost, k.shown) for k in looks[1:4]] == [(True, True), (False, True), (True, False)]
    bars = signal_report.list_bars(looks, records)
    assert bars[0].measured == "50.0 %"
    assert bars[0].met is False
    assert (bars[1].measured, bars[1].met) == ("0 of 1; where not below 0 of 1", False)
    told = signal_report.list_looks([r | {"warned": r["method"] == "plain"} for r in records])
    assert signal_report.list_bars(told, records)[1].met is True
    assert bars[2].met is True
    assert bars[3].met is None
    assert signals.KINDS[0] == "gas"
