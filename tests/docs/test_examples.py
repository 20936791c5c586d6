"""The examples run, and show what they promise."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def lines(name: str, capsys, monkeypatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(x) for x in re.findall(pattern, text)]


def test_all_are_tested() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    assert all(path.name in here for path in EXAMPLES.glob("*.py"))


def test_clean_file(capsys, monkeypatch) -> None:
    text = lines("clean_file.py", capsys, monkeypatch)
    assert "int16" in text
    assert Path("restored.hdr").exists()
    again = lines("clean_file.py", capsys, monkeypatch, "noisy.hdr", "other.hdr")
    assert "other.hdr: int16" in again


def test_weights_and_report(capsys, monkeypatch) -> None:
    assert "dead columns" in lines("weights_and_report.py", capsys, monkeypatch)
    assert Path("trust.hdr").exists()
    assert '"model"' in Path("report.json").read_text()


def test_choose_strength(capsys, monkeypatch) -> None:
    text = lines("choose_strength.py", capsys, monkeypatch)
    tried = numbers(r"(?m)^ +[\d.]+ +([\d.]+)$", text)
    (chosen,) = numbers(r"auto: [\d.]+, ([\d.]+) dB", text)
    assert len(tried) == 6
    assert chosen > sorted(tried)[2]  # better than half of the grid


def test_own_model(capsys, monkeypatch) -> None:
    noisy, plain, ours = numbers(r"([\d.]+) dB", lines("own_model.py", capsys, monkeypatch))
    assert noisy < plain < ours


def test_compare_models(capsys, monkeypatch) -> None:
    text = lines("compare_models.py", capsys, monkeypatch)
    pairs = re.findall(r"(?m)^\S+ +([\d.]+) +([\d.]+)$", text)
    assert len(pairs) == 7
    assert all(float(plain) < float(learned) for plain, learned in pairs)


def test_train_tiny(capsys, monkeypatch) -> None:
    plain, ours = numbers(r"([\d.]+) dB", lines("train_tiny.py", capsys, monkeypatch))
    assert ours > plain
