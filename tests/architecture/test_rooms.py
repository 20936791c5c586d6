"""The house: rooms are entered by their door, and imports go down only. There are no exceptions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import hyperdlw

HOUSE = Path(hyperdlw.__file__).parent
ORDER = ["errors", "cube", "io", "solver", "networks", "testbed", "models", "weights", "pipeline"]
ORDER += ["train", "bench", "app"]
"""From the ground up: a room may use those before it."""
MODULES = sorted(HOUSE.rglob("*.py"))


def imports(path: Path) -> list[tuple[str, ...]]:
    """What a module imports from this package, lazy imports included, as ('io', 'atomic')."""
    here = path.relative_to(HOUSE).parts[:-1]
    found: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.split(".")[0] == "hyperdlw"]
            found += [tuple(name.split(".")[1:]) for name in names]
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = (*here[: len(here) + 1 - node.level], *module)
            elif module[0] == "hyperdlw":
                base = module[1:]
            else:
                continue
            found += [base] if base else [(a.name,) for a in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_imports_go_down_and_through_doors(path: Path) -> None:
    room = path.relative_to(HOUSE).with_suffix("").parts[0]
    for target in imports(path):
        if not target or target[0] in (room, "__version__") or room in ("__init__", "__main__"):
            continue
        assert ORDER.index(target[0]) < ORDER.index(room), f"{room} may not use {target[0]}"
        assert len(target) == 1, f"{'.'.join(target)} is behind the door of {target[0]}"


def test_the_top_shows_the_rooms() -> None:
    entries = {p.name for p in HOUSE.iterdir() if p.name != "__pycache__"}
    rooms = {p.name for p in HOUSE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms == set(ORDER) - {"errors"}
    assert entries - rooms == {"__init__.py", "__init__.pyi", "__main__.py", "errors.py"}


def test_modules_are_small() -> None:
    lines = {p: len(p.read_text().splitlines()) for p in MODULES}
    assert len(MODULES) <= 192
    assert max(lines.values()) <= 400
    assert sum(lines.values()) <= 36_300


def test_no_class_name_stands_for_two_classes() -> None:
    nodes = (node for path in MODULES for node in ast.walk(ast.parse(path.read_text())))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_types_are_honest() -> None:
    lines = [line for path in MODULES for line in path.read_text().splitlines()]
    assert sum("# type: ignore" in line for line in lines) <= 10
    assert sum(bool(re.search(r"\bAny\b(?! \w)", line)) for line in lines) <= 118


def test_every_public_name_has_a_docstring() -> None:
    bare = [
        f"{path.relative_to(HOUSE)}: {node.name}"
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert bare == []
