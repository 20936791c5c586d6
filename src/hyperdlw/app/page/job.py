"""One job of the page, what there is to choose for it, and how far it is."""

from __future__ import annotations

import ctypes
import re
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, TypedDict, TypeGuard

from ...errors import BadOption, DlwError, unknown_name
from ...models import defaults
from ..listing import read_listing

Strength = float | Literal["auto"]
Progress = Literal["waiting", "weights", "preview", "solving", "done", "cancelled", "failed"]

STRENGTHS = (1e-3, 1e3)
MOST_RANK = 1000
MOST_PROTECTED = 32
REGION = re.compile(r"\d{1,9}:\d{1,9},\d{1,9}:\d{1,9}", re.ASCII)


class Busy(DlwError):
    """There is more to do already than the page takes on."""


class Stop(Exception):
    """Raised inside the solver to end a cancelled job."""


class Preset(TypedDict):
    """A choice in words, and the options it stands for."""

    words: str
    settings: dict[str, object]


class Choices(TypedDict):
    """What the registries offer for a cube: summaries by name, and the defaults.

    ``ranked`` names the models that take a rank, ``qualities`` how much time a run may take, where the
    pipeline offers that; ``protectable`` the files that were named when the program started.
    """

    models: dict[str, str]
    weights: dict[str, str]
    model: str
    weight: str
    ranked: list[str]
    qualities: list[str]
    presets: list[Preset]
    protectable: list[str]


def list_choices(bands: int, protectable: Sequence[str] = ()) -> Choices:
    """Models and weight sources that fit a cube of ``bands`` bands."""
    known = read_listing()
    fits = (None, bands)
    networks = {n: e["summary"] for n, e in known["networks"].items() if e["bands"] in fits}
    weights = networks | known["formulas"]
    models = {
        n: e["summary"]
        for n, e in known["models"].items()
        if e["kind"] == "model" and e["bands"] in fits
    }
    model = defaults.MODEL if defaults.MODEL in models else next(iter(models))
    weight = defaults.WEIGHTS if defaults.WEIGHTS in weights else next(iter(weights))
    return {
        "models": models,
        "weights": weights,
        "model": model,
        "weight": weight,
        "ranked": [n for n in models if "rank" in known["models"][n]["takes"]],
        "qualities": list(defaults.QUALITIES),
        "presets": list_presets(model, weight, "lrtfdfr" in models and "N+T+TS" in weights),
        "protectable": list(protectable),
    }


def list_presets(model: str, weight: str, paper: bool) -> list[Preset]:
    """What most people want, in words."""
    plain: dict[str, object] = {"model": model, "weights": weight}
    found: list[Preset] = [
        {"words": "Let the noise decide", "settings": {**plain, "strength": 1}},
        {"words": "Mild noise: keep every detail", "settings": {**plain, "strength": 0.5}},
        {"words": "Strong noise: smoother", "settings": {**plain, "strength": 2}},
        {
            "words": "Stripes and dead columns, gaps filled",
            "settings": {**plain, "strength": 1, "columns": True, "fill": True},
        },
        {
            "words": "Thin lines along the track: keep all columns",
            "settings": {**plain, "strength": 1, "columns": False},
        },
    ]
    if paper:
        settings = {"model": "lrtfdfr", "weights": "N+T+TS", "strength": 1, "paper": True}
        found.append({"words": "As in the paper", "settings": settings})
    return found


@dataclass(frozen=True)
class JobRequest:
    """What a job is to do; names come from the registries, never from the file system.

    The fields are the keywords of :func:`hyperdlw.denoise`, and mean the same.
    """

    model: str
    weights: str
    strength: Strength = 1.0
    rank: int | Literal["auto"] | None = None
    range: Literal["auto", "minmax"] | tuple[float, float] = "auto"
    columns: bool = True
    fill: bool = False
    paper: bool = False
    uncertainty: bool = False
    quality: str = defaults.NORMAL
    protect: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: object, choices: Choices) -> JobRequest:
        """Check what a browser sent."""
        if not isinstance(given, dict):
            raise BadOption("a job is an object with model, weights and strength")
        strange = [str(key)[:40] for key in given if key not in {f.name for f in fields(cls)}]
        if strange:
            raise unknown_name("option", strange[0], [f.name for f in fields(cls)])
        model, weights = given.get("model"), given.get("weights")
        if not isinstance(model, str) or model not in choices["models"]:
            raise unknown_name("model", str(model)[:40], choices["models"])
        if not isinstance(weights, str) or weights not in choices["weights"]:
            raise unknown_name("weight source", str(weights)[:40], choices["weights"])
        quality = given.get("quality", defaults.NORMAL)
        if not isinstance(quality, str) or quality not in choices["qualities"]:
            raise unknown_name("quality", str(quality)[:40], choices["qualities"])
        ranked = given.get("rank") is not None and model in choices["ranked"]
        return cls(
            model,
            weights,
            _parse_strength(given.get("strength", 1.0)),
            _parse_rank(given["rank"]) if ranked else None,
            _parse_range(given.get("range", "auto")),
            **{name: _parse_switch(name, given[name]) for name in SWITCHES if name in given},
            quality=quality,
            protect=_parse_protect(given.get("protect", []), choices["protectable"]),
        )

    @property
    def settings(self) -> dict[str, object]:
        """The keywords of ``denoise`` that are not what they are anyway."""
        always = ("model", "weights")
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name in always or getattr(self, f.name) != f.default
        }

    def write_command(self, source: str, target: str) -> str:
        """The same as a line for a shell."""
        words = ["hyperdlw", "denoise", source, target]
        for name, value in self.settings.items():
            if name == "uncertainty":
                words += ["--save-uncertainty", f"{Path(target).stem}-uncertainty.npz"]
            elif name == "columns":
                words.append("--keep-columns")
            elif name == "protect":
                words += [word for part in self.protect for word in ("--protect", part)]
            elif value is True:
                words.append(f"--{name}")
            else:
                pair = f"{value[0]:g},{value[1]:g}" if isinstance(value, tuple) else str(value)
                words += [f"--{name}", pair]
        return shlex.join(words)

    def write_python(self, source: str, target: str) -> str:
        """The same as two lines of Python."""
        settings = {**self.settings, **({"protect": [*self.protect]} if self.protect else {})}
        words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"result = hyperdlw.denoise({source!r}, {words})\nresult.save({target!r})"


SWITCHES = ("columns", "fill", "paper", "uncertainty")


def _is_number(value: object) -> TypeGuard[float]:
    """A finite number; JSON has no others, but Python's reader does."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -1e30 < value < 1e30  # a large integer fits no float
    )


def _parse_strength(value: object) -> Strength:
    low, high = STRENGTHS
    if value == "auto":
        return "auto"
    if not _is_number(value) or not low <= value <= high:
        raise BadOption(f"strength is a number from {low:g} to {high:g}, or auto")
    return float(value)


def _parse_rank(value: object) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if not _is_number(value) or value != int(value) or not 1 <= value <= MOST_RANK:
        raise BadOption(f"rank is a whole number from 1 to {MOST_RANK}, or auto")
    return int(value)


def _parse_range(value: object) -> Literal["auto", "minmax"] | tuple[float, float]:
    if value == "auto":
        return "auto"
    if value == "minmax":
        return "minmax"
    if isinstance(value, list) and len(value) == 2:
        low, high = value
        if _is_number(low) and _is_number(high) and low < high:
            return float(low), float(high)
    raise BadOption("range is auto, minmax or two numbers, the smaller one first")


def _parse_protect(value: object, known: Sequence[str]) -> tuple[str, ...]:
    """Regions such as "10:20,30:50", and files of the list: no path comes from a browser."""
    if not isinstance(value, list) or len(value) > MOST_PROTECTED:
        raise BadOption(f"protect is a list of at most {MOST_PROTECTED} regions and files")
    for part in value:
        if not isinstance(part, str) or not (part in known or REGION.fullmatch(part)):
            raise BadOption("what is protected is ROW:ROW,COL:COL or a file given with --protect")
    return tuple(value)


def _parse_switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadOption(f"{name} is true or false")
    return value


@dataclass
class PageJob:
    """One run: written by its thread, read by everyone."""

    number: int
    request: JobRequest
    progress: Progress = "waiting"
    step: int = 0
    steps: int | None = None
    begin: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    message: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    _inside: int | None = None
    _door: threading.Lock = field(default_factory=threading.Lock)

    @property
    def running(self) -> bool:
        return self.progress not in ("done", "cancelled", "failed")

    @property
    def ending(self) -> bool:
        """Cancelled, and in an operation that has to come to its end."""
        return self.running and self.stop.is_set()

    def enter(self, progress: Progress, steps: int | None = None) -> None:
        if self.stop.is_set():
            raise Stop
        self.progress, self.step, self.steps = progress, 0, steps

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Work that :meth:`interrupt` may end between any two lines of Python."""
        with self._door:
            if self.stop.is_set():
                raise Stop
            self._inside = threading.get_ident()
        try:
            yield
        finally:
            with self._door:
                self._inside = None

    def interrupt(self) -> None:
        """Raise :class:`Stop` in the thread of the job, which need not come to a step for that.

        Before its first step a run measures noise and limits for a long time, and asks nobody.
        """
        self.stop.set()
        with self._door:
            if self._inside is not None:
                raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
                raise_in(ctypes.c_ulong(self._inside), ctypes.py_object(Stop))

    def tick(self) -> None:
        if self.stop.is_set():
            raise Stop
        self.step += 1

    def as_dict(self) -> dict[str, object]:
        """For the page, to which a cancelled job has ended, even if its last operation goes on."""
        names = ("number", "progress", "running", "step", "steps", "message")
        seconds = time.monotonic() - self.begin if self.running else self.seconds
        state = {name: getattr(self, name) for name in names}
        state["ending"] = self.ending
        if self.ending:
            state |= {"progress": "cancelled", "running": False}
        return {**asdict(self.request), **state, "seconds": round(seconds, 2)}
