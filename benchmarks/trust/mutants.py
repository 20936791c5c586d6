"""Mutants: small faults are sown at random, one at a time, and the tests must find them.

Cosmic Ray (``pip install cosmic-ray``) lists and makes the mutants: another operator, number, comparison
or exception, a decorator that is gone, a loop that never runs. A sample of places is drawn, and one
mutant of each. It is put into a copy of the repository, and tests run there until one fails; a mutant that
no test finds survives. Which tests: those that ran the line of the mutant in a run with coverage
(``make trust-coverage``), the quick ones first, as many as fit into a budget of processor time. So the
score is a lower bound: dearer tests are not asked. What is in type annotations has no effect and is left out;
so are mutants that swap "is" and "==", which are the same for None and for short words.

    python benchmarks/trust/mutants.py --count 300 --out out/trust/mutants.jsonl

A run that was stopped goes on where it was. ``--part 1/2`` and ``--part 2/2`` are for two processes.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
ROOMS = ("solver", "weights", "pipeline", "io")
LOADED = (
    "torch numpy scipy.ndimage scipy.io scipy.sparse.linalg h5py rasterio safetensors.torch pytest "
    "hypothesis zarr xarray typer rich matplotlib.pyplot cvxpy skimage.metrics"
)
"""Packages that every test process would load; each is a copy of one that has them."""
SPARE, PATIENCE = 4.0, 1800.0
"""Tests that take so many times as long as they should, or so many seconds by the clock: it is found."""
FILE_SECONDS = 0.2
"""For a file of tests to be read."""
SAME = {("Is", "Eq"), ("Eq", "Is"), ("IsNot", "NotEq"), ("NotEq", "IsNot")}


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the n-th place that an operator of Cosmic Ray can change."""

    module: str
    digest: str
    operator: str
    occurrence: int
    start: tuple[int, int]


def list_annotations(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where type annotations begin and end; nobody reads them while the program runs."""
    for node in ast.walk(ast.parse(source)):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def list_mutants(module: Path) -> Iterator[Mutant]:
    """Every mutant of a module that can matter."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    source = module.read_text(encoding="utf-8")
    dead = list(list_annotations(source))
    nodes = list(ast_nodes(get_ast(source)))
    name, digest = module.relative_to(ROOT).as_posix(), sha256(source.encode()).hexdigest()[:12]
    for operator in plugins.operator_names():
        kind = plugins.get_operator(operator)
        if kind.arguments() or tuple(operator.split("_")[1:]) in SAME:
            continue
        places = [start for node in nodes for start, _ in kind().mutation_positions(node)]
        for i, start in enumerate(places):
            if not any(first <= start < last for first, last in dead):
                yield Mutant(name, digest, operator, i, tuple(start))


def draw_sample(seed: int) -> Iterator[Mutant]:
    """Places in a random order, and one mutant of each."""
    places: dict[tuple[str, tuple[int, int]], list[Mutant]] = defaultdict(list)
    for room in ROOMS:
        for module in sorted((ROOT / "src/hyperdlw" / room).rglob("*.py")):
            for mutant in list_mutants(module):
                places[module.as_posix(), mutant.start].append(mutant)
    rng = np.random.default_rng(seed)
    found = [places[key] for key in sorted(places)]
    print(f"{len(found)} places, {sum(map(len, found))} mutants", flush=True)
    for i in rng.permutation(len(found)):
        yield found[i][rng.integers(len(found[i]))]


class Contexts:
    """Which tests ran a line, and how long a test takes; from a run with coverage."""

    def __init__(self, data: Path, seconds: Path) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(data))
        self.data.read()
        self.files = {
            name.partition("src/hyperdlw/")[2]: name for name in self.data.measured_files()
        }
        self.seconds: dict[str, float] = defaultdict(float)
        failed = set()
        for line in seconds.read_text().splitlines():
            name, spent, passed = json.loads(line)
            self.seconds[name] += spent
            failed |= set() if passed else {name}
        for name in failed:
            del self.seconds[name]

    def find_tests(self, mutant: Mutant, budget: float) -> tuple[list[str], float]:
        """Tests of the statement, or of the module if it runs on import; and their seconds."""
        by_line = self._read_lines(mutant.module.removeprefix("src/hyperdlw/"))
        source = (ROOT / mutant.module).read_text(encoding="utf-8")
        found: set[str] = set()
        if runs_on_import(source, mutant.start[0]):  # whoever uses the module may notice
            found = {t for tests in by_line.values() for t in tests} - {""}
        for first, last in () if found else list_spans(source, mutant.start[0]):
            found |= {t for line in range(first, last + 1) for t in by_line.get(line, ())} - {""}
        chosen: list[str] = []
        spent, files = 0.0, set()
        for test in sorted(found & self.seconds.keys(), key=lambda t: (self.seconds[t], t)):
            file = test.partition("::")[0]
            cost = self.seconds[test] + FILE_SECONDS * (file not in files)
            if chosen and spent + cost > budget:
                continue
            spent += cost
            files.add(file)
            chosen.append(test)
        return chosen, spent

    @cache  # noqa: B019
    def _read_lines(self, module: str) -> dict[int, list[str]]:
        return self.data.contexts_by_lineno(self.files[module]) if module in self.files else {}


def runs_on_import(source: str, line: int) -> bool:
    """Whether a line is in no body of a function: a constant, a decorator, a default."""
    return not any(
        node.body[0].lineno <= line <= (node.end_lineno or line)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    )


def list_spans(source: str, line: int) -> list[tuple[int, int]]:
    """The line, then the smallest statement around it; bodies of its blocks are no part of it."""
    spans = [(line, line)]
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line)
    ]
    if around:
        least = min(around, key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
        body = getattr(least, "body", None)
        end = body[0].lineno - 1 if isinstance(body, list) and body else least.end_lineno
        spans.append((least.lineno, max(line, end or line)))
    return spans


class FirstFailure:
    """A plugin of pytest that notes which test failed first, in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def run_tests(place: Path, words: list[str], seconds: float) -> tuple[int, str]:
    """The exit code of pytest in a copy of this process, -1 if it takes too long, and what failed.

    Whatever takes so many seconds of the processor is ended by a signal.
    """
    import pytest

    note = place.parent / "failed"
    note.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        os.environ["PYTHONPATH"] = str(place / "src")
        sys.path.insert(0, str(place / "src"))
        code: Any = 70
        try:
            usual = ["-x", "-p", "no:cacheprovider", "-m", "not slow"]
            code = pytest.main([*usual, *words], plugins=[FirstFailure(note)])
        finally:
            os._exit(int(code))
    until = time.monotonic() + PATIENCE
    found, status = 0, 0
    while not found and time.monotonic() < until:
        time.sleep(0.1)
        found, status = os.waitpid(child, os.WNOHANG)
    end_group(child)
    if not found:
        os.waitpid(child, 0)
        return -1, ""
    return os.waitstatus_to_exitcode(status), note.read_text() if note.exists() else ""


def end_group(leader: int) -> None:
    """What the tests started and left."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def find_broken(place: Path, tests: list[str]) -> set[str]:
    """Tests that fail without a mutant, too, of those that found one: they found nothing."""
    broken: set[str] = set()
    while tests:
        code, failed = run_tests(place, tests, 4000)
        if code in (0, 5) or not failed:
            break
        print(f"{failed} fails without a mutant: what it found is tried again", flush=True)
        broken.add(failed)
        tests = [t for t in tests if t != failed]
    return broken


def try_mutant(place: Path, mutant: Mutant, contexts: Contexts, budget: float) -> dict[str, Any]:
    """What became of a mutant."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import use_mutation

    begin = os.times()
    kind = plugins.get_operator(mutant.operator)
    path = place / mutant.module
    plain = path.read_text(encoding="utf-8").splitlines()
    words, expected = contexts.find_tests(mutant, budget)
    code, failed = 0, ""
    with use_mutation(path, kind(), mutant.occurrence):
        changed = path.read_text(encoding="utf-8").splitlines()
        if words:
            code, failed = run_tests(place, words, 30 + SPARE * expected)
    if code == -signal.SIGTERM:  # somebody ended the tests: nothing is known
        sys.exit("stopped from outside; run again to go on")
    lines = [(a.strip(), b.strip()) for a, b in zip(plain, changed, strict=False) if a != b]
    return {
        **vars(mutant),
        "survived": code in (0, 5),  # 5: no test is left
        "code": code,
        "tests": len(words),
        "found_by": failed,
        "seconds": round(sum(os.times()[:4]) - sum(begin[:4]), 1),
        "change": lines[:1],
    }


def wilson(found: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    share, room = found / count, z * z / count
    middle = (share + room / 2) / (1 + room)
    half = z * math.sqrt(share * (1 - share) / count + room / (4 * count)) / (1 + room)
    return middle - half, middle + half


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no mutant after these"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=20,
        help="seconds of the processor for the tests of a mutant",
    )
    parser.add_argument("--part", default="1/1", help="of several processes")
    parser.add_argument(
        "--coverage", type=Path, default=ROOT / "out/trust/coverage", help="a run with contexts"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out/trust/mutants.jsonl")
    parser.add_argument("--survivors", action="store_true", help="try again those that survived")
    given = parser.parse_args()
    for package in LOADED.split():
        import_module(package)
    out = given.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = out.read_text().splitlines() if out.exists() else []
    done = {name_mutant(r): r for r in map(json.loads, lines)}
    until = time.monotonic() + 60 * given.minutes
    part, parts = map(int, given.part.split("/"))
    seconds = given.coverage.resolve().with_name("seconds.jsonl")
    contexts = Contexts(given.coverage.resolve(), seconds)
    results = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder) / "copy"
        skip = shutil.ignore_patterns(".*", "out", "build", "dist", "__pycache__")
        shutil.copytree(ROOT, place, ignore=skip)
        if (ROOT.parent / "shared").is_dir():  # data for some tests
            (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        os.chdir(place)
        for i, mutant in enumerate(islice(draw_sample(given.seed), given.count)):
            result = done.get(name_mutant(vars(mutant)))
            if result is None and i % parts != part - 1:
                continue
            again = result is None or (given.survivors and result["survived"])
            if again and time.monotonic() > until:
                break
            if again:
                result = try_mutant(place, mutant, contexts, given.budget)
                with out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            assert result is not None
            results.append(result)
            if result["survived"]:
                print(f"survived: {mutant.module}:{mutant.start[0]} {result['change']}", flush=True)
        finders = {r["found_by"] for r in results if "::" in r["found_by"]}
        broken = find_broken(place, sorted(finders))
    if broken:
        sound = [r for r in results if r["found_by"] not in broken]
        out.write_text("".join(json.dumps(r) + "\n" for r in sound))
        with seconds.open("a") as file:
            file.writelines(json.dumps([t.partition("[")[0], 0, False]) + "\n" for t in broken)
        print("run again", flush=True)
        return 1
    count = max(1, len(results))
    found = sum(not r["survived"] for r in results)
    low, high = wilson(found, count)
    print(
        f"{found} of {len(results)} found: {found / count:.0%}, 95 % interval {low:.0%} to {high:.0%}"
    )
    return 0


def name_mutant(facts: dict[str, Any]) -> tuple[Any, ...]:
    """What tells mutants apart; a module that was changed has others."""
    return tuple(facts[key] for key in ("module", "digest", "operator", "occurrence"))


if __name__ == "__main__":
    sys.exit(main())
