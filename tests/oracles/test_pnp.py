"""Plug and play against a stored run of another program, and its behaviour when it diverges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import hyperdlw
from hyperdlw import models
from hyperdlw.models import pnp
from hyperdlw.solver import Problem, Schedule, solve
from hyperdlw.testbed import noise, scenes
from hyperdlw.testbed.metrics import psnr


def box3(x: Tensor, sigma: float) -> Tensor:
    """The mean over 3x3 pixels, the border repeated."""
    return F.avg_pool2d(F.pad(x[None], (1, 1, 1, 1), mode="replicate")[0], 3, 1)


def load(path: Path) -> dict[str, Tensor]:
    with np.load(path) as stored:
        return {k: torch.from_numpy(np.moveaxis(v, -1, 0).copy()) for k, v in stored.items()}


@pytest.mark.parametrize("way", ["admm", "hqs"])
@pytest.mark.parametrize(("mu", "steps"), [(0.5, 10), (0.1, 5)])
def test_stored_run(shared: Path, way: str, mu: float, steps: int) -> None:
    folder = shared / "golden" / "dlw"
    gold, given = load(folder / "toys32_case1m_pnp_box3.npz"), load(folder / "toys32_case1m.npz")
    model = pnp.build(given["noisy"].shape, denoiser=box3, multipliers=way == "admm")
    problem = Problem(model, given["noisy"], given["W_N+T+TS"])
    got = solve(problem, replace(model.schedule, mu=mu, steps=steps)).x
    want = gold[f"{way}_mu{mu}_K{steps}"]
    assert float((got - want).abs().max()) <= 1e-5


@pytest.mark.parametrize("way", ["pnp", "pnp-hqs"])
@pytest.mark.parametrize("strength", [0.25, 1.0, 4.0])
def test_level_is_the_root_of_the_strength(way: str, strength: float) -> None:
    told: list[float] = []

    def spy(x: Tensor, sigma: float) -> Tensor:
        told.append(sigma)
        return x

    model = pnp.build((2, 4, 4), strength, spy, multipliers=way == "pnp")
    y = torch.rand(2, 4, 4)
    solve(Problem(model, y, torch.ones_like(y)))
    assert told == pytest.approx([50 / 255 * strength**0.5] * 12)
    registered = models.build_model(way, y.shape).schedule
    assert registered == model.schedule


def test_the_written_loop(rng: np.random.Generator) -> None:
    """ADMM as it stands in the documentation, in eight lines."""
    y, w = (torch.from_numpy(rng.random((3, 8, 8), np.float32)) for _ in range(2))
    mu, x, g = 0.5, y, torch.zeros_like(y)
    for _ in range(12):
        z = (w * y + mu * x + g) / (w + mu)
        x = box3(z - g / mu, 0.0)
        g = g + mu * (x - z)
    got = solve(Problem(pnp.build(y.shape, denoiser=box3), y, w)).x
    torch.testing.assert_close(got, x)


@pytest.mark.parametrize("multipliers", [True, False])
def test_guard_stops_an_expanding_denoiser(multipliers: bool) -> None:
    model = pnp.build((2, 6, 6), denoiser=lambda x, sigma: 3.0 * x, multipliers=multipliers)
    y = torch.rand(2, 6, 6)
    seen: list[int] = []
    long = replace(model.schedule, steps=50)
    got = solve(Problem(model, y, 0.1 * torch.ones_like(y)), long, watch=lambda s: seen.append(s.k))
    assert not got.converged
    assert len(seen) < 50
    # The result is the one before the growth began.
    assert got.state.k == seen[-1] - 3
    assert bool(torch.isfinite(got.x).all())
    off = solve(Problem(model, y, 0.1 * torch.ones_like(y)), replace(long, guard=None))
    assert off.converged
    assert off.state.k == 50


def test_guard_stops_at_once_for_nan() -> None:
    model = pnp.build((1, 4, 4), denoiser=lambda x, sigma: x * float("nan"))
    y = torch.rand(1, 4, 4)
    got = solve(Problem(model, y, torch.ones_like(y)))
    assert not got.converged
    assert torch.equal(got.x, y)


def test_guard_leaves_a_calm_run_alone() -> None:
    y = torch.rand(2, 8, 8)
    problem = Problem(pnp.build(y.shape, denoiser=box3), y, torch.ones_like(y))
    schedule = problem.model.schedule
    assert isinstance(schedule, Schedule)
    got, free = solve(problem), solve(problem, replace(schedule, guard=None))
    assert got.converged
    assert torch.equal(got.x, free.x)


def test_time_limit_ends_a_run() -> None:
    y = torch.rand(2, 8, 8)
    model = models.build_model("tv", y.shape)
    got = solve(Problem(model, y, torch.ones_like(y)), replace(model.schedule, seconds=0.0))
    assert got.state.k == 1


@pytest.mark.parametrize("model", ["pnp", "pnp-hqs"])
def test_denoise_with_the_shipped_denoiser(model: str) -> None:
    clean = scenes.synthetic(31, 40, 40, rng=np.random.default_rng(3)).data
    noisy = noise.case(1, clean, np.random.default_rng(1)).y
    weighted, uniform = (
        hyperdlw.denoise(noisy, model=model, weights=w, range=(0, 1)) for w in ("N+T+TS", "uniform")
    )
    assert weighted.report.converged
    assert weighted.report.steps == 12
    good, bad = (psnr(clean, r.cube.data) for r in (weighted, uniform))
    assert good > psnr(clean, noisy, clip=False) + 6
    assert good > bad + (3 if model == "pnp" else 0)


def test_the_original_is_the_denoiser_alone() -> None:
    seen: list[float] = []

    def spy(x: Tensor, sigma: float) -> Tensor:
        seen.append(sigma)
        return 0.5 * x

    y = torch.rand(3, 6, 5)
    model = models.build_model("pnp", y.shape, 4.0, original=True, denoiser=spy)
    torch.testing.assert_close(solve(Problem(model, y, torch.ones(1, 1, 1))).x, 0.5 * y)
    assert seen == [pytest.approx(2 * 50 / 255)]
