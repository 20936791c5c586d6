"""Is a transfer as hard in one direction as in the other, and does a U that knows the direction tell?

    python benchmarks/directions.py SCENES [--crop 64] [--out docs/results]

Writes ``directions.md``: what a network loses in a model it was not trained with, in both directions.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from hyperdlw.bench.experiment import Scene, write_files
from hyperdlw.bench.paper import MEAN, find_printed
from hyperdlw.bench.report import list_own_models
from hyperdlw.bench.runner import Restorer, make_noisy
from hyperdlw.bench.tables import NETWORKS, SIMPLE, SOURCE_MODELS, Row, write_rows
from hyperdlw.bench.theory import EPSILONS, TARGETS, correlate_ranks, measure_divergences
from hyperdlw.pipeline import theory
from hyperdlw.testbed import SceneChoice, load_scenes, metrics

Square = dict[tuple[str, str], float]
"""A figure of every (network, target)."""

PAIRS = tuple(itertools.combinations(SOURCE_MODELS, 2))
"""Networks of one source model each, whose transfer to the other's model is compared in both directions."""


def measure_directions(clean: Sequence[Scene], noises: Sequence[str]) -> tuple[Square, Square]:
    """PSNR of every network in every target, and U with its weights at every model's own solution: means."""
    found, apart = defaultdict(list), defaultdict(list)
    for scene, noise in itertools.product(clean, noises):
        noisy = make_noisy(scene, noise, 0)
        restore = Restorer(scene, noisy)
        for n in NETWORKS:
            x = {m: restore(Row(n), m)[0] for m in TARGETS}
            u = {m: torch.from_numpy(noisy.y - x[m]) for m in TARGETS}
            source = [u[m] for m in list_own_models(n)]
            for t in TARGETS:
                found[n, t].append(metrics.psnr(scene.data, x[t]))
                apart[n, t].append(theory.directed_divergence(source, [u[t]]))
    first, second = ({k: statistics.fmean(v) for k, v in s.items()} for s in (found, apart))
    return first, second


def write_directions(psnr: Square, apart: Square, symmetric: Square) -> list[str]:
    """Both directions of every pair: what the transfer loses here and in the paper, and what U says."""
    printed = find_printed(SIMPLE.label, "cave")

    def lost(values: Square, a: str, b: str) -> float:
        """dB that the network of model a loses in model b against the network of b."""
        return values[b, SOURCE_MODELS[b]] - values[a, SOURCE_MODELS[b]]

    paper = {(n, t): printed[n, t, MEAN] for n, t in psnr}
    rows, agree = [], []
    for one, two in PAIRS:
        for a, b in ((one, two), (two, one)):
            there = (a, SOURCE_MODELS[b])
            values = (lost(psnr, a, b), lost(paper, a, b), symmetric[there])
            cells = [f"{v:.2f}" for v in values[:2]] + [f"{values[2]:.4f}"]
            rows.append((a, SOURCE_MODELS[b], *cells, f"{apart[there]:.4f}"))
        more = [lost(v, one, two) > lost(v, two, one) for v in (psnr, paper)]
        farther = apart[one, SOURCE_MODELS[two]] > apart[two, SOURCE_MODELS[one]]
        agree.append([m == farther for m in more])
    ranks = []
    for t in TARGETS:
        ours = [psnr[n, t] for n in NETWORKS]
        theirs = [paper[n, t] for n in NETWORKS]
        u = [-apart[n, t] for n in NETWORKS]
        ranks.append((t, f"{correlate_ranks(u, ours):.2f}", f"{correlate_ranks(u, theirs):.2f}"))
    mine, others = (sum(column) for column in zip(*agree, strict=True))
    return [
        "# Transfer in both directions",
        "",
        "U as the paper has it is the same in both directions of a transfer; what is lost is not. The "
        "directed U takes the gradients of every model at its own solution, with the weights of the network.",
        "",
        *write_rows(
            ("network", "target", "lost here in dB", "in the paper, CAVE", "U", "directed U"),
            rows,
            left=2,
        ),
        "",
        f"The direction with the larger directed U loses more in {mine} of {len(PAIRS)} pairs here, and in "
        f"{others} of the paper's. Rank correlation of the directed U with the PSNR of the seven networks:",
        "",
        *write_rows(("target", "here", "the paper, CAVE"), ranks),
        "",
    ]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("scenes", type=Path)
    words.add_argument("--crop", type=int, default=64)
    words.add_argument("--out", type=Path, default=Path("docs/results"))
    asked = words.parse_args()
    found, _ = load_scenes(asked.scenes, SceneChoice(colour=False, crop=asked.crop))
    clean = [Scene(name, data) for name, data in found.items()]
    noises = ("case1", "case5")
    square = measure_directions(clean, noises)
    text = write_directions(*square, measure_divergences(clean, EPSILONS[-1]))
    names = ", ".join(found)
    where = f"Crops of {asked.crop} pixels of {names}; {' and '.join(noises)}, one draw each."
    write_files(asked.out, {"directions.md": "\n".join([*text[:2], where, "", *text[2:]])})


if __name__ == "__main__":
    main()
