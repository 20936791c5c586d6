"""What the pages claim: commands of the paper map exist, figures stand in a committed report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperdlw.bench import EXPERIMENTS
from hyperdlw.bench.paper import read_paper
from hyperdlw.testbed import DATASETS

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
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
        assert set(words[1::2]) <= {"--dataset", "--weights", "--cases"}, row
        if "--dataset" in words:
            assert words[words.index("--dataset") + 1] in DATASETS, row


def list_blocks(page: Path) -> list[str]:
    """Paragraphs and tables of a page; a table has the text around it, which names its source."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    blocks = [b for b in re.split(r"\n\s*\n", text) if b.strip() and not b.startswith("#")]
    found = []
    for i, block in enumerate(blocks):
        if block.startswith("|"):
            found.append("\n\n".join(blocks[max(0, i - 1) : i + 2]))
        elif re.search(r"\d (?:dB|%)", block):
            found.append(block)
    return found


def is_rounded(figure: str, known: set[str]) -> bool:
    """A figure is a number of a report, rounded to its decimals."""
    decimals = len(figure.partition(".")[2])
    return any(abs(float(k) - float(figure)) <= 0.5 * 10**-decimals + 1e-9 for k in known)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/how-good.md"])
def test_figures_are_those_of_a_report(page: str) -> None:
    """Every figure in dB and of a table is in a report that is named beside it, or has its command."""
    checked = 0
    for block in list_blocks(ROOT / page):
        if not re.search(r"\d (?:dB|%)|\d\.\d", block):
            continue
        reports = [ROOT / "docs" / r.removeprefix("docs/") for r in REPORT.findall(block)]
        assert reports or COMMAND.search(block), f"{page}: where is this from?\n{block}"
        text = "".join(r.read_text(encoding="utf-8") for r in reports)
        known = set(re.findall(r"\d+\.\d+", text))
        for figure in NUMBER.findall(block) if reports else ():
            assert is_rounded(figure, known), f"{page}: {figure} is in none of {reports}"
            checked += 1
    assert checked > {"README.md": 15, "docs/how-good.md": 40}.get(page, -1)
