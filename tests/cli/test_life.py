"""The commands at work: noise, denoise, weights, score, and what they tell."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw import __version__
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.solver import Schedule


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_whole_life(hyperdlw, tmp_path, clean):
    scene, noisy, unit, truth = (tmp_path / n for n in ("s.npy", "n.npz", "c.npz", "t.npz"))
    np.save(scene, (clean * 4000 + 100).astype(np.uint16))
    made = hyperdlw(
        "noise", scene, noisy, "--case", 1, "--seed", 5, "--clean", unit, "--truth", truth
    )
    assert made.code == 0, made.err
    assert "min-max to [0, 1]" in made.out
    assert made.out.count("\n") == 1
    with np.load(truth) as held:
        assert held["impulse"].shape == (6, 20, 24)
        assert int(held["seed"]) == 5

    restored = tmp_path / "r.npz"
    done = hyperdlw("denoise", noisy, restored, "-m", "tvs", "-w", "robust", "--range", "0 1")
    assert done.code == 0, done.err
    for word in ("model tvs", "weights robust", "6 of 6", "invalid voxels 0", "clipped voxels 0"):
        assert word in done.out
    assert "range 0 to 1" in done.out
    assert str(restored) in done.out
    assert done.out.count("\n") == 2  # what was done, and the audit
    assert done.out.splitlines()[1].startswith("audit: ")

    before = json.loads(hyperdlw("score", unit, noisy, "--json").out)
    after = json.loads(hyperdlw("score", unit, restored, "--json").out)
    assert set(after) >= {"psnr", "ssim", "ssim_paper", "sam", "ergas"}
    assert after["psnr"] > before["psnr"] + 1
    shown = hyperdlw("score", unit, restored)
    assert f"{after['psnr']:.4f} dB" in shown.out


def test_same_seed_same_bytes(hyperdlw, tmp_path, clean):
    np.save(tmp_path / "s.npy", clean)
    for name in ("a", "b"):
        assert (
            hyperdlw("noise", tmp_path / "s.npy", tmp_path / f"n{name}.npz", "--seed", 2).code == 0
        )
        ran = hyperdlw(
            "denoise", tmp_path / f"n{name}.npz", tmp_path / f"r{name}.npz", "-w", "mixture"
        )
        assert ran.code == 0
    for kind in ("n", "r"):
        first, second = ((tmp_path / f"{kind}{x}.npz").read_bytes() for x in "ab")
        assert first == second
    assert hyperdlw("noise", tmp_path / "s.npy", tmp_path / "nc.npz", "--seed", 3).code == 0
    assert (tmp_path / "nc.npz").read_bytes() != (tmp_path / "na.npz").read_bytes()


def test_json_is_the_report_and_nothing_else(hyperdlw, tmp_path, noisy):
    ran = hyperdlw(
        "denoise", noisy, tmp_path / "r.npy", "-m", "tv", "-w", "uniform", "--json", "--seed", 9
    )
    report = json.loads(ran.out, parse_constant=lambda word: pytest.fail(f"not JSON: {word}"))
    assert ran.err == ""
    assert (report["model"], report["weights"], report["seed"]) == ("tv", "uniform", 9)
    assert report["output"] == str(tmp_path / "r.npy")
    assert report["clipped_voxels"] == 0


def test_quiet_prints_nothing(hyperdlw, tmp_path, noisy):
    ran = hyperdlw("denoise", noisy, tmp_path / "r.npy", "-w", "uniform", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize("source", ["precision", "robust"])
def test_weights_are_a_product(hyperdlw, tmp_path, noisy, source):
    assert hyperdlw("weights", noisy, tmp_path / "w.npy", "-w", source).code == 0
    w = np.load(tmp_path / "w.npy")
    assert (w.dtype, w.shape) == (np.float32, (20, 24, 6))
    assert w.mean() == pytest.approx(1, abs=1e-3)
    out = tmp_path / "r.npy", "-w", source, "--save-weights", tmp_path / "v.npy"
    assert hyperdlw("denoise", noisy, *out).code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), w)


def test_weights_of_integers_are_not_rounded(hyperdlw, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "i.npz", x=rng.integers(0, 99, (8, 9, 4)).astype(np.uint8), scale=0.5)
    assert hyperdlw("weights", tmp_path / "i.npz", tmp_path / "w.npz", "-w", "precision").code == 0
    with np.load(tmp_path / "w.npz") as held:
        assert held["weights"].dtype == np.float32
        assert "scale" not in held


def test_a_mask_multiplies(hyperdlw, tmp_path, noisy):
    mask = np.ones((20, 24, 6), np.float32)
    mask[:4] = 0
    np.save(tmp_path / "mask.npy", mask)
    spec = f"precision*{tmp_path / 'mask.npy'}"
    assert hyperdlw("weights", noisy, tmp_path / "w.npy", "-w", spec).code == 0
    w = np.load(tmp_path / "w.npy")
    assert w[:4].max() < 0.01
    assert w[4:].mean() > 1


def test_a_network_file(hyperdlw, tmp_path, noisy):
    torch.manual_seed(0)
    store.save_network(tmp_path / "net.safetensors", DLWnet3d(4, 1), {"name": "mine"})
    ran = hyperdlw(
        "denoise", noisy, tmp_path / "r.npy", "-w", tmp_path / "net.safetensors", "--json"
    )
    report = json.loads(ran.out)
    assert report["weights"] == "mine"
    assert len(report["networks"]["mine"]) == 64


def test_overwrite_in_place(hyperdlw, noisy):
    before = noisy.read_bytes()
    refused = hyperdlw("denoise", noisy, noisy, "-w", "uniform")
    assert refused.code == 2
    assert noisy.read_bytes() == before
    assert hyperdlw("denoise", noisy, noisy, "-w", "uniform", "--overwrite").code == 0
    assert noisy.read_bytes() != before
    assert files(noisy.parent) == ["noisy.npy"]


@pytest.fixture
def never_converges(monkeypatch):
    monkeypatch.setattr(
        Schedule, "converged", lambda self: Schedule(3, self.mu, tolerance=1e-12, balance=True)
    )


@pytest.mark.usefixtures("never_converges")
def test_not_converged_is_a_warning(hyperdlw, tmp_path, noisy):
    options = ("-w", "uniform", "--schedule", "converged")
    ran = hyperdlw("denoise", noisy, tmp_path / "r.npy", *options)
    assert ran.code == 0
    assert "hyperdlw: warning: the solver did not converge in 3 steps" in ran.err
    strict = hyperdlw("denoise", noisy, tmp_path / "s.npy", *options, "--strict")
    assert strict.code == 3
    assert strict.err.count("\n") == 1
    assert not (tmp_path / "s.npy").exists()


def test_info_models_nets_version(hyperdlw, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((20, 24, 6), np.uint16))
    told = hyperdlw("info", tmp_path / "a.npy")
    assert "6 x 20 x 24" in told.out
    facts = json.loads(hyperdlw("info", tmp_path / "a.npy", "--json").out)
    assert facts["dtype"] == "uint16"
    listed = hyperdlw("models").out
    assert all(name in listed for name in ("nn", "tv", "tvs"))
    assert "precision" in hyperdlw("nets").out
    assert set(json.loads(hyperdlw("nets", "--json").out)) == {"networks", "formulas", "default"}
    assert hyperdlw("--version").out == f"hyperdlw {__version__}\n"


def test_score_needs_units(hyperdlw, tmp_path, clean):
    np.save(tmp_path / "a.npy", clean * 4000)
    np.save(tmp_path / "b.npy", clean * 4000 + 40)
    refused = hyperdlw("score", tmp_path / "a.npy", tmp_path / "b.npy")
    assert refused.code == 2
    assert "--scale" in refused.err
    found = json.loads(
        hyperdlw("score", tmp_path / "a.npy", tmp_path / "b.npy", "--scale", "--json").out
    )
    assert found["psnr"] == pytest.approx(40, abs=0.2)
    np.save(tmp_path / "c.npy", clean)
    mixed = hyperdlw("score", tmp_path / "c.npy", tmp_path / "a.npy")
    assert mixed.code == 2
    assert "units" in mixed.err


def test_score_of_equal_cubes_is_json(hyperdlw, tmp_path, clean):
    np.save(tmp_path / "a.npy", clean)
    found = json.loads(hyperdlw("score", tmp_path / "a.npy", tmp_path / "a.npy", "--json").out)
    assert found["psnr"] is None  # infinite, which JSON cannot say
    assert found["ssim"] == pytest.approx(1)


def test_noise_keeps_gaps(hyperdlw, tmp_path, clean):
    scene = (clean * 100).astype(np.int16) + 1
    scene[0, 0, :] = 0
    np.save(tmp_path / "s.npy", scene)
    assert hyperdlw("noise", tmp_path / "s.npy", tmp_path / "n.npy", "--nodata", 0).code == 0
    noisy = np.load(tmp_path / "n.npy")
    assert np.isnan(noisy[0, 0]).all()
    assert np.isnan(noisy).sum() == 6


def test_import_weights(hyperdlw, tmp_path):
    """A checkpoint laid out as the released ones gives the logits of its convolutions."""
    torch.manual_seed(1)
    layers = ("conv1", "conv2", "mid_layer.0", "mid_layer.2", "mid_layer.4", "mid_layer.6")
    state = {"conv_last.weight": torch.randn(1, 64, 3, 3, 3) / 40, "conv_last.bias": torch.zeros(1)}
    for i, layer in enumerate(layers):
        size = (64, 64, 3, 1, 1) if i % 2 else (64, 1 if i == 0 else 64, 1, 3, 3)
        state[f"{layer}.weight"] = torch.randn(size) / (size[1] * 4) ** 0.5
        state[f"{layer}.bias"] = torch.randn(64) / 10
    torch.save({"model_state_dict": state}, tmp_path / "old.pth")
    target = tmp_path / "new.safetensors"
    ran = hyperdlw("import-weights", tmp_path / "old.pth", target, "--name", "theirs")
    assert ran.code == 0, ran.err
    stored = store.load_network(target)
    assert stored.card["name"] == "theirs"
    y = torch.rand(5, 6, 7)
    t = y[None, None]
    for i, layer in enumerate(layers):
        pad = (1, 0, 0) if i % 2 else (0, 1, 1)
        t = torch.conv3d(t, state[f"{layer}.weight"], state[f"{layer}.bias"], padding=pad).relu()
    t = torch.conv3d(t, state["conv_last.weight"], state["conv_last.bias"], padding=1)
    torch.testing.assert_close(stored.net(y), t[0, 0], rtol=1e-4, atol=1e-4)


def test_a_terminal_gets_a_bar_and_rows(tmp_path, noisy):
    """In a pseudo terminal: a summary of several rows, and no trace left of the bar's last state."""
    main, end = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "hyperdlw.app.cli.main",
        "denoise",
        str(noisy),
        str(tmp_path / "r.npy"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [*command, "-w", "uniform"], stdout=end, stderr=end, env=environment, close_fds=True
    )
    os.close(end)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side was closed
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert process.wait(60) == 0
    assert b"solving" in seen or b"weights" in seen
    assert b"clipped voxels" in seen
    assert seen.count(b"\n") > 6


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX")
def test_a_network_can_be_read_by_others(tmp_path):
    store.save_network(tmp_path / "net.safetensors", DLWnet3d(2, 1), {"name": "mine"})
    (tmp_path / "plain").write_bytes(b"")
    rights = [(tmp_path / n).stat().st_mode for n in ("net.safetensors", "plain")]
    assert rights[0] == rights[1]


@pytest.mark.parametrize("command", ["--help", "denoise --help", "models", "nets"])
def test_the_frame_is_quick(command):
    """torch takes seconds to import; what only tells does without it, and without scipy."""
    program = (
        "import sys; from hyperdlw.app.cli.main import run; code = run(sys.argv[1:]);"
        "heavy = {'torch', 'scipy', 'rasterio', 'matplotlib'} & set(sys.modules);"
        "sys.exit(code or ', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, *command.split()], capture_output=True)
    assert done.returncode == 0, done.stderr
