"""read(write(c)) = c for every format, type and order of axes, and the same bytes every time."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperdlw.cube import Cube, Encoding
from hyperdlw.io import matlab, open_cube, open_reader, open_writer, save_cube

DTYPES = ["uint8", "int16", "uint16", "int32", "float32", "float64"]
ORDERS = ["".join(p) for p in itertools.permutations("brc")]
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def numbers(dtype: str) -> st.SearchStrategy:
    if np.dtype(dtype).kind == "f":
        return st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=False)
    # float32 holds every whole number up to 2**24; that is what a Cube promises to keep.
    info = np.iinfo(dtype)
    return st.integers(max(info.min, -(2**24)), min(info.max, 2**24))


@st.composite
def stored(draw, dtypes=DTYPES, bands=(1, 5)):
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.tuples(st.integers(*bands), st.integers(1, 4), st.integers(1, 4)))
    return draw(hnp.arrays(dtype, shape, elements=numbers(dtype)))


def round_trip(cube: Cube, name: str, **options) -> Cube:
    with tempfile.TemporaryDirectory() as folder:
        assert save_cube(cube, f"{folder}/{name}") == 0
        return open_cube(f"{folder}/{name}", **options)


@QUICK
@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.mat"])
@given(array=stored(), axes=st.sampled_from(ORDERS))
def test_arrays(same, name, array, axes):
    encoding = Encoding(array.dtype.name, axes, key="scene")
    inside = array.transpose(tuple("brc".index(a) for a in axes))
    cube = Cube.from_array(inside, axes=axes, encoding=encoding)
    # A .npy has no place for the order; the others remember it.
    back = round_trip(cube, name, axes=axes if name == "a.npy" else None)
    same(cube, back)
    assert (back.encoding.dtype, back.encoding.axes) == (array.dtype.name, axes)
    assert back.encoding.key == (None if name == "a.npy" else "scene")


@QUICK
@given(array=stored(), axes=st.sampled_from(ORDERS))
def test_large_mat_is_written_as_version_73(same, array, axes):
    cube = Cube.from_array(array, encoding=Encoding(array.dtype.name, "brc", key="scene"))
    cube = replace(cube, encoding=replace(cube.encoding, axes=axes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matlab, "LARGEST", 0)
        back = round_trip(cube, "a.mat")
    same(cube, back)
    assert back.encoding == replace(cube.encoding, format="mat73")


@QUICK
@given(array=stored())
def test_tiff(same, array):
    cube = Cube.from_array(array)
    back = round_trip(cube, "a.tif")
    same(cube, back)
    assert back.encoding.dtype == array.dtype.name


nanometres = st.floats(1.0, 3e4, allow_subnormal=False)
labels = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=6)
ALL = [*DTYPES, "uint32", "int64", "uint64"]


@settings(QUICK, max_examples=25)
@pytest.mark.parametrize(
    "name", ["a.hdr", "a.bil", "a.bip", "a.tif", "a.h5", "a.zarr", "a.npz", "a.mat"]
)
@given(array=stored(dtypes=ALL), data=st.data())
def test_everything_beside_the_numbers(name, array, data):
    bands = len(array)

    def each(values):
        return st.lists(values, min_size=bands, max_size=bands)

    metadata = {
        "fwhm": tuple(data.draw(each(nanometres))),
        "band_names": tuple(data.draw(each(labels))),
        "transform": (30.0, 0.0, data.draw(st.integers(1, 9)) * 1e5, 0.0, -30.0, 5e6),
    }
    kept = {k: metadata[k] for k in data.draw(st.sets(st.sampled_from(sorted(metadata))))}
    encoding = Encoding(
        array.dtype.name,
        "brc",
        scale=data.draw(st.sampled_from([1.0, 1e-4, 0.3, 7.0])),
        offset=data.draw(st.sampled_from([0.0, -2.5])),
        nodata=data.draw(st.sampled_from([None, 0.0, 9.0])),
    )
    cube = Cube.from_array(
        array,
        encoding=encoding,
        wavelengths=data.draw(st.one_of(st.none(), each(nanometres))),
        good_bands=data.draw(each(st.booleans())),
        metadata=kept,
    )
    with tempfile.TemporaryDirectory() as folder:
        # The numbers as they are stored: 2**24 and more with a scale are beyond float32.
        with open_writer(f"{folder}/{name}", cube) as sink:
            sink.write_stored(slice(None), slice(None), array)
        with open_reader(f"{folder}/{name}") as back:
            np.testing.assert_array_equal(back.read_stored(), array)
    np.testing.assert_array_equal(back.good_bands, cube.good_bands)
    np.testing.assert_array_equal(back.wavelengths, cube.wavelengths)
    assert {k: back.metadata[k] for k in kept} == kept
    for fact in ("dtype", "scale", "offset", "nodata"):
        assert getattr(back.encoding, fact) == getattr(encoding, fact)


@QUICK
@given(array=stored(dtypes=["uint8", "uint16"], bands=(1, 12)))
def test_png_folder(same, array):
    cube = Cube.from_array(array)
    back = round_trip(cube, "folder/")
    same(cube, back)
    same(cube, round_trip(back, "without_ending"))  # it came from a folder, so it is one again


@pytest.mark.parametrize("bands", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_png(same, bands, dtype):
    array = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (bands, 4, 6)).astype(dtype)
    back = round_trip(Cube.from_array(array), "a.png")
    same(Cube.from_array(array), back)
    assert back.encoding.dtype == dtype


@pytest.mark.parametrize("name", ["a.npz", "a.mat", "v73"])
def test_neighbours_survive(same, tmp_path, monkeypatch, scene, name):
    if name == "v73":
        monkeypatch.setattr(matlab, "LARGEST", 0)
        name = "a.mat"
    array = scene.copy()
    array[0, 0] = 9999
    cube = Cube.from_array(
        array,
        axes="rcb",
        wavelengths=[400.0, 550.5, 700.0],
        good_bands=[True, False, True],
        encoding=Encoding("uint16", "rcb", scale=1e-4, offset=-0.1, nodata=9999.0, key="rad"),
    )
    assert not cube.valid[:, 0, 0].any()
    save_cube(cube, tmp_path / name)
    back = open_cube(tmp_path / name)
    same(cube, back)
    assert replace(back.encoding, format="npy") == cube.encoding
    np.testing.assert_array_equal(back.to_array()[0], array)


def test_tiff_keeps_scale_and_nodata(same, tmp_path, scene):
    encoding = Encoding("int16", "rcb", scale=0.5, offset=3.0, nodata=17.0)
    cube = Cube.from_array(scene.astype(np.int16), encoding=encoding)
    save_cube(cube, tmp_path / "a.tif")
    back = open_cube(tmp_path / "a.tif")
    same(cube, back)
    assert (back.encoding.scale, back.encoding.offset, back.encoding.nodata) == (0.5, 3.0, 17.0)


def test_tiff_with_a_nodata_value_its_type_cannot_hold(same, tmp_path, scene):
    cube = Cube.from_array(scene, encoding=Encoding("uint16", "rcb", nodata=-9999.0))
    save_cube(cube, tmp_path / "a.tif")
    same(cube, open_cube(tmp_path / "a.tif"))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.mat"])
def test_pictures_become_arrays_in_the_habit_of_the_field(same, tmp_path, scene, name):
    save_cube(Cube.from_array(scene, axes="rcb"), tmp_path / "a.tif")
    picture = open_cube(tmp_path / "a.tif")
    save_cube(picture, tmp_path / name)
    same(picture, open_cube(tmp_path / name))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.mat"])
def test_a_matrix_stays_a_matrix(tmp_path, scene, name):
    flat = scene[..., 0]
    writers = {".npy": np.save, ".npz": lambda p, x: np.savez(p, x=x), ".mat": save_mat}
    writers[Path(name).suffix](tmp_path / name, flat)
    key = None if name == "a.npy" else "x"
    cube = open_cube(tmp_path / name, key=key)
    assert cube.shape == (1, 5, 7)
    save_cube(cube, tmp_path / name, overwrite=True)
    again = open_cube(tmp_path / name, key=key)
    assert again.metadata["stored_ndim"] == 2
    np.testing.assert_array_equal(again.data[0], flat)


def save_mat(path, x):
    from scipy.io import savemat

    savemat(path, {"x": x})


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.mat", "a.png", "a.tif", "a.h5", "a.img"])
def test_the_same_cube_gives_the_same_bytes(tmp_path, scene, name):
    cube = Cube.from_array(scene, axes="rcb", wavelengths=[1.0, 2.0, 3.0])
    save_cube(cube, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save_cube(cube, tmp_path / name, overwrite=True)
    assert (tmp_path / name).read_bytes() == first


def test_compression_is_kept(tmp_path):
    flat = np.zeros((64, 64, 3), np.uint16)
    np.savez_compressed(tmp_path / "in.npz", cube=flat)
    save_cube(open_cube(tmp_path / "in.npz"), tmp_path / "out.npz")
    assert (tmp_path / "out.npz").stat().st_size < flat.nbytes / 10


def test_clipped_voxels_are_counted(tmp_path):
    cube = Cube.from_array(np.array([[[-5.0, 3.4, 300.0]]]))
    encoding = Encoding("uint8", "rcb")
    assert save_cube(cube, tmp_path / "a.npy", encoding=encoding) == 2
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy").ravel(), [0, 3, 255])


def test_an_output_may_replace_its_input(tmp_path, scene):
    np.save(tmp_path / "a.npy", scene)
    cube = open_cube(tmp_path / "a.npy")
    save_cube(cube.with_data(cube.data + 1), tmp_path / "a.npy", overwrite=True)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), scene + 1)
