"""Other doors in: bare numbers, pictures, spectral libraries, FITS, series."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio

from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import convert_file, open_cube, save_cube, silence_gdal
from hyperdlw.pipeline import denoise_file

SCENE = (1000 + 100 * np.random.default_rng(1).random((5, 12, 14))).astype(np.uint16)
"""(band, row, col)."""


@pytest.mark.parametrize(("axes", "order"), [(None, "brc"), ("rcb", "rcb"), ("rbc", "rbc")])
@pytest.mark.parametrize("kind", ["uint16", ">u2"])
def test_bare_numbers(tmp_path, axes, order, kind):
    laid = SCENE.transpose(["brc".index(a) for a in order])
    laid.astype(kind).tofile(tmp_path / "a.raw")
    shape = "x".join(map(str, laid.shape)) + f":{kind}"
    got = open_cube(tmp_path / "a.raw", axes=axes, shape=shape)
    np.testing.assert_array_equal(got.data, SCENE)
    convert_file(tmp_path / "a.raw", tmp_path / "b.raw", axes=axes, shape=shape)
    with silence_gdal(), rasterio.open(tmp_path / "b.raw") as picture:
        np.testing.assert_array_equal(picture.read(), SCENE)
        interleave = {"brc": "bsq", "rcb": "bip", "rbc": "bil"}[order]
        assert picture.tags(ns="ENVI")["interleave"] == interleave


def test_bare_numbers_are_denoised_from_the_command_line(tmp_path):
    from hyperdlw.app.cli.main import run

    SCENE.tofile(tmp_path / "a.bin")
    quick = ["-m", "tv", "-w", "uniform", "-q", "--shape", "5x12x14:uint16"]
    assert run(["denoise", str(tmp_path / "a.bin"), str(tmp_path / "b.hdr"), *quick]) == 0
    assert open_cube(tmp_path / "b.hdr").shape == SCENE.shape


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        ("5x12x15:uint16", BadFile, "has 1680 bytes, --shape 5x12x15:uint16 needs 1800"),
        ("5x12:uint16", BadOption, "three sizes in stored order and a type"),
        ("5x12x14:nonsense", BadOption, "three sizes in stored order and a type"),
        ("5x12x14:complex64", BadFile, "real numbers"),
        ("0x12x14:uint16", BadFile, "is empty"),
    ],
)
def test_a_shape_that_does_not_fit(tmp_path, shape, error, words):
    SCENE.tofile(tmp_path / "a.raw")
    with pytest.raises(error, match=words):
        open_cube(tmp_path / "a.raw", shape=shape)
    with pytest.raises(BadFile, match="--shape 224x512x614:uint16"):
        open_cube(tmp_path / "a.raw")


@pytest.mark.parametrize("bands", [1, 3])
def test_jpeg_out(tmp_path, bands):
    ramp = np.linspace(20, 220, 40 * 50).reshape(1, 40, 50)
    stored = np.repeat(ramp, bands, axis=0).astype(np.uint8)
    save_cube(Cube.from_array(stored), tmp_path / "a.jpg")
    denoise_file(tmp_path / "a.jpg", tmp_path / "b.jpeg", model="tv", weights="uniform")
    with silence_gdal(), rasterio.open(tmp_path / "b.jpeg") as picture:
        assert picture.driver == "JPEG"
        assert picture.count == bands
        assert np.abs(picture.read().astype(float) - stored).mean() < 12
    with pytest.raises(BadOption, match="cannot hold uint16"):
        save_cube(Cube.from_array(SCENE[:3]), tmp_path / "c.jpg")


def test_a_spectral_library_is_no_image(tmp_path):
    np.ones((4, 5), np.float32).tofile(tmp_path / "a.sli")
    (tmp_path / "a.hdr").write_text(
        "ENVI\nsamples = 5\nlines = 4\nbands = 1\nfile type = ENVI Spectral Library\n"
        "data type = 4\ninterleave = bsq\nbyte order = 0\nspectra names = {a, b, c, d}\n"
    )
    for name in ("a.sli", "a.hdr"):
        with pytest.raises(
            BadFile, match="is a spectral library, which holds spectra and no image"
        ):
            open_cube(tmp_path / name)


def test_a_library_beside_an_image_is_not_its_data(tmp_path):
    save_cube(Cube.from_array(SCENE), tmp_path / "a.hdr")
    np.ones(9, np.float32).tofile(tmp_path / "a.sli")
    np.testing.assert_array_equal(open_cube(tmp_path / "a.hdr").data, SCENE)


@pytest.mark.parametrize("name", ["a.npy", "a.png"])
def test_a_gray_picture_is_one_band(tmp_path, name):
    plane = SCENE[0]
    if name == "a.npy":
        np.save(tmp_path / name, plane)
    else:
        save_cube(Cube.from_array(plane), tmp_path / name)
    assert open_cube(tmp_path / name).shape == (1, 12, 14)
    denoise_file(tmp_path / name, tmp_path / f"b{name}", model="tv", weights="uniform")
    assert open_cube(tmp_path / f"b{name}").shape == (1, 12, 14)
