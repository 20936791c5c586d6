"""``hyperdlw bench auto``: what do an automatic strength and the advice lose against the best of a grid?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import __version__, models
from ..io import atomic
from ..models import MODEL, WEIGHTS
from ..networks import files as store
from ..pipeline import advise, choose
from ..solver import Problem, solve
from ..testbed import psnr
from ..weights import resolve
from .cases import Scene
from .runner import append, make_noisy, read_records
from .tables import NETWORKS

MODELS = tuple(dict.fromkeys((MODEL, "nn", "tv", "tvs", "e3dtv")))
OCTAVES = tuple(2.0**k for k in range(-2, 4))
"""Strengths of the grid, with the default network; the other networks are tried at 1."""


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    names: Sequence[str] = MODELS,
    noise: Sequence[int] = (1, 2, 3, 4, 5),
    seeds: int = 1,
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Measure, and write ``auto.md``; finished cubes in ``auto.jsonl`` are not measured again.

    Args:
        names: models of the grid.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "auto.jsonl"
    done = read_records(path)
    networks = {n: store.load_network(n).sha256[:16] for n in NETWORKS}
    records = []
    for scene in scenes:
        for case in noise:
            for seed in range(seeds):
                cube = f"{scene.name} {scene.sha256} case {case} seed {seed}"
                key = f"{cube} {','.join(names)} {networks} {__version__}"
                if key not in done:
                    done[key] = {"key": key, "scene": scene.name, "noise": case, "seed": seed}
                    done[key] |= measure(scene, case, seed, names)
                    append(path, [done[key]])
                    if report is not None:
                        r = done[key]
                        report(
                            f"{scene.name}, case {case}: advice {r['advice']['psnr']:.2f} dB, best "
                            f"{r['best']['psnr']:.2f} dB"
                        )
                records.append(done[key])
    target = out / "auto.md"
    with atomic(target, overwrite=True) as tmp:
        tmp.write_text(markdown(records, names), encoding="utf-8")
    return [target]


def measure(scene: Scene, case: int, seed: int, names: Sequence[str] = MODELS) -> dict[str, Any]:
    """PSNR of the grid, of the automatic strength of every model, and of the advice."""
    noisy = make_noisy(scene, case, seed).y
    y = torch.from_numpy(noisy)
    valid = torch.ones_like(y, dtype=torch.bool)
    weights = {n: resolve(n)(y, valid) for n in NETWORKS}

    def score(model: str, network: str, strength: float) -> float:
        x = solve(Problem(models.build(model, y.shape, strength), y, weights[network])).x
        return psnr(scene.data, x.numpy())

    grid = {(m, WEIGHTS, s): score(m, WEIGHTS, s) for m in names for s in OCTAVES}
    grid |= {(m, n, 1.0): score(m, n, 1.0) for m in names for n in NETWORKS if n != WEIGHTS}
    automatic = {}
    for m in names:
        chosen = choose(lambda s, m=m: models.build(m, y.shape, s), y, weights[WEIGHTS]).strength  # type: ignore[misc]
        automatic[m] = {
            "strength": chosen,
            "psnr": score(m, WEIGHTS, chosen),
            "best": max(grid[m, WEIGHTS, s] for s in OCTAVES),
            "one": grid[m, WEIGHTS, 1.0],
        }
    advice = advise(noisy, range=(0, 1))
    best = max(grid, key=grid.__getitem__)
    return {
        "automatic": automatic,
        "advice": {
            "method": [advice.model, advice.network, advice.strength],
            "psnr": score(advice.model, advice.network, advice.strength),
        },
        "best": {"method": list(best), "psnr": grid[best]},
    }


def markdown(records: Sequence[Mapping[str, Any]], names: Sequence[str] = MODELS) -> str:
    """Mean losses, and the advice cube by cube."""
    lines = [
        "# Automatic strength and advice",
        "",
        f"Mean loss in dB over {len(records)} noisy cubes. The grid: the models {', '.join(names)} with "
        f"the network {WEIGHTS} at the strengths {', '.join(f'{s:g}' for s in OCTAVES)}, and with the other "
        "six networks at strength 1.",
        "",
        "| model | `--strength auto` below the best strength | strength 1 below it |",
        "|---|---:|---:|",
    ]
    every = []
    for m in names:
        rows = [r["automatic"][m] for r in records]
        lost = [r["best"] - r["psnr"] for r in rows]
        every += lost
        fixed = statistics.fmean(r["best"] - r["one"] for r in rows)
        lines.append(f"| {m} | {statistics.fmean(lost):.2f} | {fixed:.2f} |")
    losses = [r["best"]["psnr"] - r["advice"]["psnr"] for r in records]
    lines += [
        f"| mean | {statistics.fmean(every):.2f} | |",
        "",
        f"`hyperdlw advise` is {statistics.fmean(losses):.2f} dB below the best of the grid on average, "
        f"{max(losses):.2f} dB at worst.",
        "",
        "| scene | case | advice | PSNR | best of the grid | PSNR |",
        "|---|---:|---|---:|---|---:|",
    ]
    for r in records:
        a, b = r["advice"], r["best"]
        names = ["{}, {}, {:.2g}".format(*x["method"]) for x in (a, b)]
        lines.append(
            f"| {r['scene']} | {r['noise']} | {names[0]} | {a['psnr']:.2f} | {names[1]} | {b['psnr']:.2f} |"
        )
    return "\n".join(lines) + "\n"
