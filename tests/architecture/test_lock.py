"""What continuous integration installs: every dependency of every purpose, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
APART = {"torch", "hyperdlw"}
"""torch's CPU build has other hashes than that of PyPI; the package is this one."""


def read_name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_the_lock_has_every_dependency_with_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [
        r for e in project["optional-dependencies"].values() for r in e
    ]
    text = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([\w.-]+)==(.*(?:\n .*)*)", text, re.M))
    assert {read_name(r) for r in asked} - APART <= {name.lower() for name in locked}
    assert not [name for name, rest in locked.items() if "--hash=sha256:" not in rest]
