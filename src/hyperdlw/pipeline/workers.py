"""Who works on the tiles: this process, processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import DlwError, MissingDependency, OutOfResources
from .journal import Executor, Results, Serial, Task, released

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
    import torch

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
