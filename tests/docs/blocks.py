"""Code blocks of Markdown pages, and how they are run.

A fence names its language: ``python`` and ``sh`` run, ``text`` is output, ``toml`` is a file. In ``sh``
blocks ``hyperdlw``, ``python FILE`` and ``pytest FILE`` run, all in this process. A comment
in the line before it may say

    <!-- file: name -->        write the block to this file instead of running it
    <!-- not run: reason -->   do neither; the test counts these
    <!-- needs: word -->       run it if the help of the program has this option or command

All blocks of a page run in one folder, in order; Python blocks share their names.
"""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from hyperdlw.app.cli import main as cli
from hyperdlw.io import scan_entry_points

FENCE = re.compile(
    r"(?:^<!-- (?P<what>file|not run|needs): (?P<value>[^\n]+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
LANGUAGES = ("python", "sh", "text", "toml")


@dataclass(frozen=True)
class Block:
    """One fence: where it begins, what it is, and what its comment says."""

    line: int
    language: str
    text: str
    what: str = ""
    value: str = ""


def blocks(page: Path) -> list[Block]:
    """The fences of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text[: m.start("language")].count("\n") + 1,
            m["language"],
            m["text"],
            m["what"] or "",
            m["value"] or "",
        )
        for m in FENCE.finditer(text)
    ]


def commands(text: str) -> list[list[str]]:
    """The command lines of a shell block, as words; ``\\`` continues a line, ``;`` separates."""
    lines = text.replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        for part in " ".join(shlex.quote(w) if ";" not in w else w for w in words).split(";"):
            if part.strip():
                found.append(shlex.split(part))
    return found


def runs(block: Block) -> bool:
    """Whether a block does something."""
    return block.what != "not run" and block.language != "text"


def run_page(page: Path, folder: Path) -> int:
    """Run the blocks of a page in the current folder; returns how many ran."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if not runs(block):
            continue
        if block.what == "needs" and not knows(block.value):
            continue
        if block.what == "file":
            (folder / block.value).write_text(block.text, encoding="utf-8")
            if block.value == "pyproject.toml":
                install(folder, block.text)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.language == "sh":
            for words in commands(block.text):
                run(words, where)
        else:
            raise AssertionError(f"{where}: a {block.language} block needs a 'file' comment")
        count += 1
    return count


def knows(word: str) -> bool:
    """Whether 'hyperdlw --help' or 'hyperdlw denoise --help' names an option or command."""
    helps = (CliRunner().invoke(cli.app, [*of, "--help"]).output for of in ([], ["denoise"]))
    return any(word in text.split() for text in helps)


def run(words: list[str], where: str) -> None:
    """One command; others than those named above cannot be run here and need the comment."""
    if words[0] == "hyperdlw":
        code = cli.run(words[1:])
        assert code == 0, f"{where}: {shlex.join(words)} ends with {code}"
    elif words[0] == "python" and words[1].endswith(".py"):
        runpy.run_path(words[1], run_name="__main__")
    elif words[0] == "pytest" and words[1].endswith(".py"):
        run_tests(Path(words[1]))
    else:
        raise AssertionError(f"{where}: '{words[0]}' cannot be run; add <!-- not run: why -->")


def run_tests(file: Path) -> None:
    """The tests of a file; ``tmp_path`` is the only fixture."""
    tests = [(n, f) for n, f in runpy.run_path(str(file)).items() if n.startswith("test_")]
    assert tests, f"{file} has no test"
    for name, test in tests:
        given = {}
        if "tmp_path" in inspect.signature(test).parameters:
            given["tmp_path"] = Path(f"{file.stem}.{name}").absolute()
            given["tmp_path"].mkdir()
        test(**given)


def install(folder: Path, pyproject: str) -> None:
    """What ``pip install --editable`` leaves behind: the entry points of a project."""
    project = tomllib.loads(pyproject)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    scan_entry_points.cache_clear()
