"""Damaged files of every format: a cube or a sentence, soon, and without much memory."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given

from hyperdlw import io
from hyperdlw.io.formats import list_formats
from hyperdlw.io.spectra_files import is_spectra, read_spectra
from hyperdlw.train import read_recipe

from .damage import MAKERS, SPECTRA, fuzz, harmless, wound, wounds

CORPUS = Path(__file__).parent / "corpus"
"""Small files that the program once fell over."""


@cache
def make_files(name: str) -> dict[str, bytes]:
    """The files of a made cube: one, or several where a format has more."""
    with tempfile.TemporaryDirectory() as place:
        {**MAKERS, **SPECTRA}[name](Path(place, name))
        files = sorted(p for p in Path(place).rglob("*") if p.is_file())
        return {str(p.relative_to(place)): p.read_bytes() for p in files}


def put_files(place: str | Path, files: dict[str, bytes]) -> None:
    for name, raw in files.items():
        path = Path(place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def look_at(path: Path) -> None:
    """All that looks at a file, each on its own; a file that ends the process stays, if asked."""
    keep = os.environ.get("HYPERDLW_FUZZ_LAST")
    if keep:
        Path(keep).write_bytes(path.read_bytes() if path.is_file() else b"")
    for look in (io.open_cube, io.describe_file):
        with harmless():
            look(path)


def test_every_format_is_wounded(tmp_path):
    made = set()
    for name, make in MAKERS.items():
        make(tmp_path / name)
        made.add(io.open_cube(tmp_path / name).encoding.format)
    known = {f.name for f in list_formats()} - {"raw"}  # raw has no bytes that could be wrong
    assert made | {"hdf4"} == known | {"hdf4"}, "a new format needs a maker"


@pytest.mark.parametrize("name", MAKERS)
@fuzz
@given(wounds=wounds, which=...)
def test_cubes(name: str, wounds: list, which: int):
    files = make_files(name)
    hurt = list(files)[which % len(files)]
    with tempfile.TemporaryDirectory() as place:
        put_files(place, {**files, hurt: wound(files[hurt], wounds)})
        look_at(Path(place, name))


@pytest.mark.parametrize("name", SPECTRA)
@fuzz
@given(wounds=wounds, which=...)
def test_spectra(name: str, wounds: list, which: int):
    files = make_files(name)
    hurt = list(files)[which % len(files)]
    with tempfile.TemporaryDirectory() as place:
        put_files(place, {**files, hurt: wound(files[hurt], wounds)})
        with harmless():
            read_spectra(Path(place, name))


@pytest.mark.parametrize("name", sorted(p.name for p in CORPUS.iterdir()))
def test_corpus(name):
    path = CORPUS / name
    if path.suffix == ".toml":
        with harmless():
            read_recipe(path)
    elif is_spectra(path):
        with harmless():
            read_spectra(path)
    else:
        look_at(path)


@pytest.mark.xfail(run=False, reason="libhdf5 walks a damaged heap of texts for ever")
def test_open_fault():
    look_at(Path(__file__).parent / "open" / "heap-without-end.nc")
