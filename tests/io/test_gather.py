"""A whole cube is read in blocks along its first stored axis; the blocks do not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw.io import open_cube
from hyperdlw.io import reader as source


@pytest.mark.parametrize("axes", ["rcb", "brc", "crb"])
@pytest.mark.parametrize("name", ["a.npy", "a.h5"])
def test_blocks(axes: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.random.default_rng(0).random((9, 7, 11)).astype(np.float32)
    stored[2, 3, 4] = np.nan
    path = tmp_path / name
    if name.endswith("npy"):
        np.save(path, stored)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["cube"] = stored
    whole = open_cube(path, axes=axes)
    monkeypatch.setattr(source, "BLOCK", 200)
    parts = open_cube(path, axes=axes)
    expected = stored.transpose([axes.index(a) for a in "brc"])
    assert np.array_equal(parts.data, whole.data, equal_nan=True)
    assert np.array_equal(parts.valid, whole.valid)
    assert np.array_equal(parts.data[parts.valid], expected[~np.isnan(expected)])
    assert (~parts.valid).sum() == 1
