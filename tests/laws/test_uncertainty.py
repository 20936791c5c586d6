"""Standard deviations of the result: the same in strips, in the cube's units, calibrated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw import Cube, denoise, open_cube, save_cube
from hyperdlw.errors import BadOption
from hyperdlw.pipeline import Outputs, denoise_file
from hyperdlw.pipeline.uncertainty import average_window, draw_rows
from hyperdlw.testbed import find_noise, make_textured_scene


def make_pair(noise: str) -> tuple[np.ndarray, np.ndarray]:
    clean = make_textured_scene(16, 40, 40, rng=np.random.default_rng(21))
    return clean, find_noise(noise).apply(clean, np.random.default_rng(3)).y.astype(np.float32)


@pytest.mark.parametrize("noise", ["case2", "case5", "emit", "none"])
def test_strips_tell_the_same(noise: str) -> None:
    y = make_pair(noise)[1]
    whole = denoise(y, uncertainty=True, include_invented=True)
    strips = denoise(y, uncertainty=True, include_invented=True, tile=13)
    assert np.isfinite(whole.uncertainty).all()
    np.testing.assert_allclose(strips.cube.data, whole.cube.data, atol=2e-4)
    np.testing.assert_allclose(strips.uncertainty, whole.uncertainty, rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("noise", ["case1", "case5", "photons200", "snr50"])
def test_ninety_per_cent_are_near_ninety(noise: str) -> None:
    clean, y = make_pair(noise)
    found = denoise(y, uncertainty=True, include_invented=True)
    inside = np.abs(found.cube.data - clean) < 1.645 * found.uncertainty
    assert 0.80 < inside.mean() < 0.97


def test_units_are_those_of_the_cube() -> None:
    y = make_pair("mild")[1]
    one, other = (denoise(v, uncertainty=True).uncertainty for v in (y, 250 * y - 40))
    np.testing.assert_allclose(other, 250 * one, rtol=0.02, atol=0.02)


def test_result_is_the_same_and_nothing_is_told_unasked() -> None:
    y = make_pair("case3")[1]
    plain, asked = denoise(y), denoise(y, uncertainty=True)
    assert plain.uncertainty is None
    np.testing.assert_array_equal(plain.cube.data, asked.cube.data)


def test_voxels_that_are_not_restored_have_none() -> None:
    y = make_pair("mild")[1]
    y[3, 5:8, 7] = np.nan
    found = denoise(y, uncertainty=True)
    assert np.isnan(found.uncertainty[3, 5:8, 7]).all()
    told = np.isfinite(y) & (found.invented == 0)
    np.testing.assert_array_equal(np.isfinite(found.uncertainty), told)


@pytest.mark.parametrize("tile", [None, 16])
def test_file_has_wavelengths(tmp_path, tile: int | None) -> None:
    y = make_pair("snr50")[1]
    waves = np.linspace(400, 900, len(y))
    save_cube(Cube(y, np.ones(y.shape, bool), waves), tmp_path / "in.hdr")
    outputs = Outputs(uncertainty=str(tmp_path / "sd.hdr"))
    denoise_file(tmp_path / "in.hdr", tmp_path / "out.hdr", outputs=outputs, tile=tile)
    held = open_cube(tmp_path / "sd.hdr")
    np.testing.assert_allclose(held.wavelengths, waves)
    expected = denoise(y, uncertainty=True).uncertainty
    np.testing.assert_allclose(held.data, expected, rtol=0.02, atol=1e-4)


def test_published_method_is_refused() -> None:
    with pytest.raises(BadOption, match="uncertainty"):
        denoise(np.zeros((4, 8, 8), np.float32), model="mnf", uncertainty=True)


def test_draws_do_not_depend_on_strips() -> None:
    whole = draw_rows(slice(0, 9), 3, 5)
    parts = [draw_rows(slice(0, 4), 3, 5), draw_rows(slice(4, 9), 3, 5)]
    assert torch.equal(whole, torch.cat(parts, 1))
    assert torch.allclose(average_window(torch.ones(2, 9, 4)), torch.ones(2, 9, 4))
