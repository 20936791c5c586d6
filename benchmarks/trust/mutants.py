"""Mutants: small faults are sown at random, one at a time, and the tests must find them.

Cosmic Ray (``pip install cosmic-ray``) lists and makes the mutants: another operator, number, comparison
or exception, a decorator that is gone, a loop that never runs. A sample of places is drawn, and one
mutant of each. It is put into a copy of the repository, and the tests of its module run there until one
fails; a mutant that no test finds survives. Only the tests of ``TESTS`` run, not the whole suite, so the
score is a lower bound. What is in type annotations has no effect and is left out; so are mutants that swap
"is" and "==", which are the same for None and for short words.

    python benchmarks/trust/mutants.py --count 300 --out out/trust/mutants.jsonl

A run that was stopped goes on where it was.
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
LOADED = "torch numpy scipy.ndimage scipy.io h5py rasterio safetensors.torch pytest hypothesis zarr xarray"
"""Packages that every test process would load; each is a copy of one that has them."""
CPU_SECONDS, PATIENCE = 400, 1800.0
"""Of the tests of a mutant, by the processor and by the clock: one that takes more is found."""
SAME = {("Is", "Eq"), ("Eq", "Is"), ("IsNot", "NotEq"), ("NotEq", "IsNot")}

DENOISE = "laws/denoise laws/plain"
STRIPS = "faults/strips equivalences/both_ways equivalences/tiles"
ORACLES = "laws/operators laws/prox laws/models oracles/cvxpy oracles/originals"
FILES = "io/round_trip io/windows io/faults faults/cut_short faults/untouched io/out_is_as_in"
NAMED = "io/named io/trees io/axes faults/bombs"
TESTS = {
    "solver": f"{ORACLES} {DENOISE} {STRIPS} oracles/cvxpy_complex oracles/golden equivalences/gradient",
    "solver/backward": "equivalences/gradient",
    "solver/disk": f"{STRIPS} equivalences/resume faults/scratch",
    "solver/loop": f"{ORACLES} {DENOISE} equivalences/gradient",
    "solver/stopping": f"{ORACLES} {DENOISE} laws/strength equivalences/gradient {STRIPS}",
    "solver/strip_solver": f"faults/scratch {STRIPS} equivalences/resume",
    "solver/strip_step": f"{STRIPS} equivalences/resume",
    "weights": f"laws/weighting_softmax laws/weighting_sources laws/noise_level {DENOISE} {STRIPS}",
    "weights/block_sample": f"laws/noise_level laws/band_limits laws/rank {STRIPS}",
    "weights/noise_level": f"laws/noise_level laws/guard laws/columns {DENOISE} {STRIPS}",
    "weights/registry": "laws/weighting_sources cli/own_source cli/faults",
    "pipeline": f"{DENOISE} {STRIPS} laws/products faults/places cli/faults",
    "pipeline/accessor": "laws/labelled",
    "pipeline/advice": "laws/advise cli/auto",
    "pipeline/choose": f"laws/rank laws/strength {DENOISE} {STRIPS}",
    "pipeline/columns": f"laws/columns {DENOISE} {STRIPS}",
    "pipeline/guard": f"laws/guard {DENOISE} {STRIPS}",
    "pipeline/job": f"faults/scratch faults/untouched {STRIPS}",
    "pipeline/journal": "faults/scratch equivalences/resume cli/large_files fuzz/fuzz",
    "pipeline/limits": f"laws/band_limits {DENOISE} {STRIPS}",
    "pipeline/mild": f"laws/plain laws/rank laws/guard {DENOISE} {STRIPS}",
    "pipeline/options": f"{DENOISE} faults/results cli/faults cli/limits",
    "pipeline/pictures": "laws/picture laws/products",
    "pipeline/plan": f"cli/limits cli/tiles {STRIPS}",
    "pipeline/prepare": f"laws/band_limits faults/wild faults/untouched faults/results {DENOISE} {STRIPS}",
    "pipeline/products": "laws/products faults/places equivalences/tiles cli/faults",
    "pipeline/report": f"laws/products {DENOISE} cli/auto faults/wild",
    "pipeline/run": f"faults/results faults/places {DENOISE} {STRIPS} cli/faults",
    "pipeline/set_aside": f"faults/wild laws/columns {DENOISE} {STRIPS}",
    "pipeline/theory": "laws/theory",
    "pipeline/uncertainty": "laws/uncertainty",
    "pipeline/uncertainty_strips": "laws/uncertainty",
    "pipeline/workers": "equivalences/workers",
    "io": FILES,
    "io/array_tree": f"{NAMED} {FILES}",
    "io/atomic": f"io/atomic faults/scratch faults/console {FILES}",
    "io/cf": f"io/cf {FILES}",
    "io/checks": f"io/faults faults/bombs {NAMED} {FILES}",
    "io/envi": f"io/envi io/sensors {FILES}",
    "io/files": f"io/atomic faults/scratch faults/given {FILES}",
    "io/formats": f"io/doors io/convert cli/own_format {FILES}",
    "io/hdf5": f"{NAMED} io/cf {FILES}",
    "io/joined": f"io/pages {FILES}",
    "io/matlab": f"{NAMED} {FILES}",
    "io/metadata": f"io/wavelengths io/envi {FILES}",
    "io/named_arrays": f"{NAMED} {FILES}",
    "io/numpy_files": f"{NAMED} {FILES}",
    "io/pages": f"io/pages io/pictures {FILES}",
    "io/pictures": f"io/pictures io/geotiff {FILES}",
    "io/places": f"faults/places {FILES}",
    "io/registry": "io/doors cli/own_format cli/own_source laws/models",
    "io/spectrum": f"io/wavelengths io/sensors {FILES}",
    "io/tiff": f"io/geotiff {FILES}",
    "io/zarr3": f"io/trees {FILES} equivalences/workers",
}
"""Test files of a module, of the folder it is in, or of its room; the quick and likely ones come first."""


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


def find_tests(module: str) -> list[str]:
    """The module itself, for its doctests, and the tests of the longest name that fits."""
    name = module.removeprefix("src/hyperdlw/").removesuffix(".py")
    key = max((k for k in TESTS if f"{name}/".startswith(f"{k}/")), key=len)
    files = [f"tests/{where}/test_{what}.py" for where, what in map(_split, TESTS[key].split())]
    return [module, *dict.fromkeys(files)]


def _split(word: str) -> tuple[str, str]:
    where, _, what = word.partition("/")
    return where, what


class FirstFailure:
    """A plugin of pytest that notes which test failed first, in a file, and ends when time is up."""

    def __init__(self, file: Path, seconds: float) -> None:
        self.file, self.seconds = file, seconds

    def pytest_runtest_logfinish(self) -> None:
        spent = os.times()
        if sum(spent[:4]) > self.seconds and not self.file.exists():
            os._exit(0)  # not found so far

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def run_tests(place: Path, words: list[str], seconds: float = math.inf) -> tuple[int, str]:
    """The exit code of pytest in a copy of this process, -1 if it takes too long, and what failed.

    No test begins after so many seconds of the processor; the code is 0 if none has failed by then.
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
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.environ["PYTHONPATH"] = str(place / "src")
        sys.path.insert(0, str(place / "src"))
        code: Any = 70
        try:
            usual = ["-x", "-p", "no:cacheprovider", "-m", "not slow"]
            code = pytest.main([*usual, *words], plugins=[FirstFailure(note, seconds)])
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


@cache
def passes(place: Path, test: str) -> bool:
    """Whether a test passes without a mutant: one that does not finds nothing."""
    code, _ = run_tests(place, [test] if "::" in test else [test, "--collect-only"])
    if code not in (0, 5):  # 5: a module without doctests
        print(f"left out: {test} fails without a mutant", flush=True)
    return code in (0, 5)


def try_mutant(place: Path, mutant: Mutant, seconds: float) -> dict[str, Any]:
    """What became of a mutant."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import use_mutation

    begin = time.monotonic()
    kind = plugins.get_operator(mutant.operator)
    path = place / mutant.module
    plain = path.read_text(encoding="utf-8").splitlines()
    words = find_tests(mutant.module)
    while True:
        with use_mutation(path, kind(), mutant.occurrence):
            changed = path.read_text(encoding="utf-8").splitlines()
            code, failed = run_tests(place, words, seconds)
        if not failed or passes(place, failed):
            break
        words += ["--deselect", failed] if "::" in failed else ["--ignore", failed]
    lines = [(a.strip(), b.strip()) for a, b in zip(plain, changed, strict=False) if a != b]
    return {
        **vars(mutant),
        "survived": code == 0,
        "code": code,
        "found_by": failed,
        "seconds": round(time.monotonic() - begin),
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
        "--seconds", type=float, default=math.inf, help="of the processor for the tests of a mutant"
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
    results = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder) / "copy"
        skip = shutil.ignore_patterns(".*", "out", "build", "dist", "__pycache__")
        shutil.copytree(ROOT, place, ignore=skip)
        os.chdir(place)
        for mutant in islice(draw_sample(given.seed), given.count):
            result = done.get(name_mutant(vars(mutant)))
            again = result is None or (given.survivors and result["survived"])
            if again and time.monotonic() > until:
                break
            if again:
                result = try_mutant(place, mutant, given.seconds)
                with out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            assert result is not None
            results.append(result)
            if result["survived"]:
                print(f"survived: {mutant.module}:{mutant.start[0]} {result['change']}", flush=True)
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
