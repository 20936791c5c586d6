"""What people have in Python goes in, and comes back in the same form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw import DlwError, denoise, predict_weights
from hyperdlw.cube import make_cube

xarray = pytest.importorskip("xarray")
QUICK = {"model": "tv", "weights": "uniform"}


@pytest.fixture
def noisy() -> np.ndarray:
    rows, cols = np.mgrid[:14, :16]
    clean = np.stack([np.sin(rows / 5 + b) * np.cos(cols / 7) for b in range(4)])
    return (clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)).astype(np.float32)


def test_masks_of_numpy_are_gaps(noisy: np.ndarray) -> None:
    mask = np.random.default_rng(1).random(noisy.shape) < 0.1
    spoilt = np.where(mask, np.float32(1000), noisy)
    result = denoise(np.ma.MaskedArray(spoilt, mask), **QUICK)
    assert result.report.invalid_voxels == mask.sum()
    assert isinstance(result.restored, np.ma.MaskedArray)
    np.testing.assert_array_equal(result.restored.mask, mask)
    np.testing.assert_array_equal(result.restored.data[mask], np.float32(1000))
    assert np.abs(result.restored.data[~mask]).max() < 2
    filled = denoise(np.ma.MaskedArray(spoilt, mask), fill=True, **QUICK).restored
    assert not filled.mask.any()
    assert np.abs(filled.data).max() < 2
    w = predict_weights(np.ma.MaskedArray(spoilt, mask), "uniform")
    assert (w[mask] == 0).all()
    assert (w[~mask] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int16])
def test_tensors_come_back_as_tensors(noisy: np.ndarray, dtype: torch.dtype) -> None:
    given = torch.from_numpy(noisy * 100).to(dtype)
    restored = denoise(given, **QUICK).restored
    assert isinstance(restored, torch.Tensor)
    assert (restored.dtype, restored.shape, restored.device) == (dtype, given.shape, given.device)
    assert not torch.equal(restored, given)


def test_tensors_with_gradients_are_detached(noisy: np.ndarray) -> None:
    given = torch.from_numpy(noisy).requires_grad_()
    restored = denoise(given * 1.0, **QUICK).restored
    assert not restored.requires_grad
    np.testing.assert_array_equal(restored.numpy(), denoise(noisy, **QUICK).restored)


def test_a_tensor_goes_back_to_its_device(noisy: np.ndarray) -> None:
    """There is no second device here, so a tensor says it is on one that holds no numbers."""

    class Elsewhere(torch.Tensor):
        @property
        def device(self):  # type: ignore[override]
            return torch.device("meta")

    back = make_cube(torch.from_numpy(noisy).as_subclass(Elsewhere)).to_given()
    assert back.device.type == "meta"


def test_other_orders_of_axes(noisy: np.ndarray) -> None:
    expected = denoise(noisy, **QUICK).restored
    for axes in ("rcb", "rbc", "crb"):
        order = ["brc".index(a) for a in axes]
        turned = np.ascontiguousarray(noisy.transpose(order))
        found = denoise(turned, axes=axes, **QUICK).restored
        np.testing.assert_allclose(found, expected.transpose(order), atol=1e-5)
    with pytest.raises(DlwError, match="arrangement"):
        denoise(noisy, axes="xyz", **QUICK)
    with pytest.raises(DlwError, match="knows"):
        denoise(make_cube(noisy), axes="rcb", **QUICK)


def test_paths(noisy: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noisy)
    expected = denoise(noisy, **QUICK).restored
    for path in (tmp_path / "a.npy", str(tmp_path / "a.npy")):
        found = denoise(path, axes="brc", **QUICK)
        np.testing.assert_array_equal(found.cube.data, expected)
    with pytest.raises(DlwError, match="there is no file"):
        denoise("no such file", **QUICK)


def test_datasets(noisy: np.ndarray) -> None:
    array = xarray.DataArray(noisy, dims=("band", "y", "x"))
    mask = xarray.DataArray(np.ones((14, 16), np.uint8), dims=("y", "x"))
    given = xarray.Dataset({"radiance": array, "mask": mask}, attrs={"sensor": "x"})
    restored = denoise(given, **QUICK).restored
    assert isinstance(restored, xarray.Dataset)
    assert restored.attrs == given.attrs
    xarray.testing.assert_equal(restored["mask"], mask)
    np.testing.assert_array_equal(restored["radiance"], denoise(noisy, **QUICK).restored)
    with pytest.raises(DlwError, match="several cubes"):
        denoise(given.assign(other=array), **QUICK)
    with pytest.raises(DlwError, match="no variable"):
        denoise(given[["mask"]], **QUICK)


def test_names_that_say_nothing_need_axes(noisy: np.ndarray) -> None:
    array = xarray.DataArray(noisy.transpose(1, 2, 0), dims=("a", "b", "c"))
    with pytest.raises(DlwError, match="axes="):
        denoise(array, **QUICK)
    restored = denoise(array, axes="rcb", **QUICK).restored
    assert restored.dims == ("a", "b", "c")
    np.testing.assert_array_equal(restored.shape, array.shape)


@pytest.mark.parametrize("given", [None, {"a": 1}, b"cube.npy", np.array(["a"]), 1j, "", 5])
def test_what_is_no_cube_gets_a_sentence(given: object) -> None:
    with pytest.raises(DlwError):
        denoise(given, **QUICK)


def test_sparse_tensors_get_a_sentence(noisy: np.ndarray) -> None:
    with pytest.raises(DlwError, match="to_dense"):
        denoise(torch.from_numpy(noisy).to_sparse(), **QUICK)
