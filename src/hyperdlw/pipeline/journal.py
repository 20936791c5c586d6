"""What a large run keeps on disk: arrays that are read by windows, and a journal of finished work.

Everything lies in one hidden folder beside the output, ``.<name>.hyperdlw``: raw arrays, one file per
finished tile, and ``journal``. A killed run that is started again with the same input and options
finds there what is done already; another input or other options start anew. The folder goes when
the output is complete. A run survives the end of its process, not that of the machine (the data
are not synced): after a restart it starts anew.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import hashlib
import json
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

import torch

from ..errors import BadFile, DlwError, MissingDependency, OutOfResources
from ..io import check_disk, format_size
from ..solver import DiskArray, damaged_scratch

Watch = Callable[[str, int, int], None]
"""(stage, finished items, items)."""

Task = Callable[[int], Any]
Results = Iterator[tuple[int, Any]]


class Executor(Protocol):
    """Calls a function with every item, here or elsewhere; yields (item, result) as they come."""

    def run(self, function: Task, items: Iterable[int]) -> Results: ...


class Serial:
    """One after the other, in this process."""

    def run(self, function: Task, items: Iterable[int]) -> Results:
        for item in items:
            yield item, released(function, item)


def released(function: Task, item: int) -> Any:
    """function(item), and then give back the memory it took.

    A problem and its functions refer to each other, so that only the collector ends them, and the C
    library keeps what was freed. Telling it to trim after every small item would cost too much.
    """
    try:
        return function(item)
    finally:
        gc.collect(1)
        now = time.monotonic()
        if now - _last_trim[0] > 1.0:
            _last_trim[0] = now
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)


_last_trim = [-math.inf]
"""When this process gave memory back, in seconds."""


@dataclass
class Journal:
    """Does work and remembers it: results of finished items, one line of JSON each, with a checksum.

    The first line is the key of the run. A line that was cut off when the process died is not there.

    Attributes:
        folder: where the arrays are.
        done: results of finished items, by stage; ``resumed``: how many an earlier run had done.
        fresh: whether this run did any itself.
        watch: told of every finished item.
        round: put behind the names of stages, from the second one on.
    """

    folder: Path
    file: IO[bytes]
    done: dict[str, dict[int, Any]]
    fresh: bool = False
    executor: Executor = field(default_factory=Serial)
    watch: Watch | None = None
    round: int = 0

    def __post_init__(self) -> None:
        self.resumed = sum(len(d) for d in self.done.values())

    def map(
        self,
        stage: str,
        function: Task,
        items: Sequence[int],
        makes: Sequence[DiskArray] = (),
        here: bool = False,
    ) -> list[Any]:
        """[function(i) for i in items], where finished items are not computed again.

        Results must be what JSON holds.

        Args:
            makes: arrays that the function writes.
            here: in this process.
        """
        name = f"{stage} (round {self.round + 1})" if self.round else stage
        found = self.done.setdefault(name, {})
        missing = [i for i in items if i not in found]
        self.fresh |= bool(missing)
        for array in makes if missing else ():
            if found and not array.path.exists():
                raise damaged_scratch(self.folder)
            array.make()
        for item, result in (Serial() if here else self.executor).run(function, missing):
            line = journal_line({"stage": name, "item": item, "result": result})
            self.file.write(line)
            self.file.flush()
            # As the next run would read it: numbers and lists, not NumPy's or tuples.
            found[item] = json.loads(line[9:])["result"]
            if self.watch is not None:
                self.watch(name, len(found), len(items))
        return [found[i] for i in items]

    def resuming(self) -> bool:
        """Whether everything so far was done by an earlier run."""
        return not self.fresh


def journal_line(entry: dict[str, Any]) -> bytes:
    """
    >>> journal_line({"key": "a"})
    b'8a3bca2d {"key": "a"}\\n'
    """
    body = json.dumps(entry).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_journal(raw: bytes) -> tuple[str | None, dict[str, dict[int, Any]], int]:
    """Key, finished items by stage, and how many bytes of the journal are whole lines.

    There is no key, and nothing is finished, if any line but an unfinished last one is damaged.

    >>> raw = journal_line({"key": "a"}) + journal_line({"stage": "s", "item": 0, "result": 1})
    >>> read_journal(raw + b'12345678 {"sta')[:2]
    ('a', {'s': {0: 1}})
    """
    done: dict[str, dict[int, Any]] = {}
    key, whole = None, 0
    for line in raw.split(b"\n")[:-1]:
        try:
            if int(line[:8], 16) != zlib.crc32(line[9:]):
                return None, {}, 0
            entry = json.loads(line[9:])
            if key is None:
                key = str(entry["key"])
            else:
                done.setdefault(str(entry["stage"]), {})[int(entry["item"])] = entry["result"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, {}, 0
        whole += len(line) + 1
    return key, done, whole


def key_of(facts: Any) -> str:
    """A hash of everything that decides the numbers."""
    text = json.dumps(facts, sort_keys=True, default=str)
    with suppress(OSError):  # which start of the machine this is
        text += Path("/proc/sys/kernel/random/boot_id").read_text()
    return hashlib.sha256(text.encode()).hexdigest()


def folder_of(target: str | os.PathLike[str]) -> Path:
    """Where the run for an output keeps its files."""
    path = Path(os.path.realpath(target))
    return path.with_name(f".{path.name}.hyperdlw")


@contextmanager
def open_journal(folder: Path, key: str, needed: int) -> Iterator[Journal]:
    """The folder of a run and its journal; removed at the end or by Ctrl-C, else kept.

    What an earlier run with another key left is thrown away; ``needed`` are bytes on disk.
    """
    folder.mkdir(exist_ok=True)
    with open(folder / "journal", "ab+", buffering=0) as file:
        _lock(file, folder)
        file.seek(0)
        found, done, whole = read_journal(file.read())
        if found == key:
            file.truncate(whole)
        else:
            for entry in folder.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry.name != "journal":
                    entry.unlink()
            file.truncate(0)
            done = {}
            check_disk(folder, f"the scratch folder {folder}", needed)
            file.write(journal_line({"key": key}))
        try:
            yield Journal(folder, file, done)
        except KeyboardInterrupt:
            # Whoever stops a run by hand wants no gigabytes left; a killed one is resumed.
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OutOfResources(
                    f"the disk is full ({folder}, about {format_size(needed)} needed); make room, and the "
                    "same command goes on"
                ) from error
            missing = isinstance(error, FileNotFoundError) and error.filename
            if missing and Path(os.fspath(missing)).is_relative_to(folder):
                raise damaged_scratch(folder) from error
            raise
    shutil.rmtree(folder, ignore_errors=True)


def _lock(file: IO[bytes], folder: Path) -> None:
    """One process per output; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BadFile(
            f"another process is working on this output ({folder}); wait for it to end"
        ) from error


# --- workers: this process, processes of this machine, or a Dask cluster

RETRIES = 3
"""How often a tile is tried again when its worker dies."""


@dataclass(frozen=True)
class Dask:
    """A Dask cluster. All workers must see the scratch folder and the input under the same names.

    A worker that dies costs the tiles it was working on: what it had finished is forgotten by the
    cluster as soon as it is known here, and the files it wrote stay.
    """

    client: Any

    def run(self, function: Task, items: Iterable[int]) -> Results:
        waiting = list(items)
        for _ in range(RETRIES):
            for item, result in self._tried(function, waiting):
                waiting.remove(item)
                yield item, result
            if not waiting:
                return
        raise _brought_down()

    def _tried(self, function: Task, items: Sequence[int]) -> Results:
        """The same, without the items whose function was lost with all the workers that had it."""
        if not items:
            return
        distributed: Any = import_module("distributed")
        try:
            (held,) = self.client.scatter([function], broadcast=True, hash=False)
        except OSError:  # a worker went away meanwhile, or there is none at the moment
            return
        tasks = {self.client.submit(_call, held, i, pure=False, retries=RETRIES): i for i in items}
        try:
            for future in distributed.as_completed(list(tasks)):
                item = tasks.pop(future)
                try:
                    result = future.result()
                except CancelledError:
                    continue
                except Exception as error:
                    if type(error).__name__ == "KilledWorker":
                        raise _brought_down() from error
                    raise
                # The cluster computes again whatever is lost and wanted: this is wanted no longer.
                future.release()
                yield item, result
        finally:
            self.client.cancel(list(tasks))


def _call(function: Task, item: int) -> Any:
    torch.set_num_threads(1)
    return released(function, item)


def _brought_down() -> OutOfResources:
    return OutOfResources(
        "a tile brought several workers down, most likely by its memory; "
        "give a smaller --memory or fewer --workers"
    )


@contextmanager
def open_executor(workers: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """The executor for ``--workers`` and ``--scheduler``; serial without them."""
    if workers is None and scheduler is None:
        yield Serial()
        return
    try:
        dask: Any = import_module("dask")
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingDependency(
            "workers need extra packages; install them with: pip install 'hyperdlw[scale]'"
        ) from error
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise DlwError(
                f"there is no Dask scheduler at {scheduler}; check the address"
            ) from error
        with client:
            yield Dask(client)
        return
    with (
        # On a busy machine the successor of a dead process may take a while to start.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield Dask(client)
