"""Fuzzing by the hour: the tests of ``tests/fuzz`` with many examples, each run with another seed.

The target that had the least time so far comes next. A line of the ledger is a run: target, seed, examples,
seconds of the processor, most memory, exit code and the version of the source. Runs add up, over days if
need be, until the hours are full; only runs that ended by themselves are counted.

    python benchmarks/trust/fuzz.py --hours 4 --out out/trust/fuzz.jsonl

``--tell`` prints the sum. What a run found is repeated with
``HYPERDLW_FUZZ=EXAMPLES pytest TARGET --hypothesis-seed=SEED``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARK = "tests/fuzz/test_"
MOST, PATIENCE = 600, 3600.0
"""Seconds of the processor and of the clock for a run: one that takes more hangs."""


def list_targets() -> list[str]:
    """Every test of the folder that takes a number of examples, parameters one by one."""
    words = ["-q", "--collect-only", "-o", "addopts=", "--import-mode=importlib", "tests/fuzz"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [line for line in said.splitlines() if line.startswith(MARK)]
    return [
        t
        for t in found
        if "::test_corpus" not in t and "::test_every_" not in t and "::test_open_" not in t
    ]


def run_target(target: str, examples: int, out: Path) -> dict[str, Any]:
    """One run of one target in a process of its own, and what it cost."""
    seed = secrets.randbelow(2**32)
    last = out.with_name("fuzz-last-input")
    env = {**os.environ, "HYPERDLW_FUZZ": str(examples), "HYPERDLW_FUZZ_LAST": str(last)}
    words = ["-x", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", target]
    log = out.with_suffix(".log")
    with log.open("ab") as file:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            env=env,
            stdout=file,
            stderr=file,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST, MOST)),
        )
        until = time.monotonic() + PATIENCE
        pid, status, used = 0, 0, None
        while not pid and time.monotonic() < until:
            time.sleep(0.2)
            pid, status, used = os.wait4(run.pid, os.WNOHANG)
        if not pid:
            run.kill()
            _, status, used = os.wait4(run.pid, 0)
    assert used is not None
    return {
        "target": target,
        "seed": seed,
        "examples": examples,
        "seconds": round(used.ru_utime + used.ru_stime, 1),
        "megabytes": used.ru_maxrss // 1024,
        "code": os.waitstatus_to_exitcode(status),
        "when": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        "source": name_source(),
    }


def name_source() -> str:
    """A hash of the source that was fuzzed."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def read_ledger(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def tell(runs: list[dict[str, Any]]) -> str:
    """Hours in all, runs that failed, and seconds of each kind of target."""
    spent: Counter[str] = Counter()
    for run in runs:
        spent[run["target"].rpartition("::")[2]] += run["seconds"] * (run["code"] >= 0)
    failed = [r for r in runs if r["code"] != 0]
    lines = [f"{name:32} {seconds:8.0f} s" for name, seconds in sorted(spent.items())]
    hours = sum(spent.values()) / 3600
    lines.append(f"{hours:.2f} hours of the processor in {len(runs)} runs, {len(failed)} failed")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--examples", type=int, default=500, help="of a run")
    parser.add_argument("--tell", action="store_true", help="print the sum, and run nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "out/trust/fuzz.jsonl")
    given = parser.parse_args()
    out = given.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = read_ledger(out)
    targets = [] if given.tell else list_targets()
    failed = 0
    while targets and sum(r["seconds"] for r in runs if r["code"] >= 0) < 3600 * given.hours:
        spent: Counter[str] = Counter(dict.fromkeys(targets, 0))
        for run in runs:
            spent[run["target"]] += run["seconds"]
        target = min(targets, key=lambda t: spent[t])
        run = run_target(target, given.examples, out)
        runs.append(run)
        with out.open("a") as file:
            file.write(json.dumps(run) + "\n")
        if run["code"] != 0:
            print(
                f"failed: {target} with seed {run['seed']}; see {out.with_suffix('.log')}",
                flush=True,
            )
            failed = 1
    print(tell(runs))
    return failed


if __name__ == "__main__":
    sys.exit(main())
