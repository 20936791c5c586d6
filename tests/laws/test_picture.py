"""Pictures: bands, stretch, colours, size."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.errors import BadInput
from hyperdlw.io import open_cube
from hyperdlw.pipeline import pictures as picture
from hyperdlw.pipeline.run import denoise


def cube(bands: int = 31, rows: int = 6, cols: int = 8, **options) -> Cube:
    return Cube.from_array(np.random.default_rng(0).random((bands, rows, cols)), **options)


def test_bands_by_wavelength():
    assert picture.colour_bands(cube(wavelengths=np.linspace(400, 700, 31))) == (24, 15, 6)
    # Infrared: no colour of the eye inside.
    assert picture.colour_bands(cube(wavelengths=np.linspace(900, 1700, 31))) == (25, 15, 5)


def test_bad_bands_are_not_shown():
    good = np.ones(31, bool)
    good[24] = False
    bands = picture.colour_bands(cube(wavelengths=np.linspace(400, 700, 31), good_bands=good))
    assert bands[0] in (23, 25)


@pytest.mark.parametrize(
    ("bands", "expected"), [(1, (0, 0, 0)), (2, (1, 0, 0)), (3, (0, 1, 2)), (7, (5, 3, 1))]
)
def test_few_bands(bands, expected):
    assert picture.colour_bands(cube(bands)) == expected


def test_one_stretch_for_several():
    x = cube()
    limits = picture.stretch(x)
    brighter = x.with_data(x.data + 0.2)
    a, b = picture.pseudo_colour(x, limits=limits), picture.pseudo_colour(brighter, limits=limits)
    assert b.mean() > a.mean() + 20
    np.testing.assert_array_equal(a, picture.pseudo_colour(x))
    np.testing.assert_array_equal(
        picture.pseudo_colour(x, limits=(0, 1)), picture.pseudo_colour(x, limits=[(0, 1)] * 3)
    )


def test_gaps_are_black_and_constants_work():
    x = np.full((3, 4, 5), 0.5)
    x[1, 2, 3] = np.nan
    rgb = picture.pseudo_colour(x, limits=(0, 1))
    assert rgb.dtype == np.uint8
    assert rgb[2, 3].tolist() == [0, 0, 0]
    assert rgb[0, 0].tolist() == [128, 128, 128]
    assert picture.pseudo_colour(np.full((3, 4, 5), np.nan)).max() == 0
    picture.pseudo_colour(np.full((3, 4, 5), 0.5))


def test_heat_grows_lighter_with_the_weight():
    w = np.geomspace(0.03, 10, 50)[None]
    light = picture.heat(w)[0].astype(float) @ (0.2126, 0.7152, 0.0722)
    assert (np.diff(light) > 0).all()
    assert picture.heat([[1e-4, 0.03], [10, 1e4]])[:, :, 0].tolist() == [[68, 68], [253, 253]]


@pytest.mark.parametrize(
    ("rows", "cols"), [(1, 1), (1, 300), (20, 30), (256, 256), (257, 100), (1000, 700)]
)
def test_side_by_side_is_small(rows, cols):
    x = cube(2, rows, cols)
    panel = picture.side_by_side(x, x, np.ones(x.shape))
    assert panel.shape[0] <= 256
    assert panel.shape[1] <= 3 * 256 + 8
    assert max(panel.shape) >= 128


def test_png_comes_back(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(picture.encode_png(rgb))
    np.testing.assert_array_equal(open_cube(tmp_path / "a.png").data, rgb.transpose(2, 0, 1))
    kind, text = picture.data_url(rgb).split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(text) == picture.encode_png(rgb)


@pytest.mark.parametrize(
    "call",
    [
        lambda: picture.encode_png(np.zeros((2, 3), np.uint8)),
        lambda: picture.encode_png(np.zeros((2, 3, 3), np.float32)),
        lambda: picture.heat(np.ones((2, 3, 4))),
        lambda: picture.pseudo_colour(np.ones((2, 3, 4)), bands=(0, 1, 2)),
        lambda: picture.pseudo_colour(np.ones((3, 3, 4)), limits=[1, 2, 3]),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(BadInput):
        call()


def test_result_shows_itself_in_a_notebook():
    noisy = np.random.default_rng(0).random((4, 12, 14))
    noisy[0] = np.nan
    shown = denoise(noisy, weights="precision", range=(0, 1))._repr_html_()
    image = re.match(r"<img src='data:image/png;base64,([^']+)'", shown)
    assert image is not None
    assert base64.b64decode(image[1])[1:4] == b"PNG"
    for text in ("<table>", "precision", "4 x 12 x 14", "3 of 4"):
        assert text in shown
