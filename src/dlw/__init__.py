"""Hyperspectral denoising with data-driven loss weighting."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Large arrays of torch in huge pages, where Linux has them on request: glibc gives arrays above 32 MB back
# at once, and faulting them in again page by page takes a quarter of the time of a 1024 x 1024 cube.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

if TYPE_CHECKING:
    from . import metrics, noise, scenes
    from .cube import Cube
    from .denoising import Result, denoise, predict_weights
    from .errors import DlwError
    from .io import open_cube, save_cube

__all__ = [
    "Cube",
    "DlwError",
    "Result",
    "__version__",
    "denoise",
    "metrics",
    "noise",
    "open_cube",
    "predict_weights",
    "save_cube",
    "scenes",
]

_HOME = {
    "Cube": "cube",
    "DlwError": "errors",
    "Result": "denoising",
    "denoise": "denoising",
    "predict_weights": "denoising",
    "open_cube": "io",
    "save_cube": "io",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, ``dlw --help`` should not."""
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in ("metrics", "noise", "scenes"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'dlw' has no attribute '{name}'")
    globals()[name] = value
    return value
