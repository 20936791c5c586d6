"""Flags and quick look."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.pipeline.pictures import draw_quicklook
from hyperdlw.pipeline.products import (
    DEAD,
    IMPULSE,
    NODATA,
    SATURATED,
    STRIPE,
    flag_voxels,
)
from hyperdlw.testbed import scenes


@pytest.fixture
def parts(rng):
    clean = np.float32(0.2 + 0.6 * scenes.synthetic(3, 40, 50, rng=rng).data)
    noisy = clean + np.float32(0.02) * rng.standard_normal(clean.shape).astype(np.float32)
    return clean, noisy


def test_flags_name_what_was_broken(parts):
    clean, noisy = parts
    valid = np.ones(noisy.shape, bool)
    valid[0, 3, 4] = False
    noisy[0, :, 10] = 0.0
    noisy[1, :, 20] += 0.3
    noisy[2, 5, 6] = 0.999
    noisy[1, 7, 8] = 2.0
    found = flag_voxels(noisy, valid, noisy, clean, top=2.0)
    assert found.dtype == np.uint8
    assert found[0, 3, 4] == NODATA
    assert (found[0, :, 10] & DEAD).all()
    assert (found[1, :, 20] & STRIPE).all()
    assert found[2, 5, 6] == IMPULSE
    assert found[1, 7, 8] & SATURATED
    expected = 1 + 40 + 40 + 1 + 1
    assert np.count_nonzero(found) == pytest.approx(expected, abs=3)


def test_shared_maximum_is_saturation(parts):
    _, noisy = parts
    valid = np.ones(noisy.shape, bool)
    assert not (flag_voxels(noisy, valid) & SATURATED).any()
    cut = np.minimum(noisy, np.float32(0.6))
    assert (flag_voxels(cut, valid) & SATURATED).any()


def test_quicklook_is_a_picture(parts, tmp_path):
    pytest.importorskip("matplotlib")
    clean, noisy = parts
    w = np.ones(noisy.shape, np.float32)
    draw_quicklook(Cube.from_array(noisy), Cube.from_array(clean), w, str(tmp_path / "q.png"))
    assert (tmp_path / "q.png").read_bytes()[1:4] == b"PNG"
