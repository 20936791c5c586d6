"""Wavelengths, widths and good bands wherever people keep them; converting carries them on."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
from scipy.io import savemat

from hyperdlw.io import convert_file, describe_file, open_cube, silence_gdal

NM = np.array([418.416, 424.043, 429.457])
WIDTHS = (6.99, 7.01, 6.87)


def write_tiff(path, tags=(), names=(), bands=3):
    values = np.random.default_rng(1).integers(0, 4000, (bands, 8, 9)).astype(np.int16)
    profile = {"driver": "GTiff", "count": bands, "height": 8, "width": 9, "dtype": "int16"}
    with silence_gdal(), rasterio.open(path, "w", **profile) as picture:
        picture.write(values)
        for band, about in enumerate(tags, 1):
            picture.update_tags(band, **about)
        for band, name in enumerate(names, 1):
            picture.set_band_description(band, name)


def check(path, widths=True):
    got = open_cube(path)
    np.testing.assert_allclose(got.wavelengths, NM, rtol=1e-12)
    if widths:
        assert got.metadata["fwhm"] == pytest.approx(WIDTHS)
    return got


@pytest.mark.parametrize("power", [0, 3])
def test_tags_of_tiff_bands(tmp_path, power):
    word = {0: "Nanometers", 3: "Micrometers"}[power]
    tags = [
        {
            "wavelength": f"{w / 10**power:.7g}",
            "wavelength_units": word,
            "fwhm": f"{f / 10**power:.7g}",
        }
        for w, f in zip(NM, WIDTHS, strict=True)
    ]
    write_tiff(tmp_path / "a.tif", tags)
    check(tmp_path / "a.tif")
    assert (
        "wavelengths are from the tags of the bands" in describe_file(tmp_path / "a.tif")["notes"]
    )
    convert_file(tmp_path / "a.tif", tmp_path / "b.tif")
    with silence_gdal(), rasterio.open(tmp_path / "b.tif") as picture:
        assert picture.tags(1) == tags[0]
        assert float(picture.tags(1, ns="IMAGERY")["CENTRAL_WAVELENGTH_UM"]) == 0.418416
    for name in ("a.hdr", "a.nc", "a.npz", "a.zarr"):
        assert convert_file(tmp_path / "a.tif", tmp_path / name).shape == (3, 8, 9)
        check(tmp_path / name)


@pytest.mark.parametrize(
    "form",
    ["{0} nm", "Band 8 ({0} Nanometers)", "band 008 ({1:.9g} Micrometers)", "{0}", "{1:.9g}µm"],
)
def test_names_of_tiff_bands(tmp_path, form):
    write_tiff(tmp_path / "a.tif", names=[form.format(w, w / 1000) for w in NM])
    got = check(tmp_path / "a.tif", widths=False)
    assert got.metadata["band_names"][0] == form.format(NM[0], NM[0] / 1000)


@pytest.mark.parametrize("names", [("1", "2", "3"), ("red", "418 nm", ""), ("600", "500", "400")])
def test_other_names_are_no_wavelengths(tmp_path, names):
    write_tiff(tmp_path / "a.tif", names=names)
    assert open_cube(tmp_path / "a.tif").wavelengths is None


def write_xml(path, centres, widths, tag, width_tag):
    bands = "".join(
        f"<{tag} number='{i}'><wavelengthCenterOfBand>{w}</wavelengthCenterOfBand>"
        f"<{width_tag}>{f}</{width_tag}><GainOfBand>0.0001</GainOfBand></{tag}>"
        for i, (w, f) in enumerate(zip(centres, widths, strict=True), 1)
    )
    inner = f"<specific><bandCharacterisation>{bands}</bandCharacterisation></specific>"
    path.write_text(f"<?xml version='1.0'?><level_X>{inner}<band/></level_X>")


def test_enmap_and_desis_xml(tmp_path):
    write_xml(tmp_path / "ENMAP01-L2A-METADATA.XML", NM, WIDTHS, "bandID", "FWHMOfBand")
    write_tiff(tmp_path / "ENMAP01-L2A-SPECTRAL_IMAGE.TIF")
    check(tmp_path / "ENMAP01-L2A-SPECTRAL_IMAGE.TIF")
    write_xml(tmp_path / "DESIS-HSI-L1C-METADATA.xml", NM, WIDTHS, "band", "wavelengthWidthOfBand")
    write_tiff(tmp_path / "DESIS-HSI-L1C-SPECTRAL_IMAGE.tif")
    check(tmp_path / "DESIS-HSI-L1C-SPECTRAL_IMAGE.tif")
    write_tiff(tmp_path / "DESIS-HSI-L1C-QL_QUALITY.tif")
    assert open_cube(tmp_path / "DESIS-HSI-L1C-QL_QUALITY.tif").wavelengths is None


def test_enmap_l1b_has_one_list_for_two_files(tmp_path):
    both = [*NM, 902.25, 911.5]
    write_xml(tmp_path / "ENMAP01-L1B-METADATA.XML", both, [7] * 5, "bandID", "FWHMOfBand")
    write_tiff(tmp_path / "ENMAP01-L1B-SPECTRAL_IMAGE_VNIR.TIF")
    write_tiff(tmp_path / "ENMAP01-L1B-SPECTRAL_IMAGE_SWIR.TIF", bands=2)
    check(tmp_path / "ENMAP01-L1B-SPECTRAL_IMAGE_VNIR.TIF", widths=False)
    swir = open_cube(tmp_path / "ENMAP01-L1B-SPECTRAL_IMAGE_SWIR.TIF")
    assert swir.wavelengths.tolist() == [902.25, 911.5]


@pytest.mark.parametrize(
    "text", ["<a", "<a/>", "<a><bandCharacterisation><b/></bandCharacterisation></a>"]
)
def test_an_odd_xml_does_no_harm(tmp_path, text):
    (tmp_path / "X-METADATA.XML").write_text(text)
    write_tiff(tmp_path / "X-SPECTRAL_IMAGE.TIF")
    assert open_cube(tmp_path / "X-SPECTRAL_IMAGE.TIF").wavelengths is None


@pytest.mark.parametrize(("name", "unit"), [("wl", 1), ("lambda", 1000), ("wavelength", 1)])
@pytest.mark.parametrize("ending", ["mat", "npz"])
def test_variables_beside_an_array(tmp_path, name, unit, ending):
    said = {"hsi": np.ones((8, 9, 3)), name: NM / unit, "bbl": np.array([1, 0, 1.0])}
    said |= {"fwhm": np.array(WIDTHS) / unit, "hsi_gt": np.ones((8, 9))}
    path = tmp_path / f"a.{ending}"
    (savemat if ending == "mat" else lambda p, v: np.savez(p, **v))(path, said)
    got = check(path)
    assert got.good_bands.tolist() == [True, False, True]
    assert got.metadata["siblings"] == ("hsi_gt",)
    assert f"wavelengths are from {name}" in got.metadata["notes"]
    convert_file(path, tmp_path / "a.hdr")
    check(tmp_path / "a.hdr")
