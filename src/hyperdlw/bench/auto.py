"""``hyperdlw bench auto``: what do an automatic strength and the advice lose against the best of a grid?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ..models import MODEL, WEIGHTS, build_model
from ..pipeline import advise, denoise
from ..testbed import CASES, find_noise
from ..weights import resolve
from .experiment import Experiment, Record, Scene, Tell, Trial, loop_images
from .runner import Restorer, judge_psnr, make_noisy
from .tables import NETWORKS, Row, Strength, write_page, write_rows

MODELS = tuple(dict.fromkeys((MODEL, "nn", "tv", "tvs", "e3dtv")))
OCTAVES = tuple(2.0**k for k in range(-2, 4))
"""Strengths of the grid, with the default network; the other networks are tried at 1."""


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    names: Sequence[str] = MODELS,
    noise: Sequence[str | int] = CASES,
    seeds: int = 1,
    tell: Tell | None = None,
) -> list[Path]:
    """Measure the models ``names`` on every noisy image, and write ``auto.md``."""
    experiment = Experiment("auto", out, tell)
    networks = [resolve(n) for n in NETWORKS]

    def say(r: Record) -> str:
        advice, best = (f"{r[kind]['psnr']:.2f} dB" for kind in ("advice", "best"))
        return f"{r['scene']}, {find_noise(r['noise']).title}: advice {advice}, best {best}"

    def plan() -> Iterator[Trial]:
        for scene, found, seed in loop_images(scenes, noise, seeds):
            facts = {"scene": scene.name, "scene_hash": scene.sha256, "noise": found.name}
            models = {m: build_model(m, scene.data.shape) for m in names}
            yield Trial(
                {**facts, "seed": seed, "models": list(names)},
                (found.build, models, OCTAVES, networks),
                partial(measure, scene, found.name, seed, names),
            )

    return experiment.write({"auto.md": write_markdown(experiment.run(plan(), say), names)})


def measure(scene: Scene, noise: str, seed: int, names: Sequence[str] = MODELS) -> Record:
    """PSNR of the grid, of the automatic strength of every model, and of the advice."""
    noisy = make_noisy(scene, noise, seed)
    restore = Restorer(scene, noisy)

    def score(model: str, network: str, strength: Strength) -> tuple[float, float]:
        x, facts = restore(Row(network, strength), model)
        return judge_psnr(scene, noisy, x), facts["strength_used"]

    grid = {(m, WEIGHTS, s): score(m, WEIGHTS, s)[0] for m in names for s in OCTAVES}
    grid |= {(m, n, 1.0): score(m, n, 1.0)[0] for m in names for n in NETWORKS if n != WEIGHTS}
    automatic = {}
    for m in names:
        value, chosen = score(m, WEIGHTS, "auto")
        automatic[m] = {
            "strength": chosen,
            "psnr": value,
            "best": max(grid[m, WEIGHTS, s] for s in OCTAVES),
            "one": grid[m, WEIGHTS, 1.0],
        }
    advice = advise(noisy.y)
    best = max(grid, key=grid.__getitem__)
    return {
        "automatic": automatic,
        "advice": {
            "method": [advice.model, advice.network, advice.strength],
            "psnr": judge_psnr(scene, noisy, denoise(noisy.y, **advice.settings).cube.data),
        },
        "best": {"method": list(best), "psnr": grid[best]},
    }


def write_markdown(records: Sequence[Record], names: Sequence[str] = MODELS) -> str:
    """Mean losses, and the advice image by image."""
    every, rows = [], []
    for m in names:
        found = [r["automatic"][m] for r in records]
        lost = [r["best"] - r["psnr"] for r in found]
        every += lost
        fixed = statistics.fmean(r["best"] - r["one"] for r in found)
        rows.append((m, f"{statistics.fmean(lost):.2f}", f"{fixed:.2f}"))
    rows.append(("mean", f"{statistics.fmean(every):.2f}", ""))
    losses = [r["best"]["psnr"] - r["advice"]["psnr"] for r in records]
    images = [
        "| scene | noise | advice | PSNR | best of the grid | PSNR |",
        "|---|---|---|---:|---|---:|",
    ]
    for r in records:
        both = [
            "{}, {}, {:.2g} | {:.2f}".format(*r[kind]["method"], r[kind]["psnr"])
            for kind in ("advice", "best")
        ]
        images.append(f"| {r['scene']} | {find_noise(r['noise']).title} | {' | '.join(both)} |")
    titles = ("model", "`--strength auto` below the best strength", "strength 1 below it")
    return write_page(
        "# Automatic strength and advice",
        f"Mean loss in dB over {len(records)} noisy cubes. The grid: the models {', '.join(names)} with "
        f"the network {WEIGHTS} at the strengths {', '.join(f'{s:g}' for s in OCTAVES)}, and with the other "
        "six networks at strength 1.",
        write_rows(titles, rows),
        f"`hyperdlw advise` is {statistics.fmean(losses):.2f} dB below the best of the grid on average, "
        f"{max(losses):.2f} dB at worst.",
        images,
    )
