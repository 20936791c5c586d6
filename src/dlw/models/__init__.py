"""The registry of models: a name, and a function (shape, strength, ...) -> Model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

from ..errors import BadOption, unknown_name
from ..solver import Model
from . import nn, tv, tvs


class Build(Protocol):
    """(band, row, col) and a strength (1 = the published setting, larger = smoother) -> Model."""

    def __call__(self, shape: Sequence[int], strength: float = 1.0) -> Model: ...


@dataclass(frozen=True)
class Entry:
    name: str
    build: Build
    summary: str


def _entry(name: str, build: Any) -> Entry:
    return Entry(name, build, (build.__doc__ or "").strip().splitlines()[0])


_BUILT_IN: dict[str, Build] = {"nn": nn.build, "tv": tv.build, "tvs": tvs.build}


def registry() -> dict[str, Entry]:
    """Every model by name: the built-in ones, then those of installed packages (entry point dlw.models)."""
    found = {name: _entry(name, build) for name, build in _BUILT_IN.items()}
    for point in entry_points(group="dlw.models"):
        found.setdefault(point.name, _entry(point.name, point.load()))
    return found


def build(name: str, shape: Sequence[int], strength: float = 1.0) -> Model:
    """The model ``name`` for images of ``shape`` (..., band, row, col).

    >>> build("tv", (31, 64, 64)).schedule.steps
    20
    """
    entries = registry()
    if name not in entries:
        raise unknown_name("model", name, entries)
    if not strength > 0:
        raise BadOption(f"strength must be positive (1 is the published setting), not {strength}")
    return entries[name].build(tuple(shape[-3:]), strength)
