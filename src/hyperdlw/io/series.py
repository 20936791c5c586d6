"""Series: an array of four axes is a cube for every time, and ``x[2]`` names the third of them.

The name of a cube is what NumPy would cut out of the array: ``x[2]`` along the first axis, ``x[:,2]`` along
the second, ``x[...,2]`` along the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .checks import is_real
from .reader import Stored

if TYPE_CHECKING:
    from .named_arrays import Load, Variable

MEMBER = re.compile(r"(?P<name>.*)\[(?P<before>(:,){0,3}|\.\.\.,)(?P<number>[0-9]{1,6})\]")
TIME = re.compile(r"^t$|time|date|epoch|frame")
"""Names of the axis along which the cubes lie."""
MOST = 2000
"""Cubes of a believable series."""


@dataclass(frozen=True)
class Member:
    """One cube of a series: the array, and the axis and number at which it is cut."""

    name: str
    axis: int
    number: int

    @property
    def key(self) -> str:
        before = "...," if self.axis == 3 else ":," * self.axis
        return f"{self.name}[{before}{self.number}]"

    def place(self, index: tuple[slice, ...] = (slice(None),) * 3) -> tuple[slice | int, ...]:
        """Where a window of the cube is in the whole array."""
        return (*index[: self.axis], self.number, *index[self.axis :])


def find_member(key: str | None) -> Member | None:
    """The cube that a key names, if it is one of a series.

    >>> find_member("a/x[:,2]"), find_member("x[...,0]").axis, find_member("x")
    (Member(name='a/x', axis=1, number=2), 3, None)
    """
    found = MEMBER.fullmatch(key or "")
    if found is None:
        return None
    axis = 3 if found["before"].startswith(".") else len(found["before"]) // 2
    return Member(found["name"], axis, int(found["number"]))


def list_members(
    variables: Mapping[str, Variable],
    key: str | None = None,
    dimensions: Mapping[str, Sequence[str]] | None = None,
    last: bool = False,
) -> dict[str, Member]:
    """The cubes of all series of a file, by key.

    An array of four axes is one if it is larger than any of three; the axis is the one that is called
    time, or else the first one, or the last where that is the habit (MATLAB). ``key`` may name another.
    """
    cubes = [math.prod(v.shape) for v in variables.values() if v.is_candidate]
    asked = find_member(key)
    found: dict[str, Member] = {}
    for name, variable in variables.items():
        if len(variable.shape) != 4 or not is_real(variable.dtype):
            continue
        if asked is not None and asked.name == name and asked.number < variable.shape[asked.axis]:
            return {asked.key: asked}
        if key != name and math.prod(variable.shape) <= max(cubes, default=0):
            continue
        names = (dimensions or {}).get(name, ())
        times = [i for i, word in enumerate(names) if TIME.search(word.lower())]
        axis = times[0] if len(times) == 1 else 3 if last else 0
        if variable.shape[axis] <= MOST:
            each = (Member(name, axis, i) for i in range(variable.shape[axis]))
            found |= {member.key: member for member in each}
    return found


def add_members(
    variables: Mapping[str, Variable], members: Mapping[str, Member]
) -> dict[str, Variable]:
    """The variables with cubes in the place of the series."""
    series = {member.name for member in members.values()}
    kept = {name: v for name, v in variables.items() if name not in series}
    for key, member in members.items():
        whole = variables[member.name]
        shape = (*whole.shape[: member.axis], *whole.shape[member.axis + 1 :])
        kept[key] = replace(whole, shape=shape)
    return kept


def load_members(load: Load, members: Mapping[str, Member]) -> Load:
    """A function that reads variables and cubes of series."""

    def load_any(name: str) -> Stored:
        member = members.get(name)
        return load(name) if member is None else load(member.name)[member.place()]

    return load_any


def fill_member(load: Load, key: str | None, stored: Stored) -> tuple[str, Stored]:
    """The array to write and its name: a cube of a series is put into the whole."""
    member = find_member(key)
    if member is None:
        return key or "", stored
    whole = np.array(load(member.name))
    whole[member.place()] = stored
    return member.name, whole


class Sliceable(Protocol):
    """An array of a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, index: tuple[slice | int, ...]) -> Stored: ...
    def __setitem__(self, index: tuple[slice | int, ...], values: Stored) -> None: ...


@dataclass(frozen=True)
class MemberView:
    """A cube of a series as an array that is sliced and filled."""

    whole: Sliceable
    member: Member

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for i, n in enumerate(self.whole.shape) if i != self.member.axis)

    def __getitem__(self, index: tuple[slice, ...]) -> Stored:
        return np.asarray(self.whole[self.member.place(index)])

    def __setitem__(self, index: tuple[slice, ...], values: Stored) -> None:
        self.whole[self.member.place(index)] = values


def view_member(whole: Sliceable, key: str) -> Sliceable | MemberView:
    """The cube of a series that a key names, or the array itself."""
    member = find_member(key) if len(whole.shape) == 4 else None
    return whole if member is None else MemberView(whole, member)


def name_array(key: str) -> str:
    """The name of the array that a key is about."""
    member = find_member(key)
    return key if member is None else member.name
