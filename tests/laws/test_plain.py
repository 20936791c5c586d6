"""The plain command on small scenes: it helps, and nothing breaks it."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import Cube, denoise
from hyperdlw.bench.field import draw_scales
from hyperdlw.testbed import find_noise, make_textured_scene


@pytest.fixture(scope="module")
def scene():
    return make_textured_scene(31, 64, 64, rng=np.random.default_rng(1))


def restored(raw):
    valid = np.isfinite(raw)
    return denoise(Cube(np.where(valid, raw, np.nan).astype(np.float32), valid)).cube.data


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
    # It comes back as it was, counted and named, or is filled.
    assert x[10, 40, 40] == np.float32(1e20)
    found = denoise(spoilt, fill=True)
    assert abs(float(found.cube.data[10, 40, 40]) - scene[10, 40, 40]) < 0.3
    assert found.report.set_aside["wild_voxels"] == 1
    assert any("--nodata 1e+20" in note for note in found.report.notes)


def test_a_clean_cube_is_left_alone(scene):
    assert psnr(restored(scene), scene) > 60


def test_strength_is_right_for_the_noise_of_every_model(scene):
    """At an SNR of 50 the published constants ruin a cube; following the level they do not."""
    d = find_noise("snr50").apply(scene, np.random.default_rng(0))
    for model in ("nn", "tv", "lrtfdfr"):
        how = {"model": model, "weights": "uniform", "range": (0, 1)}
        follows, paper = denoise(d.y, **how), denoise(d.y, **how, paper=True)
        assert follows.report.balance < 0.1 < paper.report.balance == 1.0
        assert psnr(follows.cube.data, scene) > psnr(paper.cube.data, scene) + 3


@pytest.mark.parametrize(
    "noise", ["mild", "case1", "column-offsets", "gaps", "bright20", "dead-elements", "none"]
)
def test_strips_give_the_same(noise):
    scene = make_textured_scene(10, 130, 40, rng=np.random.default_rng(2))
    y = find_noise(noise).apply(scene, np.random.default_rng(0)).y
    cube = Cube(y.astype(np.float32), np.isfinite(y))
    whole, parts = denoise(cube), denoise(cube, tile=33)
    ok = np.isfinite(y)
    assert np.abs(whole.cube.data - parts.cube.data)[ok].max() <= 1e-5 * np.abs(y[ok]).max()
    assert whole.report.set_aside == parts.report.set_aside
    assert whole.report.notes == parts.report.notes


def test_columns_of_a_pushbroom_sensor_go(scene):
    d = find_noise("column-offsets").apply(scene, np.random.default_rng(0))
    found = denoise(d.y)
    assert found.report.set_aside["columns_removed"] == "offsets"
    assert psnr(found.cube.data, scene) > psnr(d.y, scene) + 8
    assert denoise(d.y, columns=False).report.set_aside["columns_removed"] == ""


def test_bright_pixels_keep_their_values_and_gaps_stay(scene):
    d = find_noise("bright200").apply(scene, np.random.default_rng(0))
    x = restored(d.y)
    clean, seen = d.find_target(scene), d.judged.all(axis=0)
    assert np.allclose(x[:, ~seen], d.y[:, ~seen], rtol=1e-4)
    assert psnr(x, clean, seen) > psnr(d.y, clean, seen) + 4
    gaps = find_noise("gaps").apply(scene, np.random.default_rng(0))
    assert np.array_equal(np.isfinite(restored(gaps.y)), gaps.valid)
