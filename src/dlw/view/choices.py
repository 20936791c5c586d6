"""What the registries offer for a cube, as data for the page.

Listing needs torch, which takes seconds and 200 MB. So the server asks a second interpreter
(``python -m dlw.view.choices BANDS``) and stays small and quick until a job is asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

Choices = dict[str, Any]


def list_choices(bands: int) -> Choices:
    """Models, weight sources that fit a cube of ``bands`` bands, the defaults, and whether strength
    can be found from the data ("auto")."""
    from .. import store
    from ..denoising import DEFAULT_MODEL
    from ..models import registry
    from ..weighting import DEFAULT, FORMULAS

    weights = {}
    for name in store.names():
        stored = store.load(name)
        if stored.net.channels in (None, bands):
            through = ", ".join(map(str, stored.card.get("sources", []))) or "unknown models"
            weights[name] = f"Network trained through {through}."
    for name, source in FORMULAS.items():
        weights[name] = (type(source).__doc__ or "").strip().splitlines()[0]
    models = {name: entry.summary for name, entry in registry().items()}
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

    from ..denoising import denoise

    tiny = np.random.default_rng(0).random((4, 16, 16))
    auto: Any = "auto"
    try:
        denoise(tiny, weights="uniform", strength=auto)
    except Exception:
        return False
    return True


def ask_choices(bands: int) -> Choices:
    """:func:`list_choices` from a second interpreter, or from this one if it has torch already."""
    if "torch" in sys.modules:
        return list_choices(bands)
    done = subprocess.run(
        [sys.executable, "-m", "dlw.view.choices", str(bands)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: Choices = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(list_choices(int(sys.argv[1]))))
