"""Runs the cases of a table and appends one record each to a JSONL file; finished cases are skipped."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__, models
from ..errors import BadFile, DlwError
from ..models import denoisers
from ..models import published as rivals
from ..networks import files as store
from ..solver import Model, Problem, solve
from ..testbed import Noisy, Truth, noise, psnr, scores
from ..weights import Net, Source, resolve
from . import parameters
from .cases import Case, Files, Scene
from .tables import REFERENCE, Row, Table

GRID = tuple(2.0**k for k in range(-3, 7))
"""Strengths that "best" chooses from."""

NOTHING = Files()


def reference_networks(folder: str | Path) -> dict[str, Path]:
    """Checkpoints released with the paper, by the names of our networks.

    The files are called DLWnet_<sources>_Complex_10.pth with NUCLR, TV and TVS for N, T and TS.
    """
    folder = Path(folder)
    short = {"NUCLR": "N", "TV": "T", "TVS": "TS"}
    found = {}
    for path in sorted(folder.glob("DLWnet_*_Complex_*.pth")):
        parts = path.stem.removeprefix("DLWnet_").split("_Complex")[0].split("_")
        if all(p in short for p in parts):
            found[REFERENCE + "+".join(short[p] for p in parts)] = path
    if not found:
        raise BadFile(f"there is no checkpoint DLWnet_*_Complex_*.pth in {folder}")
    return found


def rival_networks(folder: str | Path) -> dict[str, Path]:
    """Files <architecture>.safetensors of rival networks, by architecture."""
    found = {n: Path(folder) / f"{n}.safetensors" for n in store.RIVALS}
    found = {n: path for n, path in found.items() if path.is_file()}
    if not found:
        wanted = " or ".join(f"{n}.safetensors" for n in store.RIVALS)
        raise BadFile(f"there is no network {wanted} in {folder}")
    return found


def plan(
    table: Table, scenes: Iterable[Scene], seeds: Iterable[int], files: Files = NOTHING
) -> list[Case]:
    """Every case of a table; rows of the reference networks follow ours."""
    extra = [replace(r, weights=REFERENCE + r.weights) for r in table.rows]
    rows = [*table.rows, *[r for r in extra if r.weights in files.reference]]
    # A rival takes no weights, so it is run once whatever the rows are.
    cells = list(
        dict.fromkeys((Row("") if rivals.is_rival(m) else r, m) for r, m in table.cells(rows))
    )
    hashes = {(r, m): _hash(r.weights, m, files) for r, m in cells}
    seeds = tuple(seeds)
    cases = []
    for scene in scenes:
        sha = scene.sha256
        for number in table.noise:
            for seed in seeds:
                where = (scene.name, sha, number, seed)
                cases.append(Case(*where, model="noisy", weights=""))
                cases += [
                    Case(
                        *where,
                        model=m,
                        weights=r.weights,
                        source=hashes[r, m],
                        strength=r.strength,
                    )
                    for r, m in cells
                ]
    return cases


def _hash(weights: str, model: str, files: Files) -> str:
    """Hashes of the networks behind weights and model; empty without any."""
    if rivals.is_rival(model):
        try:
            return rivals.find(str(files.rivals.get(model, model))).sha256[:16]
        except DlwError:  # the case itself will say why
            return ""
    found = [network_hash(weights, files)]
    if models.find(model).takes_denoiser:
        found.append(denoisers.trained(files.denoiser or "eigen")[1] or str(files.denoiser))
    return "+".join(h[:16] for h in found if h)


def network_hash(weights: str, files: Files = NOTHING) -> str:
    """SHA-256 of the file of a network, shipped or released with the paper; empty for other weights."""
    if weights in files.reference:
        return hashlib.sha256(files.reference[weights].read_bytes()).hexdigest()
    return store.load_network(weights).sha256 if weights in store.list_networks() else ""


def source_of(weights: str, files: Files = NOTHING, truth: Truth | None = None) -> Source:
    """The weight source of a row, shipped or released with the paper."""
    if weights in files.reference:
        net, _ = store.import_checkpoint(files.reference[weights])
        return Net(net, weights)
    return resolve(weights, truth)


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Finished records by key; a line cut off by a crash is dropped."""
    records: dict[str, dict[str, Any]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                records[record["key"]] = record
            except (ValueError, KeyError, TypeError):
                continue
    return records


def append(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Add records to a JSONL file."""
    # A line left without its end by a crash must not swallow the next record.
    broken = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * broken + "".join(json.dumps(r) + "\n" for r in records))


@dataclass(frozen=True, eq=False)
class Group:
    """Cases that share one noisy cube."""

    scene: Scene
    noise: int
    seed: int
    cases: tuple[Case, ...]
    files: Files
    threads: int | None = None


def run(
    cases: Iterable[Case],
    scenes: Iterable[Scene],
    path: str | Path,
    *,
    files: Files = NOTHING,
    workers: int = 1,
    report: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run what is not in the file yet, append it, and return the records of all ``cases``.

    Args:
        path: JSONL file of records.
        files: what the rows need beside the package.
        workers: processes; each one uses a single thread when there are several.
        report: called with (finished, total) cases.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    cases = list(cases)
    by_name = {s.name: s for s in scenes}
    done = read_records(path)
    groups: dict[tuple[str, int, int], list[Case]] = defaultdict(list)
    for case in cases:
        if case.key not in done:
            groups[case.scene, case.noise, case.seed].append(case)
    threads = 1 if workers > 1 else None
    work = [
        Group(by_name[name], number, seed, tuple(some), files, threads)
        for (name, number, seed), some in groups.items()
    ]
    finished = len(cases) - sum(len(g.cases) for g in work)
    for records in _map(work, workers):
        done |= {record["key"]: record for record in records}
        append(path, records)
        finished += len(records)
        if report is not None:
            report(finished, len(cases))
    return [done[c.key] for c in cases]


def _map(work: list[Group], workers: int) -> Iterable[list[dict[str, Any]]]:
    if workers <= 1 or len(work) <= 1:
        for group in work:
            yield from ([record] for record in each(group))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_group, work)


def make_noisy(scene: Scene, number: int, seed: int) -> Noisy:
    """The noisy cube of a group; its stream depends on the scene, the noise case and the seed."""
    stream = [seed, number, int(scene.sha256[:8], 16)]
    return noise.case(number, scene.data, np.random.default_rng(stream))


def run_group(group: Group) -> list[dict[str, Any]]:
    """Records of all cases on one noisy cube."""
    return list(each(group))


def each(group: Group) -> Iterator[dict[str, Any]]:
    """The records of a group, one after the other."""
    if group.threads is not None:
        torch.set_num_threads(group.threads)
    noisy = make_noisy(group.scene, group.noise, group.seed)
    restore = Restorer(group.scene, noisy, group.files)
    for case in group.cases:
        record: dict[str, Any] = {"key": case.key, **case.as_dict(), "version": __version__}
        try:
            if case.model == "noisy":
                record |= scores(group.scene.data, noisy.y, clip=False)
            else:
                x, facts = restore(case)
                record |= {**scores(group.scene.data, x.numpy()), **facts}
        except DlwError as error:
            record["skipped"] = str(error)
        yield record


Spent = dict[str, float]
"""Seconds on the clock, and of the processor, which other programs on the machine do not lengthen."""


class Clock:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def spent(self, ending: str = "") -> Spent:
        """Seconds since then, under names with an ending."""
        wall, processor = self.begin
        return {
            f"seconds{ending}": round(time.perf_counter() - wall, 3),
            f"processor{ending}": round(time.process_time() - processor, 3),
        }


class Restorer:
    """Runs cases on one noisy cube; every weight map is computed once."""

    def __init__(self, scene: Scene, noisy: Noisy, files: Files = NOTHING) -> None:
        self.scene, self.noisy, self.files = scene, noisy, files
        self.y = torch.from_numpy(noisy.y)
        self.valid = torch.ones_like(self.y, dtype=torch.bool)
        self.known: dict[str, tuple[Source, torch.Tensor, Spent]] = {}

    def __call__(self, case: Case) -> tuple[torch.Tensor, dict[str, Any]]:
        """The restored cube, and how it was made: seconds, parameters, settings."""
        if rivals.is_rival(case.model):
            return self._rival(case)
        if case.weights not in self.known:
            clock = Clock()
            source = source_of(case.weights, self.files, self.noisy.truth)
            w = source(self.y, self.valid)
            self.known[case.weights] = source, w, clock.spent("_weights")
        return self._solve(case, *self.known[case.weights])

    def _rival(self, case: Case) -> tuple[torch.Tensor, dict[str, Any]]:
        name = str(self.files.rivals.get(case.model, case.model))
        entry = rivals.find(name)
        clock = Clock()
        x = rivals.restore(name, self.y, seed=case.seed)
        none = {"seconds_weights": 0.0, "processor_weights": 0.0}
        return x, {"parameters": entry.parameters, **clock.spent(), **none}

    def _solve(
        self, case: Case, source: Source, w: torch.Tensor, before: Spent
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        y, original = self.y, source.wants_original
        denoiser = self.files.denoiser if models.find(case.model).takes_denoiser else None
        clock = Clock()

        def build(strength: float) -> Model:
            return models.build(case.model, y.shape, strength, original=original, denoiser=denoiser)

        def restore(strength: float) -> torch.Tensor:
            model, weights = build(strength), w
            x = solve(Problem(model, y, weights)).x
            for _ in range(source.rounds - 1):
                weights = source(y, self.valid, x)
                x = solve(Problem(model, y, weights)).x
            return x

        if case.strength == "best":
            clean = self.scene.data
            strength = max(GRID, key=lambda s: psnr(clean, restore(s).numpy()))
        else:
            strength = float(case.strength)
        x = restore(strength)
        spent = clock.spent()
        own = parameters.of_model(case.model, len(y), denoiser)
        return x, {
            "strength_used": strength,
            "settings": settings(build(strength)),
            "parameters": own + parameters.of_source(source),
            **spent,
            **before,
        }


def settings(model: Model) -> str:
    """How a model is run, in a few words.

    >>> settings(models.build("tv", (31, 64, 64)))
    'data term weighted_l2, 20 steps, mu 0.1 growing by 1.05'
    """
    plan = model.schedule
    words = [f"data term {model.fidelity.name}"]
    words += [] if model.rank is None else [f"rank {model.rank}"]
    words += [f"{plan.steps} steps", f"mu {plan.mu:.3g} growing by {plan.growth:g}"]
    return ", ".join(words)
