"""Workers = serial: the same tiles in several processes, of which one dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hyperdlw import io, models
from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import DlwError, MissingDependency, OutOfResources
from hyperdlw.pipeline import Outputs, denoise_file
from hyperdlw.pipeline import in_strips as running
from hyperdlw.pipeline.workers import Executor, Processes, open_executor
from hyperdlw.testbed import scenes

pytest.importorskip("distributed")
pytest.importorskip("zarr")

TILE, STRIPS = 5, 8


def note(book: Path, word: str, item: int) -> None:
    """Append a line; one write call, so that lines of several processes do not mix."""
    with open(book, "ab", buffering=0) as file:
        file.write(f"{word} {item} {os.getpid()}\n".encode())


def told(book: Path) -> list[list[str]]:
    return [line.split() for line in book.read_text().splitlines()] if book.exists() else []


def watched(function, book: Path, doomed: int | None, item: int):
    """The function; before item ``doomed`` ends for the first time its process is killed."""
    note(book, "begin", item)
    done = function(item)
    if item == doomed and not any(word == "die" for word, *_ in told(book)):
        # What this process did before must be known elsewhere, or it is lost with it.
        me, wait = str(os.getpid()), time.monotonic() + 30
        while time.monotonic() < wait:
            lines = told(book)
            ended = {i for word, i, pid in lines if (word, pid) == ("end", me)}
            if ended <= {i for word, i, _ in lines if word == "got"}:
                break
            time.sleep(0.01)
        note(book, "die", item)
        os.kill(os.getpid(), signal.SIGKILL)
    note(book, "end", item)
    return done


class Murderer:
    """Kills one worker in each of some passes, in the middle of a tile; keeps a book of each pass."""

    def __init__(self, work: Executor, folder: Path, passes: dict[str, int]) -> None:
        self.work, self.folder, self.passes = work, folder, passes
        self.books: dict[Path, list[int]] = {}

    def run(self, function, items):
        items = list(items)
        name = function.func.__name__ if isinstance(function, partial) else "other"
        book = self.folder / f"{len(self.books)}-{name}"
        self.books[book] = items
        doomed = self.passes.pop(name, None)
        for item, found in self.work.run(partial(watched, function, book, doomed), items):
            note(book, "got", item)
            yield item, found


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> Path:
    """Stored as integers, with nodata and a bad band."""
    rng = np.random.default_rng(4)
    clean = scenes.synthetic(5, 37, 12, rng=rng).data
    stored = np.clip(1e4 * (clean + 0.1 * rng.standard_normal(clean.shape)), 1, 9e3)
    stored[:, 5:8, 3] = 0
    cube = Cube.from_array(
        stored.astype(np.uint16), encoding=Encoding("uint16", "brc", 1e-4, nodata=0.0)
    )
    path = tmp_path_factory.mktemp("noisy") / "in.hdr"
    io.save_cube(replace(cube, good_bands=np.array([1, 1, 1, 0, 1], bool)), path)
    return path


def run(noisy: Path, target: Path, who: Murderer | None, model: str, weights: Path | None = None):
    with io.open_reader(noisy) as file:
        short = replace(models.build_model(model, file.shape).schedule, steps=2)
    with pytest.MonkeyPatch.context() as patch:
        if who is not None:
            patch.setattr(running, "open_executor", lambda *_: nullcontext(who))
        report = denoise_file(
            noisy,
            target,
            outputs=Outputs(None if weights is None else str(weights)),
            model=model,
            schedule=short,
            tile=TILE,
        )
    assert report.tiling["tiles"] == STRIPS
    return report


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("model", ["lrtfdfr", "tv"])
def test_a_dead_worker_costs_the_tiles_under_way(tmp_path, noisy, model):
    """ENVI to Zarr: one worker dies while it reads, one while it solves, one while it writes."""
    alone = run(noisy, tmp_path / "serial.zarr", None, model, tmp_path / "w.zarr")
    books = tmp_path / "books"
    books.mkdir()
    passes = {"copy_strip": 5, "update_strip": 4, "write_strip": 5}
    with open_executor(2) as work:
        who = Murderer(work, books, passes)
        shared = run(noisy, tmp_path / "cluster.zarr", who, model, tmp_path / "v.zarr")
    assert tree(tmp_path / "serial.zarr") == tree(tmp_path / "cluster.zarr")
    assert tree(tmp_path / "w.zarr") == tree(tmp_path / "v.zarr")
    assert alone.clipped_voxels == shared.clipped_voxels
    assert alone.down_weighted == shared.down_weighted
    # Every tile of every pass once, and once more those that were under way.
    assert not who.passes
    deaths = 0
    for book, items in who.books.items():
        lines = told(book)
        begun = Counter(int(i) for word, i, _ in lines if word == "begin")
        died = Counter(int(i) for word, i, _ in lines if word == "die")
        # The other process falls with the dead one.
        assert set(begun) == set(items), book.name
        assert begun.total() <= len(items) + 2 * died.total(), book.name
        deaths += sum(died.values())
    assert deaths == 3
    # Work was shared, and the shards are the strips.
    assert len({pid for book in who.books for _, _, pid in told(book) if _ != "got"}) > 2
    shards = {name for name in tree(tmp_path / "cluster.zarr") if "/c/" in name}
    assert shards == {f"cube/c/0/{i}/0" for i in range(STRIPS)}


def test_the_only_worker_dies(tmp_path, noisy):
    """It takes the function of the pass with it, which is then sent again."""
    books = tmp_path / "books"
    books.mkdir()
    run(noisy, tmp_path / "serial.npy", None, "nn")
    with open_executor(1) as work:
        run(noisy, tmp_path / "one.npy", Murderer(work, books, {"sum_strip": 4}), "nn")
    assert (tmp_path / "serial.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()


def listening(_: int) -> list[int]:
    """Ports on which this process listens."""
    import psutil

    held = psutil.Process().net_connections("inet")
    return [c.laddr.port for c in held if c.status == psutil.CONN_LISTEN]


def test_no_port_listens():
    """A Dask scheduler on the loopback runs the code of everybody who connects."""
    pytest.importorskip("psutil")
    before = listening(0)
    with open_executor(2) as work:
        assert isinstance(work, Processes)
        assert [ports for _, ports in work.run(listening, range(4))] == [[]] * 4
        assert listening(0) == before


def sees_ctrl_c(item: int) -> bool:
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_workers_never_see_ctrl_c():
    """Not even while they start: one that is importing would print a traceback."""
    with open_executor(2) as work:
        assert dict(work.run(sees_ctrl_c, [0, 1])) == {0: False, 1: False}
    assert sees_ctrl_c(0)


STOPPED_WHILE_STARTING = """
import os, signal
from multiprocessing import util
from hyperdlw.pipeline.workers import open_executor

def square(item):
    return item * item

if __name__ == "__main__":
    plain = util.spawnv_passfds

    def start(path, words, handles):
        child = plain(path, words, handles)
        os.kill(os.getpid(), signal.SIGTERM)  # before the child is told what to do
        return child

    with open_executor(2) as work:
        list(work.run(square, [0]))  # the process that counts semaphores runs
        work.close()
        util.spawnv_passfds = start
        list(work.run(square, range(4)))
    print("not stopped")
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="SIGTERM ends at once here")
def test_sigterm_while_workers_start_leaves_no_traceback(tmp_path):
    """A process whose parent is gone before it is told what to do would print one."""
    (tmp_path / "job.py").write_text(STOPPED_WHILE_STARTING)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "job.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # at its end when the workers are gone, too
        text=True,
    ) as job:
        said, _ = job.communicate(timeout=120)
    assert job.returncode == -signal.SIGTERM, said
    assert "Traceback" not in said
    assert "not stopped" not in said


def test_a_tile_that_always_kills_is_one_sentence():
    with open_executor(2) as work, pytest.raises(OutOfResources, match="brought several workers"):
        list(work.run(lambda i: os.kill(os.getpid(), signal.SIGKILL), [0]))


def test_strips_have_files_of_their_own(tmp_path):
    """Whatever their height; and what is sent to another process writes there."""
    cube = Cube.from_array(np.random.default_rng(1).random((3, 301, 20), np.float32))
    for strip in (7, 37, 64, 100, 127):
        path = tmp_path / f"{strip}.zarr"
        with io.open_writer(path, cube, strip=strip) as sink:
            assert (sink.shared, sink.tile[0]) == (True, strip)
            pen = pickle.loads(pickle.dumps(sink.pen))
            seen: set[str] = set()
            for top in range(0, 301, strip):
                rows = slice(top, min(top + strip, 301))
                pen.write(rows, slice(None), cube.data[:, rows])
                (stored,) = {
                    str(p.relative_to(pen.put.place[0]))
                    for p in pen.put.place[0].rglob("c/*/*/*")
                    if p.is_file()
                } - seen
                seen.add(stored)
        np.testing.assert_array_equal(io.open_cube(path).data, cube.data)


def test_without_zarr_it_is_said_before_the_work(tmp_path, monkeypatch):
    np.save(tmp_path / "in.npy", np.zeros((2, 3, 4)))
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hyperdlw\[scale\]'"):
        io.check_places([str(tmp_path / "out.zarr")], False, str(tmp_path / "in.npy"))


def test_no_scheduler_is_one_sentence():
    with pytest.raises(DlwError, match="no Dask scheduler"), open_executor(scheduler="nowhere"):
        pass
