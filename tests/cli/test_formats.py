"""The command line with real formats: info, convert, denoise."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
import rasterio

from hyperdlw.cube import Cube, Encoding
from hyperdlw.io import open_cube, save_cube


@pytest.fixture
def scene(tmp_path, clean):
    """An ENVI pair of a noisy scene with everything in its header."""
    rng = np.random.default_rng(4)
    noisy = clean + 0.05 * rng.standard_normal(clean.shape)
    stored = np.clip(np.rint(noisy * 1e4), -9000, 30000).astype(np.int16)
    stored[0, 0] = -9999
    cube = Cube.from_array(
        stored,
        wavelengths=np.linspace(400.5, 900.5, clean.shape[2]),
        encoding=Encoding("int16", "rcb", scale=1e-4, nodata=-9999.0),
        metadata={
            "crs": rasterio.CRS.from_epsg(32632).to_wkt(),
            "transform": (30.0, 0.0, 4e5, 0.0, -30.0, 5e6),
        },
    )
    save_cube(cube, tmp_path / "scene.hdr")
    return tmp_path / "scene.hdr"


def test_info_says_what_nodata_is_and_who_said_so(hyperdlw, scene):
    told = hyperdlw("info", scene)
    assert "-9999 ('data ignore value' in the header), NaN and Inf" in told.out
    assert "UTM zone 32N" in told.out
    assert "-1 (given by you)" in hyperdlw("info", scene, "--nodata", "-1").out
    facts = json.loads(hyperdlw("info", scene, "--json").out)
    assert facts["nodata"] == -9999
    assert facts["lazy"]
    assert hyperdlw("convert", scene, scene.parent / "a.npy").code == 0
    assert "NaN and Inf only (no value given)" in hyperdlw("info", scene.parent / "a.npy").out


@pytest.mark.parametrize(
    "target", ["clean.hdr", "clean.img", "clean.tif", "clean.h5", "clean.zarr", "clean"]
)
def test_denoise_keeps_what_the_header_says(hyperdlw, scene, tmp_path, target):
    ran = hyperdlw("denoise", scene, tmp_path / target, "-w", "uniform", "-m", "tv")
    assert ran.code == 0, ran.err
    before, after = open_cube(scene), open_cube(tmp_path / target)
    np.testing.assert_array_equal(after.wavelengths, before.wavelengths)
    np.testing.assert_array_equal(after.valid, before.valid)
    assert (after.encoding.dtype, after.encoding.scale) == ("int16", 1e-4)
    assert after.encoding.nodata == -9999
    assert after.metadata["transform"] == before.metadata["transform"]
    assert rasterio.CRS.from_wkt(after.metadata["crs"]).to_epsg() == 32632
    assert (after.data != before.data)[before.valid].any()
    again = hyperdlw("denoise", scene, tmp_path / target, "-w", "uniform", "-m", "tv")
    assert again.code == 2
    assert "exists" in again.err
    assert (
        hyperdlw(
            "denoise", scene, tmp_path / target, "-w", "uniform", "-m", "tv", "--overwrite"
        ).code
        == 0
    )


def test_convert_prints_what_is_lost_one_line_each(hyperdlw, scene, tmp_path):
    ran = hyperdlw("convert", scene, tmp_path / "a.npy")
    lost = [line for line in ran.out.splitlines() if line.startswith("not kept: ")]
    assert len(lost) == 5
    assert "not kept: wavelengths (400.5 to 900.5 nm)" in lost
    told = json.loads(hyperdlw("convert", scene, tmp_path / "b.tif", "--json").out)
    assert told["not_kept"] == []
    assert hyperdlw("convert", scene, tmp_path / "c.npy", "--quiet").out == ""


@pytest.mark.parametrize("command", ["convert", "denoise"])
def test_refusals_leave_nothing(hyperdlw, scene, tmp_path, command):
    os.truncate(scene.with_suffix(".img"), 1000)
    before = sorted(os.listdir(tmp_path))
    ran = hyperdlw(command, scene, tmp_path / "out.tif")
    assert ran.code == 2
    assert (
        "scene.img has 1.0 kB, the header needs 5.8 kB (20 x 24 x 6 x int16 + offset 0)" in ran.err
    )
    assert ran.err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_missing_package_is_one_sentence(hyperdlw, scene, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    ran = hyperdlw("convert", scene, tmp_path / "a.zarr")
    assert ran.code == 2
    assert "pip install 'hyperdlw[scale]'" in ran.err
    assert not (tmp_path / "a.zarr").exists()


def test_a_cube_beyond_memory_is_a_matter_of_resources(hyperdlw, tmp_path):
    (tmp_path / "a.hdr").write_text(
        "ENVI\nsamples = 50000\nlines = 50000\nbands = 250\ndata type = 1\nbyte order = 0\n"
    )
    with open(tmp_path / "a.img", "wb") as file:
        file.truncate(50000 * 50000 * 250)
    ran = hyperdlw("denoise", tmp_path / "a.hdr", tmp_path / "b.hdr")
    assert ran.code == 4
    assert "250 bands x 50000 x 50000 needs at least" in ran.err
    assert hyperdlw("info", tmp_path / "a.hdr").code == 0


def test_denoise_names_what_is_not_kept(hyperdlw, tmp_path, clean):
    np.savez(tmp_path / "a.npz", hsi=clean, hsi_gt=np.eye(3), wavelengths=np.arange(6) + 400.0)
    quick = ("-m", "tv", "-w", "uniform")
    ran = hyperdlw("denoise", tmp_path / "a.npz", tmp_path / "b.npz", *quick)
    assert (ran.code, ran.err) == (0, "")
    ran = hyperdlw("denoise", tmp_path / "a.npz", tmp_path / "b.npy", *quick)
    assert ran.err == "hyperdlw: not kept: wavelengths (400 to 405 nm), other variables (hsi_gt)\n"
    ran = hyperdlw("denoise", tmp_path / "a.npz", tmp_path / "b.tif", *quick, "--json")
    assert json.loads(ran.out)["not_kept"] == ["other variables (hsi_gt)"]
