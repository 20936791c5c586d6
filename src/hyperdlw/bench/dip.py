"""``hyperdlw bench dip``: S2DIP with and without weights, PSNR against iterations (tab-S2DIP)."""

from __future__ import annotations

import hashlib
import io
import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..errors import BadOption, MissingDependency
from ..io import atomic
from ..models import dip
from .cases import Files, Scene
from .runner import NOTHING, Clock, append, make_noisy, network_hash, read_records, source_of
from .tables import MAIN, REFERENCE

LAST = 100
"""Iterations whose mean PSNR is the final value, as in the paper."""

METHODS = {"S2DIP": "", "DLW-S2DIP": MAIN, f"DLW-S2DIP, {REFERENCE}{MAIN}": REFERENCE + MAIN}
"""The weight network of every method; none: the published data term with a sparse part."""
COLOURS = dict(zip(METHODS, ("#8d99ae", "#d1495b", "#edae49"), strict=True))


@dataclass(frozen=True)
class Curve:
    """One run: PSNR (dB) after every iteration."""

    scene: str
    scene_hash: str
    noise: int
    method: str
    source: str
    iterations: int
    seed: int

    @property
    def key(self) -> str:
        """A hash that names this curve for ever."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def plan(
    scenes: Iterable[Scene],
    noise: Iterable[int],
    iterations: int | None,
    seeds: Iterable[int],
    files: Files = NOTHING,
) -> list[Curve]:
    """All curves, those of one noisy cube together; every method's own number of iterations if None."""
    if iterations is not None and not 1 <= iterations <= dip.STEPS:
        raise BadOption(f"the iterations of a curve go from 1 to {dip.STEPS}, not {iterations}")
    noise, seeds = tuple(noise), tuple(seeds)
    hashes = {
        method: network_hash(net, files)[:16]
        for method, net in METHODS.items()
        if not net.startswith(REFERENCE) or net in files.reference
    }
    return [
        Curve(
            scene.name,
            scene.sha256,
            number,
            method,
            hashes[method],
            iterations or dip.usual(method != "S2DIP"),
            seed,
        )
        for scene in scenes
        for number in noise
        for seed in seeds
        for method in hashes
    ]


def measure(
    curve: Curve, scene: Scene, report: Callable[[str], None] | None, files: Files = NOTHING
) -> dict[str, Any]:
    """Run one curve."""
    y = torch.from_numpy(make_noisy(scene, curve.noise, curve.seed).y)
    clock, said = Clock(), time.monotonic()
    net = METHODS[curve.method]
    w = source_of(net, files)(y, torch.ones_like(y, dtype=torch.bool)) if net else None

    def progress(k: int, x: torch.Tensor) -> None:
        nonlocal said
        if report is not None and time.monotonic() - said > 20:
            said = time.monotonic()
            name = f"{curve.scene}, case {curve.noise}, {curve.method}"
            report(f"{name}: iteration {k} of {curve.iterations}")

    fit = dip.restore(
        y,
        w,
        iterations=curve.iterations,
        seed=curve.seed,
        clean=torch.from_numpy(scene.data),
        progress=progress,
    )
    return {
        "key": curve.key,
        **asdict(curve),
        "psnr": [round(v, 4) for v in fit.psnr],
        **clock.spent(),
        "version": __version__,
    }


def run(
    scenes: Sequence[Scene],
    out: Path,
    *,
    noise: Sequence[int] = (1, 5),
    iterations: int | None = None,
    seeds: int = 1,
    files: Files = NOTHING,
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Run the curves that are not in ``out/dip.jsonl`` yet; write ``dip.md`` and ``dip.png``."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "dip.jsonl"
    wanted = plan(scenes, noise, iterations, range(seeds), files)
    known, by_name = read_records(path), {s.name: s for s in scenes}
    for curve in wanted:
        if curve.key not in known:
            known[curve.key] = measure(curve, by_name[curve.scene], report, files)
            append(path, [known[curve.key]])
    records = [known[c.key] for c in wanted]
    sides = {s.name: f"{s.data.shape[1]}x{s.data.shape[2]}" for s in scenes}
    contents = {"dip.md": markdown(records, sides).encode(), "dip.png": figure(records)}
    for name, content in contents.items():
        with atomic(out / name, overwrite=True) as tmp:
            Path(tmp).write_bytes(content)
    return [out / name for name in contents]


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


def ends(psnr: Sequence[float]) -> Ends:
    """Mean of the last 100 iterations, and the maximum.

    >>> ends([10.0, 30.0] + [20.0] * 100)
    Ends(final=20.0, best=30.0, at=2)
    """
    best = max(psnr)
    return Ends(statistics.fmean(psnr[-LAST:]), best, list(psnr).index(best) + 1)


def counted(counts: dict[str, int]) -> str:
    """Numbers by name.

    >>> counted({"S2DIP": 1500, "DLW-S2DIP": 500})
    'S2DIP 1500, DLW-S2DIP 500'
    """
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def markdown(records: Sequence[dict[str, Any]], sides: dict[str, str]) -> str:
    """One line per noise case and method, mean over scenes and seeds, and what it means."""
    seeds = {r["seed"] for r in records}
    places = ", ".join(f"{name} ({side})" for name, side in sides.items())
    lines = [
        "# Deep image prior with and without weights (tab-S2DIP)",
        "",
        f"{places}; {len(seeds)} seed{'s' if len(seeds) > 1 else ''}; "
        f"{counted({r['method']: r['iterations'] for r in records})} iterations, where the authors' program "
        "takes 7000. Final: "
        f"mean PSNR of the last {LAST} iterations, in dB. Max: the "
        "best iteration, which nobody can find without the clean cube.",
        "",
        "| case | method | final | max | max - final | best iteration | processor seconds |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    said = []
    for number in sorted({r["noise"] for r in records}):
        lost: dict[str, tuple[float, float]] = {}
        for method in dict.fromkeys(r["method"] for r in records):
            mine = [r for r in records if (r["noise"], r["method"]) == (number, method)]
            found = [ends(r["psnr"]) for r in mine]
            final, best = (
                statistics.fmean(getattr(e, k) for e in found) for k in ("final", "best")
            )
            gap, at = (statistics.fmean(getattr(e, k) for e in found) for k in ("lost", "at"))
            seconds = statistics.fmean(r["processor"] for r in mine)
            lost[method] = final, gap
            lines.append(
                f"| {number} | {method} | {final:.2f} | {best:.2f} | {gap:.2f} | {at:.0f} | {seconds:.0f} |"
            )
        (plain, gap), (weighted, less) = lost["S2DIP"], lost["DLW-S2DIP"]
        said.append(
            f"- case {number}: the weights change the final value by {weighted - plain:+.2f} dB, and "
            f"max - final from {gap:.2f} to {less:.2f} dB"
        )
    return "\n".join([*lines, "", "## Headlines", "", *said, "", "![dip](dip.png)"]) + "\n"


def figure(records: Sequence[dict[str, Any]]) -> bytes:
    """PSNR against iterations, one panel per noise case, as PNG."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "the curves need matplotlib, which is not installed: pip install 'hyperdlw[bench]'"
        ) from error
    cases = sorted({r["noise"] for r in records})
    page = Figure(figsize=(5.5 * len(cases), 3.8), dpi=110, layout="constrained")
    axes = page.subplots(1, len(cases), squeeze=False, sharey=True)[0]
    for ax, number in zip(axes, cases, strict=True):
        named: set[str] = set()
        for r in (r for r in records if r["noise"] == number):
            method, psnr = r["method"], r["psnr"]
            label = None if method in named else method
            named.add(method)
            ax.plot(range(1, len(psnr) + 1), psnr, color=COLOURS[method], lw=1, label=label)
            e = ends(psnr)
            ax.plot([e.at], [e.best], "o", color=COLOURS[method], ms=5)
        ax.set_title(f"case {number}", fontsize=11)
        ax.set_xlabel("iteration")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="lower right")
    axes[0].set_ylabel("PSNR in dB (dot: best iteration)")
    out = io.BytesIO()
    page.savefig(out, format="png")
    return out.getvalue()
