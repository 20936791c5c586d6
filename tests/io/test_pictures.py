"""PNG, TIFF and folders of PNG bands as other programs write them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadFile, BadOption, OutputExists
from hyperdlw.io import describe_file, open_cube, save_cube

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def write(path, array, driver="PNG", **options):
    count, height, width = array.shape
    with rasterio.open(
        path,
        "w",
        driver=driver,
        count=count,
        height=height,
        width=width,
        dtype=array.dtype,
        **options,
    ) as picture:
        picture.write(array)


@pytest.fixture
def gray():
    return np.random.default_rng(2).integers(0, 65535, (4, 6, 8)).astype(np.uint16)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize(("channels", "bands"), [(1, 1), (2, 1), (3, 3), (4, 3)])
def test_alpha_is_dropped_and_said(tmp_path, gray, dtype, channels, bands):
    array = gray[:channels].astype(dtype)
    write(tmp_path / "a.png", array)
    cube = open_cube(tmp_path / "a.png")
    np.testing.assert_array_equal(cube.data, array[:bands])
    assert bool(cube.metadata["notes"]) == (bands < channels)
    facts = describe_file(tmp_path / "a.png")
    assert (facts["shape"], facts["dtype"]) == ((bands, 6, 8), dtype)


def test_tiff_alpha(tmp_path, gray):
    write(tmp_path / "a.tif", gray.astype(np.uint8), "GTiff", photometric="RGB", alpha="YES")
    assert open_cube(tmp_path / "a.tif").bands == 3


def test_indexed_colours_are_expanded(tmp_path):
    index = np.array([[[0, 1], [2, 1]]], np.uint8)
    table = {0: (9, 8, 7, 255), 1: (1, 2, 3, 255), 2: (100, 50, 25, 255)}
    with rasterio.open(
        tmp_path / "a.tif", "w", driver="GTiff", count=1, height=2, width=2, dtype="uint8"
    ) as picture:
        picture.write(index)
        picture.write_colormap(1, table)
        picture.colorinterp = [ColorInterp.palette]
    cube = open_cube(tmp_path / "a.tif")
    np.testing.assert_array_equal(cube.data[:, 1, 0], [100, 50, 25])
    assert describe_file(tmp_path / "a.tif")["shape"] == (3, 2, 2)


def test_no_warning_and_no_side_file(tmp_path, gray):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_cube(Cube.from_array(gray), tmp_path / "a.tif")
        open_cube(tmp_path / "a.tif")
    assert [p.name for p in tmp_path.iterdir()] == ["a.tif"]


def test_what_png_cannot_hold(tmp_path, gray):
    cube = Cube.from_array(gray)
    with pytest.raises(BadOption, match="1 or 3 bands, the cube has 4"):
        save_cube(cube, tmp_path / "a.png")
    for dtype in ("float32", "int16"):
        for name in ("a.png", "folder/"):
            with pytest.raises(BadOption, match=rf"cannot hold {dtype}.*uint16"):
                save_cube(cube, f"{tmp_path}/{name}", encoding=Encoding(dtype))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.mat", "a.tif"])
def test_types_without_a_place(tmp_path, gray, name):
    with pytest.raises(BadOption, match="cannot hold float16"):
        save_cube(Cube.from_array(gray), tmp_path / name, encoding=Encoding("float16"))


def test_key_and_axes_have_no_meaning_for_pictures(tmp_path, gray):
    write(tmp_path / "a.png", gray[:1])
    with pytest.raises(BadOption, match="--key"):
        open_cube(tmp_path / "a.png", key="x")
    with pytest.raises(BadOption, match="--axes"):
        open_cube(tmp_path / "a.png", axes="rcb")


@pytest.fixture
def cave(tmp_path, gray):
    """The layout of a CAVE scene, with names that need natural sorting and a preview."""
    folder = tmp_path / "toys_ms"
    folder.mkdir()
    for i, number in enumerate([1, 2, 10, 11]):
        write(folder / f"toys_ms_{number}.png", gray[i : i + 1])
    (folder / "toys_RGB.bmp").write_bytes(b"BM")
    (folder / "._toys_ms_1.png").write_bytes(b"left by a Mac")
    return folder


def test_cave_folder(same, cave, gray, tmp_path):
    cube = open_cube(cave)
    np.testing.assert_array_equal(cube.data, gray)
    assert (cube.encoding.dtype, cube.encoding.format) == ("uint16", "png-folder")
    assert describe_file(cave)["shape"] == (4, 6, 8)
    save_cube(cube, tmp_path / "out")
    same(cube, open_cube(tmp_path / "out"))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(cube.metadata["files"])


@pytest.mark.parametrize("change", ["size", "type", "colour"])
def test_an_odd_band_is_named(cave, gray, change):
    odd = {"size": gray[:1, :5], "type": gray[:1].astype(np.uint8), "colour": gray[:3]}[change]
    write(cave / "toys_ms_10.png", odd)
    with pytest.raises(BadFile, match=r"toys_ms_10\.png is"):
        open_cube(cave)


def test_gray_bands_saved_as_colour(cave, gray):
    write(cave / "toys_ms_2.png", np.repeat(gray[1:2], 3, axis=0))
    np.testing.assert_array_equal(open_cube(cave).data, gray)


def test_a_folder_with_other_files_is_never_replaced(cave):
    cube = open_cube(cave)
    with pytest.raises(OutputExists, match="other files"):
        save_cube(cube, cave, overwrite=True)
    assert (cave / "toys_RGB.bmp").exists()


def test_a_folder_of_bands_is_replaced(cave, tmp_path):
    cube = open_cube(cave)
    save_cube(cube, tmp_path / "out")
    with pytest.raises(OutputExists):
        save_cube(cube, tmp_path / "out")
    save_cube(cube.with_data(cube.data * 0), tmp_path / "out", overwrite=True)
    assert not open_cube(tmp_path / "out").data.any()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "toys_ms"]
