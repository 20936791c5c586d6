"""``hyperdlw bench cost``: parameters of every network, seconds of every method (tab-numparams, tab-time)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..io import atomic
from ..models import defaults, dip
from ..networks import SERT
from ..testbed import crop_centre, synthetic
from ..weights import resolve
from . import parameters, runner
from .cases import Files, Scene
from .tables import MAIN, ORIGINAL, RIVALS, Row, Table

SIDES = (64, 128, 256)
BANDS = 31
FEW = 3
"""Iterations of the deep image prior that are timed; the rest is multiplication."""

TABLE = replace(
    RIVALS,
    name="cost",
    rows=(*RIVALS.rows, Row(ORIGINAL, model="pnp")),
    noise=(1,),
    names={**RIVALS.names, "pnp, original": "eigenimage denoiser alone"},
)

PAPER = {
    "DLWnet": "0.11 M",
    "DLWnet, colour": "0.02 M",
    "HSID-CNN": "0.46 M",
    "S2DIP": "1.69 M",
    "SERT": "1.90 M",
    "HSI-DeNet": "2.76 M",
}


@dataclass(frozen=True)
class Extra:
    """A method that is timed by itself: ``run`` of a cube gives the seconds of the whole method."""

    name: str
    run: Callable[[Tensor], float]
    parameters: int


def extras() -> tuple[Extra, ...]:
    """What is too slow for the benchmark of rivals, or has no trained weights."""
    known = parameters.networks(BANDS)
    return (
        Extra("SERT, one pass, untrained", _sert, known["SERT"]),
        Extra(f"S2DIP, {dip.usual(False)} iterations", lambda y: _dip(y, False), known["S2DIP"]),
        Extra(
            f"DLW-S2DIP, {dip.usual(True)} iterations",
            lambda y: _dip(y, True),
            known["S2DIP"] + parameters.of_source(resolve(MAIN)),
        ),
    )


def _sert(y: Tensor) -> float:
    net = SERT(len(y)).eval()
    begin = time.process_time()
    with torch.no_grad():
        net(y)
    return time.process_time() - begin


def _dip(y: Tensor, weighted: bool) -> float:
    begin = time.process_time()
    w = resolve(MAIN)(y, torch.ones_like(y, dtype=torch.bool)) if weighted else None
    before = time.process_time() - begin
    stamps: list[float] = []
    dip.restore(y, w, iterations=FEW + 1, progress=lambda k, x: stamps.append(time.process_time()))
    # The first iteration builds the network and is left out.
    return before + (stamps[-1] - stamps[0]) / FEW * dip.usual(weighted)


def made_scene(side: int) -> Scene:
    """A scene made by code: the time hardly depends on what is in it."""
    data = synthetic(BANDS, side, side, rng=np.random.default_rng(side)).data
    return Scene(f"synthetic {side}", crop_centre(data))


def run(
    out: Path,
    *,
    sides: Sequence[int] = SIDES,
    repeats: int = 1,
    files: Files = runner.NOTHING,
    table: Table = TABLE,
    others: Sequence[Extra] | None = None,
    report: Callable[[str], None] | None = None,
) -> list[Path]:
    """Time what is not in ``out/cost.jsonl`` yet and write ``cost.md``; returns its path.

    Args:
        sides: sides of the square images, in pixels.
        repeats: runs of every method; the fastest counts.
        others: methods that are timed by themselves.
    """
    path = out / "cost.jsonl"
    scenes = [made_scene(side) for side in sides]
    cases = runner.plan(table, scenes, range(repeats), files)
    records = runner.run(
        cases,
        scenes,
        path,
        files=files,
        report=None if report is None else lambda i, n: report(f"{i} of {n} cases"),
    )
    others = extras() if others is None else others
    rows = [*_rows(table, records, sides), *_timed(others, scenes, repeats, path)]
    text = out / "cost.md"
    with atomic(text, overwrite=True) as tmp:
        Path(tmp).write_text(markdown(rows, sides, records), encoding="utf-8")
    return [text]


@dataclass(frozen=True)
class Line:
    """A method: seconds by side (without the sides it could not do), trained parameters."""

    name: str
    seconds: Mapping[int, float]
    parameters: int


def _rows(table: Table, records: Sequence[Mapping[str, Any]], sides: Sequence[int]) -> list[Line]:
    lines = []
    for row, model in table.cells(table.rows):
        mine = [
            r
            for r in records
            if (r["model"], r["weights"]) == (model, row.weights) and "processor" in r
        ]
        seconds = {
            side: min(
                r["processor"] + r["processor_weights"]
                for r in mine
                if r["scene"] == f"synthetic {side}"
            )
            for side in sides
            if mine
        }
        if mine:
            lines.append(Line(table.name_of(row), seconds, mine[0]["parameters"]))
    return lines


def _timed(
    others: Sequence[Extra], scenes: Sequence[Scene], repeats: int, path: Path
) -> list[Line]:
    known = runner.read_records(path)
    lines = []
    for extra in others:
        found: dict[int, float] = {}
        for scene in scenes:
            text = f"{extra.name} {scene.sha256} {repeats}"
            key = hashlib.sha256(text.encode()).hexdigest()[:20]
            if key not in known:
                y = torch.from_numpy(runner.make_noisy(scene, 1, 0).y)
                seconds = min(extra.run(y) for _ in range(repeats))
                known[key] = {"key": key, "name": extra.name, "seconds": round(seconds, 3)}
                runner.append(path, [known[key]])
            found[scene.data.shape[-1]] = known[key]["seconds"]
        lines.append(Line(extra.name, found, extra.parameters))
    return lines


def markdown(
    lines: Sequence[Line], sides: Sequence[int], records: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Both tables, with ratios."""
    default = next(
        (x for x in lines if x.name == TABLE.name_of(Row(MAIN, model=defaults.MODEL))), None
    )
    text = [
        "# Cost: parameters and seconds (tab-numparams, tab-time)",
        "",
        "## Parameters",
        "",
        f"At {BANDS} bands (3 for colour).",
        "",
        "| network | parameters | paper |",
        "|---|---:|---:|",
    ]
    text += [
        f"| {name} | {_thousands(n)} | {PAPER.get(name, '')} |"
        for name, n in sorted(parameters.networks(BANDS).items(), key=lambda item: item[1])
    ]
    least, most = min(sides), max(sides)
    ratio = f"{most} to {least}"
    text += [
        "",
        "## Seconds",
        "",
        "Seconds of the processor, so that other programs on the machine do not count. "
        f"Images of {BANDS} bands made by code, case-1 noise, {torch.get_num_threads()} thread(s); with the "
        f"weights where there are any. The deep image prior is timed for {FEW} iterations and "
        f"multiplied. '{ratio}': seconds at {most} over those at {least} pixels a side, "
        f"{(most / least) ** 2:g} times the pixels. 'to default': seconds at {most} over those of "
        "the default method" + (f", {default.name}." if default else "."),
        "",
        "| method | "
        + " | ".join(f"{s}x{s}" for s in sides)
        + f" | {ratio} | to default | parameters |",
        "|---|" + "---:|" * (len(sides) + 3),
    ]
    for line in lines:
        s = line.seconds
        grows = f"{s[most] / s[least]:.1f}" if s[least] > 0 and most > least else ""
        against = f"{s[most] / default.seconds[most]:.2f}" if default else ""
        cells = [f"{s[side]:.2f}" for side in sides]
        text.append(
            f"| {line.name} | "
            + " | ".join([*cells, grows, against, _thousands(line.parameters)])
            + " |"
        )
    skipped = sorted({f"{r['model']}: {r['skipped']}" for r in records if "skipped" in r})
    if skipped:
        text += ["", "## Not run", "", *[f"- {reason}" for reason in skipped]]
    return "\n".join(text) + "\n"


def _thousands(count: int) -> str:
    return f"{count:,}".replace(",", " ")
