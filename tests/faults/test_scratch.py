"""What a run that was cut short leaves: it serves the same data only, and nobody else's purposes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hyperdlw import Cube, denoise_file, io
from hyperdlw.app.cli.main import run as hyperdlw
from hyperdlw.errors import BadFile
from hyperdlw.io.atomic import _name_machine
from hyperdlw.pipeline.journal import folder_of, open_journal

GIVEN = {"model": "tvs", "weights": "uniform", "range": (0.0, 1.0), "tile": 6}


class Crash(Exception):
    """Ends a run."""


def make_data(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((4, 18, 10)).astype(np.float32)


def work(source: Path, target: Path, stage: str = "", then=lambda: None):
    """Denoise; when ``stage`` is first finished, do ``then``."""

    def watch(name: str, done: int, count: int) -> None:
        if name == stage and done == count:
            then()

    tell = SimpleNamespace(plan_made=lambda *_: None, item_done=watch)
    return denoise_file(source, target, progress=tell, **GIVEN)


def crash() -> None:
    raise Crash


@pytest.fixture(params=["hdr", "zarr", "npy"])
def source(request, tmp_path) -> Path:
    path = tmp_path / f"in.{request.param}"
    io.save_cube(Cube.from_array(make_data(1)), path)
    return path


def rewrite(source: Path) -> None:
    """Other data in the middle of the file, with the size and the time of the old."""
    files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
    if source.suffix == ".hdr":
        files = [source.with_suffix(".img")]
    file = max(files, key=lambda p: p.stat().st_size)
    about, raw = file.stat(), bytearray(file.read_bytes())
    if source.suffix == ".zarr":  # compressed: a new store of other data
        io.save_cube(Cube.from_array(make_data(2)), source, overwrite=True)
        return
    at = len(raw) // 4 * 2 + 64
    raw[at : at + 400] = np.full(100, 0.25, np.float32).tobytes()
    file.write_bytes(raw)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_other_data_are_not_resumed(source, tmp_path):
    target = tmp_path / "out.npy"
    with pytest.raises(Crash):
        work(source, target, "scale", crash)
    rewrite(source)
    assert work(source, target).tiling["resumed"] == 0
    work(source, tmp_path / "fresh.npy")
    assert target.read_bytes() == (tmp_path / "fresh.npy").read_bytes()


def test_a_change_while_it_is_read_is_noticed(source, tmp_path):
    target = tmp_path / "out.npy"
    with pytest.raises(BadFile, match="changed while it was read"):
        work(source, target, "scale", lambda: rewrite(source))
    assert not target.exists()


def test_clean_removes_what_is_left(tmp_path, capsys):
    source, target, other = (tmp_path / n for n in ("in.npy", "out.npy", "other.npy"))
    np.save(source, make_data(1))
    for place in (target, other):
        with pytest.raises(Crash):
            work(source, place, "scale", crash)
    assert hyperdlw(["clean", str(target)]) == 0
    assert not folder_of(target).exists()
    assert folder_of(other).exists()
    with open_journal(folder_of(target), "a", 0):
        assert hyperdlw(["clean", str(tmp_path)]) == 0
        assert "at work" in capsys.readouterr().out
        assert folder_of(target).exists()
    assert not folder_of(other).exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npy"]


def test_images_of_past_steps_go(tmp_path):
    """The room on disk does not grow with the number of steps."""
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, make_data(1))
    held: dict[int, int] = {}

    def watch(name: str, done: int, count: int) -> None:
        if name.startswith("step "):
            step = int(name.split()[1].split("-")[0])
            images = [p for p in folder_of(target).rglob("*") if p.suffix != ".npz" and p.is_file()]
            held[step] = max(held.get(step, 0), len(images))

    tell = SimpleNamespace(plan_made=lambda *_: None, item_done=watch)
    denoise_file(source, target, progress=tell, **GIVEN)
    steps = sorted(held)
    assert len(steps) > 8
    assert len({held[k] for k in steps[3:-1]}) == 1, held


def test_partial_files_of_dead_processes_go(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    target = tmp_path / "out.npy"
    dead, alive, foreign = (
        tmp_path / f".out.npy.{machine}-{pid}-0123abcd.partial"
        for machine, pid in (
            (_name_machine(), gone.pid),
            (_name_machine(), os.getppid()),
            ("abcdef", gone.pid),
        )
    )
    for path in (dead, alive, foreign):
        path.write_bytes(b"x")
    with io.atomic(target) as one:
        one.write_bytes(b"1")
        with io.atomic(target, overwrite=True) as two:
            assert one != two
            two.write_bytes(b"2")
        target.unlink()
    assert target.read_bytes() == b"1"
    assert sorted(tmp_path.iterdir()) == sorted([alive, foreign, target])


@pytest.mark.parametrize("name", ["journal", "steps0", "y"])
def test_links_in_the_scratch_folder_are_not_followed(tmp_path, name):
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, make_data(1))
    victim = tmp_path / "victim"
    if name == "steps0":
        victim.mkdir()
        (victim / "precious").write_text("precious")
    else:
        victim.write_text("precious")
    folder = folder_of(target)
    folder.mkdir()
    (folder / name).symlink_to(victim)
    if name == "journal":
        with pytest.raises(BadFile, match="damaged"):
            work(source, target)
    else:
        work(source, target)
        assert target.exists()
    held = victim / "precious" if name == "steps0" else victim
    assert held.read_text() == "precious"


@pytest.mark.skipif(os.name != "posix", reason="owners are POSIX")
def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, make_data(1))
    folder_of(target).mkdir()
    (folder_of(target) / "planted").write_text("theirs")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(BadFile, match="somebody else's folder"):
        work(source, target)
    assert (folder_of(target) / "planted").read_text() == "theirs"


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path):
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, make_data(1))
    (tmp_path / "theirs").mkdir()
    folder_of(target).symlink_to(tmp_path / "theirs")
    with pytest.raises(BadFile, match="in the way"):
        work(source, target)
    assert not list((tmp_path / "theirs").iterdir())
