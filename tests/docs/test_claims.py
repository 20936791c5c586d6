"""What the pages claim: commands of the paper map exist, figures stand in a committed report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from hyperdlw.app.cli.main import app
from hyperdlw.bench import EXPERIMENTS
from hyperdlw.bench.paper import read_paper
from hyperdlw.models import find_model
from hyperdlw.testbed import DATASETS
from hyperdlw.train import read_recipe
from hyperdlw.weights import resolve

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
UNIT = r"\d (?:dB|%|s|ms|seconds?|minutes?|hours?|[kMGT]B)(?!\w)"
COMMAND = re.compile(r"`(?:hyperdlw|python|make) [^`]+`")
REPORT = re.compile(r"docs/results/[\w-]+\.md|(?<=\()results/[\w-]+\.md")


def test_every_table_of_the_paper_has_a_command() -> None:
    text = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
    rows = [
        line for line in text.splitlines() if line.startswith("|") and "`hyperdlw bench" in line
    ]
    named = set(re.findall(r"(?:tab|fig)-[\w-]+", "".join(rows)))
    assert named >= {row.table for row in read_paper()}
    for row in rows:
        (command,) = re.findall(r"`hyperdlw bench ([^`]+)`", row)
        words = command.split()
        assert words[0] in EXPERIMENTS, row
        if "--dataset" in words:
            assert words[words.index("--dataset") + 1] in DATASETS, row


def test_every_command_of_the_paper_map_exists() -> None:
    """Every row has one; its words, options, models, networks and files are there."""
    text = (ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    heads = ("| in the paper", "| table of the paper", "| figure of the paper")
    rows = [row for row in rows if not row.startswith(heads)]
    assert len(rows) > 50
    for row in rows:
        (command,) = re.findall(r"`((?:hyperdlw|python) [^`]+)`", row)
        program, *words = command.split()
        if program == "python":
            assert (ROOT / words[0]).is_file(), row
            continue
        options = {name: p for p in known[words[0]].params for name in p.opts}
        for word, value in zip(words, [*words[1:], ""], strict=True):
            assert not word.startswith("--") or word in options, f"{row}: {word}"
            if word == "--model":
                find_model(value)
            if word == "--weights" and value != "original" and words[0] != "bench":
                resolve(value)
            if word.startswith("recipes/"):
                read_recipe(ROOT / word)


def list_blocks(page: Path) -> list[str]:
    """Paragraphs and tables of a page; a table has the text around it, which names its source."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    blocks = [b for b in re.split(r"\n\s*\n", text) if b.strip() and not b.startswith("#")]
    found = []
    for i, block in enumerate(blocks):
        if block.startswith("|"):
            found.append("\n\n".join(blocks[max(0, i - 1) : i + 2]))
        elif re.search(UNIT, block):
            found.append(block)
    return found


def is_rounded(figure: str, known: set[str]) -> bool:
    """A figure is a number of a report, rounded to its decimals."""
    decimals = len(figure.partition(".")[2])
    return any(abs(float(k) - float(figure)) <= 0.5 * 10**-decimals + 1e-9 for k in known)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/how-good.md"])
def test_figures_are_those_of_a_report(page: str) -> None:
    """Every figure with a unit or of a table is in a report that is named beside it, or has its command."""
    checked = 0
    for block in list_blocks(ROOT / page):
        if not re.search(UNIT + r"|\d\.\d", block):
            continue
        reports = [ROOT / "docs" / r.removeprefix("docs/") for r in REPORT.findall(block)]
        assert reports or COMMAND.search(block), f"{page}: where is this from?\n{block}"
        text = "".join(r.read_text(encoding="utf-8") for r in reports)
        known = set(re.findall(r"\d+\.\d+", text))
        for figure in NUMBER.findall(block) if reports else ():
            assert is_rounded(figure, known), f"{page}: {figure} is in none of {reports}"
            checked += 1
    assert checked > {"README.md": 15, "docs/how-good.md": 40}.get(page, -1)
