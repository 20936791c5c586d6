"""Layouts of sensors, made by code after their specifications: read, denoise, compare with the input.

The independent readers are h5py and pyhdf for trees, rasterio for GeoTIFF and ENVI.
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import rasterio

from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, BadOption, MissingDependency
from hyperdlw.io import describe_file, open_cube, save_cube, silence_gdal
from hyperdlw.pipeline import denoise_file

from .same_files import assert_only_changed

ROWS, COLS, BANDS = 12, 14, 5
NM = np.linspace(400.5, 2400.5, BANDS).astype(np.float32)
FWHM = np.linspace(8, 9, BANDS).astype(np.float32)


def make_scene(*axes: int, dtype: str = "float32") -> np.ndarray:
    """Noisy numbers of a shape."""
    return (1000 + 100 * np.random.default_rng(1).random(axes)).astype(dtype)


def make_emit(path: Path, word: str) -> None:
    """EMIT L1B (radiance) and L2A (reflectance): location with GLT, 37 attributes of the granule."""
    with h5py.File(path, "w", track_order=True) as file:
        sizes = {"downtrack": ROWS, "crosstrack": COLS, "bands": BANDS}
        for name, length in {**sizes, "ortho_y": 9, "ortho_x": 8}.items():
            title = f"This is a netCDF dimension but not a netCDF variable.{length:10d}"
            file.create_dataset(name, (length,), "f4").make_scale(title)
        scene = make_scene(ROWS, COLS, BANDS)
        scene[0, 0] = -9999
        file.create_dataset(word, data=scene, chunks=(6, 7, 5), fillvalue=-9999)
        for axis, name in zip(file[word].dims, sizes, strict=True):
            axis.attach_scale(file[name])
        file[word].attrs["_FillValue"] = np.float32([-9999])
        file[word].attrs["units"] = "uW/cm^2/SR/nm"
        bands = file.create_group("sensor_band_parameters")
        bands["wavelengths"], bands["fwhm"] = NM, FWHM
        for name in ("wavelengths", "fwhm"):
            bands[name].attrs["units"] = "nm"
        if word == "reflectance":
            bands["good_wavelengths"] = np.uint8([1, 1, 0, 1, 1])
        for name in ("lat", "lon", "elev"):
            file[f"location/{name}"] = make_scene(ROWS, COLS, dtype="float64")
        for name in ("glt_x", "glt_y"):
            file[f"location/{name}"] = np.arange(72, dtype=np.int32).reshape(9, 8)
        for i in range(37):
            file.attrs[f"attribute_{i}"] = f"value {i}" if i % 2 else np.float64(i)
        file.attrs["geotransform"] = np.arange(6.0)
        file.attrs["spatial_ref"] = rasterio.CRS.from_epsg(4326).to_wkt()


def make_prisma(path: Path, level: str) -> None:
    """PRISMA L1 and L2D: two detectors, descending bands, error matrices as large as the cubes."""
    with h5py.File(path, "w") as file:
        error = "SAT_ERR" if level == "L1" else "L2_ERR"
        for group in ("HRC", "HCO") if level == "L1" else ("HCO",):
            fields = f"HDFEOS/SWATHS/PRS_{level}_{group}/Data Fields"
            for detector, bands in (("VNIR", 5), ("SWIR", 4)):
                cube = make_scene(ROWS, bands, COLS, dtype="uint16") + ord(group[1]) * 9
                file[f"{fields}/{detector}_Cube"] = cube.astype(np.uint16)
                name = f"{fields}/{detector}_PIXEL_{error}_MATRIX"
                file[name] = np.zeros((ROWS, bands, COLS), np.uint8)
            file[f"HDFEOS/SWATHS/PRS_{level}_{group}/Geolocation Fields/Latitude"] = np.eye(COLS)
        file[f"HDFEOS/SWATHS/PRS_{level}_PCO/Data Fields/Cube"] = np.ones((72, 84), np.uint16)
        file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(b"GROUP=SwathStructure")
        file["KDP_AUX/Cw_Vnir_Matrix"] = np.ones((COLS, 5), np.float32)
        file.attrs["List_Cw_Vnir"] = np.float32([1010, 900, 700, 500, 0])
        file.attrs["List_Cw_Swir"] = np.float32([2500, 2000, 1500, 950])
        file.attrs["List_Fwhm_Vnir"] = np.float32([11, 10, 9, 8, 0])
        file.attrs["List_Fwhm_Swir"] = np.float32([15, 14, 13, 12])
        file.attrs["List_Cw_Vnir_Flags"] = np.int32([1, 1, 1, 1, 0])
        file.attrs["L2ScaleVnirMax"] = np.float32(1.2)
        file.attrs["Product_ID"] = np.bytes_(f"PRS_{level}_STD")


def make_aviris3(path: Path, word: str) -> None:
    """AVIRIS-3 L1B (raw geometry) and L2A (on a map)."""
    with h5py.File(path, "w") as file:
        file[f"{word}/{word}"] = make_scene(BANDS, ROWS, COLS)
        file[f"{word}/wavelength"], file[f"{word}/fwhm"] = NM, FWHM
        file[f"{word}/wavelength"].attrs["units"] = "nm"
        file[f"{word}/{word}"].attrs["_FillValue"] = np.float32(-9999)
        file["northing"], file["easting"] = -4.0 * np.arange(ROWS), 4.0 * np.arange(COLS)
        file["transverse_mercator"] = np.bytes_(b"")
        file["transverse_mercator"].attrs["crs_wkt"] = rasterio.CRS.from_epsg(32611).to_wkt()
        file[f"{word}/{word}"].attrs["grid_mapping"] = "transverse_mercator"
        for axis, name in enumerate((f"{word}/wavelength", "northing", "easting")):
            file[name].make_scale(name)
            file[f"{word}/{word}"].dims[axis].attach_scale(file[name])
        file.attrs["flight_line"] = "AV320231008t163132"


def make_hypso(path: Path) -> None:
    """HYPSO L1B: wavelengths are an attribute of the cube."""
    with h5py.File(path, "w") as file:
        file["products/Lt"] = make_scene(ROWS, COLS, BANDS)
        file["products/Lt"].attrs["wavelengths"] = NM
        file["products/Lt"].attrs["fwhm"] = FWHM
        file["products/Lt"].attrs["wavelength_units"] = "nanometers"
        file["navigation/latitude"] = np.ones((ROWS, COLS), np.float32)
        file["metadata/capture_config"] = np.float32(1)
        file["metadata/capture_config"].attrs["frame_count"] = 956


def make_tanager(path: Path) -> None:
    """Tanager: an HDF-EOS swath with the uncertainty beside the reflectance."""
    fields = "HDFEOS/SWATHS/HYP/Data Fields"
    with h5py.File(path, "w") as file:
        for name in ("surface_reflectance", "surface_reflectance_uncertainty"):
            file.create_dataset(f"{fields}/{name}", data=make_scene(BANDS, ROWS, COLS))
            file[f"{fields}/{name}"].attrs["wavelengths"] = NM
            file[f"{fields}/{name}"].attrs["fwhm"] = FWHM
            file[f"{fields}/{name}"].attrs["_FillValue"] = np.float32(-9999)
        file[f"{fields}/nodata_pixels"] = np.zeros((ROWS, COLS), np.uint8)
        file["HDFEOS/SWATHS/HYP/Geolocation Fields/Latitude"] = np.ones((ROWS, COLS))
        file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(b"GROUP=SwathStructure")


def make_neon(path: Path) -> None:
    """NEON: a site group, scaled integers, coordinate system as text."""
    with h5py.File(path, "w") as file:
        cube = make_scene(ROWS, COLS, BANDS, dtype="int16")
        file["SITE/Reflectance/Reflectance_Data"] = cube
        file["SITE/Reflectance/Reflectance_Data"].attrs["Data_Ignore_Value"] = -9999.0
        file["SITE/Reflectance/Reflectance_Data"].attrs["Scale_Factor"] = 10000.0
        spectral = "SITE/Reflectance/Metadata/Spectral_Data"
        file[f"{spectral}/Wavelength"], file[f"{spectral}/FWHM"] = NM, FWHM
        file[f"{spectral}/Wavelength"].attrs["Units"] = "nanometers"
        file["SITE/Reflectance/Metadata/Coordinate_System/EPSG Code"] = b"32611"


TREES = {
    "EMIT L1B": (lambda p: make_emit(p, "radiance"), "radiance"),
    "EMIT L2A": (lambda p: make_emit(p, "reflectance"), "reflectance"),
    "AVIRIS-3 L1B": (lambda p: make_aviris3(p, "radiance"), "radiance/radiance"),
    "AVIRIS-3 L2A": (lambda p: make_aviris3(p, "reflectance"), "reflectance/reflectance"),
    "HYPSO": (make_hypso, "products/Lt"),
    "Tanager": (make_tanager, "HDFEOS/SWATHS/HYP/Data Fields/surface_reflectance"),
    "NEON": (make_neon, "SITE/Reflectance/Reflectance_Data"),
}


def restore(source: Path, target: Path, **settings: object) -> None:
    denoise_file(source, target, model="tv", weights="uniform", **settings)


@pytest.mark.parametrize("sensor", TREES)
@pytest.mark.parametrize("tile", [None, 6])
def test_trees(tmp_path, sensor, tile):
    make, key = TREES[sensor]
    make(tmp_path / "in.nc")
    got = open_cube(tmp_path / "in.nc")
    assert got.encoding.key == key
    assert got.shape == (BANDS, ROWS, COLS)
    np.testing.assert_allclose(got.wavelengths, NM, rtol=1e-6)
    np.testing.assert_allclose(got.metadata["fwhm"], FWHM, rtol=1e-6)
    restore(tmp_path / "in.nc", tmp_path / "out.nc", tile=tile)
    assert_only_changed(tmp_path / "in.nc", tmp_path / "out.nc", key)


@pytest.mark.parametrize("level", ["L1", "L2D"])
@pytest.mark.parametrize("tile", [None, 6])
def test_prisma_is_one_spectrum(tmp_path, level, tile):
    make_prisma(tmp_path / "in.he5", level)
    fields = f"HDFEOS/SWATHS/PRS_{level}_HCO/Data Fields"
    got = open_cube(tmp_path / "in.he5")
    assert got.wavelengths.tolist() == [0, 500, 700, 900, 950, 1010, 1500, 2000, 2500]
    assert got.metadata["fwhm"] == (0, 8, 9, 10, 12, 11, 13, 14, 15)
    assert got.good_bands.tolist() == [False] + [True] * 8
    with h5py.File(tmp_path / "in.he5") as file:
        vnir, swir = (file[f"{fields}/{d}_Cube"][()].transpose(1, 0, 2) for d in ("VNIR", "SWIR"))
    where = [vnir[4], vnir[3], vnir[2], vnir[1], swir[3], vnir[0], swir[2], swir[1], swir[0]]
    np.testing.assert_array_equal(got.data, where)
    restore(tmp_path / "in.he5", tmp_path / "out.he5", tile=tile)
    names = [f"{fields}/{d}_Cube" for d in ("VNIR", "SWIR")]
    assert_only_changed(tmp_path / "in.he5", tmp_path / "out.he5", *names)
    with h5py.File(tmp_path / "out.he5") as file:  # a bad band is not touched
        np.testing.assert_array_equal(file[names[0]][:, 4], vnir[4])
        changed = np.abs(file[names[1]][()].astype(float).transpose(1, 0, 2) - swir)
        assert 0 < changed.max() < 100


def test_one_detector_of_prisma_can_be_asked_for(tmp_path):
    make_prisma(tmp_path / "in.he5", "L2D")
    assert open_cube(tmp_path / "in.he5", key="SWIR_Cube").shape == (4, ROWS, COLS)
    told = describe_file(tmp_path / "in.he5")
    assert told["shape"] == (9, ROWS, COLS)
    assert "were taken as one spectrum" in told["notes"][0]
    again = open_cube(tmp_path / "in.he5", key=told["key"])
    assert again.shape == (9, ROWS, COLS)


# --- HDF4: Hyperion L1R


def make_hyperion(path: Path) -> np.ndarray:
    """Hyperion L1R (line, band, sample), and its .AUX file with spectra by columns and a mask."""
    hdf = pytest.importorskip("pyhdf.SD")
    kinds = {"int16": hdf.SDC.INT16, "float32": hdf.SDC.FLOAT32, "uint8": hdf.SDC.UINT8}

    def write(place: Path, arrays: dict[str, np.ndarray]) -> None:
        file = hdf.SD(str(place), hdf.SDC.WRITE | hdf.SDC.CREATE | hdf.SDC.TRUNC)
        for name, values in arrays.items():
            item = file.create(name, kinds[values.dtype.name], values.shape)
            item[:] = values
            item.endaccess()
        file.attr("L1 File Generated By").set(hdf.SDC.CHAR8, "L1R")
        file.end()

    scene = make_scene(ROWS, BANDS, COLS, dtype="int16")
    smile = np.linspace(-1, 1, COLS, dtype=np.float32)
    write(path, {path.name: scene})
    spectral = {
        "Spectral Center Wavelengths": NM[:, None] + smile,
        "Spectral Bandwidths": FWHM[:, None] + 0 * smile,
        "Gain Coefficients": np.ones((BANDS, COLS), np.float32),
        "Flag Mask": np.zeros((ROWS, BANDS, COLS), np.uint8),
    }
    write(path.with_suffix(".AUX"), spectral)
    return scene


@pytest.mark.parametrize("tile", [None, 6])
def test_hyperion_l1r(tmp_path, tile):
    source = tmp_path / "EO1H0010012001001110KF.L1R"
    scene = make_hyperion(source)
    got = open_cube(source)
    np.testing.assert_array_equal(got.data, scene.transpose(1, 0, 2))
    np.testing.assert_allclose(got.wavelengths, NM, rtol=1e-6)
    np.testing.assert_allclose(got.metadata["fwhm"], FWHM, rtol=1e-6)
    restore(source, tmp_path / "clean.L1R", tile=tile)
    hdf = pytest.importorskip("pyhdf.SD")
    old, new = (hdf.SD(str(p)) for p in (source, tmp_path / "clean.L1R"))
    assert old.datasets() == new.datasets()
    assert old.attributes() == new.attributes()
    changed = np.asarray(new.select(source.name)[:], float) - scene
    assert 0 < np.abs(changed).max() < 100
    restore(source, tmp_path / "clean.nc")
    np.testing.assert_allclose(open_cube(tmp_path / "clean.nc").wavelengths, NM, rtol=1e-6)
    with pytest.raises(BadOption, match="makes no new hdf4 files"):
        save_cube(Cube.from_array(got.data), tmp_path / "new.L1R")


def test_hdf4_needs_a_package(tmp_path, monkeypatch):
    (tmp_path / "a.L1R").write_bytes(b"\x0e\x03\x13\x01" + bytes(100))
    monkeypatch.setitem(sys.modules, "pyhdf", None)
    monkeypatch.setitem(sys.modules, "pyhdf.SD", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hyperdlw\[hdf4\]'"):
        open_cube(tmp_path / "a.L1R")


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_damaged_hdf4_is_one_sentence(tmp_path, cut):
    make_hyperion(tmp_path / "a.L1R")
    raw = (tmp_path / "a.L1R").read_bytes()
    (tmp_path / "a.L1R").write_bytes(raw[: int(cut * len(raw))])
    (tmp_path / "a.AUX").unlink()
    with pytest.raises(BadFile):
        open_cube(tmp_path / "a.L1R", axes="rbc")


# --- GeoTIFF: EnMAP and DESIS


@pytest.mark.parametrize(
    ("prefix", "tag", "width", "ending"),
    [
        ("ENMAP01-____L2A-DT0000001_", "bandID", "FWHMOfBand", "TIF"),
        ("DESIS-HSI-L2A-DT0000001-", "band", "wavelengthWidthOfBand", "tif"),
    ],
    ids=["EnMAP", "DESIS"],
)
def test_geotiff_with_xml(tmp_path, prefix, tag, width, ending):
    image = tmp_path / f"{prefix}SPECTRAL_IMAGE.{ending}"
    scene = make_scene(BANDS, ROWS, COLS, dtype="int16")
    scene[:, 0, 0] = -32768
    profile = {"driver": "GTiff", "count": BANDS, "height": ROWS, "width": COLS, "dtype": "int16"}
    profile |= {"crs": "EPSG:32632", "transform": rasterio.Affine(30, 0, 6e5, 0, -30, 5.3e6)}
    with rasterio.open(image, "w", nodata=-32768, compress="lzw", **profile) as picture:
        picture.write(scene)
        picture.update_tags(TIFFTAG_DATETIME="2024:01:28 06:36:55", OTHER="kept")
    each = "".join(
        f"<{tag}><wavelengthCenterOfBand>{w}</wavelengthCenterOfBand><{width}>{f}</{width}></{tag}>"
        for w, f in zip(NM, FWHM, strict=True)
    )
    inner = f"<specific><bandCharacterisation>{each}</bandCharacterisation></specific>"
    (tmp_path / f"{prefix}METADATA.XML").write_text(f"<level_X>{inner}</level_X>")
    restore(image, tmp_path / "out.tif")
    with rasterio.open(image) as old, rasterio.open(tmp_path / "out.tif") as new:
        for fact in ("crs", "transform", "nodata", "dtypes", "shape", "count", "compression"):
            assert getattr(new, fact) == getattr(old, fact), fact
        assert new.tags() == old.tags()
        np.testing.assert_array_equal(new.read()[:, 0, 0], -32768)
        assert not np.array_equal(new.read(), scene)
        micrometres = [
            float(new.tags(b, ns="IMAGERY")["CENTRAL_WAVELENGTH_UM"]) for b in new.indexes
        ]
    np.testing.assert_allclose(micrometres, NM / 1000, rtol=1e-6)


# --- ENVI: AVIRIS-NG, Specim, Headwall, Hyperion


ENVI = {
    "AVIRIS-NG": ("bil", "map info = {UTM, 1, 1, 600000, 4000000, 5.1, 5.1, 11, North, WGS-84, "
                  "units=Meters, rotation=-12}\ndata ignore value = -9999\nsmoothing factors = {1, 1}"),
    "Specim": ("bil", "sensor type = FX10e\nacquisition date = DATE(yyyy-mm-dd): 2024-05-01\n"
               "fps = 50\ntint = 10.000000\nbinning = {2, 1}\ndefault bands = {3, 2, 1}"),
    "Headwall": ("bil", "sensor type = Headwall Nano-Hyperspec\nsample binning = 1\n"
                 "FOV = 15.9\nframe period = 10000"),
    "Hyperion": ("bip", "sensor type = EO-1 Hyperion\nbbl = {1, 1, 0, 1, 1}\nz plot titles = {a, b}"),
}  # fmt: skip


@pytest.mark.parametrize("sensor", ENVI)
def test_envi(tmp_path, sensor):
    interleave, more = ENVI[sensor]
    shape = (ROWS, BANDS, COLS) if interleave == "bil" else (ROWS, COLS, BANDS)
    scene = make_scene(*shape)
    scene.tofile(tmp_path / "in.img")
    numbers = ", ".join(map(str, NM.tolist()))
    (tmp_path / "in.hdr").write_text(
        f"ENVI\ndescription = {{{sensor}}}\nsamples = {COLS}\nlines = {ROWS}\nbands = {BANDS}\n"
        f"header offset = 0\nfile type = ENVI Standard\ndata type = 4\ninterleave = {interleave}\n"
        f"byte order = 0\nwavelength units = Nanometers\nwavelength = {{{numbers}}}\n{more}\n"
    )
    restore(tmp_path / "in.hdr", tmp_path / "out.hdr")
    with silence_gdal():
        old, new = (rasterio.open(tmp_path / name) for name in ("in.img", "out.img"))
    with old, new:
        assert new.profile == old.profile
        # Keys of a header are the same in upper and lower case.
        said = [{k.lower(): v for k, v in p.tags(ns="ENVI").items()} for p in (old, new)]
        assert said[0] == said[1]
        for band in old.indexes:
            assert new.tags(band) == old.tags(band)
        assert new.descriptions == old.descriptions
        assert not np.array_equal(new.read(1), old.read(1))
