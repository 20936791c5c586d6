"""Ways to train, compared at equal steps: short runs from scratch that differ in one thing.

    python benchmarks/study.py TRAINING_SCENES [--airborne SCENES] [--more SCENES] [--runs NAME ...]

Trains `recipes/study.toml` once for every change below (10 to 15 minutes of one core each; a run that was
stopped goes on), scores each network on the held-out scene case by case and with fewer bands, and on
the `--more` scenes with all their bands. Writes `study.csv` (every score) and `study.md` to `--out`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hyperdlw.networks import files as store
from hyperdlw.testbed import crop_centre, find_noise, load_scenes
from hyperdlw.train import read_recipe, train, validate_network

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "study.toml"
SIDE, DRAWS, FEWER = 48, 2, (7, 15)
RUNS: dict[str, dict[str, Any]] = {
    "five cases": {},
    "case 1": {"noise": (1,)},
    "random counts": {"affected": (0.1, 0.6)},
    "random bands": {"bands": (7, 31)},
    "airborne": {"bands": (31, 31), "pick": "side"},
    "constant rate": {"schedule": "epochs", "decay": 1.0},
    "adam": {"optimiser": "adam", "rate": 2e-3},
    "twice the solver steps": {"depth": 2.0},
    "tvs alone": {"sources": ("tvs",), "name": "TS", "steps": 3000},
    "tvs, from the joint one": {
        "sources": ("tvs",),
        "name": "TS",
        "steps": 3000,
        "start": "constant rate/N+T+TS.safetensors",
    },
}
"""What a run changes in the recipe; "airborne" also adds scenes, the last one needs "constant rate" first."""
Scene = np.ndarray[Any, np.dtype[np.float32]]


def trials(held_out: Scene, more: dict[str, Scene]) -> Iterator[tuple[str, Scene, int]]:
    """What a network is scored on: (name, clean crop, noise case)."""
    for number in range(1, 6):
        yield f"case {number}", held_out, number
    for bands in FEWER:
        first = (len(held_out) - bands) // 2
        yield f"{bands} bands", held_out[first : first + bands], 5
    for name, scene in more.items():
        yield f"{name}, {len(scene)} bands", scene, 5


def pairs(clean: Scene, number: int) -> list[tuple[Scene, Scene]]:
    """The clean crop with every draw of its noise."""
    draws = [np.random.default_rng([20260102, number, draw]) for draw in range(DRAWS)]
    return [(clean, find_noise(number).apply(clean, rng).y) for rng in draws]


def table(rows: list[dict[str, Any]]) -> str:
    """One line a run, the mean over its sources in every trial."""
    names = list(dict.fromkeys(r["trial"] for r in rows))
    lines = ["| run | steps | minutes | sources | " + " | ".join(names) + " |"]
    lines.append("|---|---:|---:|---|" + "---:|" * len(names))
    for run in dict.fromkeys(r["run"] for r in rows):
        own = [r for r in rows if r["run"] == run]
        cells = {
            r["trial"]: np.mean([r[s] for s in ("nn", "tv", "tvs") if r[s] != ""]) for r in own
        }
        used = ", ".join(s for s in ("nn", "tv", "tvs") if own[0][s] != "")
        numbers = " | ".join(f"{cells[n]:.2f}" for n in names)
        minutes = own[0]["seconds"] / 60
        lines.append(f"| {run} | {own[0]['steps']} | {minutes:.0f} | {used} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "scenes", type=Path, help="folder with the training and the held-out scenes"
    )
    parser.add_argument(
        "--airborne", type=Path, help="folder with scenes the run of that name adds"
    )
    parser.add_argument("--more", type=Path, help="folder with other scenes to score on")
    parser.add_argument("--runs", nargs="+", choices=RUNS, metavar="NAME")
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/study"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    wanted = args.runs or [name for name in RUNS if name != "airborne" or args.airborne]

    (recipe,) = read_recipe(RECIPE).stages
    scenes, _ = load_scenes(args.scenes)
    missing = [name for name in recipe.held_out if name not in scenes]
    if missing:
        raise SystemExit(f"the held-out scene {missing[0]} is not in {args.scenes}")
    held_out = {name: scenes.pop(name) for name in recipe.held_out}
    airborne = load_scenes(args.airborne)[0] if args.airborne else {}
    more = {
        name: crop_centre(s, SIDE)
        for name, s in (load_scenes(args.more)[0] if args.more else {}).items()
    }

    rows: list[dict[str, Any]] = []
    for name in wanted:
        changes = dict(RUNS[name])
        if "start" in changes:
            changes["start"] = str(args.out / changes["start"])
        if args.steps:
            changes["steps"] = args.steps
        own = replace(recipe, **changes)
        given = scenes | airborne if name == "airborne" else scenes
        done = args.out / name / f"{own.name}.safetensors"
        if not done.exists():
            train(own, given, args.out / name, held_out=held_out, resume=True)
        network = store.load_network(str(done))
        ways = {name: own}
        if own.depth != 1.0:
            ways[f"{name}, in training only"] = replace(own, depth=1.0)
        seconds = network.card["training_seconds"]
        for way, how in ways.items():
            facts = {"run": way, "steps": own.steps, "seconds": seconds}
            for trial, clean, number in trials(
                crop_centre(next(iter(held_out.values())), SIDE), more
            ):
                scores = validate_network(network.net, pairs(clean, number), how)
                rows.append({**facts, "trial": trial, "nn": "", "tv": "", "tvs": "", **scores})
            print(table(rows).splitlines()[-1], flush=True)
    with (args.out / "study.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (args.out / "study.md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
