"""What a run leaves beside the tensors: the card in the network's file, and a picture of the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..io import atomic
from ..networks import files as store
from ..testbed import find_noise
from .recipe import ScenePlan, TrainingPlan

if TYPE_CHECKING:
    from .loop import Training

F32 = NDArray[np.float32]
Facts = dict[str, object]


def describe_run(run: Training[Any, Any, Any]) -> Facts:
    """What a card says about the run of a network."""
    r: TrainingPlan = run.recipe
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


def describe_start(start: str | Path) -> Facts:
    """What a card says about the network a run started from, and about those before it."""
    stored = store.load_network(start)
    kept = ("data", "recipe", "steps", "training_seconds", "validation_psnr")
    before = {k: stored.card[k] for k in kept if k in stored.card}
    history = [*stored.card.get("history", ()), before | {"sha256": stored.sha256}]
    return {"start_sha256": stored.sha256, "history": history}


def describe_data(
    scenes: Mapping[str, F32], held_out: Mapping[str, F32] | None, recipe: ScenePlan
) -> Facts:
    """What a card says about the data of a network that learns from noisy scenes."""
    return {
        "data": sorted(scenes),
        "validation": sorted(held_out or {}),
        "noise": [f"{n.title}: {n.about}" for n in map(find_noise, recipe.noise)],
    }


def draw_curves(log: Path, out: Path) -> Path | None:
    """Loss and validation PSNR against the step, as a PNG; None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    if not lines:
        return None
    steps = np.array([x["step"] for x in lines])
    loss = np.array([x["loss"] for x in lines])
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    window = max(1, len(loss) // 60)
    smooth = np.convolve(loss, np.ones(window) / window, "valid")
    left.plot(steps, loss, color="0.8", linewidth=0.6, label="each step")
    left.plot(steps[window - 1 :], smooth, color="tab:blue", label=f"mean of {window}")
    left.set(xlabel="step", ylabel="loss")
    left.set_ylim(*np.quantile(loss, [0.001, 0.98]))
    left.legend(frameon=False)
    scored = [x for x in lines if "psnr" in x]
    for name in scored[0]["psnr"] if scored else ():
        right.plot([x["step"] for x in scored], [x["psnr"][name] for x in scored], label=name)
    right.set(xlabel="step", ylabel="PSNR on held-out crops (dB)")
    if scored:
        right.legend(frameon=False)
    with atomic(out, overwrite=True) as tmp:
        figure.savefig(tmp, dpi=120, format="png")
    return out
