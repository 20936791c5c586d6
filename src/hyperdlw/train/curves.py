"""A picture of a training log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..io import atomic


def draw_curves(log: Path, out: Path) -> Path | None:
    """Loss and validation PSNR against the step, as a PNG; None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
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
