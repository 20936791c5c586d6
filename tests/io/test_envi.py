"""ENVI headers as they are found in the wild, and as GDAL reads ours."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadFile, BadOption, DlwError, OutputExists
from hyperdlw.io import describe_file, envi, open_cube, open_reader, save_cube

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

CODES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
ORDERS = {"bsq": (0, 1, 2), "bil": (1, 0, 2), "bip": (1, 2, 0)}
UTM = "{UTM, 1, 1, 400000, 5000000, 30, 30, 32, North, WGS-84}"
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def header(**changes: str | None) -> str:
    keys = {"samples": "5", "lines": "4", "bands": "3", "header offset": "0"}
    keys |= {"file type": "ENVI Standard", "data type": "2", "interleave": "bsq", "byte order": "0"}
    keys |= {k.replace("_", " "): v for k, v in changes.items()}
    return "ENVI\n" + "".join(f"{k} = {v}\n" for k, v in keys.items() if v is not None)


@pytest.fixture
def stored() -> np.ndarray:
    return np.arange(60, dtype=np.int16).reshape(3, 4, 5)


def make(folder: Path, stored: np.ndarray, name: str = "a.img", **changes: str | None) -> Path:
    (folder / name).write_bytes(stored.tobytes())
    (folder / "a.hdr").write_text(header(**changes))
    return folder / "a.hdr"


@pytest.mark.parametrize("order", ["0", "1"])
@pytest.mark.parametrize("interleave", ORDERS)
@pytest.mark.parametrize("code", CODES)
def test_every_type_order_and_interleave(tmp_path, stored, code, interleave, order):
    """Read what NumPy wrote, and write the same bytes again."""
    dtype = np.dtype("<>"[int(order)] + CODES[code])
    raw = stored.transpose(ORDERS[interleave]).astype(dtype).tobytes()
    (tmp_path / "a.raw").write_bytes(b"head" * 4 + raw)
    changes = {"data_type": str(code), "interleave": interleave.upper(), "byte_order": order}
    (tmp_path / "a.hdr").write_text(header(header_offset="16", **changes))
    cube = open_cube(tmp_path / "a.hdr")
    np.testing.assert_array_equal(cube.data, stored)
    assert cube.encoding.dtype == dtype.name
    save_cube(cube, tmp_path / "b.hdr")
    assert (tmp_path / "b.img").read_bytes() == raw
    with rasterio.open(tmp_path / "b.img") as picture:
        np.testing.assert_array_equal(picture.read(), stored)


@pytest.mark.parametrize("name", ["a", "a.img", "a.dat", "a.raw", "a.bsq", "a.IMG"])
def test_the_data_file_is_found_from_the_header_and_back(tmp_path, stored, name):
    head = make(tmp_path, stored, name)
    for place in (head, tmp_path / name):
        cube = open_cube(place)
        np.testing.assert_array_equal(cube.data, stored)
        assert cube.metadata["data_file"] == str(tmp_path / name)


def test_a_header_with_the_whole_name(tmp_path, stored):
    make(tmp_path, stored, "f97.a.rfl")
    os.rename(tmp_path / "a.hdr", tmp_path / "f97.a.rfl.hdr")
    for name in ("f97.a.rfl", "f97.a.rfl.hdr"):
        np.testing.assert_array_equal(open_cube(tmp_path / name).data, stored)


def test_of_several_data_files_the_complete_one_is_taken_and_named(tmp_path, stored):
    head = make(tmp_path, stored, "a.dat")
    (tmp_path / "a.img").write_bytes(b"short")
    cube = open_cube(head)
    np.testing.assert_array_equal(cube.data, stored)
    assert "a.img, a.dat the data file is a.dat" in cube.metadata["notes"][0]


def test_no_byte_order_is_little_endian_and_said(tmp_path, stored):
    cube = open_cube(make(tmp_path, stored, byte_order=None))
    np.testing.assert_array_equal(cube.data, stored)
    assert "little-endian was assumed" in cube.metadata["notes"][0]
    assert describe_file(tmp_path / "a.hdr")["notes"] == cube.metadata["notes"]


@pytest.mark.parametrize(
    ("units", "texts", "nm"),
    [
        ("Nanometers", "400.5, 500, 600.25", [400.5, 500, 600.25]),
        ("Micrometers", "0.4005, 0.5, 0.60025", [400.5, 500, 600.25]),
        ("um", "0.4005, 0.5, 0.60025", [400.5, 500, 600.25]),
        ("Wavenumber", "25000, 20000, 10000", [400, 500, 1000]),
        (None, "400.5, 500, 600.25", [400.5, 500, 600.25]),
        ("Unknown", "0.4005, 0.5, 0.60025", [400.5, 500, 600.25]),
        ("Index", "1, 2, 3", None),
        ("GHz", "1, 2, 3", None),
        ("Nanometers", "1, 2", None),
        ("Nanometers", "1, x, 3", None),
    ],
)
def test_wavelengths(tmp_path, stored, units, texts, nm):
    changes = {"wavelength_units": units, "wavelength": "{" + texts + "}"}
    cube = open_cube(make(tmp_path, stored, **changes))
    if nm is None:
        assert cube.wavelengths is None
    else:
        np.testing.assert_array_equal(cube.wavelengths, nm)
    assert bool(cube.metadata["notes"]) == (units in (None, "Unknown", "GHz") or nm is None) - (
        units == "Index"
    )
    save_cube(cube, tmp_path / "b.hdr")
    again = envi.header.load_header(tmp_path / "b.hdr")[0]
    assert again.get("wavelength") == changes["wavelength"] or nm is None


def test_everything_survives(tmp_path, stored):
    extra = {
        "sensor_type": "AVIRIS",
        "wavelength_units": "Micrometers",
        "wavelength": "{0.4,\n 0.5,\n 0.6}",
        "fwhm": "{0.01, 0.011, 0.012}",
        "bbl": "{1, 0, 1}",
        "band_names": "{blue, green, red}",
        "data_ignore_value": "-9999",
        "reflectance_scale_factor": "10000.0",
        "map_info": UTM,
        "default_bands": "{3, 2, 1}",
        "description": "{a flight\n over a field}",
        "smile_coefficients": "{1.5e-3, 7}",
    }
    stored[:, 0, 0] = -9999
    head = make(tmp_path, stored, **extra)
    cube = open_cube(head)
    assert not cube.valid[:, 0, 0].any()
    assert cube.valid.sum() == 57
    np.testing.assert_allclose(cube.data[2, 3, 4], 59e-4)
    assert cube.good_bands.tolist() == [True, False, True]
    assert cube.metadata["fwhm"] == (10.0, 11.0, 12.0)
    assert cube.metadata["transform"] == (30.0, 0.0, 400000.0, 0.0, -30.0, 5000000.0)
    assert rasterio.CRS.from_wkt(cube.metadata["crs"]).to_epsg() == 32632
    save_cube(cube, tmp_path / "b.hdr")
    before, after = (envi.header.load_header(tmp_path / n)[0] for n in ("a.hdr", "b.hdr"))
    assert after == before | {"description": "{a flight\n over a field}"}
    assert (tmp_path / "b.img").read_bytes() == stored.tobytes()


def test_weights_of_a_cube_do_not_inherit_its_scale(tmp_path, stored):
    head = make(tmp_path, stored, data_ignore_value="0", reflectance_scale_factor="100")
    cube = open_cube(head)
    plain = replace(cube.encoding, dtype="float32", scale=1.0, nodata=None)
    weights = replace(cube, valid=np.ones(cube.shape, bool), encoding=plain)
    save_cube(weights, tmp_path / "w.hdr")
    back = open_cube(tmp_path / "w.hdr")
    assert (back.encoding.scale, back.encoding.nodata) == (1.0, None)
    np.testing.assert_array_equal(back.data, cube.data)


def test_gains_per_band_are_kept_and_not_used(tmp_path, stored):
    cube = open_cube(make(tmp_path, stored, data_gain_values="{1, 2, 3}"))
    np.testing.assert_array_equal(cube.data, stored)
    assert "differ between bands" in cube.metadata["notes"][0]
    save_cube(cube, tmp_path / "b.hdr")
    assert open_cube(tmp_path / "b.hdr").metadata["band_scales"] == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(("scale", "offset"), [(1e-4, 0.0), (0.3, 0.0), (1 / 3, 0.0), (2.5, -7.0)])
def test_scale_and_offset_survive_exactly(tmp_path, stored, scale, offset):
    encoding = Encoding("int16", "brc", scale, offset)
    save_cube(Cube.from_array(stored, encoding=encoding), tmp_path / "a.hdr")
    back = open_cube(tmp_path / "a.hdr").encoding
    assert (back.scale, back.offset) == (scale, offset)


def gdal_facts(path: Path) -> dict:
    with rasterio.open(path) as picture:
        centres = [picture.tags(b + 1, ns="IMAGERY") for b in range(picture.count)]
        return {
            "um": [float(tags["CENTRAL_WAVELENGTH_UM"]) for tags in centres],
            "nodata": picture.nodata,
            "epsg": picture.crs.to_epsg(),
            "transform": tuple(v + 0.0 for v in picture.transform[:6]),
        }


@pytest.mark.parametrize("target", ["b.hdr", "b.bil", "b.tif"])
def test_gdal_sees_wavelengths_nodata_and_coordinates(tmp_path, stored, target):
    extra = {"wavelength_units": "Nanometers", "wavelength": "{400, 500, 600}"}
    head = make(tmp_path, stored, data_ignore_value="-9999", map_info=UTM, **extra)
    save_cube(open_cube(head), tmp_path / target)
    data = tmp_path / target.replace(".hdr", ".img")
    before = gdal_facts(tmp_path / "a.img")
    assert gdal_facts(data) == before
    assert before["um"] == [0.4, 0.5, 0.6]
    assert (before["nodata"], before["epsg"]) == (-9999, 32632)
    if target != "b.tif":
        with rasterio.open(data) as picture:
            assert picture.tags(ns="ENVI")["wavelength"] == "{400, 500, 600}"
    if shutil.which("gdalinfo"):
        line = ["gdalinfo", "-mdd", "all", str(data)]
        told = subprocess.run(line, capture_output=True, text=True, check=True)
        assert "NoData Value=-9999" in told.stdout
        assert "UTM zone 32N" in told.stdout
        assert "500" in told.stdout.split("Band 2")[1]


SENTENCES = {
    "truncated": (
        {"lines": "400"},
        r"a\.img has 120 bytes, the header needs 12\.0 kB \(400 x 5 x 3",
    ),
    "bands": ({"bands": "600000000"}, r"needs 24\.0 GB"),
    "too many": ({"bands": "6000000000"}, "'bands = 6000000000', which is no whole number"),
    "negative": ({"samples": "-5"}, "'samples = -5'"),
    "zero": ({"lines": "0"}, "'lines = 0'"),
    "digits": ({"lines": "9" * 1_000_000}, "'lines = 9999"),
    "word": ({"bands": "many"}, "'bands = many'"),
    "absent": ({"bands": None}, "has no 'bands'"),
    "brace": ({"wavelength": "{1, 2, 3"}, "opens a brace for 'wavelength' in line 10"),
    "complex": ({"data_type": "6"}, "complex64; a cube holds real numbers"),
    "type": ({"data_type": "7"}, "'data type = 7', which is none of"),
    "interleave": ({"interleave": "tiled"}, "bsq, bil or bip"),
    "order": ({"byte_order": "2"}, "'byte order = 2'"),
    "offset": ({"header_offset": "-1"}, "'header offset = -1'"),
    "far offset": ({"header_offset": "9" * 17}, "offset 99999999999999999"),
    "compressed": ({"file_compression": "1"}, "compressed"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_bad_header_gives_a_sentence(tmp_path, stored, name):
    changes, words = SENTENCES[name]
    head = make(tmp_path, stored, **changes)
    tracemalloc.start()
    try:
        for look in (open_cube, describe_file, open_reader):
            with pytest.raises(BadFile, match=words) as error:
                look(head)
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 400
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_header_alone_and_data_alone(tmp_path, stored):
    head = make(tmp_path, stored)
    (tmp_path / "a.img").unlink()
    with pytest.raises(BadFile, match=r"no data file beside it \(a, a\.img, a\.dat"):
        open_cube(head)
    (tmp_path / "b.img").write_bytes(b"1234")
    with pytest.raises(BadFile, match=r"no ENVI header beside it \(b\.hdr\)"):
        open_cube(tmp_path / "b.img")


def test_links_in_a_circle(tmp_path, stored):
    make(tmp_path, stored)
    (tmp_path / "a.img").unlink()
    (tmp_path / "a.img").symlink_to("a.dat")
    (tmp_path / "a.dat").symlink_to("a.img")
    with pytest.raises(BadFile, match="no data file"):
        open_cube(tmp_path / "a.hdr")
    with pytest.raises(DlwError):
        open_cube(tmp_path / "a.img")


def test_key_and_axes_have_no_meaning(tmp_path, stored):
    head = make(tmp_path, stored)
    with pytest.raises(BadOption, match="--key"):
        open_cube(head, key="x")
    with pytest.raises(BadOption, match="--axes"):
        open_cube(head, axes="rcb")


WORDS = ["samples", "lines", "bands", "data type", "interleave", "byte order", "header offset"]
WORDS += ["wavelength", "fwhm", "bbl", "band names", "map info", "data ignore value", "=", "{", "}"]
WORDS += ["wavelength units", "reflectance scale factor", "coordinate system string", "\n", ","]
WORDS += ["bsq", "bip", "2", "3", "-1", "1e308", "nan", "inf", "99999999999", "UTM", "\0", "ENVI"]


@QUICK
@given(data=st.data())
def test_any_header_gives_a_sentence_or_a_cube(data):
    pieces = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
    lines = header(wavelength="{1,2,3}", bbl="{1,1,0}", map_info=UTM).splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(
            st.one_of(
                st.lists(pieces, max_size=5).map(" ".join),
                st.just(lines[at].split("=")[0] + "= ").flatmap(
                    lambda key: pieces.map(lambda value: key + value)
                ),
            )
        )
    raw = "\n".join(lines).encode("utf-8", "replace")
    raw = data.draw(st.sampled_from([raw, raw[: len(raw) // 2], b"ENVI\n" + bytes(range(256))]))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.img").write_bytes(np.arange(60, dtype=np.int16).tobytes())
        Path(folder, "a.hdr").write_bytes(raw)
        for look in (open_cube, describe_file):
            with contextlib.suppress(DlwError):
                seen = look(Path(folder, "a.hdr"))
                if isinstance(seen, Cube):
                    save_cube(seen, Path(folder, "b.hdr"), overwrite=True)
                    save_cube(seen, Path(folder, "b.tif"), overwrite=True)
                    again = open_cube(Path(folder, "b.hdr"))
                    np.testing.assert_array_equal(again.data, seen.data)


@pytest.mark.parametrize("target", ["a.hdr", "a.img"])
def test_output_is_input(tmp_path, stored, target):
    head = make(tmp_path, stored)
    cube = open_cube(head)
    with pytest.raises(OutputExists):
        save_cube(cube, tmp_path / target)
    save_cube(cube.with_data(cube.data + 1), tmp_path / target, overwrite=True)
    np.testing.assert_array_equal(open_cube(head).data, stored + 1)
    assert sorted(os.listdir(tmp_path)) == ["a.hdr", "a.img"]


def test_a_pair_with_another_ending_is_replaced_under_its_name(tmp_path, stored):
    head = make(tmp_path, stored, "a.dat")
    cube = open_cube(head)
    save_cube(cube.with_data(cube.data + 1), head, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["a.dat", "a.hdr"]
    np.testing.assert_array_equal(open_cube(head).data, stored + 1)


def test_a_file_in_the_way_of_the_other_half(tmp_path, stored):
    cube = open_cube(make(tmp_path, stored))
    (tmp_path / "b.hdr").write_text("mine")
    with pytest.raises(OutputExists, match=r"b\.hdr"):
        save_cube(cube, tmp_path / "b.img")
    assert sorted(os.listdir(tmp_path)) == ["a.hdr", "a.img", "b.hdr"]


def test_no_ending_is_the_format_of_the_input(tmp_path, stored):
    cube = open_cube(make(tmp_path, stored))
    save_cube(cube, tmp_path / "clean_rfl")
    assert {"clean_rfl", "clean_rfl.hdr"} < set(os.listdir(tmp_path))
    np.testing.assert_array_equal(open_cube(tmp_path / "clean_rfl").data, stored)


@pytest.mark.parametrize("moment", ["data", "header"])
def test_a_failed_move_leaves_a_pair_that_fits(tmp_path, stored, monkeypatch, moment):
    """Old numbers with the old header, or a header that is missing: never a wrong pair."""
    head = make(tmp_path, stored)
    cube = open_cube(head)
    replace_, suffix = os.replace, {"data": "a.img", "header": "a.hdr"}[moment]

    def broken(source, target):
        if os.path.basename(target) == suffix:
            raise OSError(5, "Input/output error")
        replace_(source, target)

    monkeypatch.setattr(os, "replace", broken)
    other = Cube.from_array(np.zeros((2, 4, 5), np.float32), encoding=cube.encoding)
    with pytest.raises(BadFile, match="Input/output"):
        save_cube(other, head, overwrite=True)
    monkeypatch.undo()
    if moment == "data":
        np.testing.assert_array_equal(open_cube(head).data, stored)
    else:
        with pytest.raises(BadFile):
            open_cube(head)
    assert not [n for n in os.listdir(tmp_path) if "partial" in n]


@pytest.mark.parametrize("line", ["= 5", "a line of words"])
def test_a_line_that_says_nothing_is_a_note(tmp_path, line):
    np.zeros((2, 3, 4), np.uint8).tofile(tmp_path / "a.img")
    sizes = "samples = 4\nlines = 3\nbands = 2\ndata type = 1\nbyte order = 0"
    (tmp_path / "a.hdr").write_text(f"ENVI\n{line}\n{sizes}\n")
    cube = open_cube(tmp_path / "a.hdr")
    assert cube.shape == (2, 3, 4)
    assert "line 2 of the header has no '=' and was not used" in cube.metadata["notes"]
    assert "" not in cube.metadata.get("envi", {})
