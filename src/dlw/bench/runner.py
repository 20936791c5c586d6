"""Runs the cases of a table and appends one record each to a JSONL file; finished cases are skipped."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__, models, noise, rivals, store
from ..errors import BadFile, DlwError
from ..metrics import psnr, scores
from ..noise import Noisy
from ..solver import Model, Problem, solve
from ..weighting import Net, Source, resolve, wants_original
from .cases import Case, Scene
from .tables import REFERENCE, Row, Table

GRID = tuple(2.0**k for k in range(-3, 7))
"""Strengths that "best" chooses from."""


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


def plan(
    table: Table, scenes: Iterable[Scene], seeds: Iterable[int], reference: Mapping[str, Path]
) -> list[Case]:
    """Every case of a table; rows of the reference networks follow ours of the same name."""
    ours = {r.weights for r in table.rows}
    extra = [Row(name) for name in reference if name.removeprefix(REFERENCE) in ours]
    rows = list(table.rows) + (extra if table.models else [])
    # A rival takes no weights, so it is run once whatever the rows are.
    cells = list(
        dict.fromkeys((Row("") if rivals.is_rival(m) else r, m) for r, m in table.cells(rows))
    )
    hashes = {r.weights: _hash(r.weights, reference) for r in rows}
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
                        source=_rival_hash(m) if rivals.is_rival(m) else hashes[r.weights],
                        strength=r.strength,
                    )
                    for r, m in cells
                ]
    return cases


def _rival_hash(model: str) -> str:
    try:
        return rivals.find(model).sha256[:16]
    except DlwError:  # the case itself will say why
        return ""


def _hash(weights: str, reference: Mapping[str, Path]) -> str:
    if weights in reference:
        return hashlib.sha256(reference[weights].read_bytes()).hexdigest()[:16]
    if weights in store.names():
        return store.load(weights).sha256[:16]
    return ""


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


@dataclass(frozen=True, eq=False)
class Group:
    """Cases that share one noisy cube."""

    scene: Scene
    noise: int
    seed: int
    cases: tuple[Case, ...]
    reference: Mapping[str, Path]
    threads: int | None = None


def run(
    cases: Iterable[Case],
    scenes: Iterable[Scene],
    path: str | Path,
    *,
    reference: Mapping[str, Path] | None = None,
    workers: int = 1,
    report: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run what is not in the file yet, append it, and return the records of all ``cases``.

    Args:
        path: JSONL file of records.
        reference: checkpoints behind the reference rows.
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
        Group(by_name[name], number, seed, tuple(some), reference or {}, threads)
        for (name, number, seed), some in groups.items()
    ]
    finished = len(cases) - sum(len(g.cases) for g in work)
    # A line left without its end by a crash must not swallow the next record.
    broken = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        if broken:
            file.write("\n")
        for records in _map(work, workers):
            for record in records:
                done[record["key"]] = record
                file.write(json.dumps(record) + "\n")
            file.flush()
            finished += len(records)
            if report is not None:
                report(finished, len(cases))
    return [done[c.key] for c in cases]


def _map(work: list[Group], workers: int) -> Iterable[list[dict[str, Any]]]:
    if workers <= 1 or len(work) <= 1:
        yield from map(run_group, work)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_group, work)


def make_noisy(scene: Scene, number: int, seed: int) -> Noisy:
    """The noisy cube of a group; its stream depends on the scene, the noise case and the seed."""
    stream = [seed, number, int(scene.sha256[:8], 16)]
    return noise.case(number, scene.data, np.random.default_rng(stream))


def run_group(group: Group) -> list[dict[str, Any]]:
    """Records of all cases on one noisy cube; every weight map is computed once."""
    if group.threads is not None:
        torch.set_num_threads(group.threads)
    noisy = make_noisy(group.scene, group.noise, group.seed)
    y = torch.from_numpy(noisy.y)
    valid = torch.ones_like(y, dtype=torch.bool)
    cache: dict[str, tuple[Source, torch.Tensor, float]] = {}
    records = []
    for case in group.cases:
        record: dict[str, Any] = {"key": case.key, **case.as_dict(), "version": __version__}
        begin = time.perf_counter()
        try:
            if case.model == "noisy":
                record |= scores(group.scene.data, noisy.y, clip=False)
            elif rivals.is_rival(case.model):
                record |= _run_rival(case, group.scene, y)
            else:
                if case.weights not in cache:
                    source = _source(case.weights, group.reference, noisy)
                    cache[case.weights] = (source, source(y, valid), time.perf_counter() - begin)
                record |= _solve(case, group.scene, y, valid, *cache[case.weights])
        except DlwError as error:
            record["skipped"] = str(error)
        records.append(record)
    return records


def _source(name: str, reference: Mapping[str, Path], noisy: Noisy) -> Source:
    if name in reference:
        net, _ = store.import_checkpoint(reference[name])
        return Net(net, name)
    return resolve(name, noisy.truth)


def _run_rival(case: Case, scene: Scene, y: torch.Tensor) -> dict[str, Any]:
    entry = rivals.find(case.model)
    begin = time.perf_counter()
    x = rivals.restore(case.model, y, seed=case.seed)
    seconds = {"seconds": round(time.perf_counter() - begin, 3), "seconds_weights": 0.0}
    return {**scores(scene.data, x.numpy()), "parameters": entry.parameters, **seconds}


def _solve(
    case: Case,
    scene: Scene,
    y: torch.Tensor,
    valid: torch.Tensor,
    source: Source,
    w: torch.Tensor,
    spent: float,
) -> dict[str, Any]:
    begin = time.perf_counter()

    def restore(strength: float) -> torch.Tensor:
        model = models.build(case.model, y.shape, strength, original=wants_original(source))
        weights = w
        x = solve(Problem(model, y, weights)).x
        for _ in range(source.rounds - 1):
            weights = source(y, valid, x)
            x = solve(Problem(model, y, weights)).x
        return x

    if case.strength == "best":
        strength = max(GRID, key=lambda s: psnr(scene.data, restore(s).numpy()))
    else:
        strength = float(case.strength)
    x = restore(strength)
    used = models.build(case.model, y.shape, strength, original=wants_original(source))
    seconds = {"seconds": round(time.perf_counter() - begin, 3), "seconds_weights": round(spent, 3)}
    return {
        **scores(scene.data, x.numpy()),
        "strength_used": strength,
        "settings": settings(used),
        **seconds,
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
