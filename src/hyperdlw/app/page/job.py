"""One job of the page, what there is to choose for it, and how far it is.

Listing the choices needs torch, which takes seconds and 200 MB. So the server asks a second interpreter
(``python -m hyperdlw.app.page.job BANDS``) and stays small and quick until a job is asked for.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Literal, TypedDict

from ...errors import BadOption, DlwError, unknown_name

Strength = float | Literal["auto"]
Progress = Literal["waiting", "weights", "preview", "solving", "done", "cancelled", "failed"]

STRENGTHS = (1e-3, 1e3)


class Busy(DlwError):
    """Another job is running."""


class Unready(DlwError):
    """The registries could not be read (now)."""


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
    from ...models import list_models
    from ...networks import files as store
    from ...pipeline import DEFAULT_MODEL
    from ...weights import DEFAULT, list_formulas

    weights = {}
    for name in store.list_networks():
        stored = store.load_network(name)
        if stored.net.channels in (None, bands):
            through = ", ".join(map(str, stored.card.get("sources", []))) or "unknown models"
            weights[name] = f"Network trained through {through}."
    weights |= {name: entry.summary for name, entry in list_formulas().items()}
    models = {name: entry.summary for name, entry in list_models("model").items()}
    return {
        "models": models,
        "weights": weights,
        "model": DEFAULT_MODEL if DEFAULT_MODEL in models else next(iter(models)),
        "weight": DEFAULT if DEFAULT in weights else next(iter(weights)),
    }


class Lister:
    """Asks for :func:`list_choices` once, in a second interpreter that can be ended at any time."""

    def __init__(self, bands: int) -> None:
        self.bands = bands
        self.found: Choices | None = None
        self._asking = threading.Lock()
        self._state = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._closed = False

    def get(self) -> Choices:
        """The choices; this interpreter lists them itself if it has torch already."""
        with self._asking:
            if self.found is None:
                here = "torch" in sys.modules
                self.found = list_choices(self.bands) if here else self._ask()
            return self.found

    def close(self) -> None:
        with self._state:
            self._closed = True
            if self._child is not None:
                self._child.kill()

    def _ask(self) -> Choices:
        with self._state:
            if self._closed:
                raise Unready("the program is closing")
            self._child = child = subprocess.Popen(
                [sys.executable, "-m", "hyperdlw.app.page.job", str(self.bands)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Ctrl-C reaches every process of a terminal; this one is ended by its parent.
                start_new_session=True,
            )
        out, err = child.communicate()
        if child.returncode != 0:
            last = (err.strip().splitlines() or ["it was ended"])[-1]
            raise Unready(f"the models could not be listed ({last}); reload the page")
        found: Choices = json.loads(out)
        return found


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
            or not (math.isfinite(strength) and low <= strength <= high)
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


if __name__ == "__main__":
    print(json.dumps(list_choices(int(sys.argv[1]))))
