"""The desk of the page: the cubes that may be opened, and the one that lies there.

The list is made when the program starts. A browser sends the number of an entry, never a path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .job import Busy
from .session import Absent, Session


@dataclass(frozen=True)
class Listed:
    """A cube to choose: a file, and the variable where it has several.

    Attributes:
        name: what the page shows.
        open: reads it.
    """

    name: str
    open: Callable[[], Session]


class Desk:
    """One session at a time, out of a fixed list.

    Args:
        session: what lies there first.
        listed: what there is to choose from; empty where there is one cube only.
        number: which of them ``session`` is.
    """

    def __init__(self, session: Session, listed: Sequence[Listed] = (), number: int = 0) -> None:
        self.session = session
        self.listed = tuple(listed)
        self.number = number
        self._lock = threading.Lock()

    def facts(self) -> dict[str, object]:
        """What there is to choose from, and what is chosen."""
        return {"files": [entry.name for entry in self.listed], "file": self.number}

    def open(self, number: int) -> None:
        """Put another cube on the desk; runs of the one before are stopped."""
        if not 0 <= number < len(self.listed):
            raise Absent("there is no such file in the list")
        if not self._lock.acquire(blocking=False):
            raise Busy("another file is being opened")
        try:
            if self.session.closing:
                raise Busy("the program is closing")
            fresh = self.listed[number].open()
            before, self.session, self.number = self.session, fresh, number
            before.end()
        finally:
            self._lock.release()

    def end(self) -> None:
        """Take no more jobs, and ask everything that runs to stop."""
        self.session.end()

    def close(self) -> None:
        """Stop the job and wait for its thread."""
        self.session.close()
