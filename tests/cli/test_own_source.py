"""A weight source of somebody else's package works wherever a built-in one does."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw.app import listing
from hyperdlw.errors import DlwError
from hyperdlw.io import registry
from hyperdlw.pipeline import plan as tiles
from hyperdlw.weights import Source

# --- the other package: three sources


class Contrast(Source):
    """Less weight where a voxel differs from the one above it."""

    sees, reach = "rows", 1

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return 1 / (1 + 20 * y.diff(dim=-2, prepend=y[:, :1]).abs())


class Spread(Source):
    """One number per band, the inverse of its variance."""

    sees, follows_noise = "band", False

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return 1 / y.var((1, 2), keepdim=True)


class Ranks(Source):
    """Sees the whole image, and says nothing of strips."""

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return 1 / (0.1 + (y - y.median()).abs())


# ---


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    given = {"contrast": Contrast, "spread": Spread(), "ranks": lambda: Ranks()}
    points = {
        name: SimpleNamespace(name=name, value=name, load=lambda made=made: made)
        for name, made in given.items()
    }
    plain = registry.scan_entry_points
    for module in (registry, listing):
        monkeypatch.setattr(
            module,
            "scan_entry_points",
            lambda group: points if group == "hyperdlw.weights" else plain(group),
        )


@pytest.fixture
def small(monkeypatch):
    """A limit that the little cube does not fit in, as if the process itself took nothing."""
    for name in ("BASE", "NETWORK", "RESERVE", "SAMPLE_BYTES", "MILD_COPIES"):
        monkeypatch.setattr(tiles, name, 0)
    return "--memory", "150K"


def test_they_are_listed(hyperdlw):
    listed = json.loads(hyperdlw("nets", "--json").out)["formulas"]
    assert listed["contrast"].startswith("Less weight where")
    assert listed["spread"].startswith("One number per band")


@pytest.mark.parametrize("weights", ["contrast", "spread", "contrast*spread", "N+T+TS*contrast"])
def test_whole_and_strips_agree(hyperdlw, tmp_path, noisy, small, weights):
    whole = hyperdlw("denoise", noisy, tmp_path / "a.npy", "-m", "nn", "-w", weights)
    parts = hyperdlw("denoise", noisy, tmp_path / "b.npy", "-m", "nn", "-w", weights, *small)
    assert (whole.code, parts.code) == (0, 0), parts.err
    assert "plan: " in parts.err
    a, b = np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy")
    assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max()


def test_a_source_that_says_nothing_of_strips(hyperdlw, tmp_path, noisy, small):
    assert hyperdlw("denoise", noisy, tmp_path / "a.npy", "-m", "nn", "-w", "ranks").code == 0
    ran = hyperdlw("denoise", noisy, tmp_path / "b.npy", "-m", "nn", "-w", "ranks", *small)
    assert ran.code == 2
    assert "'ranks' need the whole cube in memory" in ran.err


def write_scene(folder: Path) -> None:
    """A folder with one small scene, for training and benchmark."""
    folder.mkdir()
    np.save(folder / "made.npy", np.random.default_rng(3).random((20, 18, 5)).astype(np.float32))


def test_in_training(hyperdlw, tmp_path):
    """A recipe multiplies the weights of the network by those of the source."""
    write_scene(tmp_path / "in")
    losses = []
    for name, line in (("alone", ""), ("both", 'times = "contrast"')):
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(
            f'name = "{name}"\nsources = ["tv"]\nsteps = 2\nbatch = 1\npatch = 12\n'
            f"filters = 4\n{line}\n"
        )
        place = tmp_path / f"out-{name}"
        ran = hyperdlw("train", recipe, "--data", tmp_path / "in", "--out", place)
        assert ran.code == 0, ran.err
        losses.append((place / "log.jsonl").read_text())
    assert losses[0] != losses[1]


def test_in_the_benchmark(hyperdlw, tmp_path):
    write_scene(tmp_path / "in")
    words = "--data", tmp_path / "in", "--out", tmp_path / "out", "--seeds", "1", "--quiet"
    ran = hyperdlw(
        "bench", "simple", *words, "--models", "tv", "--cases", "1", "--weights", "contrast"
    )
    assert ran.code == 0, ran.err
    assert "contrast" in (tmp_path / "out" / "simple.jsonl").read_text()


def test_a_source_without_raw_gets_a_sentence():
    class Empty(Source):
        """It forgets the one method it must have."""

    y = torch.zeros(2, 3, 3)
    with pytest.raises(DlwError, match="'empty' has no method 'raw'"):
        Empty()(y, torch.ones_like(y, dtype=torch.bool))
