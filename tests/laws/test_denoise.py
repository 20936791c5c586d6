"""denoise(): scaling is undone, what was not measured stays, and nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import io
from hyperdlw.cube import Cube
from hyperdlw.errors import BadInput, BadOption, NothingToDenoise
from hyperdlw.pipeline.prepare import prepare_cube
from hyperdlw.pipeline.run import denoise, predict_weights
from hyperdlw.solver import Schedule
from hyperdlw.testbed import scenes

MODELS = ("nn", "tv", "tvs")
WEIGHTS = ("uniform", "precision", "robust", "mixture")


@pytest.fixture(scope="module")
def noisy() -> np.ndarray:
    clean = scenes.synthetic(6, 20, 24, rng=np.random.default_rng(1)).data
    return (clean + 0.1 * np.random.default_rng(2).standard_normal(clean.shape)).astype(np.float32)


@pytest.mark.parametrize("range", ["auto", "minmax", (0, 1)])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("model", MODELS)
def test_units_do_not_matter(noisy, model, weights, range):
    """The same cube in other units gives the same cube in other units."""
    scale, offset = 10000.0, 500.0
    other = range if isinstance(range, str) else (offset, scale + offset)
    a = denoise(noisy, model=model, weights=weights, range=range)
    b = denoise(noisy * scale + offset, model=model, weights=weights, range=other)
    np.testing.assert_allclose((b.cube.data - offset) / scale, a.cube.data, atol=2e-3)
    np.testing.assert_allclose(b.weights, a.weights, atol=2e-2, rtol=2e-2)


def test_scaling_is_undone_exactly_enough(noisy):
    """A schedule without any smoothing gives back what came in."""
    for range in ("auto", "minmax", (-3e3, 7e3)):
        ready = prepare_cube(Cube.from_array(noisy * 1000), range)
        back = ready.limits.from_unit(ready.y.numpy())
        np.testing.assert_allclose(back, noisy * 1000, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_it_denoises(model):
    clean = scenes.synthetic(31, 40, 40, rng=np.random.default_rng(1)).data
    y = clean + 0.2 * np.random.default_rng(2).standard_normal(clean.shape)
    x = denoise(y, model=model, weights="uniform", range=(0, 1)).cube.data
    assert np.square(x - clean).mean() < 0.75 * np.square(y - clean).mean()


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("model", MODELS)
def test_gaps_come_back_as_they_were(noisy, model, weights):
    y = noisy.copy()
    y[0, 1, 2], y[3, 4, 5], y[5, 0, 0] = np.nan, np.inf, -np.inf
    y[:, 7, 7] = np.nan
    result = denoise(y, model=model, weights=weights)
    gaps = ~np.isfinite(y)
    np.testing.assert_array_equal(result.cube.data[gaps], y[gaps])
    assert np.isfinite(result.cube.data[~gaps]).all()
    assert (result.weights[gaps] == 0).all()
    assert result.report.invalid_voxels == gaps.sum()


@pytest.mark.parametrize("model", MODELS)
def test_nodata_values_have_no_influence(noisy, model):
    """Another value in the gaps changes nothing outside them."""
    mask = np.random.default_rng(3).random(noisy.shape) > 0.1
    results = []
    for value in (-9999.0, 50.0):
        cube = Cube.from_array(np.where(mask, noisy, value), valid=mask)
        results.append(denoise(cube, model=model, weights="precision").cube)
    np.testing.assert_array_equal(results[0].data[mask], results[1].data[mask])
    assert (results[0].data[~mask] == -9999).all()


def test_bad_bands_are_untouched_and_named(noisy):
    y = noisy.copy()
    y[1] = 0.3
    y[4] = np.nan
    good = np.ones(6, bool)
    good[2] = False
    cube = Cube.from_array(y, good_bands=good)
    result = denoise(cube, weights="precision")
    assert result.report.bands_skipped == {1: "constant", 2: "marked bad", 4: "no valid voxel"}
    assert result.report.bands_used == 3
    for b in (1, 2, 4):
        np.testing.assert_array_equal(result.cube.data[b], y[b])
        assert (result.weights[b] == 0).all()
    alone = denoise(y[[0, 3, 5]], weights="precision")
    np.testing.assert_array_equal(result.cube.data[[0, 3, 5]], alone.cube.data)


@pytest.mark.parametrize(
    "data",
    [np.full((3, 5, 6), np.nan), np.zeros((3, 5, 6)), np.full((1, 1, 1), 7.0)],
    ids=["NaN", "constant", "one value"],
)
def test_nothing_to_denoise(data):
    with pytest.raises(NothingToDenoise):
        denoise(data, weights="uniform")
    with pytest.raises(NothingToDenoise):
        predict_weights(data, "uniform")


def test_counts_in_counts_out(tmp_path, noisy):
    counts = np.clip(noisy * 3000 + 1000, 0, 65535).astype(np.uint16)
    np.save(tmp_path / "a.npy", counts.transpose(1, 2, 0))
    result = denoise(io.open_cube(tmp_path / "a.npy"), weights="uniform")
    assert result.save(tmp_path / "b.npy") == 0
    stored = np.load(tmp_path / "b.npy")
    assert stored.dtype == np.uint16
    assert stored.shape == (20, 24, 6)
    np.testing.assert_allclose(stored.transpose(2, 0, 1), result.cube.data, atol=0.51)


def test_the_input_is_not_changed(noisy):
    cube = Cube.from_array(noisy)
    before, kept = cube.data.copy(), noisy.copy()
    denoise(cube, weights="robust")
    denoise(noisy, weights="robust")
    np.testing.assert_array_equal(cube.data, before)
    np.testing.assert_array_equal(noisy, kept)


def test_twice_the_same_bytes(noisy):
    a, b = (denoise(noisy, weights="mixture").cube.data for _ in range(2))
    assert a.tobytes() == b.tobytes()


def test_stronger_is_smoother(noisy):
    rough = [
        np.abs(np.diff(denoise(noisy, weights="uniform", strength=s).cube.data, axis=2)).sum()
        for s in (0.1, 1, 10)
    ]
    assert rough[0] > rough[1] > rough[2]


def test_watch_sees_every_step(noisy):
    seen: list[int] = []
    result = denoise(noisy, weights="robust", watch=lambda s: seen.append(s.k))
    steps = result.report.steps
    assert seen == list(range(1, steps + 1)) * 4


def test_converged_and_not(noisy):
    assert denoise(noisy, model="nn", weights="uniform", schedule="converged").report.converged
    short = denoise(noisy, weights="uniform", schedule=Schedule(2, 0.1, tolerance=1e-9)).report
    assert not short.converged
    assert set(short.residuals) == {"primal", "dual"}


@pytest.mark.parametrize(
    "options",
    [
        {"range": "most"},
        {"range": (1, 0)},
        {"range": (0, np.inf)},
        {"range": (0, 1, 2)},
        {"range": (0,)},
        {"schedule": "slow"},
        {"strength": 0},
        {"strength": np.nan},
        {"strength": np.inf},
        {"model": "tvv"},
        {"weights": "unifrm"},
    ],
)
def test_bad_options(noisy, options):
    with pytest.raises(BadOption):
        denoise(noisy, **{"weights": "uniform", **options})


@pytest.mark.parametrize("data", [np.zeros((2, 3, 4, 5)), np.zeros(4), np.zeros((0, 3, 4))])
def test_not_a_cube(data):
    with pytest.raises(BadInput):
        denoise(data, weights="uniform")
