"""``hyperdlw bench robust``: noise and numbers of bands that no network was trained for.

Weights of the default network against uniform ones, in several models.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__, models
from ..io import atomic
from ..models import MODEL, WEIGHTS
from ..networks import files as store
from ..solver import Problem, solve
from ..testbed import NOISES, Noise, crop_centre, find_noise, psnr, scenes
from ..weights import resolve
from .cases import Scene
from .runner import append, read_records

F32 = NDArray[np.float32]

MODELS = tuple(dict.fromkeys((MODEL, "nn", "tv", "tvs")))
COUNTS = (7, 31, 103, 191)


def with_bands(scene: Scene, count: int) -> Scene:
    """Bands of a scene, evenly spread; a scene made by code where it has too few."""
    bands, rows, cols = scene.data.shape
    if count <= bands:
        chosen = np.linspace(0, bands - 1, count).round().astype(int)
        return Scene(scene.name, np.ascontiguousarray(scene.data[chosen]))
    made = scenes.synthetic(count, rows, cols, rng=np.random.default_rng(count)).data
    return Scene("made by code", crop_centre(made))


def conditions(scene: Scene) -> dict[str, tuple[Scene, Noise]]:
    """What is tried on a scene: every noise that is not a case of the paper, and numbers of bands."""
    mixture = find_noise("case5")
    tried = {"Case 5, 10 of 31 bands affected": (scene, mixture)}
    for noise in NOISES.values():
        if noise.case is None:
            tried[noise.about] = (scene, noise)
    for count in COUNTS:
        tried[f"Case 5, {count} bands"] = (with_bands(scene, count), mixture)
    return tried


def run(
    clean: Sequence[Scene],
    out: Path,
    *,
    seeds: int = 1,
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Measure, and write ``robust.md``; what is in ``robust.jsonl`` is not measured again."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "robust.jsonl"
    known = read_records(path)
    network = store.load_network(WEIGHTS).sha256[:16]
    records: dict[str, dict[str, Any]] = {}
    for scene in clean:
        for name, (shown, noise) in conditions(scene).items():
            for seed in range(seeds):
                key = f"{name}, {shown.name} {shown.sha256}, seed {seed}, {network}, {__version__}"
                if key not in known:
                    known[key] = {"key": key, "condition": name, "scene": shown.name}
                    known[key] |= measure(shown.data, noise, seed)
                    append(path, [known[key]])
                    if report is not None:
                        report(f"{shown.name}, {name}")
                records[key] = known[key]
    target = out / "robust.md"
    with atomic(target, overwrite=True) as tmp:
        tmp.write_text(markdown(list(records.values())), encoding="utf-8")
    return [target]


def measure(clean: F32, noise: Noise, seed: int) -> dict[str, Any]:
    """PSNR of the noisy cube, and of every model with uniform and with the network's weights."""
    noisy = noise.apply(clean, np.random.default_rng([20260115, seed])).y
    y = torch.from_numpy(noisy)
    valid = torch.ones_like(y, dtype=torch.bool)
    found: dict[str, Any] = {"noisy": psnr(clean, noisy)}
    for name in ("uniform", WEIGHTS):
        w = resolve(name)(y, valid)
        found[name] = {
            m: psnr(clean, solve(Problem(models.build(m, y.shape), y, w)).x.numpy()) for m in MODELS
        }
    return found


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """Mean PSNR by condition: uniform weights, the network's, and the smallest gain."""
    lines = [
        "# Noise and bands outside the training",
        "",
        f"PSNR in dB with uniform weights → with {WEIGHTS}, mean over the scenes; the last column is the "
        "smallest gain of a single scene and model.",
        "",
        f"| condition | noisy | {' | '.join(MODELS)} | smallest gain |",
        f"|---|---:|{'---:|' * len(MODELS)}---:|",
    ]
    for name in dict.fromkeys(r["condition"] for r in records):
        rows = [r for r in records if r["condition"] == name]
        cells = [f"{statistics.fmean(r['noisy'] for r in rows):.2f}"]
        for m in MODELS:
            before, after = (statistics.fmean(r[w][m] for r in rows) for w in ("uniform", WEIGHTS))
            cells.append(f"{before:.2f} → {after:.2f}")
        least = min(r[WEIGHTS][m] - r["uniform"][m] for r in rows for m in MODELS)
        lines.append(f"| {name} | {' | '.join(cells)} | {least:+.2f} |")
    return "\n".join(lines) + "\n"
