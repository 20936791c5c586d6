"""The registry of models: a name, and functions (shape, strength, ...) -> Model.

``build`` is the weighted version, for every kind of weights; ``original`` the published one with its own
data term and parameters, where there is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from ..errors import BadOption, unknown_name
from ..solver import Model
from . import ctv, dip, e3dtv, lrtfdfr, lrtv, nn, pnp, svtv, tv, tvs
from .denoisers.catalogue import Spec

Build = Callable[..., Model]
"""(band, row, col) and a strength (1 = the published setting, larger = smoother) -> Model.

A model with a rank takes the keyword ``rank``, an int or None (the published value)."""


@dataclass(frozen=True)
class Entry:
    """A model: how it is built, and what it takes.

    Attributes:
        build: the weighted version.
        original: the published version, or None.
        summary: what it says about a clean image, in one line.
        takes_rank, takes_denoiser: whether ``build`` has the keyword ``rank``, ``denoiser``.
        bands: the only number of bands it is for, or None.
    """

    name: str
    build: Build
    original: Build | None
    summary: str
    takes_rank: bool
    takes_denoiser: bool
    bands: int | None


def _entry(name: str, given: Any) -> Entry:
    """An entry from a build function, or from a module with ``build``, ``original`` and ``BANDS``."""
    module = isinstance(given, ModuleType)
    build: Build = given.build if module else given
    return Entry(
        name,
        build,
        getattr(given, "original", None),
        ((build.__doc__ or "").strip().splitlines() or [""])[0],
        "rank" in inspect.signature(build).parameters,
        "denoiser" in inspect.signature(build).parameters,
        getattr(given, "BANDS", None),
    )


_BUILT_IN: dict[str, Any] = {
    "nn": nn,
    "tv": tv,
    "tvs": tvs,
    "lrtv": lrtv,
    "e3dtv": e3dtv,
    "lrtfdfr": lrtfdfr,
    "ctv": ctv,
    "svtv": svtv,
    "pnp": pnp,
    "pnp-hqs": pnp.build_hqs,
    "dip": dip,
}


def registry() -> dict[str, Entry]:
    """Every model by name: ours, then those of installed packages (entry point hyperdlw.models)."""
    found = {name: _entry(name, module) for name, module in _BUILT_IN.items()}
    for point in entry_points(group="hyperdlw.models"):
        if point.name not in found:
            found[point.name] = _entry(point.name, point.load())
    return found


def build(
    name: str,
    shape: Sequence[int],
    strength: float = 1.0,
    *,
    original: bool = False,
    rank: int | None = None,
    denoiser: Spec | None = None,
) -> Model:
    """The model ``name`` for images of ``shape`` (..., band, row, col).

    Args:
        original: the published version with its own data term, to be used with w = 1.
        rank: for models that have one; None is the published value.
        denoiser: for models that use one; None is the shipped one.

    >>> build("tv", (31, 64, 64)).schedule.steps
    20
    >>> build("lrtv", (31, 64, 64), original=True).fidelity.name
    'l1'
    """
    entry = find(name, original=original, rank=rank, denoiser=denoiser)
    if not strength > 0:
        raise BadOption(f"strength must be positive (1 is the published setting), not {strength}")
    shape = tuple(shape[-3:])
    if entry.bands not in (None, shape[0]):
        raise BadOption(f"the model '{name}' is for {entry.bands} bands, and there are {shape[0]}")
    make = entry.original if original else entry.build
    assert make is not None
    if rank is not None and rank > shape[0]:
        raise BadOption(f"a rank of {rank} is more than the {shape[0]} bands there are")
    chosen = {"rank": rank, "denoiser": denoiser}
    return make(shape, strength, **{k: v for k, v in chosen.items() if v is not None})


def find(
    name: str,
    *,
    original: bool = False,
    rank: int | str | None = None,
    denoiser: Spec | None = None,
) -> Entry:
    """The entry of a model, after checking that it has what is asked for."""
    entries = registry()
    if name not in entries:
        raise unknown_name("model", name, entries)
    entry = entries[name]
    if original and entry.original is None:
        have = ", ".join(e.name for e in entries.values() if e.original is not None)
        raise BadOption(
            f"the model '{name}' has no original version; use weights 'uniform', or one of {have}"
        )
    if rank is not None and not entry.takes_rank:
        have = ", ".join(e.name for e in entries.values() if e.takes_rank)
        raise BadOption(f"the model '{name}' has no rank to choose (models that have: {have})")
    if denoiser is not None and not entry.takes_denoiser:
        have = ", ".join(e.name for e in entries.values() if e.takes_denoiser)
        raise BadOption(f"the model '{name}' has no denoiser to choose (models that have: {have})")
    if isinstance(rank, str) and rank != "auto":
        raise BadOption(f"rank must be a whole number or 'auto', not '{rank}'")
    if isinstance(rank, int) and rank < 1:
        raise BadOption(f"rank must be at least 1, not {rank}")
    return entry
