"""Every format into every other: the same numbers, and everything the target can hold."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
import rasterio

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadOption, OutputExists
from hyperdlw.io import convert_file, open_cube, open_reader, save_cube

NAMES = ["a.npy", "a.npz", "a.mat", "a.hdr", "a.tif", "a.h5", "a.zarr", "bands/"]
FULL = ["a.npz", "a.mat", "a.hdr", "a.tif", "a.h5", "a.zarr"]
META = {
    "fwhm": (5.0, 5.5, 6.25),
    "band_names": ("blue", "green", "red"),
    "crs": rasterio.CRS.from_epsg(32632).to_wkt(),
    "transform": (30.0, 0.0, 4e5, 0.0, -30.0, 5e6),
    "description": "a field",
}
AXES = {"a.npy": "rcb"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rng = np.random.default_rng(7)
    stored = rng.integers(0, 65535, (4, 6, 3)).astype(np.uint16)
    cube = Cube.from_array(
        stored,
        wavelengths=[400.5, 500.1, 600.0],
        good_bands=[True, False, True],
        encoding=Encoding("uint16", "rcb", scale=1e-4, nodata=9.0),
        metadata=META,
    )
    places = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp("made")
        save_cube(cube, f"{folder}/{name}")
        places[name] = f"{folder}/{name}"
    return stored.transpose(2, 0, 1), places


@pytest.mark.parametrize(("one", "other"), list(itertools.product(NAMES, NAMES)))
def test_every_pair(made, tmp_path, one, other):
    stored, places = made
    done = convert_file(places[one], f"{tmp_path}/{other}")
    with open_reader(f"{tmp_path}/{other}") as back:
        np.testing.assert_array_equal(back.read_stored(), stored)
        assert back.dtype == np.uint16
        if one in FULL and other in FULL:
            assert done.lost == ()
            assert back.wavelengths is not None
            assert back.wavelengths.tolist() == [400.5, 500.1, 600.0]
            assert back.good_bands.tolist() == [True, False, True]
            assert (back.encoding.scale, back.nodata) == (1e-4, 9.0)
            kept = {k: back.metadata[k] for k in META if k != "crs"}
            assert kept == {k: v for k, v in META.items() if k != "crs"}
            assert rasterio.CRS.from_wkt(back.metadata["crs"]).to_epsg() == 32632
        elif one in FULL:
            said = " ".join(done.lost)
            for word in ("wavelengths", "bad bands", "scale", "nodata", "fwhm", "names", "map"):
                assert word in said
        else:
            assert done.lost == ()


EXACT = {
    "int64": np.array([2**62 + 1, -(2**61) - 3, 7]),
    "uint64": np.array([2**64 - 1, 2**53 + 1, 0], np.uint64),
    "float64": np.array([np.pi, 1e300, np.nan]),
    "int32": np.array([2**31 - 1, -(2**31), 16777217], np.int32),
}


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "bands/"])
def test_no_detour_through_float32(tmp_path, name, dtype):
    stored = np.tile(EXACT[dtype], 8).reshape(2, 4, 3)
    np.save(tmp_path / "in.npy", stored)
    convert_file(tmp_path / "in.npy", tmp_path / name)
    convert_file(tmp_path / name, tmp_path / "out.npy")
    back = np.load(tmp_path / "out.npy")
    assert back.dtype == stored.dtype
    assert back.tobytes() == stored.tobytes()


def test_what_cannot_be_converted_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 5, 3), np.float32))
    with pytest.raises(BadOption, match="cannot hold float32"):
        convert_file(tmp_path / "a.npy", tmp_path / "a.png")
    with pytest.raises(BadOption, match="names no format"):
        convert_file(tmp_path / "a.npy", tmp_path / "a.xyz")
    with pytest.raises(OutputExists):
        convert_file(tmp_path / "a.npy", tmp_path / "a.npy")
    assert os.listdir(tmp_path) == ["a.npy"]
    convert_file(tmp_path / "a.npy", tmp_path / "a.npy", overwrite=True)
    assert np.load(tmp_path / "a.npy").shape == (4, 5, 3)


def test_names_that_envi_has_no_words_for(tmp_path):
    cube = Cube.from_array(np.zeros((2, 3, 4)), metadata={"band_names": ("a,b", "c")})
    save_cube(cube, tmp_path / "a.h5")
    assert convert_file(tmp_path / "a.h5", tmp_path / "a.hdr").lost == ("band names",)
    assert open_cube(tmp_path / "a.hdr").metadata["band_names"] == ("a;b", "c")


def test_keys_of_a_header_survive_a_geotiff(tmp_path):
    cube = Cube.from_array(np.zeros((2, 3, 4)))
    save_cube(cube, tmp_path / "a.hdr")
    with open(tmp_path / "a.hdr", "a") as file:
        file.write("smile = {1, 2}\nsensor type = HySpex\n")
    lost = convert_file(tmp_path / "a.hdr", tmp_path / "b.npy").lost
    assert lost == ("other header keys (smile, sensor type)",)
    convert_file(tmp_path / "a.hdr", tmp_path / "b.tif")
    convert_file(tmp_path / "b.tif", tmp_path / "c.hdr")
    text = (tmp_path / "c.hdr").read_text()
    assert "smile = {1, 2}" in text
    assert "sensor type = HySpex" in text
