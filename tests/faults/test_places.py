"""Outputs never overwrite each other, an input or a stranger; their places are tried before the work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from hyperdlw import Cube, DlwError, denoise_file, save_cube
from hyperdlw.io import check_output
from hyperdlw.pipeline import Outputs
from hyperdlw.pipeline.in_memory import InMemory

QUICK = {"model": "tv", "weights": "uniform"}


@pytest.fixture
def envi(tmp_path: Path) -> Path:
    data = np.random.default_rng(0).random((4, 12, 13)).astype(np.float32)
    save_cube(Cube.from_array(data), tmp_path / "in.hdr")
    return tmp_path / "in.hdr"


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if the work begins."""
    monkeypatch.setattr(InMemory, "prepare", lambda self: pytest.fail("the work began"))


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


CLASHES = [
    ("col.hdr", {"weights": "col.img"}),
    ("col.hdr", {"report": "col.img"}),
    ("col.img", {"report": "col.hdr"}),
    ("col.hdr", {"flags": "./sub/../col.hdr"}),
    ("col.npy", {"report": "col.npy"}),
    ("col.hdr", {"weights": "w.hdr", "flags": "w.dat"}),
    ("col.hdr", {"report": "in.img"}),
    ("col.hdr", {"weights": "in.hdr"}),
    ("col.hdr", {"picture": "link.png"}),
    ("in.dat", {}),
    ("col.zarr", {"report": "col.zarr/report.json"}),
]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("target", "others"), CLASHES)
def test_files_of_outputs_are_compared(envi: Path, target: str, others: dict[str, str]) -> None:
    folder = envi.parent
    (folder / "sub").mkdir()
    (folder / "link.png").hardlink_to(folder / "in.img")
    before = listing(folder)
    outputs = Outputs(**{k: f"{folder}/{v}" for k, v in others.items()})
    with pytest.raises(DlwError, match=r"; (choose|give)"):
        denoise_file(envi, folder / target, outputs=outputs, overwrite=True, **QUICK)
    assert listing(folder) == before


@pytest.mark.usefixtures("no_work")
def test_a_file_with_weights_is_an_input(envi: Path) -> None:
    mask = envi.with_name("mask.npy")
    np.save(mask, np.ones((12, 13), np.float32))
    with pytest.raises(DlwError, match=r"mask\.npy"):
        denoise_file(envi, mask, overwrite=True, model="tv", weights=str(mask))


STRANGERS = [
    ("res.hdr", {"res.dat": b"a year of work"}),
    ("res.hdr", {"res": b"a year of work"}),
    ("res.img", {"res.img": b"a year of work"}),
    ("res.dat", {"res.hdr": b"BYTEORDER I\nLAYOUT BIL\n"}),
    ("res.hdr", {"res.hdr": b"BYTEORDER I\nLAYOUT BIL\n", "res.bil": b"others"}),
]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("target", "files"), STRANGERS)
def test_strangers_stay(envi: Path, target: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (envi.parent / name).write_bytes(content)
    before = listing(envi.parent)
    with pytest.raises(DlwError, match="choose another"):
        denoise_file(envi, envi.parent / target, overwrite=True, **QUICK)
    assert listing(envi.parent) == before


@pytest.mark.usefixtures("no_work")
def test_a_header_of_other_numbers_stays(envi: Path) -> None:
    """in.dat would take the header away from in.img."""
    with pytest.raises(DlwError, match="choose another"):
        save_cube(Cube.from_array(np.zeros((2, 3, 4))), envi.with_suffix(".dat"), overwrite=True)


def test_own_pairs_are_replaced(envi: Path) -> None:
    before = envi.with_suffix(".img").read_bytes()
    denoise_file(envi, envi, overwrite=True, **QUICK)
    assert envi.with_suffix(".img").read_bytes() != before
    assert sorted(p.name for p in envi.parent.iterdir()) == ["in.hdr", "in.img"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("target", ["x" * 236 + ".npy", "x" * 300 + ".hdr", "/proc/self/out.npy"])
def test_places_are_tried(envi: Path, target: str) -> None:
    with pytest.raises(DlwError, match="cannot write"):
        denoise_file(envi, envi.parent / target, **QUICK)
    outputs = Outputs(report=str(envi.parent / target))
    with pytest.raises(DlwError, match="cannot write"):
        denoise_file(envi, envi.parent / "out.npy", outputs=outputs, **QUICK)
    assert len(list(envi.parent.iterdir())) == 2


def test_a_tried_place_is_left_empty(tmp_path: Path) -> None:
    check_output(tmp_path / "a.npy")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_work")
def test_room_is_counted_for_all_outputs(envi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 4 * 12 * 13 * 4 * 3 // 2  # for the cube, not for the weights beside it
    usage = shutil.disk_usage(envi)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    outputs = Outputs(weights=str(envi.parent / "w.npy"))
    for tile in (None, 4):
        with pytest.raises(DlwError, match="free") as caught:
            denoise_file(envi, envi.parent / "b.npy", outputs=outputs, tile=tile, **QUICK)
        assert caught.value.exit_code == 4


@pytest.mark.parametrize("tile", [None, 4])
def test_formats_are_checked_first(
    envi: Path, tile: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *a: pytest.fail("the work began"))
    with pytest.raises(DlwError, match="cannot hold"):
        denoise_file(envi, envi.parent / "b.png", tile=tile, **QUICK)


def test_no_file_has_so_long_a_name(tmp_path: Path) -> None:
    with pytest.raises(DlwError, match="there is no file"):
        denoise_file("x" * 5000, tmp_path / "a.npy")
