"""One wild voxel ruins nothing: it is set aside, counted, named, and comes back as it was."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import denoise
from hyperdlw.pipeline.set_aside import guess_fill
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
        assert any("keep their values (--fill" in note for note in found.report.notes)


@pytest.mark.parametrize("tile", [None, 12], ids=["memory", "strips"])
@pytest.mark.parametrize("value", [100.0, 1e20])
def test_the_network_stands_it(noisy: np.ndarray, value: float, tile: int | None) -> None:
    """What the network and its softmax see is bounded."""
    others = np.ones(noisy.shape, bool)
    others[PLACE] = False
    spoilt = noisy.copy()
    spoilt[PLACE] = value
    usual, found = (denoise(c, model="lrtv", weights="N", tile=tile) for c in (noisy, spoilt))
    moved = np.square((found.cube.data - usual.cube.data)[others]).mean() ** 0.5
    assert moved < 0.02, moved
    assert found.weights is not None
    assert found.weights[PLACE] == 0
    means = [float(r.weights[others].mean()) for r in (usual, found)]
    assert means[1] == pytest.approx(means[0], abs=1e-3)


@pytest.mark.parametrize("tile", [None, 12], ids=["memory", "strips"])
def test_fill_gives_the_value_of_the_model(noisy: np.ndarray, tile: int | None) -> None:
    spoilt = noisy.copy()
    spoilt[PLACE] = 1e20
    found = denoise(spoilt, model="tv", weights="uniform", fill=True, tile=tile)
    assert -0.5 < found.cube.data[PLACE] < 1.5
    assert found.cube.valid.all()
    assert any(note.endswith("set aside and were filled") for note in found.report.notes)


@pytest.mark.parametrize("value", [-9999.0, -32768.0, 1e20, 65535.0])
def test_a_likely_fill_value_is_named(noisy: np.ndarray, value: float) -> None:
    spoilt = noisy.copy()
    spoilt[:, 5, :4] = value
    notes = denoise(spoilt, model="nn", weights="uniform").report.notes
    assert any(f"--nodata {value}" in note for note in notes), notes


@pytest.mark.parametrize(
    "value", [-9999, -32768, -32767, -999, -1e34, 65535, 32767, 9999, 1e20, 9.96921e36]
)
def test_the_fill_values_of_other_programs_are_known(value: float) -> None:
    """ENVI, GDAL, MODTRAN, 16-bit sensors and NetCDF; a number beside them is none."""
    assert guess_fill(np.array([7, value], np.float32)) == value
    assert guess_fill(np.array([7, np.float32(value) * np.float32(1.01)], np.float32)) is None


def test_few_trusted_voxels_are_a_warning(noisy: np.ndarray) -> None:
    trust = np.full(noisy.shape, 1e-3, np.float32)
    trust[:, :2] = 1.0
    notes = denoise(noisy, model="nn", weights=trust).report.notes
    assert any(note.startswith("warning: ") and "hardly any weight" in note for note in notes)
