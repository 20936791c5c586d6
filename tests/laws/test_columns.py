"""Columns: found where they are, nothing where they are not, the same in strips."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.bench.field import draw_scales
from hyperdlw.pipeline import columns as co
from hyperdlw.testbed import SceneChoice, field_blocks, find_noise, load_scenes, make_textured_scene


def find_columns(y):
    return co.find_columns(lambda rows: y[:, rows], y.shape)


def profile_error(e):
    p = e.mean(axis=1)
    return float(np.sqrt(((p - p.mean(axis=1, keepdims=True)) ** 2).mean()))


@pytest.fixture(scope="module")
def scene():
    return make_textured_scene(31, 128, 128, rng=np.random.default_rng(1))


@pytest.fixture(scope="module")
def with_roads():
    """Roads and edges along the whole track, as sharp as pixels can be."""
    return load_scenes(None, SceneChoice(("roads:1",)))[0]["roads:1"]


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_pushbroom_offsets_are_found(scene, seed):
    d = find_noise("column-offsets").apply(scene, np.random.default_rng(seed))
    found = find_columns(d.y)
    assert found.found
    assert not found.gain
    left = d.truth.stripe - (d.y - found.removed(d.y))
    assert profile_error(left) < profile_error(d.truth.stripe) / 3.5


def test_gains_are_found():
    x = 0.2 + 0.5 * make_textured_scene(31, 256, 96, rng=np.random.default_rng(4))
    d = field_blocks.change_gains(x, np.random.default_rng(0), times=20)
    found = find_columns(d.y)
    assert found.found
    left = d.truth.stripe - (d.y - found.removed(d.y))
    assert profile_error(left) < profile_error(d.truth.stripe) / 1.4


@pytest.mark.parametrize(
    "noise", ["none", "even5", "even30", "mild", "case1", "case4", "snr50", "photons200", "emit"]
)
def test_nothing_is_removed_where_there_are_no_columns(scene, with_roads, noise):
    for x in (scene, with_roads):
        d = find_noise(noise).apply(x, np.random.default_rng(2))
        assert find_columns(d.y).removed(d.y) is d.y


def test_roads_survive_beside_columns(with_roads):
    d = find_noise("column-offsets").apply(with_roads, np.random.default_rng(3))
    left = d.y - find_columns(d.y).removed(d.y) - d.truth.stripe
    p = left.mean(axis=1) - left.mean(axis=(1, 2))[:, None]
    # Roads of three and five pixels, which differ from their surroundings by about 0.4, and the edge
    # stay. One pixel along the whole track, the same in every row, is what a column is: most of it goes.
    for column, most in ((48, 0.12), (92, 0.05), (105, 0.05)):
        assert np.abs(p[:, column]).mean() < most


def test_strips_give_the_same(scene):
    d = find_noise("column-offsets").apply(scene, np.random.default_rng(3))
    whole = find_columns(d.y)
    blocks = [co.measure(d.y[:, a:b]) for a, b in co.row_blocks(128)]
    again, _ = co.settle(blocks, 128, False)
    strips = [again.removed(d.y[:, a : a + 32], a) for a in range(0, 128, 32)]
    assert np.array_equal(np.concatenate(strips, axis=1), whole.removed(d.y))


def test_negative_values_have_offsets_and_no_gains(scene):
    """A file in arbitrary units: some bands are below zero everywhere."""
    d = find_noise("column-offsets").apply(scene, np.random.default_rng(3))
    gain, shift = draw_scales(31, 1)
    found = find_columns(d.y * gain + shift)
    assert found.found
    assert not found.gain
    left = d.truth.stripe - found.at(0, 128) / gain
    assert profile_error(left) < profile_error(d.truth.stripe) / 3


def test_gaps_and_small_images(scene):
    d = find_noise("column-offsets").apply(scene, np.random.default_rng(3))
    y = d.y.copy()
    y[:, :, 40] = np.nan
    y[3, 10:60] = np.nan
    found = find_columns(y)
    left = d.truth.stripe - found.at(0, 128)
    assert found.found
    assert np.isfinite(left).all()
    assert profile_error(np.delete(left, 40, axis=2)) < profile_error(d.truth.stripe) / 2.5
    assert not find_columns(scene[:, :5]).found
    assert not find_columns(scene[:1, :, :8]).found


@pytest.mark.parametrize("rows", [2, 41, 1000])
def test_drifts_are_polynomials_of_legendre(rows):
    """From -1 in the first row to 1 in the last, and none has a part of another."""
    one, line, bow = co._curves(np.arange(rows), rows)
    assert (one == 1).all()
    assert (line[0], line[-1]) == (-1, 1)
    np.testing.assert_allclose(np.diff(line), 2 / (rows - 1))
    np.testing.assert_allclose(bow, np.polynomial.legendre.legval(line, [0, 0, 1]))
    assert abs(line.mean()) < 1e-12
    assert abs((line * bow).mean()) < 1e-12
