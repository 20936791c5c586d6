"""What is not restored comes back bit by bit as it was stored, in memory and in strips."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperdlw import Cube, denoise, denoise_file, open_cube
from hyperdlw.cube import Encoding
from hyperdlw.io import open_reader, save_cube
from hyperdlw.testbed import scenes

QUICK = {"model": "tv", "weights": "uniform"}
WAYS = pytest.mark.parametrize("tile", [None, 7], ids=["memory", "strips"])


def make_noisy(dtype: str, scale: float = 1000.0) -> np.ndarray:
    """A noisy (band, row, col) scene whose numbers float32 cannot hold exactly."""
    rng = np.random.default_rng(5)
    clean = scenes.synthetic(5, 20, 24, rng=rng).data.astype(np.float64)
    noisy = (clean + 1 + 0.05 * rng.standard_normal(clean.shape)) * scale
    return noisy.astype(dtype)


FILLS = [
    ("float64", -9999.1, "npz"),
    ("float64", -9999.1, "hdr"),
    ("float64", 1e300, "npz"),
    ("int32", -(2**31) + 1, "tif"),
    ("int32", 2**31 - 1, "hdr"),
    ("int64", -(2**63) + 1, "npz"),
    ("int64", 2**63 - 1, "h5"),
    ("uint64", 2**64 - 1, "npz"),
    ("uint64", 2**64 - 1, "hdr"),
]


@WAYS
@pytest.mark.parametrize(("dtype", "fill", "ending"), FILLS)
def test_nodata_stays(
    tmp_path: Path, dtype: str, fill: float, ending: str, tile: int | None
) -> None:
    stored = make_noisy(dtype)
    gaps = np.random.default_rng(6).random(stored.shape) < 0.03
    stored[gaps] = np.array(fill, dtype)
    source, target = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    encoding = Encoding(dtype, axes="brc", nodata=float(fill))
    save_cube(Cube.from_array(stored, encoding=encoding), source)
    with open_reader(source) as before:
        assert np.array_equal(before.read_stored(), stored), "a saved array is the array"
    denoise_file(source, target, tile=tile, **QUICK)
    with open_reader(target) as after:
        np.testing.assert_array_equal(after.read_stored()[gaps], stored[gaps])
        assert (after.read_stored()[~gaps] != stored[~gaps]).mean() > 0.9
        np.testing.assert_array_equal(after.read()[1], ~gaps)


@WAYS
def test_bad_and_constant_bands_stay(tmp_path: Path, tile: int | None) -> None:
    stored = make_noisy("float64")
    stored[3] = 0.1
    good = np.array([True, False, True, True, True])
    wide = Cube.from_array(stored, good_bands=good, encoding=Encoding("float64", "brc"))
    save_cube(wide, tmp_path / "a.hdr")
    denoise_file(tmp_path / "a.hdr", tmp_path / "b.hdr", tile=tile, **QUICK)
    with open_reader(tmp_path / "b.hdr") as after:
        found = after.read_stored()
    assert np.array_equal(found[[1, 3]], stored[[1, 3]])
    assert not np.array_equal(found[0], stored[0])


@WAYS
def test_scaled_numbers_stay(tmp_path: Path, tile: int | None) -> None:
    """The offset is far larger than the step, so float32 cannot tell the numbers apart."""
    rng = np.random.default_rng(7)
    stored = rng.integers(0, 4000, (20, 24, 5)).astype(np.int16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["cube"] = stored
        file["cube"].attrs.update({"axes": "rcb", "scale_factor": 1e-4, "add_offset": 5e4})
        file["good_bands"] = np.array([1, 0, 1, 1, 1], np.uint8)
    denoise_file(tmp_path / "a.h5", tmp_path / "b.h5", tile=tile, **QUICK)
    with h5py.File(tmp_path / "b.h5") as file:
        np.testing.assert_array_equal(file["cube"][..., 1], stored[..., 1])


@WAYS
def test_in_python_too(tmp_path: Path, tile: int | None) -> None:
    stored = make_noisy("float64")
    stored[0, :3] = 1e300
    stored[2] = 0.1
    found, _ = denoise(stored, tile=tile, **QUICK).cube.to_array()
    assert np.array_equal(found[2], stored[2])
    assert np.array_equal(found[0, :3], stored[0, :3])
    np.save(tmp_path / "a.npy", stored)
    result = denoise(open_cube(tmp_path / "a.npy", axes="brc"), tile=tile, **QUICK)
    result.save(tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy")[2], stored[2])


def test_an_array_that_changes_later_changes_nothing() -> None:
    stored = make_noisy("float64")
    result = denoise(stored, **QUICK)
    before, _ = result.cube.to_array()
    stored[:] = 7.0
    np.testing.assert_array_equal(result.cube.to_array()[0], before)


@WAYS
def test_a_restored_value_is_no_gap(tmp_path: Path, tile: int | None) -> None:
    """Restored numbers that round to nodata are stored as the number beside it."""
    rng = np.random.default_rng(8)
    stored = rng.integers(0, 3, (4, 20, 24)).astype(np.uint8)
    encoding = Encoding("uint8", "brc", nodata=1.0)
    save_cube(Cube.from_array(stored, encoding=encoding), tmp_path / "a.hdr")
    denoise_file(tmp_path / "a.hdr", tmp_path / "b.hdr", tile=tile, **QUICK)
    with open_reader(tmp_path / "b.hdr") as after:
        np.testing.assert_array_equal(after.read()[1], stored != 1)
