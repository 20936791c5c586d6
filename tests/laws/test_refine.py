"""The learned step after the model: laws of the step, and what it is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hyperdlw import denoise
from hyperdlw.cube import make_cube
from hyperdlw.pipeline import InMemory, approach, check_options
from hyperdlw.pipeline.refine import LEAST, find_level, refine_image
from hyperdlw.pipeline.sample import Sample
from hyperdlw.testbed import find_noise, make_textured_scene, psnr


@pytest.fixture
def clean() -> np.ndarray:
    return make_textured_scene(20, 48, 52, rng=np.random.default_rng(31))


def test_the_step_minimises_its_objective() -> None:
    g = torch.Generator().manual_seed(1)
    y, x = torch.rand(2, 3, 5, 4, generator=g, dtype=torch.float64)
    w = 4 * torch.rand(3, 5, 4, generator=g, dtype=torch.float64)
    v = approach(y, w, x).requires_grad_()
    (w * (y - v).square() + (v - x).square()).sum().backward()
    assert v.grad is not None
    torch.testing.assert_close(v.grad, torch.zeros_like(v.grad))


def test_what_has_no_weight_has_no_influence() -> None:
    x, w = torch.rand(4, 6, 6), torch.ones(4, 6, 6)
    w[1, 2] = 0
    y = x.clone()
    y[1, 2] = torch.nan
    assert torch.equal(approach(y, w, x)[1, 2], x[1, 2])
    assert bool(approach(y, w, x).isfinite().all())


def test_the_level_is_that_of_the_weighted_residual() -> None:
    g = torch.Generator().manual_seed(2)
    x = torch.rand(12, 64, 64, generator=g)
    w = 0.5 + torch.rand(12, 64, 64, generator=g)
    y = x + 0.1 * w.rsqrt() * torch.randn(12, 64, 64, generator=g)
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    assert find_level(sample, w, x) == pytest.approx(0.05, rel=0.03)
    assert find_level(sample, w, y) == LEAST


def test_strips_and_whole_agree_in_every_piece(clean: np.ndarray) -> None:
    y = find_noise("case5").apply(clean, np.random.default_rng(3)).y
    whole, strips = (denoise(y, **how).cube.data for how in ({}, {"tile": 16}))
    np.testing.assert_allclose(strips, whole, atol=1e-5)


def test_the_best_quality_is_the_same_in_strips(clean: np.ndarray) -> None:
    y = find_noise("case5").apply(clean, np.random.default_rng(3)).y
    whole, strips = (denoise(y, quality="best", tile=tile).cube.data for tile in (None, 16))
    np.testing.assert_allclose(strips, whole, atol=1e-5)
    assert np.abs(whole - denoise(y).cube.data).max() > 1e-4


def test_dead_columns_are_black_for_the_network(clean: np.ndarray) -> None:
    y = clean + 0.1 * np.random.default_rng(5).standard_normal(clean.shape).astype(np.float32)
    y[3, :, 20:22] = 0
    run = InMemory(make_cube(y), check_options())
    run.prepare()
    assert not run.ready.valid[3, :, 20:22].any()
    assert bool((run.ready.y[3, :, 20:22] == 0).all())


@pytest.mark.parametrize("noise", ["case1", "case4", "case5"])
def test_the_step_lowers_the_error(noise: str, clean: np.ndarray) -> None:
    y = find_noise(noise).apply(clean, np.random.default_rng(4)).y
    run = InMemory(make_cube(y), replace(check_options(range=(0.0, 1.0)), refine=False))
    for verb in (run.prepare, run.weigh, run.choose, run.solve):
        verb()
    image = run.image
    assert image.x is not None
    level = find_level(run.sample, image.weights, image.x)
    after = refine_image(image.y, image.weights, image.x, level)
    assert psnr(clean, after.numpy()) > psnr(clean, image.x.numpy()) + 0.2
