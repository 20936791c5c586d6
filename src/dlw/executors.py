"""Who works on the tiles: this process, processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import DlwError, MissingDependency, OutOfResources
from .scratch import Executor, Serial, released

RETRIES = 3
"""How often a tile is tried again when its worker dies."""


@dataclass(frozen=True)
class Dask:
    """A Dask cluster. All workers must see the scratch folder and the input under the same names."""

    client: Any

    def run(
        self, function: Callable[[int], Any], items: Iterable[int]
    ) -> Iterator[tuple[int, Any]]:
        from distributed import as_completed as finished

        as_completed: Any = finished

        waiting = list(items)
        if not waiting:
            return
        (held,) = self.client.scatter([function], broadcast=True, hash=False)
        tasks = {
            self.client.submit(_call, held, i, pure=False, retries=RETRIES): i for i in waiting
        }
        try:
            for future in as_completed(tasks):
                yield tasks[future], _result(future)
        finally:
            self.client.cancel(list(tasks))


def _call(function: Callable[[int], Any], item: int) -> Any:
    import torch

    torch.set_num_threads(1)
    return released(function, item)


def _result(future: Any) -> Any:
    try:
        return future.result()
    except DlwError:
        raise
    except Exception as error:
        if type(error).__name__ in ("KilledWorker", "CancelledError"):
            raise OutOfResources(
                "a tile brought several workers down, most likely by its memory; "
                "give a smaller --memory or fewer --workers"
            ) from error
        raise


@contextmanager
def executor(workers: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """The executor for ``--workers`` and ``--scheduler``; serial without them."""
    if workers is None and scheduler is None:
        yield Serial()
        return
    try:
        import distributed
    except ImportError as error:
        raise MissingDependency(
            "workers need extra packages; install them with: pip install 'dlw[scale]'"
        ) from error
    Client: Any = distributed.Client
    LocalCluster: Any = distributed.LocalCluster
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise DlwError(
                f"there is no Dask scheduler at {scheduler}; check the address"
            ) from error
        with client:
            yield Dask(client)
        return
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield Dask(client)
