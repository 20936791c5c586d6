"""``hyperdlw bench theory``: does the divergence U rank the networks as the measured PSNR does?"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..errors import BadFile
from ..networks import files as store
from ..pipeline import draw_png, new_figure, theory
from .experiment import Experiment, Record, Scene, make_scene, read_records
from .paper import MEAN, find_printed
from .report import list_own_models
from .runner import plan_cases, run_cases
from .tables import NETWORKS, REFERENCE, SIMPLE, Row, write_page

EPSILONS = (0.1, theory.EPS)
"""Lower limits of the weight at which U is compared: below 0.3 the second term alone decides."""

TARGETS = SIMPLE.models

PAPER = {"the paper, CAVE": "cave", "the paper, ICVL": "icvl"}
"""Tables of the paper that are ranked as well, by the name of their lines."""
NAMES = {"": "ours", REFERENCE: "the authors'"}


@dataclass(frozen=True)
class Comparison:
    """One target: U and mean PSNR of every network, and their rank correlation.

    ``rho`` is Spearman's, of -U with the PSNR: 1 if the smallest divergence is the best network.
    """

    whose: str
    target: str
    eps: float
    divergence: dict[str, float]
    psnr: dict[str, float]

    @property
    def rho(self) -> float:
        return correlate_ranks([-self.divergence[n] for n in self.psnr], list(self.psnr.values()))


def correlate_ranks(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation (NaN for fewer than three pairs or without any variation).

    >>> round(correlate_ranks([1, 2, 3, 4], [10, 30, 20, 40]), 3)
    0.8
    """
    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def measure_divergences(
    clean: Iterable[Scene], eps: float, targets: Sequence[str] = TARGETS
) -> dict[tuple[str, str], float]:
    """U of (network, target), mean over clean scenes."""
    found: dict[tuple[str, str], list[float]] = {(n, t): [] for n in NETWORKS for t in targets}
    for scene in clean:
        x = torch.from_numpy(scene.data)
        slope = {m: theory.subgradient(m, x) for m in {*targets, *TARGETS}}
        for (network, target), values in found.items():
            source = [slope[m] for m in list_own_models(network)]
            values.append(theory.lemma3(source, [slope[target]], eps) / x.numel())
    return {k: statistics.fmean(v) for k, v in found.items()}


def compare_networks(records: Iterable[Record], clean: Sequence[Scene]) -> list[Comparison]:
    """Every target and eps, for our networks and for the authors' where there are records."""
    # A file may hold records of networks that have been replaced since.
    shipped = {n: store.load_network(n).sha256[:16] for n in NETWORKS if n in store.list_networks()}
    rows = [
        r
        for r in records
        if "psnr" in r
        and r.get("strength") == 1.0
        and r.get("source") == shipped.get(r["weights"], r.get("source"))
    ]
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for r in rows:
        measured[r["weights"], r["model"]].append(r["psnr"])
    found = []
    for eps in EPSILONS:
        u = measure_divergences(clean, eps)
        for whose, target in itertools.product(("", REFERENCE), TARGETS):
            own = {n: measured[whose + n, target] for n in NETWORKS}
            psnr = {n: statistics.fmean(values) for n, values in own.items() if values}
            if len(psnr) >= 3:
                every = {n: u[n, target] for n in NETWORKS}
                found.append(Comparison(whose, target, eps, every, psnr))
        for (whose, data), target in itertools.product(PAPER.items(), TARGETS if rows else ()):
            printed = find_printed(SIMPLE.label, data)
            every = {n: u[n, target] for n in NETWORKS}
            psnr = {n: printed[n, target, MEAN] for n in NETWORKS}
            found.append(Comparison(whose, target, eps, every, psnr))
    return found


def make_scenes(count: int = 2, side: int = 64) -> list[Scene]:
    """Scenes made by code, for machines without data."""
    return [make_scene(i, 31, side) for i in range(count)]


def write_markdown(found: Sequence[Comparison]) -> str:
    """The rank correlations as a table, and what they mean."""
    rows = []
    for c in found:
        least = min(c.psnr, key=c.divergence.__getitem__)
        best = max(c.psnr, key=c.psnr.__getitem__)
        whose = NAMES.get(c.whose, c.whose)
        rows.append(f"| {whose} | {c.target} | {c.eps:g} | {c.rho:.2f} | {least} | {best} |")
    return write_page(
        "# Does U rank the networks?",
        "Spearman's rank correlation of -U(source, target) with the mean PSNR of the seven networks.",
        [
            "| networks | target | eps | rank correlation | smallest U | highest PSNR |",
            "|---|---|---:|---:|---|---|",
            *rows,
        ],
        "The paper's rows rank its own table of sources against targets (tab-three-com on ICVL, the means "
        "of tab-three-cave on CAVE) with U at our scenes.\n"
        "U knows the models a network was trained with and not how well the training went, it is the same "
        "for both directions of a transfer, and it depends on eps.",
        "![theory](theory.png)",
    )


def draw_comparison(found: Sequence[Comparison]) -> bytes:
    """U against PSNR, one panel per target, at the last eps."""
    shown = [c for c in found if c.eps == EPSILONS[-1]]
    page = new_figure(12, 4.3, layout="tight")
    axes = page.subplots(1, len(TARGETS))
    for ax, target in zip(axes, TARGETS, strict=True):
        for c in (c for c in shown if c.target == target and c.whose in NAMES):
            colour, name = "#8d99ae" if c.whose else "#d1495b", NAMES[c.whose]
            xs, ys = [c.divergence[n] for n in c.psnr], list(c.psnr.values())
            ax.plot(xs, ys, "o", color=colour, ms=7, label=f"{name}, rank correlation {c.rho:.2f}")
            if not c.whose:
                # Neighbours get their names on different sides of the point.
                style = {"textcoords": "offset points", "rotation_mode": "anchor", "fontsize": 9}
                for i, (x, y, n) in enumerate(sorted(zip(xs, ys, c.psnr, strict=True))):
                    side, va = (-1, "top") if i % 2 else (1, "bottom")
                    ax.annotate(n, (x, y), (2, 6 * side), va=va, rotation=40 * side, **style)
        ax.set_title(f"target {target}", fontsize=11)
        ax.set_xlabel("U(source, target)", fontsize=10)
        ax.margins(x=0.2, y=0.2)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize=8, frameon=False, loc="lower left")
    axes[0].set_ylabel("mean PSNR in dB", fontsize=10)
    return draw_png(page)


def run(clean: Sequence[Scene] | None, records: Path | None, out: Path) -> list[Path]:
    """Compare, and write ``theory.md`` and ``theory.png``; returns their paths.

    Args:
        clean: scenes at which U is taken; made by code when None.
        records: JSONL of ``hyperdlw bench simple``; measured on the scenes when None.
    """
    clean = make_scenes() if clean is None else clean
    experiment = Experiment("theory", out)
    if records is None:
        # The seven networks on the three targets.
        table = replace(SIMPLE, rows=tuple(Row(n) for n in NETWORKS), noise=("case1", "case5"))
        rows = run_cases(plan_cases(table, clean, (0,)), clean, experiment)
    elif not records.is_file():
        raise BadFile(f"there is no file {records} with records of 'hyperdlw bench simple'")
    else:
        rows = list(read_records(records).values())
    found = compare_networks(rows, clean)
    if not found:
        raise BadFile(
            f"{records} holds no PSNR of at least three of the networks {', '.join(NETWORKS)}; "
            "make it with 'hyperdlw bench simple'"
        )
    text = write_markdown(found)
    return experiment.write({"theory.md": text, "theory.png": draw_comparison(found)})
