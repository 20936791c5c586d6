"""NetCDF as the CF conventions want it: what GDAL and xarray read of our files, and we of others'."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import rasterio

from hyperdlw.cube import Cube, Encoding
from hyperdlw.io import convert_file, open_cube, save_cube, silence_gdal

UTM = rasterio.CRS.from_epsg(32632).to_wkt()
WGS84 = rasterio.CRS.from_epsg(4326).to_wkt()
MAP = (30.0, 0.0, 600000.0, 0.0, -30.0, 5300000.0)
NM = np.array([400.5, 500.25, 2400.0])


def make_cube(crs: str, transform: tuple[float, ...]) -> Cube:
    values = np.random.default_rng(1).integers(1, 4000, (3, 5, 7)).astype(np.int16)
    values[:, 0, 0] = -1
    about = {"crs": crs, "transform": transform, "fwhm": (8.0, 9.0, 10.0)}
    encoding = Encoding("int16", "brc", 0.5, nodata=-1.0, format="envi")
    good = [True, False, True]
    return Cube.from_array(
        values, wavelengths=NM, good_bands=good, encoding=encoding, metadata=about
    )


@pytest.mark.parametrize(("crs", "transform"), [(UTM, MAP), (WGS84, (0.1, 0, 8.0, 0, -0.1, 48.0))])
def test_gdal_and_xarray_read_our_netcdf(tmp_path, crs, transform):
    cube = make_cube(crs, transform)
    save_cube(cube, tmp_path / "a.nc")
    with rasterio.open(f"netcdf:{tmp_path / 'a.nc'}:cube") as picture:
        assert (picture.count, picture.height, picture.width) == cube.shape
        assert picture.crs == rasterio.CRS.from_wkt(crs)
        np.testing.assert_allclose(picture.transform[:6], transform, rtol=1e-12)
        assert picture.nodata == -1
        np.testing.assert_array_equal(picture.read(), cube.to_array()[0])
        assert float(picture.tags(2)["NETCDF_DIM_wavelength"]) == 500.25
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as data:
        array = data["cube"]
        assert array.dims == ("wavelength", "y", "x")
        np.testing.assert_array_equal(array.wavelength, NM)
        assert array.wavelength.attrs["units"] == "nm"
        np.testing.assert_allclose(array.x[0], transform[2] + transform[0] / 2)
        np.testing.assert_allclose(array.y[-1], transform[5] + 4.5 * transform[4])
        assert data["crs"].attrs["crs_wkt"] == crs
        assert data.fwhm.dims == ("wavelength",)
        assert np.isnan(array[:, 0, 0]).all()
        np.testing.assert_allclose(array[:, 1:], cube.data[:, 1:])


def test_our_netcdf_comes_back_whole(tmp_path):
    cube = make_cube(UTM, MAP)
    save_cube(cube, tmp_path / "a.nc")
    got = open_cube(tmp_path / "a.nc")
    np.testing.assert_array_equal(got.data, cube.data)
    np.testing.assert_array_equal(got.good_bands, cube.good_bands)
    assert {k: got.metadata[k] for k in cube.metadata} == cube.metadata
    assert got.metadata["siblings"] == ()


def test_without_wavelengths_the_dimension_has_a_name_only(tmp_path):
    save_cube(Cube.from_array(np.ones((3, 5, 7), np.float32)), tmp_path / "a.nc")
    assert open_cube(tmp_path / "a.nc").shape == (3, 5, 7)
    with silence_gdal(), rasterio.open(f"netcdf:{tmp_path / 'a.nc'}:cube") as picture:
        assert (picture.count, picture.height, picture.width) == (3, 5, 7)


@pytest.mark.parametrize("how", ["GeoTransform", "coordinates"])
def test_the_map_of_another_file_is_read(tmp_path, how):
    """The layout of AVIRIS-3 L2A: a group with the cube, the grid mapping at the root."""
    with h5py.File(tmp_path / "AV3.nc", "w") as file:
        file["reflectance/reflectance"] = np.random.default_rng(1).random((3, 5, 7), np.float32)
        data = file["reflectance/reflectance"]
        data.attrs["grid_mapping"] = "transverse_mercator"
        file["reflectance/wavelength"] = NM
        file["northing"], file["easting"] = (
            5299985 - 30.0 * np.arange(5),
            600015 + 30.0 * np.arange(7),
        )
        file["transverse_mercator"] = np.bytes_(b"")
        file["transverse_mercator"].attrs["crs_wkt"] = UTM
        if how == "GeoTransform":
            text = "600000.0 30.0 0.0 5300000.0 0.0 -30.0"
            file["transverse_mercator"].attrs["GeoTransform"] = text
        names = ("reflectance/wavelength", "northing", "easting")
        for axis, name in zip(data.dims, names, strict=True):
            file[name].make_scale(name)
            axis.attach_scale(file[name])
    convert_file(tmp_path / "AV3.nc", tmp_path / "a.tif")
    with rasterio.open(tmp_path / "a.tif") as picture:
        assert picture.crs == rasterio.CRS.from_wkt(UTM)
        np.testing.assert_allclose(picture.transform[:6], MAP)


def test_a_broken_coordinate_system_is_left_out(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"], file["wl"], file["map"] = np.ones((3, 5, 7)), NM, 0
        file["x"].attrs["grid_mapping"], file["map"].attrs["crs_wkt"] = "map", "nonsense"
    assert "crs" not in open_cube(tmp_path / "a.nc").metadata
    convert_file(tmp_path / "a.nc", tmp_path / "a.tif")
