"""What the README shows works as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dlw import store
from dlw.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.S))
def test_python_blocks_run(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {})


def test_commands_exist() -> None:
    """Every `dlw <command> --option` in the README is known to the program."""
    lines = re.findall(r"^dlw (.*)$", README, re.M)
    assert lines
    for line in lines:
        for part in re.split(r";\s*dlw ", line.split("#")[0].strip()):
            command, *words = part.split()
            text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
            assert text.startswith("Usage"), command
            for word in words:
                if word.startswith("--"):
                    assert word in text, f"{command} {word}"


def test_named_networks_are_shipped() -> None:
    named = {"N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS", "colour-T"}
    assert named <= set(store.names())
