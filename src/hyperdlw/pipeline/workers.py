"""Who works on strips and bands: this process, processes of this machine, or a Dask cluster."""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

import torch

from ..errors import DlwError, MissingDependency, OutOfResources

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


RETRIES = 3
"""How often a tile is tried again when its worker dies."""


class Processes:
    """Processes of this machine, reached through pipes: no port listens.

    A process that dies takes the others with it; tiles that were under way are done again.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool: ProcessPoolExecutor | None = None

    def run(self, function: Task, items: Iterable[int]) -> Results:
        # Functions hold models, whose penalties are closures: plain pickle cannot send those.
        sent = import_module("cloudpickle").dumps(function)
        waiting = list(items)
        for _ in range(RETRIES + 1):
            for item, result in self._tried(sent, waiting):
                waiting.remove(item)
                yield item, result
            if not waiting:
                return
        raise _brought_down()

    def _tried(self, sent: bytes, items: Sequence[int]) -> Results:
        """The same, without the items that were lost with a process."""
        if self.pool is None:
            spawn = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(self.count, spawn, _begin_worker)
        tasks: dict[Future[Any], int] = {}
        with hold_signals(), suppress(BrokenProcessPool):
            for item in items:
                tasks[self.pool.submit(_call_sent, sent, item)] = item
        for future in as_completed(tasks):
            try:
                result = future.result()
            except BrokenProcessPool:
                continue
            yield tasks.pop(future), result
        if tasks:
            self.close()

    def close(self) -> None:
        """End the processes, at once: whoever closes waits for nothing any more."""
        if self.pool is not None:
            for process in list((getattr(self.pool, "_processes", None) or {}).values()):
                process.terminate()
            self.pool.shutdown(cancel_futures=True)
        self.pool = None


@contextmanager
def hold_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end; processes that are started meanwhile never see Ctrl-C.

    A terminal sends it to them, too, and one that is still importing would print where it was; so
    would one whose parent ends before it has told it what to do.
    """
    came: list[int] = []
    mask = getattr(signal, "pthread_sigmask", None)  # inherited by the processes
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    old: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        # Another thread, such as one of a library for matrices, has another mask and would catch them.
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not None:
                old[number] = signal.signal(number, lambda found, _: came.append(found))
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        if mask:
            mask(signal.SIG_SETMASK, before)
        for caught in came[:1]:
            signal.raise_signal(caught)


def _call_sent(sent: bytes, item: int) -> Any:
    return _call(_unpack(sent), item)


@lru_cache(1)
def _unpack(sent: bytes) -> Task:
    function: Task = import_module("cloudpickle").loads(sent)
    return function


def _begin_worker() -> None:
    """A worker leaves Ctrl-C to its parent, and ends with it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


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
        import_module("cloudpickle")
        distributed: Any = None if scheduler is None else import_module("distributed")
    except ImportError as error:
        raise MissingDependency(
            "workers need extra packages; install them with: pip install 'hyperdlw[scale]'"
        ) from error
    if scheduler is None:
        with closing(Processes(workers or 1)) as pool:
            yield pool
        return
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise DlwError(f"there is no Dask scheduler at {scheduler}; check the address") from error
    with client:
        yield Dask(client)
