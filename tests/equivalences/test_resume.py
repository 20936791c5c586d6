"""Resumed = uninterrupted: a run in tiles that is killed leaves the old output or the new one."""

from __future__ import annotations

import itertools
import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperdlw import io, models
from hyperdlw.errors import BadFile
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.pipeline import Report, denoise_file
from hyperdlw.pipeline import in_strips as running
from hyperdlw.pipeline.journal import (
    folder_of,
    journal_line,
    key_of,
    open_journal,
    read_journal,
)
from hyperdlw.pipeline.workers import Serial
from hyperdlw.testbed import scenes
from hyperdlw.weights import Net


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    clean = scenes.synthetic(4, 18, 10, rng=rng).data
    path = tmp_path / "in.npy"
    np.save(
        path, (clean + 0.1 * rng.standard_normal(clean.shape)).astype(np.float32).transpose(1, 2, 0)
    )
    return path


class Crash(Exception):
    """Ends a run."""


def net() -> Net:
    torch.manual_seed(1)
    return Net(DLWnet3d(2, 1), "tiny")


def run(path: Path, target: Path, model: str = "nn", watch: object = None) -> Report:
    with io.open_reader(path) as file:
        short = replace(models.build_model(model, file.shape).schedule, steps=4)
    tell = SimpleNamespace(plan_made=lambda *_: None, item_done=watch or (lambda *_: None))
    return denoise_file(
        path,
        target,
        overwrite=True,
        progress=tell,
        model=model,
        weights=[net(), "precision"],
        schedule=short,
        tile=7,
    )


class Doomed(Serial):
    """Does the work, and dies before it can tell."""

    def __init__(self, count: int) -> None:
        self.left = count

    def run(self, function, items):
        for item in items:
            done = function(item)
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield item, done


def killed(path: Path, target: Path, model: str, point: int, kind: int) -> bool:
    """Run in a child that kills itself at some point; False if it came to its end."""
    child = os.fork()
    if child == 0:
        count = itertools.count(1)

        def bang(*args: object) -> None:
            if next(count) == point:
                os.kill(os.getpid(), signal.SIGKILL)

        if kind == 0:
            running.open_executor = lambda *_: nullcontext(Doomed(point))
            run(path, target, model)
        elif kind == 1:
            run(path, target, model, watch=bang)
        else:
            plain = io.WindowWriter.write

            def write(self, *args):
                bang()
                return plain(self, *args)

            io.WindowWriter.write = write
            run(path, target, model)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def hunt(noisy: Path, model: str, trials: int, seed: int) -> None:
    """Kill at random points, again and again, until a run gets through."""
    whole, target = noisy.with_name("whole.npy"), noisy.with_name("out.npy")
    run(noisy, whole, model)
    rng = np.random.default_rng(seed)
    old = b"old"
    target.write_bytes(old)
    deaths = 0
    while deaths < trials:
        kind = int(rng.integers(3))
        point = int(rng.integers(1, 4 if kind == 2 else 60))
        died = killed(noisy, target, model, point, kind)
        deaths += died
        if died:
            assert target.read_bytes() in (old, whole.read_bytes())
        else:
            assert target.read_bytes() == whole.read_bytes()
            target.write_bytes(old)
    run(noisy, target, model)
    assert target.read_bytes() == whole.read_bytes()
    left = {p.name for p in noisy.parent.iterdir() if "partial" not in p.name}
    assert left == {"in.npy", "whole.npy", "out.npy"}


@pytest.mark.parametrize("model", ["lrtfdfr", "e3dtv"])
def test_killed_and_resumed(noisy, model):
    hunt(noisy, model, 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "seed"), [("lrtfdfr", 2), ("tv", 3), ("pnp", 4)])
def test_killed_thirty_times(noisy, model, seed):
    hunt(noisy, model, 30, seed)


def test_finished_work_is_not_done_again(noisy, tmp_path, monkeypatch):
    target = tmp_path / "out.npy"
    seen: list[str] = []

    def stop(stage: str, done: int, count: int) -> None:
        seen.append(stage)
        if stage == "step 3-sum1" and done == 2:
            raise Crash

    with pytest.raises(Crash):
        run(noisy, target, watch=stop)
    assert not target.exists()
    assert folder_of(target).is_dir()
    first, seen[:] = list(seen), []
    report = run(noisy, target, watch=lambda *a: seen.append(a[0]))
    assert seen[0] == "step 3-sum1"
    assert report.tiling["resumed"] == len(first)
    assert not folder_of(target).exists()


def test_other_options_start_anew(noisy, tmp_path):
    target = tmp_path / "out.npy"

    def stop(stage: str, done: int, count: int) -> None:
        if stage == "start":
            raise Crash

    with pytest.raises(Crash):
        run(noisy, target, "tvs", watch=stop)
    assert run(noisy, target, "tv").tiling["resumed"] == 0
    with pytest.raises(Crash):
        run(noisy, target, "tvs", watch=stop)
    data = np.load(noisy)
    np.save(noisy, data + np.float32(1))
    assert run(noisy, target, "tvs").tiling["resumed"] == 0


def test_ctrl_c_keeps_the_finished_tiles(noisy, tmp_path):
    target = tmp_path / "out.npy"

    def stop(stage: str, done: int, count: int) -> None:
        if stage == "start":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        run(noisy, target, "tvs", watch=stop)
    assert f"'hyperdlw clean {target}' removes them" in stopped.value.__notes__[0]
    assert run(noisy, target, "tvs").tiling["resumed"] > 0


def test_one_process_per_output(tmp_path):
    folder = tmp_path / ".x.hyperdlw"
    with (
        open_journal(folder, "a", 0),
        pytest.raises(BadFile, match="another process"),
        open_journal(folder, "a", 0),
    ):
        pass


@given(st.binary(max_size=200), st.integers(0, 120))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_a_journal(raw, cut):
    entry = {"stage": "s", "item": 0, "result": [1.5]}
    good = journal_line({"key": "k"}) + journal_line(entry)
    key, done, whole = read_journal(good + raw)
    assert (key, done, whole) in ((None, {}, 0), ("k", {"s": {0: [1.5]}}, len(good)))
    key, done, whole = read_journal(good[:cut])
    assert whole <= cut
    assert key in (None, "k")
    assert read_journal(raw)[0] is None


def test_a_line_with_another_number_is_no_journal():
    """It can be read all the same: only its checksum tells."""
    good = journal_line({"key": "k"}) + journal_line({"stage": "s", "item": 0, "result": [1.5]})
    for old, new in ((b"1.5", b"1.6"), (b'"k"', b'"j"'), (b'"item": 0', b'"item": 1')):
        assert read_journal(good.replace(old, new)) == (None, {}, 0)
    assert read_journal(good)[2] == len(good)


def test_keys_tell_options_apart():
    assert key_of({"a": 1}) == key_of({"a": 1}) != key_of({"a": 2})
