"""Arrays with named axes: denoising does not depend on how the axes are arranged."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hyperdlw import denoise, predict_weights, register_accessor
from hyperdlw.cube import Cube, make_cube
from hyperdlw.errors import BadInput, MissingDependency

xarray = pytest.importorskip("xarray")


def labelled(dims=("wavelength", "y", "x"), dtype=np.float32):
    rng = np.random.default_rng(0)
    cube = (100 * (5 + rng.standard_normal((4, 12, 16)))).astype(dtype)
    array = xarray.DataArray(
        cube,
        dims=("wavelength", "y", "x"),
        coords={"wavelength": [0.4, 0.5, 0.6, 0.7], "y": np.arange(12), "time": 5},
        attrs={"sensor": "x"},
        name="radiance",
    )
    array.wavelength.attrs["units"] = "um"
    return array.transpose(*dims)


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize(
    "dims", [("wavelength", "y", "x"), ("y", "x", "wavelength"), ("y", "wavelength", "x")]
)
def test_restored_as_it_came(dims, dtype):
    noisy = labelled(dims, dtype)
    result = denoise(noisy, model="tv", weights="uniform")
    restored = result.data_array
    assert isinstance(restored, xarray.DataArray)
    assert (restored.dims, restored.dtype, restored.name) == (dims, dtype, "radiance")
    assert restored.attrs == {"sensor": "x"}
    xarray.testing.assert_equal(restored.coords.to_dataset(), noisy.coords.to_dataset())
    plain = denoise(
        Cube.from_array(noisy.transpose("wavelength", "y", "x").values),
        model="tv",
        weights="uniform",
    )
    expected, _ = plain.cube.to_array()
    np.testing.assert_array_equal(restored.transpose("wavelength", "y", "x").values, expected)
    assert np.abs(restored - noisy).max() > 0
    assert predict_weights(noisy, "uniform").shape == (4, 12, 16)


def test_what_the_labels_say():
    array = labelled(("y", "x", "wavelength"))
    array.attrs["_FillValue"] = float(array.values[0, 0, 0])
    cube = make_cube(array)
    np.testing.assert_array_equal(cube.wavelengths, [400, 500, 600, 700])
    assert not cube.valid[0, 0, 0]
    assert cube.encoding.axes == "rcb"
    flat = make_cube(array.isel(wavelength=0, drop=True))
    assert flat.shape == (1, 12, 16)
    assert flat.to_xarray().shape == (12, 16)


def test_an_axis_without_a_known_name_is_asked_for():
    with pytest.raises(BadInput, match=r"axes are q, y, x.*rename the band axis"):
        denoise(labelled().rename(wavelength="q"))
    with pytest.raises(BadInput, match="a cube has two more"):
        make_cube(labelled().isel(x=0))
    with pytest.raises(BadInput, match="not made from an array with named axes"):
        _ = denoise(np.random.default_rng(0).random((3, 8, 8)), weights="uniform").data_array


@pytest.mark.parametrize("dims", [("wavelength", "y", "x"), ("y", "x", "wavelength")])
def test_the_accessor_is_denoise(dims):
    register_accessor()
    register_accessor()  # xarray would warn
    noisy = labelled(dims)
    quick = {"model": "tv", "weights": "uniform"}
    restored = noisy.hsi.denoise(**quick)
    xarray.testing.assert_identical(restored, denoise(noisy, **quick).restored)
    assert (restored.attrs, restored.dims) == (noisy.attrs, dims)
    xarray.testing.assert_identical(restored.coords.to_dataset(), noisy.coords.to_dataset())
    whole = xarray.Dataset({"radiance": noisy, "mask": noisy[0]}, attrs={"title": "x"})
    xarray.testing.assert_identical(
        whole.hsi.denoise(**quick), whole.assign(radiance=restored).assign_attrs(title="x")
    )


def test_the_accessor_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hyperdlw\[scale\]'"):
        register_accessor()
