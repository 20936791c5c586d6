"""One job of the page, what there is to choose for it, and how far it is."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Literal, TypedDict

from ...errors import BadOption, DlwError, unknown_name
from ...models import defaults
from ..listing import read_listing

Strength = float | Literal["auto"]
Progress = Literal["waiting", "weights", "preview", "solving", "done", "cancelled", "failed"]

STRENGTHS = (1e-3, 1e3)


class Busy(DlwError):
    """Another job is running."""


class Stop(Exception):
    """Raised inside the solver to end a cancelled job."""


class Choices(TypedDict):
    """What the registries offer for a cube: summaries by name, and the defaults."""

    models: dict[str, str]
    weights: dict[str, str]
    model: str
    weight: str


def list_choices(bands: int) -> Choices:
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
    return {
        "models": models,
        "weights": weights,
        "model": defaults.MODEL if defaults.MODEL in models else next(iter(models)),
        "weight": defaults.WEIGHTS if defaults.WEIGHTS in weights else next(iter(weights)),
    }


@dataclass(frozen=True)
class JobRequest:
    """What a job is to do; names come from the registries, never from the file system."""

    model: str
    weights: str
    strength: Strength = 1.0

    @classmethod
    def parse(cls, given: object, choices: Choices) -> JobRequest:
        """Check what a browser sent."""
        if not isinstance(given, dict):
            raise BadOption("a job is an object with model, weights and strength")
        model, weights = given.get("model"), given.get("weights")
        strength = given.get("strength", 1.0)
        if not isinstance(model, str) or model not in choices["models"]:
            raise unknown_name("model", str(model)[:40], choices["models"])
        if not isinstance(weights, str) or weights not in choices["weights"]:
            raise unknown_name("weight source", str(weights)[:40], choices["weights"])
        if strength == "auto":
            return cls(model, weights, "auto")
        low, high = STRENGTHS
        if (
            not isinstance(strength, int | float)
            or isinstance(strength, bool)
            or not low <= strength <= high  # a large integer fits no float
        ):
            raise BadOption(f"strength is a number from {low:g} to {high:g}, or auto")
        return cls(model, weights, float(strength))


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

    @property
    def running(self) -> bool:
        return self.progress not in ("done", "cancelled", "failed")

    def enter(self, progress: Progress, steps: int | None = None) -> None:
        if self.stop.is_set():
            raise Stop
        self.progress, self.step, self.steps = progress, 0, steps

    def tick(self) -> None:
        if self.stop.is_set():
            raise Stop
        self.step += 1

    def as_dict(self) -> dict[str, object]:
        names = ("number", "progress", "running", "step", "steps", "message")
        seconds = time.monotonic() - self.begin if self.running else self.seconds
        state = {name: getattr(self, name) for name in names}
        return {**asdict(self.request), **state, "seconds": round(seconds, 2)}
