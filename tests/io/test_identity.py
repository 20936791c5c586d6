"""What tells an input from another: every byte of small files, and enough of large ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperdlw.errors import BadFile
from hyperdlw.io import check_unchanged, identify_files, places

SIZE = 50_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.npy"
    path.write_bytes(bytes(SIZE))
    return path


def read_digest(path: Path) -> str:
    ((_, _, _, _, digest),) = identify_files(path)
    return str(digest)


def change_byte(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("at", [0, 4095, 4096, 8193, SIZE // 2, SIZE - 1])
def test_every_byte_of_a_small_file_counts(file: Path, at: int) -> None:
    """Also where a file system tells no times."""
    before = read_digest(file)
    assert read_digest(file) == before
    change_byte(file, at)
    assert read_digest(file) != before


@pytest.mark.parametrize("size", [SIZE, 300_001, 300_014, 1_000_003])
def test_both_ends_of_a_large_file_count(tmp_path: Path, monkeypatch, size: int) -> None:
    monkeypatch.setattr(places, "SAMPLE", 16 * 1024)
    path = tmp_path / "in.npy"
    path.write_bytes(bytes(size))
    before = read_digest(path)
    for at in (0, size - 1):
        change_byte(path, at)
        assert read_digest(path) != before
        change_byte(path, at)
    assert read_digest(path) == before


def test_size_and_times_count(file: Path) -> None:
    known = identify_files(file)
    ((name, size, changed, _, _),) = known
    assert (name, size) == (str(file), SIZE)
    check_unchanged(file, known)
    os.utime(file, ns=(changed, changed + 10**9))
    with pytest.raises(BadFile, match="changed while it was read"):
        check_unchanged(file, known)


def test_every_file_of_a_cube_counts(tmp_path: Path) -> None:
    (tmp_path / "in.hdr").write_text("ENVI\nsamples = 2\nlines = 2\nbands = 1\ndata type = 1\n")
    (tmp_path / "in.img").write_bytes(bytes(4))
    named = {Path(found[0]).name for found in identify_files(tmp_path / "in.hdr")}
    assert named == {"in.hdr", "in.img"}
