"""Flags, quick look and audit."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.errors import BadInput
from hyperdlw.pipeline.pictures import draw_quicklook
from hyperdlw.pipeline.products import (
    DEAD,
    IMPULSE,
    NODATA,
    SATURATED,
    STRIPE,
    audit,
    flag_voxels,
    whitened,
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


def test_white_noise_is_no_signal(parts):
    clean, noisy = parts
    w = np.ones(noisy.shape, np.float32)
    good = audit(Cube.from_array(noisy), Cube.from_array(clean), w, (0, 1))
    assert good.structured == ()
    for band in good.bands:
        assert band.mean == pytest.approx(0, abs=0.1)
        assert band.variance == pytest.approx(1, abs=0.15)
        assert abs(band.autocorrelation) < 0.1


def test_a_missing_object_is_structure(parts):
    clean, noisy = parts
    harmed = clean.copy()
    harmed[1, 10:25, 10:30] -= 0.05
    w = np.ones(noisy.shape, np.float32)
    found = audit(Cube.from_array(noisy), Cube.from_array(harmed), w, (0, 1))
    assert found.structured == (1,)
    inside, outside = found.change[12:23, 12:28].mean(), found.change[30:].mean()
    assert inside > 1.2 * outside


def test_a_removed_stripe_is_not(parts):
    clean, noisy = parts
    noisy[1, :, 20] += 0.2
    w = np.ones(noisy.shape, np.float32)
    assert audit(Cube.from_array(noisy), Cube.from_array(clean), w, (0, 1)).structured == ()


def test_whitening_finds_the_scale(rng):
    sigma = np.float32(rng.uniform(0.01, 0.1, (6, 1, 1)))
    y = sigma * rng.standard_normal((6, 60, 60)).astype(np.float32)
    w = np.broadcast_to(7 / sigma**2, y.shape).astype(np.float32)
    z = whitened(y, np.zeros_like(y), w)
    np.testing.assert_allclose(z.var(axis=(1, 2)), 1, atol=0.1)


def test_shapes_must_agree(parts):
    clean, noisy = parts
    with pytest.raises(BadInput, match="different"):
        audit(Cube.from_array(noisy), Cube.from_array(clean[:2]), np.ones_like(noisy))


def test_quicklook_is_a_picture(parts, tmp_path):
    pytest.importorskip("matplotlib")
    clean, noisy = parts
    w = np.ones(noisy.shape, np.float32)
    draw_quicklook(Cube.from_array(noisy), Cube.from_array(clean), w, str(tmp_path / "q.png"))
    assert (tmp_path / "q.png").read_bytes()[1:4] == b"PNG"
