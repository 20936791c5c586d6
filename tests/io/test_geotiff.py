"""GeoTIFF: what GDAL's own tags say survives reading and writing."""

from __future__ import annotations

import os

import numpy as np
import pytest
import rasterio
from rasterio.control import GroundControlPoint

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadFile
from hyperdlw.io import describe_file, open_cube, open_reader, open_writer, save_cube

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
UTM = rasterio.CRS.from_epsg(32632)
PLACE = rasterio.Affine(30, 0, 400000, 0, -30, 5000000)


@pytest.fixture
def stored() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 9000, (4, 20, 30)).astype(np.int16)


def make(path, stored, profile=None, **place):
    bands, rows, cols = stored.shape
    size = {"count": bands, "height": rows, "width": cols, "dtype": stored.dtype}
    with rasterio.open(path, "w", driver="GTiff", **size, **place, **(profile or {})) as picture:
        for b in range(1, bands + 1):
            centre = {"CENTRAL_WAVELENGTH_UM": f"0.{400 + b}", "FWHM_UM": f"0.00{b}"}
            picture.update_tags(b, ns="IMAGERY", **centre, OTHER="x")
            picture.update_tags(b, gain=str(b))
            picture.set_band_description(b, f"band {b}")
        picture.update_tags(sensor="EnMAP", AREA_OR_POINT="Point")
        picture.update_tags(ns="MINE", key="value")
        picture.scales, picture.offsets = [1e-4] * bands, [0.5] * bands
        picture.write(stored)
    return path


def facts(path):
    with rasterio.open(path) as picture:
        bands = range(1, picture.count + 1)
        return {
            "place": (picture.crs, picture.transform, picture.nodata),
            "scale": (picture.scales, picture.offsets, picture.descriptions),
            "tags": (picture.tags(), picture.tags(ns="MINE")),
            "bands": [(picture.tags(b), picture.tags(b, ns="IMAGERY")) for b in bands],
            "packing": (picture.profile.get("compress"), picture.block_shapes[0]),
            "numbers": picture.read().tolist(),
        }


@pytest.mark.parametrize(
    "profile", [{}, {"compress": "deflate", "tiled": True, "blockxsize": 16, "blockysize": 16}]
)
@pytest.mark.parametrize("by_windows", [False, True])
def test_everything_survives(tmp_path, stored, profile, by_windows):
    make(tmp_path / "a.tif", stored, profile, crs=UTM, transform=PLACE, nodata=-1)
    cube = open_cube(tmp_path / "a.tif")
    assert cube.wavelengths is not None
    assert cube.wavelengths.tolist() == [401, 402, 403, 404]
    assert cube.metadata["fwhm"] == (1, 2, 3, 4)
    assert describe_file(tmp_path / "a.tif")["nodata_from"] == "the file's nodata tag"
    if by_windows:
        with (
            open_reader(tmp_path / "a.tif") as source,
            open_writer(tmp_path / "b.tif", source) as sink,
        ):
            for c in (slice(17, 30), slice(0, 17)):
                sink.write(slice(0, 20), c, *source.read(slice(0, 20), c))
    else:
        save_cube(cube, tmp_path / "b.tif")
    before, after = facts(tmp_path / "a.tif"), facts(tmp_path / "b.tif")
    # Micrometres may be written with other zeros.
    for told in (before, after):
        for _, tags in told["bands"]:
            tags.update({k: float(v) for k, v in tags.items() if k.endswith("UM")})
    assert after == before
    assert sorted(os.listdir(tmp_path)) == ["a.tif", "b.tif"]


def test_bad_bands_and_nan(tmp_path):
    stored = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    stored[0, 0, 0] = np.nan
    size = {"count": 3, "height": 4, "width": 5, "dtype": "float32", "nodata": np.nan}
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", **size) as picture:
        picture.write(stored)
        picture.update_tags(2, bbl="0")
    cube = open_cube(tmp_path / "a.tif")
    assert cube.good_bands.tolist() == [True, False, True]
    assert cube.encoding.nodata is None
    assert not cube.valid[0, 0, 0]
    save_cube(cube, tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b.tif") as picture:
        assert np.isnan(picture.nodata)
        assert picture.tags(2)["bbl"] == "0"


def test_control_points(tmp_path, stored):
    points = [GroundControlPoint(r, c, 400000 + c, 5e6 - r, 1) for r, c in ((0, 0), (0, 9), (9, 9))]
    make(tmp_path / "a.tif", stored, gcps=points, crs=UTM)
    save_cube(open_cube(tmp_path / "a.tif"), tmp_path / "b.tif")
    told = []
    for name in ("a.tif", "b.tif"):
        with rasterio.open(tmp_path / name) as picture:
            found, crs = picture.gcps
            told.append([(p.row, p.col, p.x, p.y, p.z) for p in found])
            assert crs == UTM
    assert told[0] == told[1]
    assert len(told[0]) == 3


def test_scales_that_differ_are_kept(tmp_path, stored):
    make(tmp_path / "a.tif", stored)
    with rasterio.open(tmp_path / "a.tif", "r+") as picture:
        picture.scales = [1, 2, 3, 4]
    cube = open_cube(tmp_path / "a.tif")
    assert any("differ between bands" in note for note in cube.metadata["notes"])
    save_cube(cube, tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b.tif") as picture:
        assert picture.scales == (1, 2, 3, 4)


def test_the_users_nodata_wins_and_is_told(tmp_path, stored):
    make(tmp_path / "a.tif", stored, nodata=-1)
    told = describe_file(tmp_path / "a.tif", nodata=5)
    assert (told["nodata"], told["nodata_from"]) == (5, "given by you")
    cube = open_cube(tmp_path / "a.tif", nodata=float(stored[0, 0, 0]))
    assert not cube.valid[0, 0, 0]


def test_a_wavelength_for_some_bands_is_no_wavelength(tmp_path, stored):
    make(tmp_path / "a.tif", stored)
    with rasterio.open(tmp_path / "a.tif", "r+") as picture:
        picture.update_tags(2, ns="IMAGERY", CENTRAL_WAVELENGTH_UM="unknown")
    cube = open_cube(tmp_path / "a.tif")
    assert cube.wavelengths is None
    assert "CENTRAL_WAVELENGTH_UM" in cube.metadata["notes"][0]


def test_cut_short_by_windows(tmp_path, stored):
    """An image that lost its end is read up to there and then says so."""
    make(tmp_path / "a.tif", stored, {"blockysize": 1})
    raw = (tmp_path / "a.tif").read_bytes()
    with open_reader(tmp_path / "a.tif") as source:
        os.truncate(tmp_path / "a.tif", len(raw) // 2)
        with pytest.raises(BadFile, match="damaged or incomplete"):
            source.read()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint64", "float64"])
def test_types_by_windows(tmp_path, dtype):
    stored = (np.arange(60).reshape(3, 4, 5) * 2).astype(dtype)
    cube = Cube.from_array(stored, encoding=Encoding(dtype, "brc"))
    with open_writer(tmp_path / "a.tif", cube) as sink:
        sink.write_stored(slice(0, 4), slice(0, 5), stored)
    with rasterio.open(tmp_path / "a.tif") as picture:
        np.testing.assert_array_equal(picture.read(), stored)
