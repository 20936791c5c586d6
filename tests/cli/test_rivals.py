"""hyperdlw denoise with a rival as the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.app.cli.main import run
from hyperdlw.testbed import scenes


@pytest.fixture
def cube(tmp_path: Path) -> str:
    clean = scenes.synthetic(8, 20, 22, rng=np.random.default_rng(1)).data
    y = clean + 0.1 * np.random.default_rng(2).standard_normal(clean.shape)
    np.save(tmp_path / "in.npy", y.astype(np.float32).transpose(1, 2, 0))
    return str(tmp_path / "in.npy")


def test_denoise(cube: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.npy")
    assert run(["denoise", cube, out, "--model", "hyres", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["weights"]) == ("hyres", "none")
    assert np.load(out).shape == (20, 22, 8)
    assert not np.array_equal(np.load(out), np.load(cube))


def test_denoisers_by_name(cube: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for name in ("framelet", "gauss"):
        out = str(tmp_path / f"{name}.npy")
        words = ["--model", "fasthymix", "--denoiser", name, "--json"]
        assert run(["denoise", cube, out, *words]) == 0
        assert list(json.loads(capsys.readouterr().out)["networks"]) == (
            ["gauss"] * (name == "gauss")
        )
        found[name] = np.load(out)
    assert not np.array_equal(found["framelet"], found["gauss"])
    alone = ["--model", "pnp", "--weights", "original", "--denoiser", "eigen", "--json"]
    assert run(["denoise", cube, str(tmp_path / "alone.npy"), *alone]) == 0
    assert list(json.loads(capsys.readouterr().out)["networks"]) == ["eigen"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["denoise", "--model", "lrmr", "--weights", "uniform"], "takes no weights"),
        (["denoise", "--model", "lrmr", "--strength", "2"], "no strength"),
        (["denoise", "--model", "lrmr", "--schedule", "converged"], "no schedule"),
        (["denoise", "--model", "lrmr", "--save-weights", "w.npy"], "none to write"),
        (["weights", "--model", "lrmr"], "none to write"),
        (["denoise", "--model", "nmogg"], "did you mean 'nmog'"),
        (["denoise", "--model", "hsi-denet"], "hyperdlw train-rival hsi-denet"),
        (["denoise", "--model", "nowhere.safetensors"], "nowhere.safetensors"),
        (["denoise", "--weights", "hsid-cnn"], "no weight source"),
        (["denoise", "--model", "tv", "--denoiser", "eigen"], "no denoiser"),
        (["denoise", "--model", "lrmr", "--denoiser", "gauss"], "no denoiser"),
        (["denoise", "--model", "fasthymix", "--denoiser", "gaus"], "did you mean 'gauss'"),
        (["denoise", "--model", "pnp", "--denoiser", "eigem"], "did you mean 'eigen'"),
    ],
)
def test_one_sentence(
    cube: str, tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npy"
    assert run([words[0], cube, str(out), *words[1:]]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()


def test_models_says_who_takes_a_denoiser(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "denoiser (--denoiser): pnp, pnp-hqs, fasthymix" in said


def test_models_lists_rivals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "--json"]) == 0
    assert {"nn", "lrmr", "nmog", "hyres", "fasthymix", "hsid-cnn"} <= set(
        json.loads(capsys.readouterr().out)
    )
