"""Strips give the numbers of the whole cube, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import denoise, models
from hyperdlw.cube import Cube
from hyperdlw.errors import BadOption, OutOfResources
from hyperdlw.solver import Model, Schedule, Term
from hyperdlw.testbed import noise, scenes


def make_noisy(bands: int, rows: int, cols: int, case: int = 5) -> Cube:
    clean = scenes.synthetic(bands, rows, cols, rng=np.random.default_rng(3)).data
    return Cube.from_array(noise.case(case, clean, np.random.default_rng(4)).y.astype(np.float32))


@pytest.mark.parametrize("shape", [(31, 64, 64), (16, 48, 40)])
@pytest.mark.parametrize("weights", ["precision", "robust"])
def test_e3dtv_makes_nothing_of_the_cut(shape, weights):
    """The model is not convex: the last bit of an intermediate image can grow to 1e-4."""
    cube = make_noisy(*shape)
    whole = denoise(cube, model="e3dtv", weights=weights)
    parts = denoise(cube, model="e3dtv", weights=weights, tile=17)
    size = np.abs(whole.cube.data).max()
    assert np.abs(parts.cube.data - whole.cube.data).max() <= 2e-6 * size


def test_a_model_of_which_nothing_is_known_is_not_cut(monkeypatch):
    def build(shape, strength=1.0):
        prox = Term(lambda v, t, carry: (v, carry))
        return Model((prox,), Schedule(3, 1.0), central="data", output=0)

    monkeypatch.setitem(models.REGISTRY.built_in, "own", build)
    cube = make_noisy(4, 24, 16)
    assert denoise(cube, model="own", weights="uniform").report.tiling is None
    for model in ("own", "dip"):
        with pytest.raises(BadOption, match=f"'{model}' works on the whole cube"):
            denoise(cube, model=model, weights="uniform", tile=9)
        with pytest.raises(OutOfResources, match=f"'{model}' works on the whole cube"):
            denoise(cube, model=model, weights="uniform", memory="100M")


@pytest.mark.parametrize("tile", [None, 9])
def test_masks_that_leave_no_voxel_are_refused(tile):
    """Each mask alone is fine; their product trusts nothing."""
    cube = make_noisy(4, 24, 16)
    left = np.zeros((24, 16), np.float32)
    left[:, :8] = 1
    with pytest.raises(BadOption, match="trust no voxel together"):
        denoise(cube, model="tv", weights=(left, 1 - left), tile=tile)
    both = denoise(cube, model="tv", weights=(left, np.roll(left, 4, 1)), tile=tile).weights
    assert both[:, :, 4:8].min() > 1
    assert both[:, :, 8:].max() < 1e-3
