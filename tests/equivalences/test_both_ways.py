"""Whole = strips when strength and rank are chosen from the data, for every model."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import models
from hyperdlw.cube import Cube
from hyperdlw.pipeline import choose, denoise
from hyperdlw.testbed import noise, scenes

MODELS = ["nn", "tv", "tvs", "lrtv", "e3dtv", "lrtfdfr", "ctv", "svtv", "pnp", "pnp-hqs"]


def make_noisy(bands: int, rows: int = 24, cols: int = 18) -> Cube:
    clean = scenes.synthetic(bands, rows, cols, rng=np.random.default_rng(3)).data
    return Cube.from_array(noise.case(5, clean, np.random.default_rng(4)).y.astype(np.float32))


@pytest.mark.parametrize("weights", ["network", "robust", "precision"])
@pytest.mark.parametrize("model", MODELS)
def test_the_same_strength_rank_and_image(model, weights):
    colour = model == "svtv"
    cube = make_noisy(3 if colour else 6)
    if weights == "network":
        weights = "colour-T" if colour else "N+T+TS"
    rank = "auto" if "rank" in models.find_model(model).takes else None
    given = {"model": model, "weights": weights, "strength": "auto", "rank": rank}
    whole = denoise(cube, **given)
    parts = denoise(cube, **given, tile=9)
    assert whole.report.tiling is None
    assert parts.report.tiling["way"] == "strips"
    assert parts.report.rank == whole.report.rank
    # The softmax rounds the weights in another way (3e-7), and e3dtv makes 1.3e-5 of it here.
    assert parts.report.strength == pytest.approx(whole.report.strength, rel=1e-4)
    assert parts.report.chosen_on_rows == whole.report.chosen_on_rows == (0, 24)
    size = np.abs(whole.cube.data).max()
    assert np.abs(parts.cube.data - whole.cube.data).max() <= 1e-5 * size


@pytest.mark.parametrize("weights", ["robust", "precision*N+T+TS"])
def test_large_cubes_are_judged_by_the_same_rows(monkeypatch, weights):
    """More voxels than are looked at: the rows in the middle, whatever the height of a strip."""
    cube = make_noisy(5, 40, 16)
    monkeypatch.setattr(choose, "MOST_VOXELS", 5 * 16 * 17)
    given = {"model": "lrtv", "weights": weights, "strength": "auto", "rank": "auto"}
    found = [denoise(cube, **given, tile=tile) for tile in (None, 7, 20)]
    for one in found:
        assert one.report.chosen_on_rows == (11, 28)
        assert one.report.rank == found[0].report.rank
        assert one.report.strength == pytest.approx(found[0].report.strength, rel=1e-5)
        np.testing.assert_allclose(one.cube.data, found[0].cube.data, atol=1e-5)


@pytest.mark.parametrize("weights", ["precision", "uniform"])
def test_a_rank_limit_cuts_in_the_same_place(weights):
    """lrtv keeps ten values of sixteen; sums in float64 tell those at the limit apart in both ways."""
    cube = make_noisy(16, 48, 48)
    whole = denoise(cube, model="lrtv", weights=weights)
    parts = denoise(cube, model="lrtv", weights=weights, tile=17)
    np.testing.assert_allclose(parts.cube.data, whole.cube.data, atol=1e-6)
