"""What the registries offer for a cube, as data for the page.

Listing needs torch, which takes seconds and 200 MB. So the server asks a second interpreter
(``python -m hyperdlw.app.page.choices BANDS``) and stays small and quick until a job is asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

from ...errors import DlwError

Choices = dict[str, Any]


def list_choices(bands: int) -> Choices:
    """Models, weight sources that fit a cube of ``bands`` bands, the defaults, and whether strength
    can be found from the data ("auto")."""
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
        "auto": _has_auto(),
    }


def _has_auto() -> bool:
    """Whether ``denoise(strength="auto")`` works; it is tried on a cube of a few pixels."""
    import numpy as np

    from ...pipeline import denoise

    tiny = np.random.default_rng(0).random((4, 16, 16))
    auto: Any = "auto"
    try:
        denoise(tiny, weights="uniform", strength=auto)
    except Exception:
        return False
    return True


class Unready(DlwError):
    """The registries could not be read (now)."""


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
                [sys.executable, "-m", "hyperdlw.app.page.choices", str(self.bands)],
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


if __name__ == "__main__":
    print(json.dumps(list_choices(int(sys.argv[1]))))
