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
from ..testbed import noise, psnr, scenes
from ..weights import resolve
from .cases import Scene, centre
from .runner import append, read_records

F32 = NDArray[np.float32]
Spoil = Callable[[F32, np.random.Generator], F32]

MODELS = tuple(dict.fromkeys((MODEL, "nn", "tv", "tvs")))
COUNTS = (7, 31, 103, 191)
PEAK = (10.0, 200.0)
"""Limits of the photons of a white voxel, one number per band."""
READ = 0.02
"""Standard deviation of the read-out noise beside the photons'."""


def mixture(share: float) -> Spoil:
    """Case 5 with a share of the bands affected by every kind; the paper's is 10 of 31."""
    return lambda x, rng: noise.case(5, x, rng, affected=round(share * len(x))).y


def photons(x: F32, rng: np.random.Generator) -> F32:
    """Poisson noise: its variance grows with the signal, and every band has its own exposure."""
    peak = PEAK[0] * (PEAK[1] / PEAK[0]) ** rng.random((len(x), 1, 1))
    y: F32 = (rng.poisson(np.clip(x, 0, 1) * peak) / peak).astype(np.float32)
    return y + np.float32(READ) * rng.standard_normal(x.shape, np.float32)


def wide_stripes(width: int) -> Spoil:
    """Gaussian noise and stripes of several columns in 10 of 31 bands."""

    def spoil(x: F32, rng: np.random.Generator) -> F32:
        y = noise.gaussian(x, rng).y
        bands, _, cols = x.shape
        narrow = np.zeros((bands, 1, -(-cols // width)), np.float32)
        return y + np.repeat(noise.stripes(narrow, rng).y, width, 2)[:, :, :cols]

    return spoil


NOISES: dict[str, Spoil] = {
    "case 5, 10 of 31 bands affected": mixture(10 / 31),
    "case 5, 20 of 31 bands affected": mixture(20 / 31),
    "case 5, all bands affected": mixture(1.0),
    "photons and read-out": photons,
    "stripes 3 columns wide": wide_stripes(3),
    "stripes 8 columns wide": wide_stripes(8),
}


def with_bands(scene: Scene, count: int) -> Scene:
    """Bands of a scene, evenly spread; a scene made by code where it has too few."""
    bands, rows, cols = scene.data.shape
    if count <= bands:
        chosen = np.linspace(0, bands - 1, count).round().astype(int)
        return Scene(scene.name, np.ascontiguousarray(scene.data[chosen]))
    made = scenes.synthetic(count, rows, cols, rng=np.random.default_rng(count)).data
    return Scene("made by code", centre(made, None))


def conditions(scene: Scene) -> dict[str, tuple[Scene, Spoil]]:
    """What is tried on a scene."""
    tried = {name: (scene, spoil) for name, spoil in NOISES.items()}
    for count in COUNTS:
        tried[f"case 5, {count} bands"] = (with_bands(scene, count), mixture(10 / 31))
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
    network = store.load(WEIGHTS).sha256[:16]
    records: dict[str, dict[str, Any]] = {}
    for scene in clean:
        for name, (shown, spoil) in conditions(scene).items():
            for seed in range(seeds):
                key = f"{name}, {shown.name} {shown.sha256}, seed {seed}, {network}, {__version__}"
                if key not in known:
                    known[key] = {"key": key, "condition": name, "scene": shown.name}
                    known[key] |= measure(shown.data, spoil, seed)
                    append(path, [known[key]])
                    if report is not None:
                        report(f"{shown.name}, {name}")
                records[key] = known[key]
    target = out / "robust.md"
    with atomic(target, overwrite=True) as tmp:
        tmp.write_text(markdown(list(records.values())), encoding="utf-8")
    return [target]


def measure(clean: F32, spoil: Spoil, seed: int) -> dict[str, Any]:
    """PSNR of the noisy cube, and of every model with uniform and with the network's weights."""
    noisy = spoil(clean, np.random.default_rng([20260115, seed]))
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
