"""What comes from files and the system is shown harmless, in one sentence, with its exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperdlw import denoise, io
from hyperdlw.app.cli.main import run as hyperdlw
from hyperdlw.errors import OutOfResources

EVIL = "a\x1b]0;owned\x07\x1b[2J\u202eb"


def command(*arguments: str, **given: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "hyperdlw.app.cli.main", *arguments]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, **given)


def test_escapes_of_a_file_do_not_reach_the_terminal(tmp_path, capsys):
    np.savez(tmp_path / "in.npz", **{EVIL: np.zeros((2, 3, 4)), "other": np.ones((2, 3, 4))})
    hyperdlw(["info", str(tmp_path / "in.npz")])
    hyperdlw(["denoise", str(tmp_path / "in.npz"), str(tmp_path / "out.npy")])
    hyperdlw(["info", str(tmp_path / EVIL)])
    shown = "".join(capsys.readouterr())
    assert "owned" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_the_output_is_one_sentence():
    with open("/dev/full", "w") as full:
        ran = command("models", "--json", stdout=full)
    assert ran.returncode == 4, ran.stderr
    assert "No space left" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_a_full_disk_has_its_own_exit_code(tmp_path):
    with pytest.raises(OutOfResources, match="free space"), io.atomic(tmp_path / "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_strength_without_sense_is_refused(tmp_path, capsys):
    np.save(tmp_path / "in.npy", np.random.default_rng(1).random((3, 8, 8)))
    places = [str(tmp_path / "in.npy"), str(tmp_path / "out.npy")]
    assert hyperdlw(["denoise", *places, "--strength", "1e300"]) == 2
    assert "strength must be positive" in capsys.readouterr().err
    assert not (tmp_path / "out.npy").exists()


def test_no_place_for_temporary_files_is_one_sentence(monkeypatch, capsys, tmp_path):
    def refuse(*args: object, **given: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("hyperdlw.io.describe_file", refuse)
    assert hyperdlw(["info", str(tmp_path / "in.npy")]) == 2
    assert "No usable temporary directory" in capsys.readouterr().err


def test_markup_of_a_name_is_text_in_html():
    """Names of networks come from files of strangers, and notebooks show results as HTML."""
    evil = "<script>alert(1)</script>"
    noisy = np.random.default_rng(1).random((4, 8, 9)).astype(np.float32)
    result = denoise(noisy, model="tvs", weights="uniform")
    shown = replace(result, report=replace(result.report, weights=evil))._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
