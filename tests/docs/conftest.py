"""A folder with small files, where the code blocks and the examples run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hyperdlw import save_cube
from hyperdlw.bench import demo
from hyperdlw.io import scan_entry_points
from hyperdlw.testbed import scenes


@pytest.fixture
def workshop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Path]:
    """out/noisy.hdr and out/clean.hdr as 'hyperdlw demo --scene' makes them, and what readers bring.

    scene.hdr and flight.hdr are noisy cubes, mask.npy is a mask for them, scenes/ a folder with clean
    cubes. All are small.
    """
    monkeypatch.setattr(demo, "SIZE", (24, 28, 6))
    demo.write_scene(tmp_path / "out", Console(quiet=True))
    for name, end in product(("scene", "flight"), ("hdr", "img")):
        os.link(tmp_path / "out" / f"noisy.{end}", tmp_path / f"{name}.{end}")
    np.save(tmp_path / "mask.npy", np.ones((24, 28, 6), np.float32))
    (tmp_path / "scenes").mkdir()
    for i in range(2):
        cube = scenes.synthetic(6, 24, 24, rng=np.random.default_rng(i))
        save_cube(cube, tmp_path / "scenes" / f"scene{i}.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
    monkeypatch.undo()  # the packages of a page are no longer found
    scan_entry_points.cache_clear()
