"""One job of the page: what is wished for, and how far it is."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import BadOption, DlwError, unknown_name
from .choices import Choices

Strength = float | Literal["auto"]
Progress = Literal["waiting", "weights", "preview", "solving", "done", "cancelled", "failed"]

STRENGTHS = (1e-3, 1e3)


class Busy(DlwError):
    """Another job is running."""


class Stop(Exception):
    """Raised inside the solver to end a cancelled job."""


@dataclass(frozen=True)
class Wish:
    """What a job is to do; names come from the registries, never from the file system."""

    model: str
    weights: str
    strength: Strength = 1.0

    @classmethod
    def parse(cls, given: Any, choices: Choices) -> Wish:
        """Check what a browser sent."""
        if not isinstance(given, dict):
            raise BadOption("a job is an object with model, weights and strength")
        model, weights = given.get("model"), given.get("weights")
        strength = given.get("strength", 1.0)
        if not isinstance(model, str) or model not in choices["models"]:
            raise unknown_name("model", str(model)[:40], choices["models"])
        if not isinstance(weights, str) or weights not in choices["weights"]:
            raise unknown_name("weight source", str(weights)[:40], choices["weights"])
        if strength == "auto" and choices["auto"]:
            return cls(model, weights, "auto")
        low, high = STRENGTHS
        number = isinstance(strength, int | float) and not isinstance(strength, bool)
        if not (number and math.isfinite(strength) and low <= strength <= high):
            raise BadOption(f"strength is a number from {low:g} to {high:g}")
        return cls(model, weights, float(strength))


@dataclass
class Job:
    """One run: written by its thread, read by everyone."""

    number: int
    wish: Wish
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

    def as_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "model": self.wish.model,
            "weights": self.wish.weights,
            "strength": self.wish.strength,
            "progress": self.progress,
            "running": self.running,
            "step": self.step,
            "steps": self.steps,
            "seconds": round(time.monotonic() - self.begin if self.running else self.seconds, 2),
            "message": self.message,
        }
