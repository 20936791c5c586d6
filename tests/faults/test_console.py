"""What comes from files and the system is shown harmless, in one sentence, with its exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperdlw import Cube, denoise, io
from hyperdlw.app.cli.main import run as hyperdlw
from hyperdlw.errors import OutOfResources
from hyperdlw.networks import files
from hyperdlw.networks.dlwnet import DLWnet3d

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


def list_words(folder: Path, which: str) -> list[list[str]]:
    """Commands on files of strangers: a name of theirs is a card's, a band's, a variable's, a file's."""
    data = np.random.default_rng(1).random((3, 12, 13)).astype(np.float32)
    names = tuple(f"{EVIL}{b}" for b in range(3))
    scene, target = folder / "in.hdr", folder / "out.npy"
    io.save_cube(Cube.from_array(data, axes="brc"), scene)
    header = scene.read_text().rstrip() + f"\nband names = {{{', '.join(names)}}}\n"
    scene.write_text(header + f"description = {{{EVIL}}}\n")
    if which == "band":
        words = [["info", str(scene)], ["advise", str(scene)], ["convert", str(scene), str(target)]]
        return [*words, ["denoise", str(scene), str(folder / "b.npy"), "-m", "tv", "-w", "uniform"]]
    if which == "card":
        net = folder / "net.safetensors"
        files.save_network(net, DLWnet3d(2, 1), {"name": EVIL, "licence": EVIL})
        words = [["denoise", str(scene), str(target), "-m", "tv", "-w", str(net)]]
        return [*words, ["weights", str(scene), str(folder / "w.npy"), "-w", str(net)]]
    if which == "variable":
        np.savez(folder / "in.npz", cube=data, **{EVIL: np.ones(5)})
        words = ["denoise", str(folder / "in.npz"), str(target), "-m", "tv", "-w", "uniform"]
        return [[*words, "--axes", "brc"]]
    left = folder / f".{EVIL}.npy.hyperdlw"
    left.mkdir()
    (folder / f"{EVIL}.npy").write_bytes(b"no numbers")
    words = [["clean", str(folder)], ["info", str(folder / f"{EVIL}.npy")]]
    return [*words, ["bench", "simple", "--data", str(folder), "--out", str(folder / "out")]]


@pytest.mark.parametrize("which", ["band", "card", "variable", "file"])
def test_names_of_strangers_are_shown_harmless(tmp_path, capsys, monkeypatch, which):
    monkeypatch.setattr("hyperdlw.bench.runner.run_table", lambda *a, **b: sys.exit(0))
    for words in list_words(tmp_path, which):
        with suppress(SystemExit):
            hyperdlw(words)
    shown = "".join(capsys.readouterr())
    assert shown.count("owned") == shown.count("\\x1b]0;owned\\x07")
    assert "owned" in shown or which == "band"  # their names are not shown at all
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
    """Neither TMPDIR nor one of the usual places: a file is restored all the same, or it is said."""
    data = np.random.default_rng(1).random((3, 18, 10)).astype(np.float32)
    io.save_cube(Cube.from_array(data, axes="brc"), tmp_path / "in.hdr")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "nowhere")])
    with pytest.raises(FileNotFoundError):
        tempfile.gettempdir()
    for target in ("out.npy", "out.hdr"):
        words = ["denoise", str(tmp_path / "in.hdr"), str(tmp_path / target)]
        code = hyperdlw([*words, "-m", "tv", "-w", "uniform", "--quiet"])
        told = capsys.readouterr().err
        assert code == 0 or (code == 2 and "temporary directory" in told), (code, told)
        assert told.count("\n") == (code != 0)
        assert (tmp_path / target).exists() == (code == 0)


def test_markup_of_a_name_is_text_in_html():
    """Names of networks come from files of strangers, and notebooks show results as HTML."""
    evil = "<script>alert(1)</script>"
    noisy = np.random.default_rng(1).random((4, 8, 9)).astype(np.float32)
    result = denoise(noisy, model="tvs", weights="uniform")
    shown = replace(result, report=replace(result.report, weights=evil))._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
