"""Limits of bands and samples of blocks: the same in any units, and in strips."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw.bench.field import draw_scales
from hyperdlw.pipeline.limits import _extent, limits_of_sample
from hyperdlw.testbed import find_noise, make_textured_scene
from hyperdlw.weights import block_sample, noise_level


def fit_limits(y: torch.Tensor, ok: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return limits_of_sample(*block_sample.sample_blocks(y, ok, block_sample.sample_step(y.shape)))


@pytest.fixture(scope="module")
def scene():
    return make_textured_scene(31, 64, 64, rng=np.random.default_rng(1))


def test_samples_gathered_in_strips_are_those_of_the_whole(scene):
    noisy = find_noise("case5").apply(scene, np.random.default_rng(0)).y
    y = torch.from_numpy(np.tile(noisy, (1, 5, 4))[:, :300, :250].copy())
    ok = torch.ones_like(y, dtype=torch.bool)
    step = block_sample.sample_step(y.shape, noise_level.BLOCKS)
    assert step > 1
    high = 3 * 8 * step
    whole = block_sample.sample_blocks(y, ok, step)
    parts = [
        block_sample.sample_blocks(y[:, a : a + high], ok[:, a : a + high], step)
        for a in range(0, 300, high)
    ]
    for k in (0, 1):
        assert torch.equal(torch.cat([p[k] for p in parts], 1), whole[k])


def test_limits_follow_the_units_of_a_band(scene):
    y = torch.from_numpy(find_noise("case5").apply(scene, np.random.default_rng(0)).y)
    ok = torch.ones_like(y, dtype=torch.bool)
    lo, hi = fit_limits(y, ok)
    gain, offset = (torch.from_numpy(v) for v in draw_scales(31, 0))
    low, high = fit_limits(y * gain + offset, ok)
    assert torch.allclose(low, lo * gain.flatten() + offset.flatten(), atol=2e-3)
    assert torch.allclose(high, hi * gain.flatten() + offset.flatten(), atol=2e-3)


@pytest.mark.parametrize("share", [0.0, 1e-3, 0.005])
def test_a_share_of_the_cells_lies_beyond_each_limit(share):
    rng = np.random.default_rng(2)
    fit = torch.from_numpy(rng.standard_normal((3, 4000)))
    seen = torch.from_numpy(rng.random((3, 4000)) < np.array([[1.0], [0.5], [0.0]]))
    lo, hi = _extent(fit, seen, share)
    for b in range(2):
        values = fit[b][seen[b]]
        skip = int(share * len(values))
        assert (int((values < lo[b]).sum()), int((values > hi[b]).sum())) == (skip, skip)
    assert (float(lo[2]), float(hi[2])) == (0, 0)


def test_a_few_bright_targets_do_not_move_the_limits(scene):
    """One of them hardly does, though it is fifty ranges away; a square of them by one range at most."""
    y = torch.from_numpy(scene) + 0.01 * torch.randn(scene.shape, generator=torch.manual_seed(0))
    ok = torch.ones_like(y, dtype=torch.bool)
    lo, hi = fit_limits(y, ok)
    for side, most in ((1, 0.2), (4, 1.2)):
        bright = y.clone()
        bright[:, 20 : 20 + side, 30 : 30 + side] += 50
        low, high = fit_limits(bright, ok)
        assert float(((high - hi) / (hi - lo)).max()) < most
        assert float(((low - lo).abs() / (hi - lo)).max()) < 0.2


def test_level_is_that_of_the_noise(scene):
    ok = torch.ones(scene.shape, dtype=torch.bool)
    for noise, truth in (("even5", 5 / 255), ("even30", 30 / 255)):
        d = find_noise(noise).apply(scene, np.random.default_rng(0))
        step = block_sample.sample_step(scene.shape, noise_level.BLOCKS)
        blocks = block_sample.sample_blocks(torch.from_numpy(d.y), ok, step)
        found = noise_level.noise_of_sample(*blocks).level
        assert float(found.median()) == pytest.approx(truth, rel=0.15)
