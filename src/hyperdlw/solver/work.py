"""Who does the work on an image on disk: anything that maps a function over strips or bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .disk_array import DiskArray


class Work(Protocol):
    """Does and remembers work (see :class:`hyperdlw.pipeline.journal.Work`)."""

    def map(
        self,
        stage: str,
        function: Callable[[int], Any],
        items: Sequence[int],
        makes: Sequence[DiskArray] = (),
        here: bool = False,
    ) -> list[Any]:
        """The results for all items; those that are finished are not computed again."""

    def resuming(self) -> bool:
        """Whether everything so far was done by an earlier run."""
