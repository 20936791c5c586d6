"""The plain command of the study on small scenes: it helps, and nothing breaks it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain import restore

from hyperdlw.bench.field import draw_scales
from hyperdlw.testbed import find_noise, make_textured_scene
from hyperdlw.weights import resolve


@pytest.fixture(scope="module")
def scene():
    return make_textured_scene(31, 64, 64, rng=np.random.default_rng(1))


def restored(raw):
    image = torch.from_numpy(raw)
    return restore(image, image.isfinite(), resolve("N+T+TS")).numpy()


def psnr(x, clean, seen=None):
    square = np.where(True if seen is None else seen, x.astype(float) - clean, 0) ** 2
    return float(np.mean(-10 * np.log10(square.mean((1, 2)) + 1e-30)))


@pytest.mark.parametrize(("noise", "gain"), [("mild", 4), ("snr50", 3), ("case5", 10)])
def test_noise_is_removed_in_any_units(scene, noise, gain):
    d = find_noise(noise).apply(scene, np.random.default_rng(0))
    scale, offset = draw_scales(31, 0)
    x = (restored(d.y * scale + offset) - offset) / scale
    assert psnr(x, scene) > psnr(d.y, scene) + gain


@pytest.mark.parametrize("noise", ["mild", "case5"])
def test_one_wild_voxel_does_no_harm(scene, noise):
    d = find_noise(noise).apply(scene, np.random.default_rng(0))
    spoilt = d.y.copy()
    spoilt[10, 40, 40] = 1e20
    x, seen = restored(spoilt), np.ones(scene.shape, bool)
    seen[10, 40, 40] = False
    assert np.isfinite(x).all()
    assert abs(psnr(x, scene, seen) - psnr(restored(d.y), scene, seen)) < 0.1
    assert abs(float(x[10, 40, 40]) - scene[10, 40, 40]) < 0.3


def test_a_clean_cube_is_left_alone(scene):
    assert psnr(restored(scene), scene) > 60


def test_bright_pixels_keep_their_values_and_gaps_stay(scene):
    d = find_noise("bright200").apply(scene, np.random.default_rng(0))
    x = restored(d.y)
    clean, seen = d.find_target(scene), d.judged.all(axis=0)
    assert np.allclose(x[:, ~seen], d.y[:, ~seen], rtol=1e-4)
    assert psnr(x, clean, seen) > psnr(d.y, clean, seen) + 4
    gaps = find_noise("gaps").apply(scene, np.random.default_rng(0))
    assert np.array_equal(np.isfinite(restored(gaps.y)), gaps.valid)
