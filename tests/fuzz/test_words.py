"""What people type: recipes and command lines. A sentence or a result, and the input as it was."""

from __future__ import annotations

import math
import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperdlw.app.cli import main as cli
from hyperdlw.testbed import scenes
from hyperdlw.train import read_recipe
from hyperdlw.train.recipe import Recipe

from .damage import MANY, fuzz, harmless

# --- recipes

words = st.text(st.characters(exclude_characters="/~\0", exclude_categories=["Cs"]), max_size=12)
sound = st.sampled_from(
    [
        "tv",
        "nn",
        "tvs",
        "mse",
        "log",
        "soap",
        "adam",
        "epochs",
        "side",
        "cosine",
        "",
        "N",
        "../x",
        "a#b",
    ]
)
plain = st.one_of(
    st.integers(-(2**70), 2**70), st.integers(0, 50), st.floats(), st.booleans(), sound, words
)
entries = st.one_of(plain, st.lists(st.one_of(plain, st.lists(plain, max_size=2)), max_size=3))
keys = st.one_of(st.sampled_from(sorted(Recipe.__dataclass_fields__)), words)
tables = st.dictionaries(keys, entries, max_size=6)
BASE = {"name": "n", "sources": ["tv"], "filters": 2, "patch": 8, "steps": 1}


def as_toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_toml(k)} = {as_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08x}" for c in value) + '"'
    return str(value)


@fuzz
@given(tables, st.lists(st.one_of(tables, plain), max_size=3) | plain, st.booleans())
def test_recipes(shared, stages, base):
    table = {**(BASE if base else {}), **shared}
    lines = [f"{as_toml(k)} = {as_toml(v)}" for k, v in table.items() if k != "stage"]
    if stages != []:
        lines.append(f"stage = {as_toml(stages)}")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "a.toml")
        path.write_text("\n".join(lines), encoding="utf-8")
        with harmless():
            read_recipe(path)


# --- command lines

COMMANDS = (
    "denoise",
    "weights",
    "info",
    "advise",
    "convert",
    "clean",
    "noise",
    "score",
    "audit",
    "nets",
)
"""Without those that train, serve, or run tables: they have no small answer."""
LONG = {"--workers", "--scheduler", "--debug"}
app = typer.main.get_command(cli.app)
FILES = [
    "in.npy",
    "out.npy",
    "out.hdr",
    "out.tif",
    "b.h5",
    "w.npy",
    "table.csv",
    "a.html",
    "a.txt",
    ".",
]
typed = st.one_of(
    st.sampled_from(FILES),
    st.sampled_from(
        ["nn", "tv", "tvs", "lrtv", "plain", "uniform", "precision", "robust", "case1", "auto"]
    ),
    st.sampled_from(
        [
            "0",
            "1",
            "-1",
            "0.5",
            "nan",
            "inf",
            "1e300",
            "9" * 400,
            "0,1",
            "1:2,3:4",
            "2G",
            "1K",
            "rcb",
        ]
    ),
    st.integers().map(str),
    words,
)


def list_options(name: str) -> list[tuple[str, bool]]:
    """The options of a command as it has them, and whether a value follows."""
    made = app.commands[name].params  # type: ignore[attr-defined]
    return [
        (word, not p.is_flag)
        for p in made
        if p.param_type_name == "option"
        for word in p.opts
        if word not in LONG
    ]


@st.composite
def lines(draw):
    name = draw(st.sampled_from(COMMANDS))
    line = [name, draw(st.sampled_from(["in.npy", "in.npy", "in.npy", "gone.npy"]))]
    line += draw(st.lists(st.sampled_from(FILES), max_size=2))
    known = list_options(name) or [("--json", False)]
    for word, has_value in draw(st.lists(st.sampled_from(known), max_size=3)):
        line += [word, draw(typed)] if has_value else [word]
    return line


@settings(fuzz, max_examples=MANY // 5 or 15)
@given(lines())
def test_command_lines(line):
    scene = scenes.synthetic(4, 9, 6, rng=np.random.default_rng(1)).data.transpose(1, 2, 0)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            np.save("in.npy", scene)
            Path("table.csv").write_text("1,2,3,4\n")
            held = Path("in.npy").read_bytes()
            said, told = StringIO(), StringIO()
            with redirect_stdout(said), redirect_stderr(told):
                code = cli.run(line)
            assert code in (0, 1, 2, 3, 4), told.getvalue()
            assert "Traceback" not in told.getvalue()
            assert Path("in.npy").read_bytes() == held
            if code in (1, 2):
                assert told.getvalue().strip()
            assert not [p for p in Path(place).rglob("*") if ".partial" in p.name]
        finally:
            os.chdir(before)
