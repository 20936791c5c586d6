"""``hyperdlw bench dip``: S2DIP with and without weights, PSNR against iterations (tab-S2DIP)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from ..errors import BadOption
from ..models import build_model, dip
from ..pipeline import denoise
from ..solver import Schedule, State
from ..testbed import find_noise, psnr
from .experiment import NO_FILES, Clock, Experiment, Files, Record, Scene, Tell, Trial
from .report import draw_png, new_figure
from .runner import find_source, hash_network, make_noisy
from .tables import MAIN, ORIGINAL, REFERENCE

LAST = 100
"""Iterations whose mean PSNR is the final value, as in the paper."""

METHODS = {"S2DIP": ORIGINAL, "DLW-S2DIP": MAIN, f"DLW-S2DIP, {REFERENCE}{MAIN}": REFERENCE + MAIN}
"""The weights of every method; original: the published data term with a sparse part."""
COLOURS = dict(zip(METHODS, ("#8d99ae", "#d1495b", "#edae49"), strict=True))


@dataclass(frozen=True)
class Curve:
    """One run: PSNR (dB) after every iteration.

    Attributes:
        source: hash of the weight network; empty without one.
    """

    scene: str
    scene_hash: str
    noise: str
    method: str
    source: str
    iterations: int
    seed: int

    @property
    def weights(self) -> str:
        return METHODS[self.method]

    def schedule(self, shape: Sequence[int]) -> Schedule:
        """That of the model, for the iterations of the curve."""
        built = build_model("dip", shape, original=self.weights == ORIGINAL)
        return replace(built.schedule, steps=self.iterations)


def plan_curves(
    scenes: Sequence[Scene],
    noise: Sequence[str | int],
    iterations: int | None,
    seeds: int,
    files: Files = NO_FILES,
) -> Iterator[tuple[Curve, Scene]]:
    """All curves, those of one noisy image together; every method's own number of iterations if None."""
    if iterations is not None and not 1 <= iterations <= dip.STEPS:
        raise BadOption(f"the iterations of a curve go from 1 to {dip.STEPS}, not {iterations}")
    hashes = {
        method: hash_network(weights, files)[:16]
        for method, weights in METHODS.items()
        if not weights.startswith(REFERENCE) or weights in files.reference
    }
    for scene in scenes:
        for found in map(find_noise, noise):
            for seed in range(seeds):
                for method, source in hashes.items():
                    steps = iterations or dip.usual_steps(METHODS[method] != ORIGINAL)
                    where = (scene.name, scene.sha256, found.name)
                    yield Curve(*where, method, source, steps, seed), scene


def measure(curve: Curve, scene: Scene, tell: Tell, files: Files = NO_FILES) -> Record:
    """Run one curve."""
    noisy = make_noisy(scene, curve.noise, curve.seed).y
    clock, said = Clock(), time.monotonic()
    found: list[float] = []

    def watch(state: State[Tensor]) -> None:
        nonlocal said
        found.append(round(psnr(scene.data, state.x.numpy()), 4))
        if time.monotonic() - said > 20:
            said = time.monotonic()
            name = f"{curve.scene}, {find_noise(curve.noise).title}, {curve.method}"
            tell(f"{name}: iteration {state.k} of {curve.iterations}")

    denoise(
        noisy,
        model="dip",
        weights=find_source(curve.weights, files),
        schedule=curve.schedule(noisy.shape),
        range=(0, 1),
        seed=curve.seed,
        watch=watch,
    )
    return {"psnr": found, **clock.spent()}


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    noise: Sequence[str | int] = ("case1", "case5"),
    iterations: int | None = None,
    seeds: int = 1,
    files: Files = NO_FILES,
    tell: Tell | None = None,
) -> list[Path]:
    """Run the curves that are not in ``out/dip.jsonl`` yet; write ``dip.md`` and ``dip.png``."""
    experiment = Experiment("dip", out, tell)
    curves = plan_curves(scenes, noise, iterations, seeds, files)
    records = experiment.run(
        Trial(
            asdict(curve),
            (
                find_noise(curve.noise).build,
                build_model("dip", scene.data.shape, original=curve.weights == ORIGINAL),
            ),
            partial(measure, curve, scene, experiment.tell, files),
        )
        for curve, scene in curves
    )
    sides = {s.name: f"{s.data.shape[1]}x{s.data.shape[2]}" for s in scenes}
    return experiment.write(
        {"dip.md": write_markdown(records, sides), "dip.png": draw_psnr_curves(records)}
    )


@dataclass(frozen=True)
class Ends:
    """Where a curve ends, and its best iteration (known only to those who have the clean cube)."""

    final: float
    best: float
    at: int

    @property
    def lost(self) -> float:
        """|max - final|."""
        return abs(self.best - self.final)


def find_ends(psnr: Sequence[float]) -> Ends:
    """Mean of the last 100 iterations, and the maximum.

    >>> find_ends([10.0, 30.0] + [20.0] * 100)
    Ends(final=20.0, best=30.0, at=2)
    """
    best = max(psnr)
    return Ends(statistics.fmean(psnr[-LAST:]), best, list(psnr).index(best) + 1)


def list_counts(counts: dict[str, int]) -> str:
    """Numbers by name.

    >>> list_counts({"S2DIP": 1500, "DLW-S2DIP": 500})
    'S2DIP 1500, DLW-S2DIP 500'
    """
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def write_markdown(records: Sequence[Record], sides: dict[str, str]) -> str:
    """One line per noise case and method, mean over scenes and seeds, and what it means."""
    seeds = {r["seed"] for r in records}
    places = ", ".join(f"{name} ({side})" for name, side in sides.items())
    lines = [
        "# Deep image prior with and without weights (tab-S2DIP)",
        "",
        f"{places}; {len(seeds)} seed{'s' if len(seeds) > 1 else ''}; "
        f"{list_counts({r['method']: r['iterations'] for r in records})} iterations, where the "
        "authors' program takes 7000. Final: "
        f"mean PSNR of the last {LAST} iterations, in dB. Max: the "
        "best iteration, which nobody can find without the clean cube.",
        "",
        "| noise | method | final | max | max - final | best iteration | processor seconds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    said = []
    for noise in sorted({r["noise"] for r in records}):
        title = find_noise(noise).title
        lost: dict[str, tuple[float, float]] = {}
        for method in dict.fromkeys(r["method"] for r in records):
            mine = [r for r in records if (r["noise"], r["method"]) == (noise, method)]
            found = [find_ends(r["psnr"]) for r in mine]
            final, best = (
                statistics.fmean(getattr(e, k) for e in found) for k in ("final", "best")
            )
            gap, at = (statistics.fmean(getattr(e, k) for e in found) for k in ("lost", "at"))
            seconds = statistics.fmean(r["processor"] for r in mine)
            lost[method] = final, gap
            lines.append(
                f"| {title} | {method} | {final:.2f} | {best:.2f} | {gap:.2f} | {at:.0f} | {seconds:.0f} |"
            )
        (plain, gap), (weighted, less) = lost["S2DIP"], lost["DLW-S2DIP"]
        said.append(
            f"- {title}: the weights change the final value by {weighted - plain:+.2f} dB, and "
            f"max - final from {gap:.2f} to {less:.2f} dB"
        )
    return "\n".join([*lines, "", "## Headlines", "", *said, "", "![dip](dip.png)"]) + "\n"


def draw_psnr_curves(records: Sequence[Record]) -> bytes:
    """PSNR against iterations, one panel per noise case, as PNG."""
    cases = sorted({r["noise"] for r in records})
    page = new_figure(5.5 * len(cases), 3.8)
    axes = page.subplots(1, len(cases), squeeze=False, sharey=True)[0]
    for ax, noise in zip(axes, cases, strict=True):
        named: set[str] = set()
        for r in (r for r in records if r["noise"] == noise):
            method, psnr = r["method"], r["psnr"]
            label = None if method in named else method
            named.add(method)
            ax.plot(range(1, len(psnr) + 1), psnr, color=COLOURS[method], lw=1, label=label)
            e = find_ends(psnr)
            ax.plot([e.at], [e.best], "o", color=COLOURS[method], ms=5)
        ax.set_title(find_noise(noise).title, fontsize=11)
        ax.set_xlabel("iteration")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="lower right")
    axes[0].set_ylabel("PSNR in dB (dot: best iteration)")
    return draw_png(page)
