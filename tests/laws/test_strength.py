"""strength="auto": the noise constant, the risk estimate, the search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw import denoise, models
from hyperdlw.pipeline.choose import (
    CAUTION,
    STRONGEST,
    WEAKEST,
    choose_strength,
    noise_constant,
)
from hyperdlw.solver import Model, Problem, solve, term
from hyperdlw.solver.penalties import Penalty
from hyperdlw.testbed import metrics, noise, scenes


@pytest.fixture(scope="module")
def scene() -> np.ndarray:
    return scenes.synthetic(31, 48, 48, rng=np.random.default_rng(5)).data


def gaussian(scene: np.ndarray, sigma: np.ndarray | float, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy((scene + sigma * rng.standard_normal(scene.shape)).astype(np.float32))


def precision(sigma: np.ndarray, shape: tuple[int, ...]) -> torch.Tensor:
    w = torch.from_numpy(np.broadcast_to(1 / sigma**2, shape).astype(np.float32).copy())
    return w / w.mean()


def build(name: str, y: torch.Tensor):
    return lambda strength: models.build_model(name, y.shape, strength)


def test_the_noise_constant_is_the_weighted_variance(scene: np.ndarray) -> None:
    sigma = np.linspace(0.05, 0.3, 31)[:, None, None]
    y = gaussian(scene, sigma)
    w = precision(sigma, y.shape)
    truth = float((w * (y - torch.from_numpy(scene)) ** 2).mean())
    assert noise_constant(y, w) == pytest.approx(truth, rel=0.06)


def test_the_noise_constant_does_not_mind_weights_that_follow_the_noise(scene: np.ndarray) -> None:
    """Weights that fall with the voxel's own noise: the mean of w n^2, and not of n^2."""
    y = gaussian(scene, 0.1)
    n = y - torch.from_numpy(scene)
    w = torch.exp(-((n / 0.1) ** 2))
    w = w / w.mean()
    truth = float((w * n**2).mean())
    assert truth < 0.6 * 0.01
    assert noise_constant(y, w) == pytest.approx(truth, rel=0.15)


def test_unmeasured_voxels_do_not_enter(scene: np.ndarray) -> None:
    y = gaussian(scene, 0.1)
    w = torch.ones_like(y)
    w[:, 10:20, 5:9] = 0
    spoilt = torch.where(w > 0, y, torch.full_like(y, 50.0))
    assert noise_constant(spoilt, w) == pytest.approx(noise_constant(y, w))
    assert choose_strength(build("tv", y), spoilt, w) == choose_strength(build("tv", y), y, w)


@pytest.mark.parametrize("shape", [(1, 1, 40), (1, 2, 2), (40, 1, 1)])
def test_without_two_axes_nothing_is_chosen(shape: tuple[int, ...]) -> None:
    y = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    choice = choose_strength(build("tv", y), y, torch.ones(shape))
    assert (choice.strength, choice.rule) == (1.0, "none")
    assert "too small" in choice.reason


def test_the_risk_is_the_weighted_error(scene: np.ndarray) -> None:
    """With independent weights the estimate is unbiased for every strength; else it is made larger."""
    sigma = np.linspace(0.05, 0.3, 31)[:, None, None]
    y, clean = gaussian(scene, sigma), torch.from_numpy(scene)
    w = precision(sigma, y.shape)
    choice = choose_strength(build("tv", y), y, w, follows_noise=False)
    wary = {t.strength: t for t in choose_strength(build("tv", y), y, w).curve}
    c = float((w * (y - clean) ** 2).mean())
    for t in choice.curve:
        x = solve(Problem(models.build_model("tv", y.shape, t.strength), y, w)).x
        error = float((w * (x - clean) ** 2).mean())
        assert t.fit - c + 2 * c * t.freedom == pytest.approx(error, abs=0.03 * c)
        assert t.risk == pytest.approx(t.fit - choice.noise + 2 * choice.noise * t.freedom)
        if t.strength in wary:
            bold, other = CAUTION * choice.noise, wary[t.strength]
            assert other.risk == pytest.approx(other.fit - bold + 2 * bold * other.freedom)


@pytest.mark.parametrize("name", ["nn", "tv", "tvs"])
@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_the_choice_is_near_the_best(scene: np.ndarray, name: str, sigma: float) -> None:
    y = gaussian(scene, sigma)
    w = torch.ones_like(y)

    def psnr(strength: float) -> float:
        x = solve(Problem(models.build_model(name, y.shape, strength), y, w)).x
        return metrics.psnr(scene, x.numpy())

    choice = choose_strength(build(name, y), y, w, follows_noise=False)
    assert choice.rule == "sure"
    assert WEAKEST <= choice.strength <= STRONGEST
    best = max(psnr(2.0**k) for k in range(-3, 5))
    assert psnr(choice.strength) > best - 0.6


def test_more_noise_is_smoothed_more(scene: np.ndarray) -> None:
    chosen = [
        choose_strength(build("tv", y), y, torch.ones_like(y)).strength
        for y in (gaussian(scene, s) for s in (0.03, 0.1, 0.3))
    ]
    assert chosen == sorted(chosen)
    assert chosen[2] > 2 * chosen[0]


def test_a_map_without_a_divergence_falls_back_to_the_residual(scene: np.ndarray) -> None:
    """A model that amplifies its input is no denoiser: Stein's formula is not used for it."""
    y = gaussian(scene, 0.1)
    odd = Penalty("odd", lambda v, t: -3.0 * v, lambda u: u.sum())
    plain = models.build_model("tv", y.shape)

    def make(strength: float) -> Model:
        return Model(terms=(term(odd),), schedule=plain.schedule, central="data", output=0)

    choice = choose_strength(make, y, torch.ones_like(y))
    assert choice.rule == "discrepancy"
    assert WEAKEST <= choice.strength <= STRONGEST


def test_denoise_reports_the_choice(scene: np.ndarray) -> None:
    y = gaussian(scene, 0.1).numpy()
    result = denoise(y, model="tv", weights="precision", strength="auto", range=(0, 1))
    report = result.report
    assert report.choice is not None
    assert report.choice["strength"] == report.strength
    assert report.choice["rule"] == "sure"
    assert len(report.choice["curve"]) >= 3
    same = denoise(y, model="tv", weights="precision", strength=report.strength, range=(0, 1))
    assert np.array_equal(same.cube.data, result.cube.data)
    assert same.report.choice is None


def test_a_network_is_named_in_the_report() -> None:
    clean = scenes.synthetic(8, 24, 24, rng=np.random.default_rng(5)).data
    dirty = noise.case(1, clean, np.random.default_rng(0)).y
    report = denoise(dirty, strength="auto", range=(0, 1)).report
    assert report.weights == "N+T+TS-remote"
    assert list(report.networks) == ["N+T+TS-remote"]


def test_converged_runs_choose_too(scene: np.ndarray) -> None:
    y = gaussian(scene[:6, :24, :24], 0.1).numpy()
    report = denoise(
        y, model="tv", weights="robust", strength="auto", schedule="converged", range=(0, 1)
    ).report
    assert report.choice is not None
    assert report.converged
