"""An input that is cut short while it is read: one sentence, exit code 2, and the old output stays."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperdlw import Cube, io
from hyperdlw.app.cli.main import run as hyperdlw
from hyperdlw.errors import DlwError
from hyperdlw.pipeline import denoise_file, run
from hyperdlw.pipeline.in_strips import InStrips

GIVEN = {"model": "tvs", "weights": "uniform", "range": (0.0, 1.0)}
FORMATS = ["hdr", "npy", "tif", "h5", "nc", "zarr", "mat", "npz"]


@pytest.fixture
def source(request, tmp_path) -> Path:
    path = tmp_path / f"in.{request.param}"
    data = np.random.default_rng(1).random((4, 18, 10)).astype(np.float32)
    io.save_cube(Cube.from_array(data), path)
    return path


def cut_short(source: Path, keep: float) -> None:
    """Take away the end of the largest file of an input."""
    beside = source.with_suffix(".img")
    files = [p for p in source.rglob("*") if p.is_file()] if source.is_dir() else [source]
    file = max([*files, *([beside] if beside.exists() else [])], key=lambda p: p.stat().st_size)
    os.truncate(file, int(keep * file.stat().st_size))


@pytest.mark.parametrize("keep", [0.0, 0.6])
@pytest.mark.parametrize("source", FORMATS, indirect=True)
def test_in_memory(source, tmp_path, capsys, monkeypatch, keep):
    """Between the header and the numbers."""
    target, plain = tmp_path / "out.npy", run.plan_run
    target.write_bytes(b"old")

    def plan(*args):
        cut_short(source, keep)
        return plain(*args)

    monkeypatch.setattr(run, "plan_run", plan)
    words = ["denoise", str(source), str(target), "--overwrite", "--model", "tvs"]
    assert hyperdlw([*words, "--weights", "uniform"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "note:" not in line]
    assert len(told) == 1
    assert "unexpected" not in told[0]
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("stage", ["prepare", "restore"])
@pytest.mark.parametrize("keep", [0.0, 0.6])
@pytest.mark.parametrize("source", FORMATS, indirect=True)
def test_in_strips(source, tmp_path, monkeypatch, keep, stage):
    """Before the first strip is read, and before strips are read again for the output."""
    target, plain = tmp_path / "out.npy", getattr(InStrips, stage)
    target.write_bytes(b"old")

    def verb(self):
        cut_short(source, keep)
        return plain(self)

    monkeypatch.setattr(InStrips, stage, verb)
    with pytest.raises(DlwError) as refused:
        denoise_file(source, target, overwrite=True, tile=6, **GIVEN)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("axes", ["brc", "rbc", "rcb", "bcr", "crb", "cbr"])
@pytest.mark.parametrize("bands", [None, [2], [3, 0], slice(1, 3)])
def test_windows_are_those_of_the_array(tmp_path, axes, bands):
    """Numbers read by parts are those of the whole array, in every order of the axes."""
    data = np.arange(4 * 5 * 6, dtype=">i2").reshape(4, 5, 6)
    path = tmp_path / "in.bin"
    path.write_bytes(b"head" + data.transpose(*("brc".index(a) for a in axes)).tobytes())
    shape = tuple(data.shape["brc".index(a)] for a in axes)
    window = io.reader.map_windows(path, 4, shape, data.dtype, axes)
    for rows, cols in [(slice(0, 5), slice(0, 6)), (slice(1, 3), slice(2, 5)), (slice(2, 2),) * 2]:
        wanted = data[slice(None) if bands is None else bands, rows, cols]
        which = slice(0, 4) if bands is None else bands
        found = window(which, rows, cols)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.dtype("i2")


def test_numbers_in_another_file_are_refused(tmp_path):
    """HDF5 may keep its numbers in any file of the machine; such a cube is not opened."""
    (tmp_path / "secret.raw").write_bytes(np.ones((3, 4, 5), np.float32).tobytes())
    with h5py.File(tmp_path / "in.h5", "w") as file:
        where = [(str(tmp_path / "secret.raw"), 0, 240)]
        file.create_dataset("cube", (3, 4, 5), np.float32, external=where)
    with pytest.raises(DlwError, match="lies in another file"):
        io.open_cube(tmp_path / "in.h5", axes="brc")


def test_numbers_gathered_from_other_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.ones((3, 4, 5), np.float32)
    layout = h5py.VirtualLayout((3, 4, 5), np.float32)
    layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", (3, 4, 5))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_virtual_dataset("cube", layout)
    with pytest.raises(DlwError, match="lies in another file"):
        io.open_cube(tmp_path / "in.h5", axes="brc")
