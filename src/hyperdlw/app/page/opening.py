"""From paths to cubes on the desk: which there are, and how one is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ...errors import DlwError
from ...io import ReadOptions, check_save, describe_file, open_cube
from .desk import Listed
from .session import Session, check_memory


@dataclass(frozen=True)
class Opening:
    """How cubes are opened: what files do not tell, where ``Save`` writes, what may be protected."""

    reading: ReadOptions
    target: str | None = None
    overwrite: bool = False
    protectable: Sequence[str] = ()
    device: str = "cpu"

    def open(self, path: str, key: str | None) -> Session:
        """Read a cube, unless it would fill the machine."""
        reading = asdict(replace(self.reading, key=key))
        shape = describe_file(path, **reading)["shape"]
        if shape is not None:
            check_memory(shape, path)
        cube = open_cube(path, **reading)
        if self.target is not None:
            check_save(self.target, cube)
        place = None if self.target is None else Path(self.target)
        more = (self.overwrite, self.protectable, self.device)
        return Session(cube, Path(path).name, place, *more)


def list_cubes(paths: Sequence[str], opening: Opening) -> list[Listed]:
    """An entry for every cube: of a file with several variables one for each, the given one first."""
    found = []
    for path in paths:
        for key in _list_keys(path, opening.reading):
            name = Path(path).name if key is None else f"{Path(path).name}: {key}"
            found.append(Listed(name, partial(opening.open, path, key or opening.reading.key)))
    return found


def _list_keys(path: str, reading: ReadOptions) -> Sequence[str | None]:
    """The variables of a file that could be cubes; None where there is nothing to choose."""
    try:
        facts = describe_file(path, **asdict(reading))
    except DlwError:
        return (None,)  # opening it says what is wrong
    names = [name for name, about in facts["variables"].items() if about.split()[0].count("x") == 2]
    if len(names) < 2:
        return (None,)
    chosen = facts["key"]
    return sorted(names, key=lambda name: name != chosen)
