"""``hyperdlw bench cost``: parameters of every network, seconds of every method (tab-numparams, tab-time)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from ..models import build_model, dip, find_model
from ..networks import SERT, DLWnet2d, DLWnet3d
from ..pipeline import denoise
from ..testbed import find_noise
from ..weights import resolve
from .experiment import (
    F32,
    NO_FILES,
    Experiment,
    Files,
    Record,
    Scene,
    Tell,
    Trial,
    make_scene,
)
from .paper import find_paper_value
from .runner import count_source_parameters, make_noisy, plan_cases, run_cases
from .tables import MAIN, ORIGINAL, RIVALS, Row, Table, list_skipped, write_page, write_rows

SIDES = (64, 128, 256)
BANDS = 31
FEW = 3
"""Iterations of the deep image prior that are timed; the rest is multiplication."""

TABLE = replace(
    RIVALS,
    name="cost",
    rows=(*RIVALS.rows, Row(ORIGINAL, model="pnp", name="eigenimage denoiser alone")),
    noise=("case1",),
)

PAPER = {
    "DLWnet": "dlwnet",
    "DLWnet, colour": "dlwnet-colour",
    "HSID-CNN": "hsid-cnn",
    "S2DIP": "dip",
    "SERT": "sert",
    "HSI-DeNet": "hsi-denet",
}
"""The networks of tab-numparams, by their names in the data of the paper."""


@dataclass(frozen=True)
class Extra:
    """A method that is timed by itself: ``run`` of a noisy image gives the seconds of all of it."""

    name: str
    run: Callable[[F32], float]
    parameters: int


def list_extras() -> tuple[Extra, ...]:
    """What is too slow for the table of published methods, or has no trained weights."""
    known = count_networks(BANDS)
    return (
        Extra("SERT, one pass, untrained", time_sert, known["SERT"]),
        Extra(
            f"S2DIP, {dip.STEPS['sparse']} iterations",
            partial(time_dip, ORIGINAL),
            known["S2DIP"],
        ),
        Extra(
            f"DLW-S2DIP, {dip.STEPS['weights']} iterations",
            partial(time_dip, MAIN),
            known["S2DIP"] + count_source_parameters(resolve(MAIN)),
        ),
    )


def count_networks(bands: int = BANDS) -> dict[str, int]:
    """Parameters of every architecture, for images of so many bands.

    >>> count_networks()["DLWnet"]
    113281
    """
    with torch.device("meta"):
        made = {"DLWnet": DLWnet3d(), "DLWnet, colour": DLWnet2d(), "SERT": SERT(channels=bands)}
    models = {"eigenimage denoiser": "pnp", "HSID-CNN": "hsid-cnn", "S2DIP": "dip"}
    models["HSI-DeNet"] = "hsi-denet"
    return {
        **{name: sum(p.numel() for p in net.parameters()) for name, net in made.items()},
        **{name: find_model(model).count_parameters(bands) for name, model in models.items()},
    }


def time_sert(noisy: F32) -> float:
    """Processor seconds of one pass of the transformer."""
    net = SERT(len(noisy)).eval()
    y = torch.from_numpy(noisy)
    begin = time.process_time()
    with torch.no_grad():
        net(y)
    return time.process_time() - begin


def time_dip(weights: str, noisy: F32) -> float:
    """Processor seconds of a deep image prior, from its first iterations."""
    built = build_model("dip", noisy.shape, original=weights == ORIGINAL)
    few = replace(built.schedule, steps=FEW + 1)
    begin = time.process_time()
    if weights != ORIGINAL:
        y = torch.from_numpy(noisy)
        resolve(weights)(y, torch.ones_like(y, dtype=torch.bool))
    before = time.process_time() - begin
    stamps: list[float] = []
    denoise(
        noisy,
        model="dip",
        weights=weights,
        schedule=few,
        range=(0, 1),
        paper=True,
        watch=lambda state: stamps.append(time.process_time()),
    )
    # The first iteration builds the network and is left out.
    return before + (stamps[-1] - stamps[0]) / FEW * built.schedule.steps


def run(
    out: Path,
    *,
    sides: Sequence[int] = SIDES,
    repeats: int = 1,
    files: Files = NO_FILES,
    table: Table = TABLE,
    others: Sequence[Extra] | None = None,
    tell: Tell | None = None,
) -> list[Path]:
    """Time what is not in ``out/cost.jsonl`` yet and write ``cost.md``; returns its path.

    Args:
        sides: sides of the square images made by code, in pixels: the time hardly depends on what
            is in them.
        repeats: runs of every method; the fastest counts.
        others: methods that are timed by themselves.
    """
    experiment = Experiment("cost", out, tell)
    scenes = [make_scene(side, BANDS, side) for side in sides]
    cases = plan_cases(table, scenes, range(repeats), files)
    records = run_cases(cases, scenes, experiment, files=files)
    others = list_extras() if others is None else others
    lines = [*_time_rows(table, records), *_time_extras(others, scenes, repeats, experiment)]
    return experiment.write({"cost.md": write_markdown(lines, sides, records)})


@dataclass(frozen=True)
class TimedLine:
    """A method: seconds by side (without the sides it could not do), trained parameters."""

    name: str
    seconds: Mapping[int, float]
    parameters: int


def _time_rows(table: Table, records: Sequence[Record]) -> list[TimedLine]:
    lines = []
    for row, model in table.cells(table.rows):
        mine = [r for r in records if (r["model"], r["weights"]) == (model, row.weights)]
        mine = [r for r in mine if "processor" in r]
        seconds: dict[int, float] = {}
        for r in mine:
            side = int(r["scene"].split()[-1])
            spent = r["processor"] + r["processor_weights"]
            seconds[side] = min(spent, seconds.get(side, spent))
        if mine:
            lines.append(TimedLine(table.name_of(row), seconds, mine[0]["parameters"]))
    return lines


def _time_extras(
    others: Sequence[Extra], scenes: Sequence[Scene], repeats: int, experiment: Experiment
) -> list[TimedLine]:
    noise = find_noise("case1")

    def measure(extra: Extra, scene: Scene) -> Record:
        noisy = make_noisy(scene, noise.name, 0).y
        return {"seconds": round(min(extra.run(noisy) for _ in range(repeats)), 3)}

    lines = []
    for extra in others:
        records = experiment.run(
            Trial(
                {"name": extra.name, "scene_hash": scene.sha256, "repeats": repeats},
                (noise.build, extra.parameters),
                partial(measure, extra, scene),
            )
            for scene in scenes
        )
        sides = [scene.data.shape[-1] for scene in scenes]
        seconds = {side: r["seconds"] for side, r in zip(sides, records, strict=True)}
        lines.append(TimedLine(extra.name, seconds, extra.parameters))
    return lines


def write_markdown(
    lines: Sequence[TimedLine], sides: Sequence[int], records: Sequence[Record] = ()
) -> str:
    """Both tables, with ratios."""
    names = {row: TABLE.name_of(row) for row in TABLE.rows}
    usual = names.get(Row(MAIN, model="lrtfdfr"))
    methods = {names[row]: (row.model or "", row.weights) for row in TABLE.rows}
    default = next((line for line in lines if line.name == usual), None)
    counts = sorted(count_networks(BANDS).items(), key=lambda item: item[1])
    printed = partial(_write_paper, "tab-numparams", "{1:.2f} M")
    known = [(name, _thousands(n), printed(PAPER.get(name, ""))) for name, n in counts]
    least, most = min(sides), max(sides)
    ratio = f"{most} to {least}"
    rows = []
    for line in lines:
        s = line.seconds
        grows = f"{s[most] / s[least]:.1f}" if s[least] > 0 and most > least else ""
        against = f"{s[most] / default.seconds[most]:.2f}" if default else ""
        cells = [f"{s[side]:.2f}" for side in sides]
        paper = _write_paper("tab-time", "{0:.1f}", *methods.get(line.name, ("", "")))
        rows.append([line.name, *cells, grows, against, _thousands(line.parameters), paper])
    titles = ["method", *[f"{s}x{s}" for s in sides], ratio, "to default", "parameters", "paper"]
    return write_page(
        "# Cost: parameters and seconds (tab-numparams, tab-time)",
        "## Parameters",
        f"At {BANDS} bands (3 for colour).",
        write_rows(("network", "parameters", "paper"), known),
        "## Seconds",
        "Seconds of the processor, so that other programs on the machine do not count. "
        f"Images of {BANDS} bands made by code, case-1 noise, {torch.get_num_threads()} thread(s); with the "
        f"weights where there are any. The deep image prior is timed for {FEW} iterations and "
        f"multiplied. '{ratio}': seconds at {most} over those at {least} pixels a side, "
        f"{(most / least) ** 2:g} times the pixels. 'to default': seconds at {most} over those of "
        "the default method"
        + (f", {default.name}." if default else ".")
        + " 'paper': the seconds of tab-time, of another machine, for images whose size it does not say.",
        write_rows(titles, rows),
        list_skipped(records, "model"),
    )


def _write_paper(table: str, form: str, *row: str) -> str:
    """What the paper prints for a network or a method; empty where it has nothing."""
    value = find_paper_value(table, *row)
    return "" if value is None else form.format(value, value / 1e6)


def _thousands(count: int) -> str:
    return f"{count:,}".replace(",", " ")
