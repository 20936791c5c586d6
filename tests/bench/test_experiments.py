"""Experiments beside the tables: automatic choices, and noise outside the training."""

from pathlib import Path

import numpy as np
import pytest

from dlw import scenes
from dlw.bench import choice, robust
from dlw.bench.cases import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene("made", scenes.synthetic(12, 24, 24, rng=np.random.default_rng(1)).data)


def test_automatic_choices_are_measured_once(scene: Scene, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(choice, "MODELS", ("nn", "tv"))
    monkeypatch.setattr(choice, "OCTAVES", (0.5, 1.0))
    said: list[str] = []
    (path,) = choice.run([scene], tmp_path, noise=(1, 5), report=said.append)
    assert len(said) == 2
    first = path.read_text()
    choice.run([scene], tmp_path, noise=(1, 5), report=said.append)
    assert len(said) == 2
    assert path.read_text() == first
    assert "| made | 5 |" in first


def test_losses_are_against_the_best_of_the_grid() -> None:
    def record(auto: float, advice: float) -> dict[str, object]:
        every = {m: {"psnr": auto, "best": 30.0, "one": 29.0} for m in choice.MODELS}
        method = ["nn", "N", 1.0]
        return {
            "scene": "a",
            "noise": 1,
            "automatic": every,
            "advice": {"method": method, "psnr": advice},
            "best": {"method": method, "psnr": 31.0},
        }

    text = choice.markdown([record(29.5, 30.0), record(29.9, 31.0)])
    assert "| nn | 0.30 | 1.00 |" in text
    assert "is 0.50 dB below the best of the grid on average, 1.00 dB at worst" in text


def test_robustness_table(scene: Scene, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(robust, "MODELS", ("nn",))
    monkeypatch.setattr(robust, "COUNTS", (7, 20))
    said: list[str] = []
    (path,) = robust.run([scene], tmp_path, report=said.append)
    assert len(said) == len(robust.NOISES) + 2
    assert said[-1] == "made by code, case 5, 20 bands"
    robust.run([scene], tmp_path, report=said.append)
    assert len(said) == len(robust.NOISES) + 2
    rows = [line for line in path.read_text().splitlines() if line.startswith(("| case", "| st"))]
    assert len(rows) == len(said) - 1


def test_wide_stripes_are_wide() -> None:
    x = np.full((31, 400, 32), 0.5, np.float32)
    y = robust.wide_stripes(8)(x, np.random.default_rng(0))
    steps = np.abs(np.diff(y.mean(axis=1), axis=1)) > 0.1  # 400 rows leave little noise
    assert steps[:, 7::8].sum() > 5
    assert not np.delete(steps, np.s_[7::8], axis=1).any()


def test_photons_have_the_variance_of_the_signal() -> None:
    x = np.stack([np.full((100, 100), v, np.float32) for v in (0.1, 0.9)])
    y = np.stack([robust.photons(x, np.random.default_rng(k)) for k in range(40)])
    dark, bright = (np.median(y[:, b].var(axis=(1, 2)) - robust.READ**2) for b in (0, 1))
    assert 4 < bright / dark < 20
    assert abs(y.mean(axis=(0, 2, 3)) - (0.1, 0.9)).max() < 0.01
