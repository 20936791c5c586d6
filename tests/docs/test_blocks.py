"""Every code block of the README and of the documentation runs as written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hyperdlw.app.cli.main import app
from hyperdlw.networks import files as store

sys.path.insert(0, str(Path(__file__).parent))
from blocks import LANGUAGES, blocks, commands, knows, run_page, runs

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    p
    for p in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    if p.parent.name != "results"
)

NOT_RUN = {
    "CONTRIBUTING.md": 3,
    "README.md": 4,
    "docs/adding.md": 1,
    "docs/guide/hosts.md": 4,
    "docs/guide/large.md": 1,
    "docs/guide/tables.md": 7,
    "docs/guide/train.md": 3,
    "docs/guide/walk.md": 3,
    "docs/how-good.md": 1,
    "docs/index.md": 2,
}
"""Blocks that say themselves that they are not run, by page."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_every_block_has_a_language() -> None:
    for page in PAGES:
        fences = page.read_text(encoding="utf-8").count("\n```")
        assert fences == 2 * len(blocks(page)), f"{name(page)}: a fence is not recognised"
        for block in blocks(page):
            assert block.language in LANGUAGES, f"{name(page)}:{block.line}"


def test_blocks_that_are_not_run_are_counted() -> None:
    found = {name(p): sum(b.what == "not run" for b in blocks(p)) for p in PAGES}
    assert {page: n for page, n in found.items() if n} == NOT_RUN


@pytest.mark.parametrize("page", [p for p in PAGES if any(runs(b) for b in blocks(p))], ids=name)
def test_page_runs(page: Path, workshop: Path) -> None:
    assert run_page(page, workshop) > 0


def test_commands_that_are_not_run_exist() -> None:
    """Every option of every 'hyperdlw' line is known, but on pages that need what is not there yet."""
    for page in PAGES:
        if any(b.what == "needs" and not knows(b.value) for b in blocks(page)):
            continue
        for block in blocks(page):
            for words in commands(block.text) if block.language == "sh" else []:
                if words[0] != "hyperdlw":
                    continue
                text = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "200"}).output
                assert text.startswith("Usage"), words
                for word in words[2:]:
                    if word.startswith("--"):
                        assert re.search(rf"{word}\b", text), f"{name(page)}: {' '.join(words)}"


def test_named_networks_are_shipped() -> None:
    named = {"N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS", "colour-T"}
    assert named <= set(store.list_networks())
