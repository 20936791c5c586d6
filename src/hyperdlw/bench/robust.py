"""``hyperdlw bench robust``: noise and numbers of bands that no network was trained for.

Weights of the default network against uniform ones, in several models.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..models import MODEL, WEIGHTS
from ..testbed import NOISES, Noise, find_noise, psnr, synthetic
from .experiment import Experiment, Record, Scene, Tell, Trial
from .runner import Method, Restorer
from .tables import Row, write_page, write_rows

MODELS = tuple(dict.fromkeys((MODEL, "nn", "tv", "tvs")))
COUNTS = (7, 31, 103, 191)
"""Numbers of bands."""
ROWS = (Row("uniform"), Row(WEIGHTS))


def choose_bands(scene: Scene, count: int) -> Scene:
    """Bands of a scene, evenly spread; a scene made by code where it has too few."""
    bands, rows, cols = scene.data.shape
    if count <= bands:
        chosen = np.linspace(0, bands - 1, count).round().astype(int)
        return Scene(scene.name, np.ascontiguousarray(scene.data[chosen]))
    made = synthetic(count, rows, cols, rng=np.random.default_rng(count))
    return Scene("made by code", made.data)


def list_conditions(scene: Scene) -> dict[str, tuple[Scene, Noise]]:
    """What is tried on a scene: noises of neither paper nor field, and numbers of bands."""
    mixture = find_noise("case5")
    return {
        "Case 5, 10 of 31 bands affected": (scene, mixture),
        **{noise.about: (scene, noise) for noise in NOISES.values() if noise.kind == "other noise"},
        **{f"Case 5, {count} bands": (choose_bands(scene, count), mixture) for count in COUNTS},
    }


def run(
    clean: Sequence[Scene], out: Path, *, seeds: int = 1, tell: Tell | None = None
) -> list[Path]:
    """Measure, and write ``robust.md``; what is in ``robust.jsonl`` is not measured again."""
    experiment = Experiment("robust", out, tell)
    methods = [Method(row, model) for row in ROWS for model in MODELS]

    def plan() -> Iterator[Trial]:
        for name, (scene, noise) in (c for s in clean for c in list_conditions(s).items()):
            constants = [m.describe(scene.data.shape) for m in methods]
            facts = {"condition": name, "scene": scene.name, "scene_hash": scene.sha256}
            for seed in range(seeds):
                yield Trial(
                    {**facts, "seed": seed, "models": list(MODELS)},
                    (noise.build, constants),
                    partial(measure, scene, noise, seed),
                )

    records = experiment.run(plan(), lambda r: f"{r['scene']}, {r['condition']}")
    # Two scenes with too few bands share the one that is made by code.
    different = {r["key"]: r for r in records}
    return experiment.write({"robust.md": write_markdown(list(different.values()))})


def measure(scene: Scene, noise: Noise, seed: int) -> Record:
    """PSNR of the noisy image, and of every model with uniform and with the network's weights."""
    noisy = noise.apply(scene.data, np.random.default_rng([20260115, seed]))
    restore = Restorer(scene, noisy)
    found: Record = {"noisy": psnr(scene.data, noisy.y)}
    for row in ROWS:
        restored = {m: restore(row, m)[0] for m in MODELS}
        found[row.weights] = {m: psnr(scene.data, x) for m, x in restored.items()}
    return found


def write_markdown(records: Sequence[Record]) -> str:
    """Mean PSNR by condition: uniform weights, the network's, and the smallest gain."""
    rows = []
    for name in dict.fromkeys(r["condition"] for r in records):
        mine = [r for r in records if r["condition"] == name]
        cells = [name, f"{statistics.fmean(r['noisy'] for r in mine):.2f}"]
        for m in MODELS:
            before, after = (statistics.fmean(r[w][m] for r in mine) for w in ("uniform", WEIGHTS))
            cells.append(f"{before:.2f} → {after:.2f}")
        least = min(r[WEIGHTS][m] - r["uniform"][m] for r in mine for m in MODELS)
        rows.append([*cells, f"{least:+.2f}"])
    return write_page(
        "# Noise and bands outside the training",
        f"PSNR in dB with uniform weights → with {WEIGHTS}, mean over the scenes; the last column is the "
        "smallest gain of a single scene and model.",
        write_rows(["condition", "noisy", *MODELS, "smallest gain"], rows),
    )
