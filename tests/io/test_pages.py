"""TIFF files of many pages: OME, ImageJ, plain; read by us, compared by tifffile."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import describe_file, open_cube, save_cube
from hyperdlw.pipeline import denoise_file

tifffile = pytest.importorskip("tifffile")

SCENE = (1000 + 100 * np.random.default_rng(1).random((7, 12, 14))).astype(np.uint16)
KINDS = {
    "plain": {"metadata": None, "photometric": "minisblack"},
    "big": {"metadata": None, "photometric": "minisblack", "bigtiff": True, "byteorder": ">"},
    "rows": {"metadata": None, "photometric": "minisblack", "rowsperstrip": 5},
    "packed": {"metadata": None, "photometric": "minisblack", "compression": "zlib"},
    "imagej": {"metadata": {"axes": "CYX"}, "imagej": True, "resolution": (2.5, 2.5)},
    "ome": {"metadata": {"axes": "CYX"}, "ome": True, "photometric": "minisblack"},
}


def tags(path):
    with tifffile.TiffFile(path) as file:
        skip = {"StripByteCounts", "StripOffsets", "TileOffsets"}
        return [{t.name: t.value for t in p.tags if t.name not in skip} for p in file.pages]


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_bands(tmp_path, kind):
    tifffile.imwrite(tmp_path / "a.tif", SCENE, **KINDS[kind])
    got = open_cube(tmp_path / "a.tif")
    np.testing.assert_array_equal(got.data, SCENE)
    denoise_file(tmp_path / "a.tif", tmp_path / "b.tif", model="tv", weights="uniform")
    made = tifffile.imread(tmp_path / "b.tif")
    assert made.shape == SCENE.shape
    assert made.dtype == SCENE.dtype
    assert 0 < np.abs(made.astype(float) - SCENE).max() < 100
    if kind != "packed":
        assert tags(tmp_path / "b.tif") == tags(tmp_path / "a.tif")
        assert (tmp_path / "a.tif").stat().st_size == (tmp_path / "b.tif").stat().st_size


@pytest.mark.parametrize(("axes", "bands"), [("TCYX", 7), ("TZYX", 7), ("CTYX", 2)])
@pytest.mark.parametrize("kind", ["imagej", "ome"])
def test_a_series_is_cleaned_cube_by_cube(tmp_path, kind, axes, bands):
    if kind == "imagej" and axes == "CTYX":
        pytest.skip("ImageJ orders times before channels")
    series = np.stack([SCENE, SCENE + 5])
    about = {"imagej": True} if kind == "imagej" else {"ome": True, "photometric": "minisblack"}
    tifffile.imwrite(tmp_path / "a.tif", series, metadata={"axes": axes}, **about)
    with pytest.raises(BadFile, match=r"holds \d cubes of \d bands.*--key 0 to --key"):
        open_cube(tmp_path / "a.tif")
    assert describe_file(tmp_path / "a.tif")["shape"] is None
    got = open_cube(tmp_path / "a.tif", key="1")
    np.testing.assert_array_equal(got.data, series[1] if bands == 7 else series[:, 1])
    save_cube(got.with_data(got.data + 1), tmp_path / "b.tif")
    expected = series.copy()
    expected[(1,) if bands == 7 else np.s_[:, 1]] += 1
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), expected)
    with pytest.raises(BadOption, match="there is no cube in"):
        open_cube(tmp_path / "a.tif", key="9")


def test_wavelengths_of_ome_channels(tmp_path):
    waves = [400.0 + 10 * i for i in range(7)]
    about = {"axes": "CYX", "Channel": {"EmissionWavelength": waves}}
    tifffile.imwrite(tmp_path / "a.ome.tif", SCENE, photometric="minisblack", metadata=about)
    assert open_cube(tmp_path / "a.ome.tif").wavelengths.tolist() == waves


def test_other_pages_are_left_out(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for band in SCENE[:3]:
            file.write(band, photometric="minisblack", metadata=None, contiguous=False)
        file.write(SCENE[0, :4, :4], photometric="minisblack", metadata=None)
    got = open_cube(tmp_path / "a.tif")
    assert got.shape == (3, 12, 14)
    assert "1 pages of another size" in got.metadata["notes"][0]


def test_a_chain_of_pages_that_bites_its_tail(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", SCENE[:2], photometric="minisblack", metadata=None)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        places = [page.offset for page in file.pages]
        last = places[1] + 2 + 12 * len(file.pages[1].tags)
    raw = bytearray((tmp_path / "a.tif").read_bytes())
    raw[last : last + 4] = places[0].to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(raw)
    assert open_cube(tmp_path / "a.tif").shape == (2, 12, 14)
