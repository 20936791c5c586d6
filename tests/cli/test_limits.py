"""A limit of memory is kept or refused, whatever the model, and whoever chose it."""

from __future__ import annotations

import json

import pytest

from hyperdlw.pipeline import choose
from hyperdlw.pipeline import plan as tiles


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As if the process itself took nothing."""
    for name in ("BASE", "NETWORK", "RESERVE", "SAMPLE_BYTES", "MILD_COPIES"):
        monkeypatch.setattr(tiles, name, 0)


def test_automatic_choices_keep_to_it(hyperdlw, tmp_path, noisy, monkeypatch):
    monkeypatch.setattr(choose, "MOST_VOXELS", 1200)
    monkeypatch.setattr(tiles, "MOST_VOXELS", 1200)
    monkeypatch.setattr(tiles, "ADVICE_COPIES", 20)
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", "--auto", "--memory", "330K", "--json")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["tiling"]["memory"] <= report["tiling"]["limit"] == 330 * 2**10


def test_automatic_choices_refuse_a_limit_that_is_too_small(hyperdlw, tmp_path, noisy):
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", "--auto", "--memory", "150K")
    assert ran.code == 4
    assert "raise --memory, or choose them yourself" in ran.err
    assert not (tmp_path / "a.npy").exists()


def test_published_methods_refuse_it(hyperdlw, tmp_path, noisy):
    assert hyperdlw("denoise", noisy, tmp_path / "a.npy", "-m", "lrmr", "--memory", "1G").code == 0
    ran = hyperdlw("denoise", noisy, tmp_path / "b.npy", "-m", "lrmr", "--memory", "150K")
    assert ran.code == 4
    assert "'lrmr' works on the whole cube" in ran.err
    assert "raise --memory" in ran.err
    assert not (tmp_path / "b.npy").exists()
