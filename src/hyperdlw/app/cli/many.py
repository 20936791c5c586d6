"""Several cubes in one command: which files there are, where each goes, and what became of them."""

from __future__ import annotations

import glob
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import typer

from ...errors import BadFile, BadOption, DlwError
from . import console

MANIFEST = "manifest.json"
Job = tuple[str, str]
"""Input and output."""


@dataclass(frozen=True)
class FileOutcome:
    """What became of a file: ``done``, ``skipped`` or ``failed`` with a sentence."""

    source: str
    target: str
    state: str
    seconds: float = 0.0
    why: str = ""
    code: int = 0
    report: Mapping[str, object] | None = None

    @property
    def words(self) -> str:
        if self.state == "done":
            return f"done in {self.seconds:.1f} s: {self.target}"
        return f"{self.state}: {self.why}"


def find_inputs(paths: Sequence[str]) -> list[str] | None:
    """The cubes that are named, or None if it is one and named as such.

    A pattern is expanded, if the shell did not; a folder that is no cube itself gives its cubes.
    """
    found: list[str] = []
    several = len(paths) > 1
    for path in paths:
        if not os.path.exists(path) and glob.has_magic(path):
            here = sorted(glob.glob(path))
            if not here:
                raise BadFile(f"no file is named as {path}; check the pattern and the folder")
            found, several = found + here, True
        elif os.path.isdir(path) and not _is_cube(Path(path)):
            here = [str(p) for p in sorted(Path(path).iterdir()) if _is_cube(p)]
            if not here:
                raise BadFile(f"{path} is a folder without cubes; give one that holds some")
            found, several = found + here, True
        else:
            found.append(path)
    return _leave_out_data(found) if several else None


def _leave_out_data(paths: Sequence[str]) -> list[str]:
    """Without the data files of ENVI headers that are among the paths."""
    heads = {Path(p).with_suffix("") for p in paths if p.lower().endswith(".hdr")}

    def is_data(path: str) -> bool:
        place = Path(path)
        return place.suffix.lower() != ".hdr" and bool({place, place.with_suffix("")} & heads)

    return [path for path in paths if not is_data(path)]


def _is_cube(path: Path) -> bool:
    """Whether a file or folder is of a known format, and names its cube: of ENVI, the header."""
    from ... import io

    if path.name.startswith(".") or path.name == MANIFEST:
        return False
    if path.is_dir():
        store = any((path / mark).is_file() for mark in ("zarr.json", ".zgroup", ".zarray"))
        return store or any(p.suffix.lower() == ".png" for p in path.iterdir())
    try:
        _, form = io.find_format(path, io.ReadOptions())
    except DlwError:
        return False
    return form.name != "envi" or path.suffix.lower() == ".hdr"


def make_jobs(inputs: Sequence[str], folder: str) -> list[Job]:
    """Each input goes into the folder under its own name."""
    names = [Path(path.rstrip("/")).name for path in inputs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadOption(f"two inputs are called {twice[0]}; denoise them into different folders")
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise BadOption(f"{folder} is a file; several cubes go into a folder")
    if not place.absolute().parent.is_dir():
        raise BadFile(f"there is no folder {place.parent} to make {place.name} in; create it first")
    return [(path, str(place / name)) for path, name in zip(inputs, names, strict=True)]


def denoise_one(
    job: Job, settings: Mapping[str, object], threads: int | None = None
) -> FileOutcome:
    """Denoise a file; every error becomes a sentence."""
    import torch

    from ...pipeline import denoise_file

    if threads is not None:
        torch.set_num_threads(threads)
    source, target = job
    begin = time.perf_counter()
    try:
        report = denoise_file(source, target, **settings)  # type: ignore[arg-type]
        if settings.get("strict") and not report.converged:
            why = f"the solver did not converge in {report.steps} steps; nothing was written"
            return FileOutcome(source, target, "failed", why=why, code=console.NOT_CONVERGED)
    except DlwError as error:
        return FileOutcome(source, target, "failed", why=str(error), code=error.exit_code)
    except Exception as error:
        why = f"unexpected {type(error).__name__}: {error}"
        return FileOutcome(source, target, "failed", why=why, code=console.UNEXPECTED)
    return FileOutcome(source, target, "done", time.perf_counter() - begin, report=report.as_dict())


def run_jobs(
    jobs: Sequence[Job], settings: Mapping[str, object], workers: int | None
) -> Iterator[FileOutcome]:
    """The outcomes as they come: one file after the other, or one in each worker."""
    if workers is None or workers == 1 or len(jobs) < 2:
        yield from (denoise_one(job, settings) for job in jobs)
        return
    threads = max(1, (os.cpu_count() or 1) // workers)
    work = partial(denoise_one, settings=settings, threads=threads)
    with ExitStack() as stack:
        # Forked, a process would share the threads of torch.
        pool = ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn"))
        stack.callback(pool.shutdown, cancel_futures=True)
        waiting = [pool.submit(work, job) for job in jobs]
        yield from (future.result() for future in as_completed(waiting))


@dataclass(frozen=True)
class Telling:
    """What is printed on the way and at the end."""

    as_json: bool = False
    quiet: bool = False


def denoise_all(
    jobs: Sequence[Job],
    settings: Mapping[str, object],
    *,
    telling: Telling,
    workers: int | None = None,
    skip: bool = False,
) -> None:
    """Denoise files into a folder, with a manifest; exits with the code of the worst failure."""
    folder = Path(jobs[0][1]).parent
    folder.mkdir(exist_ok=True)
    there = [job for job in jobs if skip and os.path.lexists(job[1])]
    found = {job[0]: FileOutcome(*job, "skipped", why=f"{job[1]} exists") for job in there}
    for done in run_jobs([job for job in jobs if job not in there], settings, workers):
        found[done.source] = done
        if not (telling.quiet or telling.as_json) or done.code:
            count = f"{len(found)} of {len(jobs)}"
            console.complain(f"{count}: {done.source} {done.words}")
        write_manifest(folder / MANIFEST, [found[s] for s, _ in jobs if s in found])
    outcomes = [found[source] for source, _ in jobs]
    write_manifest(folder / MANIFEST, outcomes)
    if telling.as_json:
        console.print_json(describe_outcomes(outcomes))
    elif not telling.quiet:
        console.print_table(("file", "result"), [(o.source, o.words) for o in outcomes])
    worst = max(o.code for o in outcomes)
    if worst:
        raise typer.Exit(worst)


def describe_outcomes(outcomes: Sequence[FileOutcome]) -> dict[str, object]:
    """What became of all files: how many of each kind, and every one of them."""
    states = [o.state for o in outcomes]
    counts = {state: states.count(state) for state in ("done", "skipped", "failed")}
    names = {"source": "input", "target": "output", "why": "message"}
    files = [{names.get(k, k): v for k, v in vars(o).items()} for o in outcomes]
    return {**counts, "files": files}


def write_manifest(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """The same as a file of JSON, which is whole at any time."""
    from ... import io

    text = json.dumps(io.to_json(describe_outcomes(outcomes)), indent=2, allow_nan=False)
    with io.atomic(path, overwrite=True) as tmp:
        tmp.write_text(text + "\n")
