"""Wide stripes: blocks of columns of single bands that are shifted."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import denoise
from hyperdlw.pipeline.columns import find_columns
from hyperdlw.pipeline.shifted import find_shifted
from hyperdlw.testbed import find_noise, make_textured_scene
from hyperdlw.testbed.textured import make_named_scene


def find(y: np.ndarray) -> np.ndarray:
    """The offsets (band, col) of an image."""
    return find_columns(lambda rows: y[:, rows], y.shape, find_shifted).parts[0]


def test_blocks_are_found_with_their_offsets():
    x = make_textured_scene(16, 80, 90, rng=np.random.default_rng(11))
    rng = np.random.default_rng(2)
    y = x + 0.02 * rng.standard_normal(x.shape).astype(np.float32)
    y[3, :, 30:40] += 0.2
    y[3, :, 60:66] -= 0.25
    found = find(y)
    wanted = np.zeros((16, 90))
    wanted[3, 30:40], wanted[3, 60:66] = 0.2, -0.25
    assert ((found != 0) == (wanted != 0)).all()
    assert np.abs(found - wanted).max() < 0.02


@pytest.mark.parametrize("noise", ["mild", "case2", "even30", "none"])
def test_nothing_is_found_where_there_is_nothing(noise):
    x = make_textured_scene(31, 80, 80, rng=np.random.default_rng(11))
    assert not find(find_noise(noise).apply(x, np.random.default_rng(5)).y).any()


def test_a_road_along_the_track_stays():
    assert not find(make_named_scene("roads:1", 31, 80)).any()


def test_the_plain_command_removes_them():
    x = make_textured_scene(31, 80, 80, rng=np.random.default_rng(11))
    y = find_noise("wide-stripes").apply(x, np.random.default_rng(5)).y
    result = denoise(y)
    kept = denoise(y, columns=False)
    before, after = (np.square(v - x).mean() for v in (kept.cube.data, result.cube.data))
    assert after < 0.7 * before


@pytest.mark.parametrize("seed", range(6))
def test_an_edge_of_the_scene_is_no_stripe(seed):
    """A step along the whole track that stands out in one band is in others, too."""
    x = make_textured_scene(16, 64, 64, rng=np.random.default_rng(seed))
    y = x + 0.005 * np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    y[:, :, 40:] += np.linspace(0.01, 0.06, 16, dtype=np.float32)[:, None, None]
    assert not find(y).any()
