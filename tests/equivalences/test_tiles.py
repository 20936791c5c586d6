"""Tiled = whole: weights, every model, plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hyperdlw import models
from hyperdlw.cube import Cube
from hyperdlw.errors import BadOption, OutOfResources
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.pipeline import check_options, denoise, plan_run
from hyperdlw.pipeline.options import parse_memory
from hyperdlw.solver import (
    DiskArray,
    DiskProblem,
    Problem,
    Schedule,
    StripSolver,
    Whole,
    solve,
    use_stages,
)
from hyperdlw.testbed import noise, scenes
from hyperdlw.weights import Net


@pytest.fixture(scope="module")
def cube() -> Cube:
    """Noisy, with a hole, a nodata border, a bad band and a constant one."""
    scene = scenes.synthetic(7, 40, 22, rng=np.random.default_rng(1))
    data = scene.data + 0.08 * np.random.default_rng(2).standard_normal(scene.data.shape)
    data = data.astype(np.float32)
    data[2, 10:14, 5:9] = np.nan
    data[:, -2:] = np.nan
    data[4] = 0.25
    good = np.ones(7, bool)
    good[6] = False
    return Cube.from_array(data, good_bands=good)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(3)
    return Net(DLWnet3d(4, 2), "small")


def cut(cube: Cube, tile: int, model: str = "nn", weights: object = "uniform", **more: object):
    return denoise(cube, model=model, weights=weights, tile=tile, **more)


def near(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    size = np.nanmax(np.abs(b))
    assert np.nanmax(np.abs(a - b)) <= tolerance * size


@pytest.mark.parametrize("tile", [5, 17, 39])
def test_softmax_over_tiles(cube, net, tile):
    whole = denoise(cube, model="nn", weights=net)
    parts = cut(cube, tile, weights=net)
    ok = whole.weights > 0
    np.testing.assert_array_equal(parts.weights > 0, ok)
    np.testing.assert_allclose(parts.weights[ok], whole.weights[ok], rtol=1e-5)
    near(parts.cube.data, whole.cube.data)
    assert parts.report.tiling["exact"]


@pytest.mark.parametrize(
    "weights", ["uniform", "precision", "robust", "mixture", "precision*uniform", "given"]
)
def test_every_source(cube, net, weights):
    spec: object = weights
    if weights == "given":
        mask = np.random.default_rng(5).random((40, 22)).astype(np.float32)
        spec = [mask, net, np.ones(cube.shape, np.float32)]
    whole = denoise(cube, model="tvs", weights=spec)
    parts = cut(cube, 13, "tvs", spec)
    np.testing.assert_allclose(parts.weights, whole.weights, rtol=3e-5, atol=1e-7)
    near(parts.cube.data, whole.cube.data, 2e-5)
    assert parts.report.weights == whole.report.weights


MODELS = ["nn", "tv", "tvs", "lrtv", "e3dtv", "ctv", "svtv", "pnp", "pnp-hqs", "lrtfdfr"]
ORIGINALS = ["lrtv", "e3dtv", "ctv", "svtv", "lrtfdfr"]


def few(model: str, shape: tuple[int, ...], original: bool = False, steps: int = 4) -> Schedule:
    """The model's own schedule, cut short."""
    return replace(models.build_model(model, shape, original=original).schedule, steps=steps)


@pytest.mark.parametrize(
    ("model", "weights"),
    [*((m, "precision") for m in MODELS), *((m, "original") for m in ORIGINALS)],
)
def test_every_model_is_solved_as_a_whole(cube, model, weights):
    noisy = Cube.from_array(cube.data[:3]) if model == "svtv" else cube
    used = 3 if model == "svtv" else 5
    plan = few(model, (used, *noisy.shape[1:]), weights == "original")
    whole = denoise(noisy, model=model, weights=weights, schedule=plan)
    for tile in (7, 11, 26):
        parts = cut(noisy, tile, model, weights, schedule=plan)
        assert parts.report.tiling["way"] == "strips"
        assert parts.report.tiling["tiles"] > 1
        assert parts.report.steps == whole.report.steps
        near(parts.weights, whole.weights)
        near(parts.cube.data, whole.cube.data)
        for kind, value in whole.report.residuals.items():
            assert parts.report.residuals[kind] == pytest.approx(value, rel=0.02, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        *((m, "precision") for m in MODELS),
        pytest.param("lrtfdfr", "N+T+TS"),
        pytest.param("pnp", "original"),
        *(
            pytest.param(m, "original", marks=pytest.mark.slow)
            for m in ("lrtv", "e3dtv", "ctv", "svtv")
        ),
    ],
)
def test_all_steps(model, weights):
    """Rounding does not grow with the steps of the model's own schedule."""
    scene = scenes.synthetic(3 if model == "svtv" else 6, 24, 18, rng=np.random.default_rng(3)).data
    noisy = Cube.from_array(noise.case(5, scene, np.random.default_rng(4)).y.astype(np.float32))
    whole = denoise(noisy, model=model, weights=weights)
    for tile in (9, 12, 23):
        parts = cut(noisy, tile, model, weights)
        assert parts.report.tiling["way"] == "strips"
        assert parts.report.steps == whole.report.steps
        near(parts.weights, whole.weights)
        near(parts.cube.data, whole.cube.data)


@pytest.mark.parametrize("weights", ["uniform", "precision", "robust", "given", "N+T+TS*precision"])
@pytest.mark.parametrize("bands", [6, 12])
@pytest.mark.parametrize("model", ["lrtfdfr", "tvs"])
def test_tiny_cubes(model, bands, weights):
    """Few small bands, where the maps of lrtfdfr are smoothed almost flat before they come back."""
    shape = (bands, 24, 18)
    scene = scenes.synthetic(*shape, rng=np.random.default_rng(3)).data
    noisy = Cube.from_array(noise.case(5, scene, np.random.default_rng(4)).y.astype(np.float32))
    mask = (np.random.default_rng(5).random(shape) > 0.3).astype(np.float32)
    spec = mask[0] if weights == "given" else weights
    whole = denoise(noisy, model=model, weights=spec)
    parts = cut(noisy, 9, model, spec)
    if weights in ("uniform", "precision", "given"):
        np.testing.assert_array_equal(parts.weights, whole.weights)
    near(parts.weights, whole.weights)
    near(parts.cube.data, whole.cube.data)


@pytest.mark.parametrize("model", ["nn", "tvs"])
def test_the_schedule_is_that_of_the_whole(cube, model):
    """The image first, to a tolerance, with balancing: the same number of steps."""
    order = ("image", "terms", "data")
    plan = Schedule(31, 0.05, tolerance=2e-2, balance=True, order=order)
    whole = denoise(cube, model=model, weights="precision", schedule=plan)
    parts = cut(cube, 17, model, "precision", schedule=plan)
    assert 5 < whole.report.steps == parts.report.steps
    assert parts.report.converged == whole.report.converged
    near(parts.cube.data, whole.cube.data)


class Plain:
    """Does the work of a run, and forgets it."""

    def map(self, stage, function, items, makes=(), here=False):
        for array in makes:
            array.make()
        return [function(i) for i in items]

    def resuming(self):
        return False


@pytest.mark.parametrize("model", ["lrtfdfr", "e3dtv"])
def test_all_steps_in_double_precision(tmp_path, model):
    """What is left in float32 is rounding."""
    rng = np.random.default_rng(1)
    clean = scenes.synthetic(6, 20, 14, rng=rng).data
    y = torch.from_numpy(clean + 0.08 * rng.standard_normal(clean.shape))
    w = torch.from_numpy(rng.uniform(0.5, 1.5, clean.shape))
    built = models.build_model(model, y.shape)
    whole = solve(Problem(built, y, w))
    arrays = [DiskArray(tmp_path / n, tuple(y.shape), "float64").make() for n in "yw"]
    for array, values in zip(arrays, (y, w), strict=True):
        array.write(slice(None), values)
    (tmp_path / "state").mkdir()
    plan = plan_run(y.shape, check_options(model=model, weights="uniform", tile=7))
    means = Whole(y.mean((1, 2)))
    setting = DiskProblem(
        tmp_path / "state", plan, use_stages(built), built.schedule, *arrays, whole=means
    )
    image, steps, _, _ = StripSolver(setting, Plain()).solve()
    assert steps == built.schedule.steps
    near(image.read().numpy(), whole.x.numpy(), 1e-8)


def test_what_was_not_measured_stays_or_is_filled(cube):
    kept = cut(cube, 11)
    np.testing.assert_array_equal(kept.cube.valid, cube.valid)
    np.testing.assert_array_equal(kept.cube.data[[4, 6]], cube.data[[4, 6]])
    filled = cut(cube, 11, fill=True)
    whole = denoise(cube, model="nn", weights="uniform", fill=True)
    assert filled.cube.valid[:4].all()
    np.testing.assert_array_equal(filled.cube.valid, whole.cube.valid)
    near(filled.cube.data, whole.cube.data)


def test_a_cube_that_fits_is_not_cut(cube):
    options = check_options(model="nn", weights="uniform", memory="1G")
    assert not plan_run(cube.shape, options).tiled
    a = denoise(cube, model="nn", weights="uniform", memory="1G")
    b = denoise(cube, model="nn", weights="uniform")
    np.testing.assert_array_equal(a.cube.data, b.cube.data)
    assert a.report.tiling is None


@pytest.mark.parametrize("model", [m for m in MODELS if m != "svtv"])
@pytest.mark.parametrize("shape", [(100, 1024, 1024), (274, 11182, 720)])
def test_plans_keep_to_the_limit(model, shape):
    memory = "2G" if shape[0] == 100 else "8G"
    plan = plan_run(shape, check_options(model=model, memory=memory))
    assert plan.tiled
    assert plan.memory <= plan.limit
    assert plan.window(len(plan.strips) - 1).own.stop == shape[1]
    for word in ("tiles of", "of memory", "of scratch on disk", "exact", "about"):
        assert word in str(plan)


def test_too_little_memory_is_one_sentence(cube):
    with pytest.raises(OutOfResources, match=r"needs at least .* raise --memory"):
        plan_run((100, 1024, 1024), check_options(model="nn", memory="350M"))
    for wrong in ("two", "-1G", "0", "nanG"):
        with pytest.raises(BadOption, match="memory"):
            parse_memory(wrong)
