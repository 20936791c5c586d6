"""``hyperdlw bench dip``: S2DIP with and without weights, PSNR against iterations (tab-S2DIP)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from ..errors import BadOption, unknown_name
from ..models import build_model, dip
from ..pipeline import denoise, draw_png, new_figure
from ..solver import Model, State
from ..testbed import find_noise, psnr
from .experiment import (
    NO_FILES,
    Clock,
    Experiment,
    Files,
    Record,
    Scene,
    Tell,
    Trial,
    loop_images,
)
from .paper import find_paper_value
from .runner import find_source, hash_network, make_noisy
from .tables import MAIN, NETWORKS, ORIGINAL, REFERENCE, write_page, write_rows

LABEL = "tab-S2DIP"
LAST = 100
"""Iterations whose mean PSNR is the final value, as in the paper."""

PUBLISHED = 7000
"""Iterations of the authors' program: the longest curve. Ours are shorter unless the user says so."""

METHODS = {
    "S2DIP": ORIGINAL,
    "DLW-S2DIP": MAIN,
    f"DLW-S2DIP, {REFERENCE}{MAIN}": REFERENCE + MAIN,
    **{f"DLW-S2DIP, {n}": n for n in NETWORKS if n != MAIN},
}
"""The weights of every method; original: the published data term with a sparse part."""
SHADES = ("#8d99ae", "#d1495b", "#edae49", "#00798c", "#30638e", "#003d5b", "#66a182", "#2e4057")
COLOURS = dict(zip(METHODS, (*SHADES, "#a06cd5"), strict=True))


@dataclass(frozen=True)
class DipCurve:
    """One run: PSNR (dB) after every iteration; ``source`` is the hash of the network, if any."""

    scene: str
    scene_hash: str
    noise: str
    method: str
    source: str
    iterations: int
    seed: int

    def build(self, shape: Sequence[int]) -> Model:
        """The model of its method."""
        return build_model("dip", shape, original=METHODS[self.method] == ORIGINAL)


def measure(curve: DipCurve, scene: Scene, tell: Tell, files: Files = NO_FILES) -> Record:
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
        weights=find_source(METHODS[curve.method], files),
        schedule=replace(curve.build(noisy.shape).schedule, steps=curve.iterations),
        range=(0, 1),
        paper=True,
        seed=curve.seed,
        watch=watch,
    )
    return {"psnr": found, **clock.spent()}


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    noise: Sequence[str | int] = ("case1", "case5"),
    weights: Sequence[str] = (),
    iterations: int | None = None,
    seeds: int = 1,
    files: Files = NO_FILES,
    tell: Tell | None = None,
) -> list[Path]:
    """Run the curves that are not in ``out/dip.jsonl`` yet; write ``dip.md`` and ``dip.png``.

    ``weights`` names further networks of the seven, beside the main one.
    """
    if iterations is not None and not 1 <= iterations <= PUBLISHED:
        raise BadOption(f"the iterations of a curve go from 1 to {PUBLISHED}, not {iterations}")
    for name in weights:
        if name not in NETWORKS:
            raise unknown_name("network of the paper", name, NETWORKS)
    wanted = (ORIGINAL, MAIN, *weights, *files.reference)
    experiment = Experiment("dip", out, tell)
    hashes = {
        method: hash_network(source, files)[:16]
        for method, source in METHODS.items()
        if source in wanted
    }

    def plan() -> Iterator[Trial]:
        for scene, found, seed in loop_images(scenes, noise, seeds):
            for method, source in hashes.items():
                steps = (
                    iterations or dip.STEPS["sparse" if METHODS[method] == ORIGINAL else "weights"]
                )
                where = (scene.name, scene.sha256, found.name)
                curve = DipCurve(*where, method, source, steps, seed)
                yield Trial(
                    asdict(curve),
                    (found.build, curve.build(scene.data.shape)),
                    partial(measure, curve, scene, experiment.tell, files),
                )

    records = experiment.run(plan())
    sides = {s.name: f"{s.data.shape[1]}x{s.data.shape[2]}" for s in scenes}
    return experiment.write(
        {"dip.md": write_markdown(records, sides), "dip.png": draw_psnr_curves(records)}
    )


class Ends(NamedTuple):
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


def write_markdown(records: Sequence[Record], sides: dict[str, str]) -> str:
    """One line per noise case and method, mean over scenes and seeds, and what it means."""
    seeds = len({r["seed"] for r in records})
    places = ", ".join(f"{name} ({side})" for name, side in sides.items())
    counts = {r["method"]: r["iterations"] for r in records}
    rows, said = [], []
    for noise in sorted({r["noise"] for r in records}):
        title = find_noise(noise).title
        lost: dict[str, tuple[float, float]] = {}
        for method in counts:
            mine = [r for r in records if (r["noise"], r["method"]) == (noise, method)]
            ends = [find_ends(r["psnr"]) for r in mine]
            final, best, at = map(statistics.fmean, zip(*ends, strict=True))
            gap = statistics.fmean(e.lost for e in ends)
            seconds = statistics.fmean(r["processor"] for r in mine)
            lost[method] = final, gap
            figures = (f"{final:.2f}", f"{best:.2f}", f"{gap:.2f}", f"{at:.0f}", f"{seconds:.0f}")
            printed = (
                find_paper_value(LABEL, "dip", METHODS[method], noise, f)
                for f in ("final", "max", "lost")
            )
            rows.append(
                (title, method, *figures, *("" if v is None else f"{v:.2f}" for v in printed))
            )
        (plain, gap), (weighted, less) = lost["S2DIP"], lost["DLW-S2DIP"]
        before, after = (
            find_paper_value(LABEL, "dip", w, noise, "final") for w in (ORIGINAL, MAIN)
        )
        paper = f" (in the paper by {after - before:+.2f} dB)" if before and after else ""
        said.append(
            f"- {title}: the weights change the final value by {weighted - plain:+.2f} dB{paper}, and "
            f"max - final from {gap:.2f} to {less:.2f} dB"
        )
    titles = [
        "noise",
        "method",
        "final",
        "max",
        "max - final",
        "best iteration",
        "processor seconds",
        "paper: final",
        "max",
        "max - final",
    ]
    return write_page(
        "# Deep image prior with and without weights (tab-S2DIP)",
        f"{places}; {seeds} seed{'s' * (seeds > 1)}; "
        f"{', '.join(f'{name} {count}' for name, count in counts.items())} iterations, where the "
        f"authors' program takes 7000. Final: mean PSNR of the last {LAST} iterations, in dB. Max: the "
        "best iteration, which nobody can find without the clean cube. The paper's columns are for 7000 "
        "iterations on the whole CAVE scene jelly_beans, three runs each: other data and a longer run, and "
        "its S2DIP is far better than ours, so that the gain of the weights is not comparable.",
        write_rows(titles, rows, left=2),
        "## Headlines",
        said,
        "![dip](dip.png)",
    )


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
