"""A plugin of pytest: coverage is noted test by test, and the processor time that each takes.

    coverage run --branch --source=src/hyperdlw --data-file=out/trust/coverage \\
      -m pytest -p benchmarks.trust.contexts

``benchmarks/trust/mutants.py`` reads both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

SECONDS = Path(os.environ.get("TRUST_SECONDS", "out/trust/seconds.jsonl"))
"""A line for each test: its name without parameters, its seconds, and whether it passed."""
failed: set[str] = set()


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        failed.add(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    """A test is a context; what is imported before it is none."""
    watch = coverage.Coverage.current()
    name = item.nodeid.partition("[")[0]
    if watch is not None:
        watch.switch_context(name)
    begin = sum(os.times()[:4])
    result = yield
    spent = round(sum(os.times()[:4]) - begin, 3)
    with SECONDS.open("a") as file:
        file.write(json.dumps([name, spent, item.nodeid not in failed]) + "\n")
    if watch is not None:
        watch.switch_context("")
    return result
