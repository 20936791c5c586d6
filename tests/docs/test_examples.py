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
    monkeypatch.syspath_prepend(EXAMPLES)  # as 'python examples/NAME.py' does: pictures.py


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


def test_own_sensor(capsys, monkeypatch) -> None:
    plain, ours = numbers(r"([\d.]+) dB", lines("own_sensor.py", capsys, monkeypatch, "20"))
    assert ours > plain + 1


def test_train_tiny(capsys, monkeypatch) -> None:
    plain, ours = numbers(r"([\d.]+) dB", lines("train_tiny.py", capsys, monkeypatch))
    assert ours > plain


@pytest.mark.parametrize(
    "name",
    [
        "emit.py",
        "tanager.py",
        "aviris_ng.py",
        "pushbroom.py",
        "stripes.py",
        "dead_elements.py",
        "many_bands.py",
        "own_noise.py",
    ],
)
def test_error_falls(name: str, capsys, monkeypatch) -> None:
    """Less error than before, no band is made worse, and the picture is there."""
    text = lines(name, capsys, monkeypatch)
    (before,), (after,) = numbers(r"([\d.]+) before", text), numbers(r"([\d.]+) after", text)
    assert after < 0.8 * before
    assert "bands made worse: 0 of" in text
    assert Path(name).with_suffix(".png").stat().st_size > 5000


def test_hypso_columns(capsys, monkeypatch) -> None:
    text = lines("hypso_columns.py", capsys, monkeypatch)
    before, after = numbers(r"error ([\d.]+)", text)
    assert after < before
    assert Path("hypso_columns.png").exists()


def test_gaps(capsys, monkeypatch) -> None:
    before, after, filled = numbers(
        r"(?:before|after|filled): (\d+)", lines("gaps.py", capsys, monkeypatch)
    )
    assert before == after > 0 == filled
    assert Path("gaps.png").exists()


def test_colour(capsys, monkeypatch) -> None:
    noisy, plain, ours = numbers(r"([\d.]+) dB", lines("colour.py", capsys, monkeypatch))
    assert noisy < plain < ours


def test_bright_pixels(capsys, monkeypatch) -> None:
    text = lines("bright_pixels.py", capsys, monkeypatch)
    assert numbers(r"value: ([\d.]+) %", text)[0] < 2
    assert Path("bright_pixels.png").exists()


def test_wild_voxel(capsys, monkeypatch) -> None:
    text = lines("wild_voxel.py", capsys, monkeypatch)
    assert "the voxel: 1e+06" in text
    assert numbers(r"any other voxel: ([\d.e-]+)", text)[0] < 0.05


def test_many_files(capsys, monkeypatch) -> None:
    text = lines("many_files.py", capsys, monkeypatch)
    assert "broken.hdr failed" in text
    assert all(f"day{i}.hdr" in text for i in range(3))


def test_in_strips(capsys, monkeypatch) -> None:
    text = lines("in_strips.py", capsys, monkeypatch)
    assert numbers(r"difference ([\d.e-]+)", text)[0] < 1e-4


def test_dask_cluster(capsys, monkeypatch) -> None:
    pytest.importorskip("distributed")
    text = lines("dask_cluster.py", capsys, monkeypatch)
    assert numbers(r"difference ([\d.e-]+)", text)[0] < 1e-4


def test_uncertainty(capsys, monkeypatch) -> None:
    text = lines("uncertainty.py", capsys, monkeypatch)
    assert 80 < numbers(r"in (\d+) % of the measured voxels", text)[0] < 97
    (low,), (high,) = numbers(r"from ([\d.]+) to", text), numbers(r" to ([\d.]+)", text)
    assert 0 < low < high
    assert Path("uncertainty.png").exists()


def test_protect_signal(capsys, monkeypatch) -> None:
    text = lines("protect_signal.py", capsys, monkeypatch)
    _, noisy, restored, protected = numbers(r"gas ([\d.]+), error", text)
    assert restored < 0.6 * noisy
    assert protected == noisy
    _, before, _, after = numbers(r"error ([\d.]+)", text)
    assert after < 0.6 * before


def test_with_xarray(capsys, monkeypatch) -> None:
    pytest.importorskip("xarray")
    assert "('y', 'x', 'band') reflectance" in lines("with_xarray.py", capsys, monkeypatch)


def test_own_mask(capsys, monkeypatch) -> None:
    alone, masked = numbers(r"smear ([\d.]+)", lines("own_mask.py", capsys, monkeypatch))
    assert masked < alone / 2


def test_advice(capsys, monkeypatch) -> None:
    assert "take: {'model':" in lines("advice.py", capsys, monkeypatch)
    assert Path("advice.png").exists()


def test_clean_data(capsys, monkeypatch) -> None:
    text = lines("clean_data.py", capsys, monkeypatch)
    assert "to the last bit: True" in text
    assert all(
        float(a) < float(b) for b, a in re.findall(r"error ([\d.]+) before, ([\d.]+) after", text)
    )
