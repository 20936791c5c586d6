"""Faults: one sentence on stderr, the right exit code, nothing written."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet2d
from hyperdlw.pipeline import in_memory as denoising


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(ran, code: int = 2) -> str:
    """The sentence of an error."""
    assert ran.code == code, (ran.code, ran.out, ran.err)
    assert ran.out == ""
    assert ran.err.startswith("hyperdlw: ")
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    return ran.err


def make_text(path: Path) -> Path:
    path.write_text("wavelength,value\n400,1\n")
    return path


def make_npy(path: Path, shape: tuple[int, ...]) -> Path:
    np.save(path.with_suffix(".npy"), np.zeros(shape, np.float32))
    return path.with_suffix(".npy")


def make_cut(path: Path) -> Path:
    path = make_npy(path, (20, 24, 6))
    path.write_bytes(path.read_bytes()[:-100])
    return path


def make_cut_mat(path: Path) -> Path:
    path = path.with_suffix(".mat")
    scipy.io.savemat(path, {"x": np.random.default_rng(0).random((20, 24, 6))})
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def make_nan(path: Path) -> Path:
    np.save(path.with_suffix(".npy"), np.full((5, 6, 3), np.nan))
    return path.with_suffix(".npy")


INPUTS = {
    "not a cube": (make_text, "format"),
    "one axis": (lambda p: make_npy(p, (7,)), "1 axis"),
    "five axes": (lambda p: make_npy(p, (2, 2, 3, 4, 5)), "5 axes"),
    "no bands": (lambda p: make_npy(p, (5, 6, 0)), "empty"),
    "constant": (lambda p: make_npy(p, (5, 6, 3)), "constant"),
    "all NaN": (make_nan, "no valid voxel"),
    "truncated npy": (make_cut, "cut short"),
    "truncated mat": (make_cut_mat, ""),
    "missing": (lambda p: p.with_name("absent.npy"), "there is no file"),
}


@pytest.mark.parametrize("command", ["denoise", "weights"])
@pytest.mark.parametrize("name", INPUTS)
def test_bad_input(hyperdlw, tmp_path, name, command):
    make, words = INPUTS[name]
    source = make(tmp_path / "in")
    before = listing(tmp_path)
    sentence = refused(hyperdlw(command, source, tmp_path / "out.npy", "-w", "uniform"))
    assert words in sentence
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "tvv"), "did you mean 'tv'?"),
        (("-w", "unifrm"), "did you mean 'uniform'?"),
        (("-w", "no/such/net.safetensors"), "there is no network file"),
        (("-w", "oracle"), "true noise"),
        (("-w", "uniform*"), "not a product"),
        (("--strength", "-1"), "strength"),
        (("--strength", "inf"), "strength"),
        (("--strength", "nan"), "strength"),
        (("--range", "1,0"), "lower one first"),
        (("--range", "nan 1"), "lower one first"),
        (("--axes", "xyz"), "axes"),
        (("--key", "x"), "--key"),
        (("--save-weights", "w.png"), "float32"),
        (("--save-weights", "no/such/w.npy"), "there is no folder"),
    ],
)
def test_bad_option(hyperdlw, tmp_path, noisy, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(denoising, "solve", lambda *a, **k: pytest.fail("worked before checking"))
    before = listing(tmp_path)
    weights = () if "-w" in options else ("-w", "uniform")
    sentence = refused(hyperdlw("denoise", noisy, tmp_path / "out.npy", *weights, *options))
    assert words in sentence
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("noisy.npy", "exists"),
        ("no/such/out.npy", "there is no folder"),
        ("out.xyz", "names no format"),
        ("out", "names no format"),
        ("out.png", "cannot hold float32"),
        ("folder", "is a folder"),
    ],
)
def test_bad_output(hyperdlw, tmp_path, noisy, monkeypatch, target, words):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(denoising, "solve", lambda *a, **k: pytest.fail("worked before checking"))
    before = listing(tmp_path)
    assert words in refused(hyperdlw("denoise", noisy, tmp_path / target, "-w", "uniform"))
    assert listing(tmp_path) == before


def test_two_outputs_with_one_name(hyperdlw, tmp_path, noisy):
    out = tmp_path / "o.npy"
    assert "share a file" in refused(
        hyperdlw("denoise", noisy, out, "-w", "uniform", "--save-weights", out)
    )
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("denoise",),
        ("denoise", "a", "b", "--what"),
        ("denoise", "a.npy", "b.npy", "--strength", "much"),
        ("denoise", "a.npy", "b.npy", "--schedule", "slow"),
        ("denoise", "a.npy", "b.npy", "--range", "low high"),
        ("denoise", "a.npy", "b.npy", "--range", "1 2 3"),
        ("noise", "a.npy", "b.npy", "--seed", "-1"),
        ("enhance",),
    ],
)
def test_usage_exits_with_one(hyperdlw, arguments):
    assert "--help" in refused(hyperdlw(*arguments), code=1)


def test_no_arguments_is_help(hyperdlw):
    ran = hyperdlw()
    assert ran.code == 1
    assert "Usage" in ran.err + ran.out


def test_nan_and_inf_are_masked_counted_and_kept(hyperdlw, tmp_path, noisy):
    data = np.load(noisy)
    data[2, 3, 1], data[4, 5, 2], data[0, 0, 0] = np.nan, np.inf, -np.inf
    np.save(noisy, data)
    ran = hyperdlw("denoise", noisy, tmp_path / "r.npy", "-w", "precision", "--json")
    assert json.loads(ran.out)["invalid_voxels"] == 3
    restored = np.load(tmp_path / "r.npy")
    gaps = ~np.isfinite(data)
    np.testing.assert_array_equal(restored[gaps], data[gaps])
    assert np.isfinite(restored[~gaps]).all()


def test_constant_band_is_named_and_untouched(hyperdlw, tmp_path, noisy):
    data = np.load(noisy)
    data[:, :, 4] = 0.25
    np.save(noisy, data)
    ran = hyperdlw("denoise", noisy, tmp_path / "r.npy", "-w", "precision")
    assert "5 of 6 used" in ran.out
    assert "band 5 constant" in ran.out
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy")[:, :, 4], data[:, :, 4])


@pytest.mark.parametrize("model", ["nn", "tv", "tvs"])
@pytest.mark.parametrize("weights", ["uniform", "precision", "robust", "mixture"])
@pytest.mark.parametrize("shape", [(12, 14, 1), (1, 40, 5), (40, 1, 2), (1, 2, 1)])
def test_thin_cubes(hyperdlw, tmp_path, shape, weights, model):
    data = np.random.default_rng(0).random(shape).astype(np.float32)
    np.save(tmp_path / "a.npy", data)
    ran = hyperdlw("denoise", tmp_path / "a.npy", tmp_path / "r.npy", "-m", model, "-w", weights)
    assert ran.code == 0, ran.err
    restored = np.load(tmp_path / "r.npy")
    assert restored.shape == shape
    assert np.isfinite(restored).all()


def test_integers_are_clipped_and_counted(hyperdlw, tmp_path):
    """A few white pixels among many of one hue: rank one gives them that hue, beyond 255."""
    data = np.empty((16, 18, 6), np.uint8)
    data[:] = (200, 60, 60, 60, 60, 60)
    data[::4, 3] = 255
    data += np.random.default_rng(0).integers(0, 1, data.shape, endpoint=True).astype(np.uint8) * (
        data < 255
    )
    np.save(tmp_path / "a.npy", data)
    options = ("-m", "nn", "-w", "uniform", "--strength", "5", "--range", "0,255", "--paper")
    told = hyperdlw("denoise", tmp_path / "a.npy", tmp_path / "r.npy", *options, "--json")
    restored = np.load(tmp_path / "r.npy")
    assert restored.dtype == np.uint8
    assert json.loads(told.out)["clipped_voxels"] == 4
    assert (restored[::4, 3, 0] == 255).all()  # clipped, not wrapped around
    line = hyperdlw("denoise", tmp_path / "a.npy", tmp_path / "s.npy", *options).out
    assert "clipped voxels 4" in line


def test_colour_network_on_31_bands(hyperdlw, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((9, 9, 31)))
    store.save_network(tmp_path / "colour.safetensors", DLWnet2d(), {"name": "colour"})
    before = listing(tmp_path)
    ran = hyperdlw(
        "denoise", tmp_path / "a.npy", tmp_path / "r.npy", "-w", tmp_path / "colour.safetensors"
    )
    assert "takes 3 bands and the image has 31" in refused(ran)
    assert listing(tmp_path) == before


class Trap:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("name", ["net.safetensors", "net.pth", "net.pkl", "net.npy", "net"])
@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_pickle_is_never_opened(hyperdlw, tmp_path, noisy, name, writer):
    marker, trap = tmp_path / "marker", tmp_path / name
    if writer == "pickle":
        trap.write_bytes(pickle.dumps(Trap(marker)))
    else:
        torch.save(Trap(marker), trap)
    refused(hyperdlw("denoise", noisy, tmp_path / "r.npy", "-w", trap))
    target = tmp_path / "new.safetensors"
    refused(hyperdlw("import-weights", trap, target))
    refused(hyperdlw("denoise", trap, tmp_path / "r.npy", "-w", "uniform"))
    assert not marker.exists()
    assert not target.exists()
    assert not (tmp_path / "r.npy").exists()


def test_debug_shows_where(hyperdlw, noisy, tmp_path, monkeypatch):
    for arguments in (("--debug", "info", "absent.npy"), ("info", "absent.npy", "--debug")):
        ran = hyperdlw(*arguments)
        assert ran.code == 2
        assert "Traceback" in ran.err
        assert ran.err.splitlines()[-1].startswith("hyperdlw: there is no file")
    monkeypatch.setenv("HYPERDLW_DEBUG", "1")
    from hyperdlw.app.cli import main as cli

    assert cli.run(["info", "absent.npy"]) == 2


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ZeroDivisionError("by zero"), 70, "--debug"),
        (MemoryError(), 4, "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 GB"), 4, "memory"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_unexpected(hyperdlw, noisy, tmp_path, monkeypatch, error, code, words):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(denoising, "solve", fail)
    before = listing(tmp_path)
    ran = hyperdlw("denoise", noisy, tmp_path / "r.npy", "-w", "uniform")
    assert ran.code == code
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert listing(tmp_path) == before


def test_the_script_exits_with_the_code(tmp_path):
    """Once through the interpreter: what the shell sees."""
    ran = subprocess.run(
        [sys.executable, "-m", "hyperdlw.app.cli.main", "info", str(tmp_path / "absent.npy")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("hyperdlw: there is no file")
