"""One wild voxel ruins nothing: it is set aside, counted, named, and comes back as it was."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import denoise
from hyperdlw.testbed import noise, scenes

MODELS = ["plain", "nn", "tv", "tvs", "lrtv", "e3dtv", "lrtfdfr", "ctv", "pnp"]
PLACE = (3, 11, 13)


@pytest.fixture(scope="module")
def noisy() -> np.ndarray:
    clean = scenes.synthetic(8, 32, 32, rng=np.random.default_rng(3)).data
    return noise.case(5, clean, np.random.default_rng(4)).y.astype(np.float32)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_stands_it(noisy: np.ndarray, model: str) -> None:
    """The rest of the image hardly moves, whatever the value is."""
    others = np.ones(noisy.shape, bool)
    others[PLACE] = False
    usual = denoise(noisy, model=model, weights="uniform").cube.data
    for value in (100.0, -9999.0, 1e20, -3e38):
        spoilt = noisy.copy()
        spoilt[PLACE] = value
        found = denoise(spoilt, model=model, weights="uniform")
        moved = np.square((found.cube.data - usual)[others]).mean() ** 0.5
        assert moved < 0.02, (value, moved)
        assert found.cube.data[PLACE] == np.float32(value)
        assert found.report.set_aside["wild_voxels"] == 1


def test_a_likely_fill_value_is_named(noisy: np.ndarray) -> None:
    spoilt = noisy.copy()
    spoilt[:, 5, :4] = -9999.0
    notes = denoise(spoilt, model="nn", weights="uniform").report.notes
    assert any("--nodata -9999.0" in note for note in notes)


def test_few_trusted_voxels_are_a_warning(noisy: np.ndarray) -> None:
    trust = np.full(noisy.shape, 1e-3, np.float32)
    trust[:, :2] = 1.0
    notes = denoise(noisy, model="nn", weights=trust).report.notes
    assert any(note.startswith("warning: ") and "hardly any weight" in note for note in notes)
