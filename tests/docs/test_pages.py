"""The pages as text: no line is too wide, and every file that is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    + list((ROOT / "docs").rglob("*.md"))
)
WIDEST = 100
PATH = re.compile(r"(?:src|tests|docs|benchmarks|recipes|examples)/[\w.+/*-]*[\w+*/]")
"""A file or folder of the repository, with ``*`` for any name."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_are_not_wide(page: Path) -> None:
    """Rows of Markdown tables may be wide, because they cannot be broken; nothing else may."""
    lines = page.read_text(encoding="utf-8").splitlines()
    wide = [i for i, text in enumerate(lines, 1) if len(text) > WIDEST and text[0] != "|"]
    assert wide == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name != "results"], ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    spans = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    named = {path for span in spans for path in PATH.findall(span)}
    assert [path for path in sorted(named) if not list(ROOT.glob(path))] == []


HOUSE = ROOT / "src" / "hyperdlw"
FILE = re.compile(r"[\w/+-]+(?:\.pyi?|/)")
"""A module or a folder, as a page about the source names it."""


@pytest.mark.parametrize("page", ["architecture.md", "paper-map.md"])
def test_modules_that_are_named_exist(page: str) -> None:
    """These pages name modules by their path below ``src/hyperdlw``."""
    spans = re.findall(r"`([^`\n]+)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    named = {span for span in spans if FILE.fullmatch(span)} - {"__init__.py", "__init__.pyi"}
    assert len(named) > 10
    assert [m for m in sorted(named) if not ((HOUSE / m).exists() or (ROOT / m).exists())] == []


@pytest.mark.parametrize("page", ["architecture.md", "paper-map.md"])
def test_names_to_look_for_are_there(page: str) -> None:
    """In a table with the column "look for", the names are in the files of their row."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = re.split(r"\| file \| look for \|.*\n", text)[1].split("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:4] for line in table.splitlines()[1:]]
    assert len(rows) >= 16
    for what, files, names in rows:
        paths = [HOUSE / p for p in re.findall(r"`([^`]+)`", files)]
        source = "".join(p.read_text(encoding="utf-8") for p in paths if p.is_file())
        for name in re.findall(r"`([^`]+)`", names):
            assert re.search(rf"\b{name}\b", source), f"{what.strip()}: {name}"


def test_citation_has_the_version_and_the_paper() -> None:
    import hyperdlw

    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {hyperdlw.__version__}\n" in text
    assert "preferred-citation" in text


def test_the_lock_has_what_the_constraints_have() -> None:
    """Everything but torch, whose CPU build has other hashes; 'make lock' mends it."""

    def read(name: str) -> set[str]:
        found = re.findall(r"(?m)^([\w.-]+==[^\s;\\]+)", (ROOT / name).read_text(encoding="utf-8"))
        return {line.lower().replace("_", "-") for line in found}

    wanted = {line for line in read("constraints.txt") if not line.startswith("torch==")}
    assert wanted - read("requirements.lock") == set()
    assert "--hash=sha256:" in (ROOT / "requirements.lock").read_text(encoding="utf-8")
