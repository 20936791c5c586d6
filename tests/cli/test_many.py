"""Several cubes in one command: results, a table, a manifest, and an exit code that tells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.io import save_cube

QUICK = ("-m", "tv", "-w", "uniform")


@pytest.fixture
def scenes(tmp_path: Path, clean: np.ndarray) -> list[Path]:
    """Four files of different formats."""
    folder = tmp_path / "in"
    folder.mkdir()
    rng = np.random.default_rng(4)
    names = ["a.npy", "b.npz", "c.hdr", "d.tif"]
    for name in names:
        noisy = clean + 0.1 * rng.standard_normal(clean.shape)
        save_cube(Cube.from_array(noisy.astype(np.float32), axes="rcb"), folder / name)
    (folder / "notes.txt").write_text("no cube")
    return [folder / name for name in names]


def test_twenty_files_one_of_them_broken(hyperdlw, tmp_path, clean):
    (tmp_path / "in").mkdir()
    for i in range(20):
        np.save(tmp_path / "in" / f"{i:02}.npy", clean.astype(np.float32))
    (tmp_path / "in" / "07.npy").write_bytes(b"\x93NUMPY")
    ran = hyperdlw("denoise", *sorted((tmp_path / "in").iterdir()), tmp_path / "out/", *QUICK)
    assert ran.code == 2
    made = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert made == sorted([f"{i:02}.npy" for i in range(20) if i != 7] + ["manifest.json"])
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (told["done"], told["skipped"], told["failed"]) == (19, 0, 1)
    broken = told["files"][7]
    assert broken["state"] == "failed"
    assert "07.npy is damaged" in broken["message"]
    assert ran.err.count("is damaged") == 1
    assert ran.out.count("done in") == 19
    assert told["files"][0]["report"]["model"] == "tv"


@pytest.mark.parametrize("how", ["folder", "pattern", "files"])
def test_a_folder_a_pattern_or_files(hyperdlw, tmp_path, scenes, how):
    folder = scenes[0].parent
    files = [p for p in sorted(folder.iterdir()) if p.suffix != ".txt"]  # c.hdr and c.img
    given = {"folder": [folder], "pattern": [folder / "*.np?"], "files": files}[how]
    ran = hyperdlw("denoise", *given, tmp_path / "out", *QUICK)
    assert ran.code == 0, ran.err
    wanted = scenes[:2] if how == "pattern" else scenes
    assert all((tmp_path / "out" / p.name).exists() for p in wanted)
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [Path(f["input"]).name for f in told["files"]] == [p.name for p in wanted]
    one = tmp_path / "one.npy"
    hyperdlw("denoise", scenes[0], one, *QUICK)
    assert one.read_bytes() == (tmp_path / "out" / "a.npy").read_bytes()


def test_finished_files_are_skipped(hyperdlw, tmp_path, scenes):
    ran = hyperdlw("denoise", *scenes[:2], tmp_path / "out", *QUICK)
    before = (tmp_path / "out" / "a.npy").stat().st_mtime_ns
    ran = hyperdlw("denoise", *scenes, tmp_path / "out", *QUICK, "--skip-existing", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert (told["done"], told["skipped"]) == (2, 2)
    assert (tmp_path / "out" / "a.npy").stat().st_mtime_ns == before
    ran = hyperdlw("denoise", *scenes, tmp_path / "out", *QUICK)
    assert ran.code == 2
    assert ran.err.count("exists; choose another name or pass --overwrite") == 4


def test_workers_take_a_file_each(hyperdlw, tmp_path, scenes):
    ran = hyperdlw("denoise", *scenes, tmp_path / "out", *QUICK, "--workers", 2, "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    hyperdlw("denoise", scenes[3], tmp_path / "one.tif", *QUICK)
    assert (tmp_path / "one.tif").read_bytes() == (tmp_path / "out" / "d.tif").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in/a.npy",), "IN OUT"),
        (("in/a.npy", "in/a.npy", "out"), "two inputs are called a.npy"),
        (("in/*.nothing", "out"), "no file is named as"),
        (("empty", "out"), "is a folder without cubes"),
        (("in/a.npy", "in/b.npz", "in/notes.txt"), "notes.txt is a file; several cubes go"),
        (("in/a.npy", "in/b.npz", "no/such/out"), "there is no folder"),
        (("in/a.npy", "in/b.npz", "out", "--save-report", "r.json"), "one cube at a time"),
        (("in/a.npy", "out.npy", "--skip-existing"), "is for several cubes"),
        (("in/a.npy", "in/b.npz", "out", "-m", "nonsense"), "there is no model 'nonsense'"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(
    hyperdlw, tmp_path, scenes, arguments, words, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    ran = hyperdlw("denoise", *arguments)
    assert ran.code in (1, 2)
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
