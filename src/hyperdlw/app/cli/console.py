"""What the command line prints: one line in a log, a table or a bar on a terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import make_harmless

if TYPE_CHECKING:
    from torch import Tensor

    from ...io import CubeReader, Described
    from ...pipeline import Advice, Audit, Options, Plan, Report
    from ...solver import State

OK, USAGE, NOT_CONVERGED, RESOURCE, UNEXPECTED, INTERRUPTED = 0, 1, 3, 4, 70, 130
"""Exit codes; bad input and everything else a DlwError says has the code of the error (2)."""

out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)


typed: list[str] = []
"""The words of the command line that runs, for those who want to repeat it."""


class ConsoleProgress(ExitStack):
    """Prints notes and the plan of a run, then a bar on a terminal, or a line every ten seconds.

    It has the methods of :class:`hyperdlw.pipeline.Progress`, which is not imported here: torch takes
    seconds.
    """

    def __init__(self, silent: bool) -> None:
        super().__init__()
        self.silent = silent
        self.reader: CubeReader | None = None
        self._update: Callable[..., None] | None = None
        self._last = time.monotonic()

    def show_bar(self, stage: str, total: int | None) -> None:
        """Begin a bar, on a terminal."""
        if self.silent or not err.is_terminal:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(*columns, TimeElapsedColumn(), console=err, transient=True)
        self._update = partial(self.enter_context(bar).update, bar.add_task(stage, total=total))

    def plan_made(self, plan: Plan, reader: CubeReader, options: Options) -> None:
        self.reader = reader
        print_notes(reader.metadata.get("notes", ()), self.silent)
        if not plan.tiled:
            self.show_bar("weights", options.count_steps(reader.shape))
            return
        if not self.silent:
            err.print(f"hyperdlw: plan: {plan}", markup=False)
            if not reader.lazy:
                err.print("hyperdlw: note: this format is read whole; convert it to ENVI or Zarr")
        self.show_bar("copy", None)

    def step_made(self, state: State[Tensor]) -> None:
        if self._update is not None:
            self._update(advance=1, description="solving")

    def item_done(self, stage: str, done: int, count: int) -> None:
        if self._update is not None:
            self._update(description=stage, completed=done, total=count)
        elif not self.silent and time.monotonic() - self._last > 10:
            self._last = time.monotonic()
            err.print(f"hyperdlw: {stage}: {done} of {count}", markup=False)


def report_shortfall(report: Report, strict: bool, quiet: bool) -> None:
    """Say that the solver fell short; that is an error if asked for."""
    if report.converged:
        return
    short = ", ".join(f"{k} {v:.1e}" for k, v in report.residuals.items())
    text = f"the solver did not converge in {report.steps} steps (residuals: {short})"
    if strict:
        complain(f"{text}; nothing was written")
        raise typer.Exit(NOT_CONVERGED)
    if not quiet:
        complain(f"warning: {text}")


def list_facts(
    report: Report, cube: Described, target: str, save_weights: str | None
) -> dict[str, object]:
    """What was done to a cube, by name."""
    return {
        "model": report.title,
        "weights": report.weights,
        "noise": report.describe_noise(),
        "bands": describe_bands(report.bands_used, report.bands_skipped, cube),
        "invalid voxels": report.invalid_voxels,
        "clipped voxels": report.clipped_voxels,
        "range": report.range,
        "steps": report.steps,
        "seconds": f"{report.seconds['total']:.2f}",
        "weight map": save_weights,
        "output": target,
    }


def list_advice(found: Advice, cube: Described) -> list[tuple[str, str]]:
    """The recommendation and what was seen, a row each."""
    rows = [
        (f"model {found.model}", found.reasons["model"]),
        (f"network {found.network}", found.reasons["network"]),
        (f"strength {found.strength:.3g}", found.reasons["strength"]),
        (f"rank {found.rank}", found.reasons["rank"]),
    ]
    levels = [b.sigma for b in found.bands]
    middle = sorted(levels)[len(levels) // 2]
    worst = max(found.bands, key=lambda b: b.sigma)
    rows.append(
        (
            f"noise {middle:.3g}",
            f"of the signal range in the middle band; largest {worst.sigma:.3g} in "
            + name_band(worst.band, cube),
        )
    )
    for band, why in found.bad_bands.items():
        rows.append((f"{name_band(band, cube)} is bad", why))
    seen = {
        "impulses": {b: f"{100 * s:.0f} %" for b, s in found.impulse_bands.items()},
        "dead columns": {b.band: _few(b.dead) for b in found.bands},
        "striped columns": {b.band: _few(b.striped) for b in found.bands},
        "dead rows": {b.band: _few(b.dead_rows) for b in found.bands},
        "striped rows": {b.band: _few(b.striped_rows) for b in found.bands},
    }
    for what, where in seen.items():
        hit = [f"{name_band(band, cube)}: {text}" for band, text in where.items() if text]
        rows.append((what, "; ".join(hit) if hit else "none found"))
    return rows


def _few(numbers: Sequence[int], most: int = 6) -> str:
    """The first numbers of a list.

    >>> _few(range(9))
    '0, 1, 2, 3, 4, 5 and 3 more'
    """
    text = ", ".join(map(str, numbers[:most]))
    return text + (f" and {len(numbers) - most} more" if len(numbers) > most else "")


def name_band(band: int, cube: Described) -> str:
    """A band for people: its number from 1, and its wavelength."""
    waves = cube.wavelengths
    return f"band {band + 1}" + ("" if waves is None else f" ({waves[band]:g} nm)")


def describe_bands(used: int, skipped: Mapping[int, str], cube: Described, most: int = 8) -> str:
    """How many bands were used, and which were not and why."""
    text = f"{used} of {cube.bands} used"
    if not skipped:
        return text
    named = [f"{name_band(b, cube)} {why}" for b, why in list(skipped.items())[:most]]
    more = [f"and {len(skipped) - most} more"] if len(skipped) > most else []
    return f"{text} (skipped: {', '.join(named + more)})"


def print_audit(found: Audit | None, cube: Described) -> None:
    """Whether what was removed is noise, in one line."""
    if found is not None:
        out.print(f"audit: {found.describe(cube.wavelengths)}", markup=False)


def print_next(*words: object) -> None:
    """The command that comes next, ready to be copied; a log does without."""
    import shlex

    if out.is_terminal:
        text = make_harmless(shlex.join(map(str, words)))
        out.print(f"next: hyperdlw {text}", markup=False)


def print_notes(notes: Iterable[str], silent: bool) -> None:
    """What a user should know, a line each."""
    for note in () if silent else notes:
        err.print(f"hyperdlw: note: {make_harmless(note)}", markup=False)


def print_summary(facts: Mapping[str, object], line: bool = True) -> None:
    """What is known, one fact a row; off a terminal a single line unless ``line`` is False."""
    shown = {k: make_harmless(v) for k, v in facts.items() if v is not None and v != ""}
    if line and not out.is_terminal:
        out.print("; ".join(f"{k} {v}" for k, v in shown.items()), markup=False)
        return
    print_table(None, list(shown.items()))


def print_table(head: tuple[str, str] | None, rows: Sequence[tuple[str, str]]) -> None:
    """Two columns; a log has no width, so nothing is folded or cut there."""
    rows = [(make_harmless(first), make_harmless(second)) for first, second in rows]
    if not out.is_terminal:
        lines = [*([head] if head else []), *rows]
        width = max(len(first) for first, _ in lines)
        for first, second in lines:
            print(f"{first:<{width}}  {second}")
        return
    table = Table(box=None, show_header=head is not None, pad_edge=False, header_style="bold")
    for title in head or ("", ""):
        table.add_column(title, overflow="fold")
    for first, second in rows:
        # Text and not str: a file name with brackets is not markup.
        table.add_row(Text(first, style="" if head else "dim"), Text(second))
    out.print(table, soft_wrap=False)


def print_json(value: Mapping[str, object]) -> None:
    """JSON, with null for what it has no number for."""
    from ...io import to_json

    print(json.dumps(to_json(value), indent=2, allow_nan=False))


def complain(text: str) -> None:
    """A sentence for people, where errors go."""
    print("hyperdlw: " + make_harmless(" ".join(text.split())), file=sys.stderr)
