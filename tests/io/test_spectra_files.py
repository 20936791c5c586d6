"""Spectra of files: what they say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io.spectra_files import is_spectra, make_curve, read_spectra

NM = np.linspace(400.0, 1000.0, 31)
HEADER = {
    "samples": "3",
    "lines": "2",
    "bands": "1",
    "data type": "4",
    "byte order": "0",
    "file type": "ENVI Spectral Library",
    "wavelength": "{0.4, 0.5, 0.6}",
    "wavelength units": "Micrometers",
    "spectra names": "{oak, clay}",
}


def write_library(folder: Path, dtype: str = "<f4", **other: str) -> Path:
    lines = {**HEADER, **{k.replace("_", " "): v for k, v in other.items()}}
    (folder / "a.hdr").write_text("ENVI\n" + "\n".join(f"{k} = {v}" for k, v in lines.items()))
    np.arange(1, 7, dtype=dtype).tofile(folder / "a.sli")
    return folder / "a.hdr"


def test_mean_over_a_band_of_a_line_is_its_middle():
    """The mean of a linear function over an interval is its value in the middle, in any order of bands."""
    curve = make_curve("a", 2 * NM + 3, NM)
    bands = np.random.default_rng(1).permutation(np.linspace(450, 900, 12))
    np.testing.assert_allclose(curve.resample(bands, 12), 2 * bands + 3, rtol=1e-12)


def test_mean_over_a_band_keeps_the_area():
    """A peak between the centres of bands is not lost: widths times means give its area."""
    values = np.zeros(601)
    values[310] = 1.0
    curve = make_curve("a", values, np.linspace(400, 1000, 601))
    bands = np.linspace(450.0, 950.0, 11)
    assert 50 * curve.resample(bands, 11).sum() == pytest.approx(1.0)


def test_wavelengths_in_any_order_give_the_same_curve():
    order = np.random.default_rng(2).permutation(31)
    curve = make_curve("a", np.sin(NM)[order], NM[order])
    np.testing.assert_array_equal(curve.wavelengths, NM)
    np.testing.assert_array_equal(curve.values, np.sin(NM))


@pytest.mark.parametrize("order", ["0", "1"])
def test_library(tmp_path, order):
    head = write_library(tmp_path, "<f4" if order == "0" else ">f4", byte_order=order)
    for path in (head, head.with_suffix(".sli")):
        assert is_spectra(path)
        oak, clay = read_spectra(path)
        assert (oak.name, clay.name) == ("oak", "clay")
        np.testing.assert_array_equal(oak.values, [1, 2, 3])
        np.testing.assert_array_equal(clay.values, [4, 5, 6])
        np.testing.assert_allclose(oak.wavelengths, [400, 500, 600])


def test_library_behind_a_header_of_bytes(tmp_path):
    head = write_library(tmp_path, samples="2", header_offset="8", wavelength="{400, 500}")
    oak, clay = read_spectra(head)
    assert [*oak.values, *clay.values] == [3, 4, 5, 6]


LIBRARIES = {
    "other type": ({"file_type": "ENVI Standard"}, "its file type is another one"),
    "type of numbers": ({"data_type": "8"}, "describes no library"),
    "too large": ({"lines": "1000000", "samples": "1000000"}, "describes no library"),
    "cut short": ({"lines": "3"}, "cut short: 3 spectra of 3"),
    "wavelengths": ({"wavelength": "{400, 500}"}, "2 wavelengths for spectra of 3"),
    "words": ({"wavelength": "{400, x, 600}"}, "damaged"),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_that_are_refused(tmp_path, name):
    other, words = LIBRARIES[name]
    with pytest.raises(BadFile, match=words):
        read_spectra(write_library(tmp_path, **other))


def test_numbers_without_a_header(tmp_path):
    np.zeros(4, "f4").tofile(tmp_path / "b.sli")
    assert not is_spectra(tmp_path / "b.sli")
    with pytest.raises(BadFile, match="no header beside it"):
        read_spectra(tmp_path / "b.sli")
    with pytest.raises(BadFile, match="does not exist"):
        read_spectra(tmp_path / "c.sli")


TABLES = {
    "commas": ("wavelength,oak,clay\n400,1,2\n500,3,4\n", ["oak", "clay"], [[1, 3], [2, 4]]),
    "blanks": ("# by hand\n\n400 1\n500 3\n", ["t"], [[1, 3]]),
    "micrometres": ("um;oak\n0.4;1\n0.5;3\n", ["t"], [[1, 3]]),
    "no titles": ("400\t1\t2\n500\t3\t4\n", ["t 1", "t 2"], [[1, 3], [2, 4]]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path, name):
    text, names, values = TABLES[name]
    (tmp_path / "t.csv").write_text(text)
    curves = read_spectra(tmp_path / "t.csv")
    assert [c.name for c in curves] == names
    for curve, want in zip(curves, values, strict=True):
        np.testing.assert_array_equal(curve.values, want)
        np.testing.assert_allclose(curve.wavelengths, [400, 500])


def test_a_table_of_one_column_is_for_the_bands_of_the_cube(tmp_path):
    (tmp_path / "t.txt").write_text("1\n2\n3\n")
    (curve,) = read_spectra(tmp_path / "t.txt")
    np.testing.assert_array_equal(curve.resample(None, 3), [1, 2, 3])
    with pytest.raises(BadOption, match="has 3 values and the cube 4 bands"):
        curve.resample([400, 500, 600, 700], 4)


BAD_TABLES = {
    "words below": ("400,1\nx,2\n", "line 2 of .* holds words"),
    "ragged": ("400,1\n500,2,3\n", "line 2 of .* has 3 columns, others 2"),
    "empty": ("# nothing\n", "holds no numbers"),
    "zeros": ("0,1\n0,2\n", "holds no wavelengths"),
    "infinite": ("inf,1\n500,2\n", "holds no wavelengths"),
    "too large": ("1 " * 1001 + "\n" + ("1 " * 1001 + "\n") * 1000, "over 1000000 numbers"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_are_refused(tmp_path, name):
    text, words = BAD_TABLES[name]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadFile, match=words):
        read_spectra(tmp_path / "t.csv")


def test_curves_that_are_refused():
    with pytest.raises(BadOption, match="finite numbers that are not all 0"):
        make_curve("a", [0.0, 0.0])
    with pytest.raises(BadOption, match="finite numbers"):
        make_curve("a", [1.0, np.nan])
    with pytest.raises(BadOption, match="2 wavelengths and 3 values"):
        make_curve("a", [1.0, 2.0, 3.0], [400, 500])
    with pytest.raises(BadOption, match="all different"):
        make_curve("a", [1.0, 2.0], [400, 400])
    with pytest.raises(BadOption, match="covers 400 to 1000 nm"):
        make_curve("a", NM, NM).resample([390.0, 500.0], 2)
