"""Cards: what a network file says about how its network came to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..networks import files as store
from ..testbed import find_noise
from .patches import Draw

if TYPE_CHECKING:
    from .loop import Training

F32 = NDArray[np.float32]


def about_run(run: Training) -> dict[str, Any]:
    """What a user should know about the training of a network."""
    r = run.recipe
    return {
        "name": r.name,
        "seed": r.seed,
        "steps": run.step,
        "skipped_steps": run.skipped,
        "training_seconds": round(run.seconds),
        "validation_psnr": {k: round(v, 2) for k, v in run.scores.items()},
        "version": __version__,
        "torch": torch.__version__,
        "recipe": r.to_dict(),
    }


def came_from(start: str) -> dict[str, Any]:
    """What a card says about the network a run started from, and about those before it."""
    stored = store.load_network(start)
    told = ("data", "recipe", "steps", "training_seconds", "validation_psnr")
    before = {k: stored.card[k] for k in told if k in stored.card}
    history = [*stored.card.get("history", ()), before | {"sha256": stored.sha256}]
    return {"start_sha256": stored.sha256, "history": history}


def from_scenes(
    scenes: Mapping[str, F32], held_out: Mapping[str, F32] | None, recipe: Draw
) -> dict[str, Any]:
    """What a card says about the data of a network that learns from noisy scenes."""
    return {
        "data": sorted(scenes),
        "validation": sorted(held_out or {}),
        "noise": [f"{n.title}: {n.about}" for n in map(find_noise, recipe.noise)],
    }
