"""HDF5, NetCDF and Zarr: the layouts of the sensors, and trees that are none."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadFile, BadOption, DlwError, MissingDependency, OutputExists
from hyperdlw.io import checks, describe_file, open_cube, open_reader, save_cube

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
NM = np.array([400.5, 500.25, 600.0])


@pytest.fixture
def cube() -> np.ndarray:
    """(row, col, band)."""
    return np.random.default_rng(1).integers(0, 4000, (5, 7, 3)).astype(np.float32)


def test_emit(tmp_path, cube):
    cube[0, 0] = -9999
    with h5py.File(tmp_path / "EMIT.nc", "w") as file:
        for i, (name, n) in enumerate({"downtrack": 5, "crosstrack": 7, "bands": 3}.items()):
            file.create_dataset(name, data=np.zeros(n)).make_scale(name)
            assert i < 3
        file["reflectance"] = cube
        for axis, name in zip(
            file["reflectance"].dims, ("downtrack", "crosstrack", "bands"), strict=True
        ):
            axis.attach_scale(file[name])
        file["reflectance"].attrs["_FillValue"] = np.float32([-9999])
        file["location/glt_x"] = np.zeros((9, 9), np.int32)
        file["sensor_band_parameters/wavelengths"] = NM.astype(np.float32)
        file["sensor_band_parameters/wavelengths"].attrs["units"] = "nm"
        file["sensor_band_parameters/fwhm"] = np.float32([8.5, 8.6, 8.7])
        file["sensor_band_parameters/good_wavelengths"] = np.uint8([1, 0, 1])
        file.attrs["title"] = "EMIT L2A"
    got = open_cube(tmp_path / "EMIT.nc")
    np.testing.assert_array_equal(got.data, cube.transpose(2, 0, 1))
    assert got.valid.sum() == 3 * 34
    np.testing.assert_array_equal(got.wavelengths, NM)
    assert got.good_bands.tolist() == [True, False, True]
    assert got.metadata["fwhm"] == (8.5, 8.6, 8.7)
    assert got.metadata["attributes"]["/"] == {"title": "EMIT L2A"}
    assert got.encoding.key == "reflectance"
    told = describe_file(tmp_path / "EMIT.nc")
    assert told["nodata_from"] == "'_FillValue' of reflectance"
    assert "wavelengths are from sensor_band_parameters/wavelengths" in told["notes"]


def test_prisma(tmp_path, cube):
    vnir = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/VNIR_Cube"
    swir = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/SWIR_Cube"
    with h5py.File(tmp_path / "PRS.he5", "w") as file:
        file[vnir] = cube.transpose(0, 2, 1).astype(np.uint16)
        file[swir] = np.zeros((5, 4, 7), np.uint16)
        file.attrs["List_Cw_Vnir"] = np.float32([0, 500.25, 400.5])
        file.attrs["List_Cw_Vnir_Flags"] = np.int32([0, 1, 1])
        file.attrs["List_Cw_Swir"] = np.float32([2000, 1900, 1800, 1700])
    assert describe_file(tmp_path / "PRS.he5")["shape"] == (7, 5, 7)
    got = open_cube(tmp_path / "PRS.he5", key="VNIR_Cube")
    np.testing.assert_array_equal(got.data, cube.transpose(2, 0, 1))
    np.testing.assert_array_equal(got.wavelengths, [0, 500.25, 400.5])
    assert got.good_bands.tolist() == [False, True, True]
    assert open_cube(tmp_path / "PRS.he5", key=f"/{swir}").wavelengths[0] == 2000


def test_neon(tmp_path, cube):
    stored = cube.astype(np.int16)
    stored[1, 1] = -9999
    with h5py.File(tmp_path / "NEON.h5", "w") as file:
        data = file.create_dataset("SITE/Reflectance/Reflectance_Data", data=stored)
        data.attrs["Data_Ignore_Value"] = -9999.0
        data.attrs["Scale_Factor"] = 10000.0
        spectral = "SITE/Reflectance/Metadata/Spectral_Data"
        file[f"{spectral}/Wavelength"] = NM
        file[f"{spectral}/Wavelength"].attrs["Units"] = "nanometers"
        file[f"{spectral}/FWHM"] = np.array([5.0, 5.5, 6.0])
        file["SITE/Reflectance/Metadata/Ancillary_Imagery/Path_Length"] = np.zeros((5, 7))
    got = open_cube(tmp_path / "NEON.h5")
    np.testing.assert_array_equal(got.to_array()[0], stored)
    assert got.encoding.scale == 1e-4
    assert got.encoding.nodata == -9999
    assert not got.valid[:, 1, 1].any()
    np.testing.assert_array_equal(got.wavelengths, NM)


def test_an_unknown_band_axis_is_asked_for(tmp_path, cube):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = cube
    with pytest.raises(BadFile, match=r"x in .* is 5x7x3 .*--axes rcb"):
        open_cube(tmp_path / "a.h5")
    assert open_cube(tmp_path / "a.h5", axes="rcb").shape == (3, 5, 7)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["wl"] = np.zeros((4, 4, 2)), np.linspace(400, 700, 4)
    with pytest.raises(BadFile, match=r"two axes are as long as the wavelengths.*--axes"):
        open_cube(tmp_path / "a.h5")
    assert open_cube(tmp_path / "a.h5", axes="rbc").wavelengths[3] == 700


def test_a_preview_is_no_second_cube(tmp_path, cube):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["scene"], file["quicklook"] = cube, np.zeros((2, 2, 1))
        file["wavelength"] = NM
    got = open_cube(tmp_path / "a.h5")
    assert got.encoding.key == "scene"
    assert "quicklook" in got.metadata["notes"][0]


META = {
    "fwhm": (5.0, 5.5, 6.25),
    "band_names": ("a", "b, c", "ü"),
    "transform": (30.0, 0.0, 4e5, 0.0, -30.0, 5e6),
    "tags": {"": {"sensor": "x"}},
    "description": "a field",
}


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.zarr"])
def test_round_trip(same, tmp_path, cube, name, dtype):
    stored = (cube % 100).astype(dtype)
    encoding = Encoding(dtype, "rcb", scale=0.25, offset=1.5, nodata=7.0, key="cube")
    given_ = Cube.from_array(
        stored,
        wavelengths=NM,
        good_bands=[True, False, True],
        encoding=encoding,
        metadata=META,
    )
    save_cube(given_, tmp_path / name)
    back = open_cube(tmp_path / name)
    same(given_, back)
    assert {k: back.metadata[k] for k in META} == META
    assert (back.encoding.dtype, back.encoding.nodata) == (dtype, 7.0)
    assert (back.encoding.scale, back.encoding.offset) == (0.25, 1.5)
    assert back.encoding.axes == ("rcb" if name == "a.h5" else "brc")


def test_compression_is_kept(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", data=np.zeros((64, 64, 4)), compression="gzip", shuffle=True)
    save_cube(open_cube(tmp_path / "a.h5", axes="rcb"), tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["cube"].compression == "gzip"


# --- trees that are none


def test_old_formats_are_named(tmp_path):
    (tmp_path / "a.nc").write_bytes(b"CDF\x01" + bytes(100))
    with pytest.raises(BadFile, match="NetCDF classic; convert it with 'nccopy"):
        open_cube(tmp_path / "a.nc")


def test_circles_and_links(tmp_path, cube):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/cube"], file["a/wavelength"] = cube, NM
        file["a/again"] = file["a"]
        file["a/root"] = file["/"]
        file["soft"] = h5py.SoftLink("/nowhere")
        file["out"] = h5py.ExternalLink("/etc/passwd", "/x")
    assert open_cube(tmp_path / "a.h5").encoding.key == "a/cube"


def test_lies_allocate_nothing(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", (10**6, 10**6, 100), "f8", chunks=(10, 10, 10))
        file["cube"].attrs["axes"] = "rcb"
    with pytest.raises(BadFile, match=r"promises 800000\.0 GB but holds only 0 bytes"):
        open_cube(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        item = file.create_dataset(
            "cube", (10**4, 10**4, 9), "u2", chunks=(10**4, 10**4, 9), compression="gzip"
        )
        item.attrs["axes"] = "rcb"
    with pytest.raises(BadFile, match=r"a chunk of cube .* promises"):
        open_reader(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["cube"] = np.zeros((2, 3, 4))
        file.create_dataset("wavelength", (10**12,), "f8", chunks=(1000,))
        file["wl"] = np.linspace(400, 700, 4)
    assert open_cube(tmp_path / "c.h5").shape == (4, 2, 3)


def test_other_files_are_not_read(tmp_path):
    layout = h5py.VirtualLayout((2, 3, 4), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (2, 3, 4))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("cube", layout)
        file["cube"].attrs["axes"] = "rcb"
    with pytest.raises(BadFile, match="another file"):
        open_cube(tmp_path / "a.h5")


def test_too_many_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "MOST", 10)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(20):
            file.create_group(f"g{i}")
    with pytest.raises(BadFile, match="over 10 objects"):
        open_cube(tmp_path / "a.h5")


names = st.sampled_from(["cube", "wavelength", "wl", "fwhm", "good_bands", "metadata", "x", "a/b"])
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
kinds = st.sampled_from(["f4", "u1", "i8", "?", "c8", "S3", "f2"])
scalars = st.one_of(
    st.floats(),
    st.integers(-(2**40), 2**40),
    st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=5),
    st.lists(st.floats(), min_size=1, max_size=4),
)
words = st.sampled_from(
    [
        "axes",
        "units",
        "_FillValue",
        "scale_factor",
        "add_offset",
        "Scale_Factor",
        "wavelength",
        "bbl",
    ]
)


@QUICK
@given(
    arrays=st.dictionaries(names, st.tuples(shapes, kinds), max_size=5),
    attributes=st.dictionaries(words, scalars, max_size=4),
    axes=st.sampled_from([None, "rcb", "brc"]),
    text=st.one_of(
        st.none(), st.text(max_size=20), st.just('{"fwhm": [1], "crs": 5, "tags": {"a": 1}}')
    ),
)
def test_any_tree_gives_a_sentence_or_a_cube(arrays, attributes, axes, text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        with h5py.File(path, "w") as file:
            for name, (shape, kind) in arrays.items():
                with contextlib.suppress(Exception):
                    file[name] = np.ones(shape, kind)
                    file[name].attrs.update(attributes)
            file.attrs.update(attributes)
            if text is not None and "metadata" not in file:
                with contextlib.suppress(ValueError):
                    file["metadata"] = text
        for look in (open_cube, describe_file):
            with contextlib.suppress(DlwError):
                seen = look(path, axes=axes)
                if isinstance(seen, Cube):
                    for target in ("b.h5", "b.hdr", "b.tif", "b.zarr"):
                        with contextlib.suppress(BadOption):  # a type it cannot hold
                            save_cube(seen, Path(folder, target), overwrite=True)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_hdf5(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        save_cube(Cube.from_array(np.ones((3, 4, 5)), wavelengths=NM), path)
        raw = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.sampled_from([len(raw), len(raw) // 2, 100]))
        path.write_bytes(raw[:cut])
        for look in (open_cube, describe_file):
            with contextlib.suppress(DlwError):
                look(path)


# --- Zarr


def test_zarr_is_chunked_sharded_and_replaced_only_by_itself(tmp_path):
    zarr = pytest.importorskip("zarr")
    big = Cube.from_array(np.ones((3, 300, 310), np.uint8))
    save_cube(big, tmp_path / "a.zarr")
    array = zarr.open(str(tmp_path / "a.zarr"), mode="r")["cube"]
    assert (array.metadata.zarr_format, array.shape) == (3, (3, 300, 310))
    assert (array.chunks, array.shards) == ((3, 64, 64), (3, 256, 256))
    save_cube(big.with_data(big.data * 2), tmp_path / "a.zarr", overwrite=True)
    assert open_cube(tmp_path / "a.zarr").data.min() == 2
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr" / "thesis.txt").write_text("years")
    with pytest.raises(OutputExists, match="no Zarr store"):
        save_cube(big, tmp_path / "b.zarr", overwrite=True)
    assert (tmp_path / "b.zarr" / "thesis.txt").exists()


def test_zarr_of_xarray(tmp_path, cube):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    array = xarray.DataArray(
        cube, dims=("y", "x", "wavelength"), coords={"wavelength": NM}, name="rad"
    )
    array.wavelength.attrs["units"] = "nm"
    array.to_dataset().to_zarr(tmp_path / "a.zarr", consolidated=False)
    got = open_cube(tmp_path / "a.zarr")
    np.testing.assert_array_equal(got.data, cube.transpose(2, 0, 1))
    np.testing.assert_array_equal(got.wavelengths, NM)


def test_zarr_that_lies_or_is_damaged(tmp_path):
    pytest.importorskip("zarr")
    save_cube(Cube.from_array(np.ones((3, 4, 5))), tmp_path / "a.zarr")
    place = tmp_path / "a.zarr" / "cube" / "zarr.json"
    facts = json.loads(place.read_text())
    place.write_text(json.dumps(facts | {"shape": [3, 10**6, 10**6]}))
    with pytest.raises(BadFile, match="promises"):
        open_cube(tmp_path / "a.zarr")
    place.write_text(json.dumps(facts | {"shape": [-3, 4, 5]}))
    with pytest.raises(BadFile):
        open_cube(tmp_path / "a.zarr")
    place.write_text("{")
    with pytest.raises(BadFile):
        open_cube(tmp_path / "a.zarr")
    place.write_text(json.dumps(facts))
    for chunk in (tmp_path / "a.zarr" / "cube").rglob("0"):
        if chunk.is_file():
            chunk.write_bytes(b"junk")
    with pytest.raises(BadFile, match="damaged"):
        open_cube(tmp_path / "a.zarr")


def test_missing_zarr(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hyperdlw\[scale\]'"):
        save_cube(Cube.from_array(np.ones((3, 4, 5))), tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())
