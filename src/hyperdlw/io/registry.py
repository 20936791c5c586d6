"""One registry for everything users choose by name: models, weight sources, formats, noises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from ..errors import BadOption, unknown_name


@dataclass(frozen=True)
class Entry:
    """One choice.

    Attributes:
        build: makes it.
        kind: the sort it belongs to, such as "model" or "published method".
        takes: the options it understands.
    """

    name: str
    build: Callable[..., Any]
    kind: str
    takes: frozenset[str] = frozenset()


E = TypeVar("E", bound=Entry)


@cache
def scan_entry_points(group: str) -> dict[str, EntryPoint]:
    """What installed packages offer, by name; packages are scanned once per process."""
    return {point.name: point for point in entry_points(group=group)}


class Registry(Mapping[str, E]):
    """Entries by name: the built-in ones, then those of installed packages.

    Args:
        what: the word for one entry in messages, such as "model".
        group: the entry points of other packages, such as "hyperdlw.models".
        built_in: what is known without them.
        make: (name, what was given or loaded) -> entry.
    """

    def __init__(
        self, what: str, group: str, built_in: Mapping[str, Any], make: Callable[[str, Any], E]
    ) -> None:
        self.what, self.group, self.built_in, self.make = what, group, built_in, make
        self._made: dict[str, E] = {}
        self._points: dict[str, EntryPoint] = {}

    def __getitem__(self, name: str) -> E:
        points = scan_entry_points(self.group)
        if points is not self._points:  # packages were scanned again
            self._points, self._made = points, {}
        if name not in self._made:
            if name in self.built_in:
                given = self.built_in[name]
            elif name in points:
                given = self._load(points[name])
            else:
                raise KeyError(name)
            self._made[name] = self.make(name, given)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in scan_entry_points(self.group) if name not in self.built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in scan_entry_points(self.group)

    def find(self, name: str) -> E:
        """The entry of a name, or one sentence that lists what there is."""
        if name not in self:
            raise unknown_name(self.what, name, list(self))
        return self[name]

    def _load(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except Exception as error:
            raise BadOption(
                f"the {self.what} '{point.name}' of another package cannot be loaded "
                f"({point.value}: {type(error).__name__}: {error}); mend or remove that package"
            ) from error
