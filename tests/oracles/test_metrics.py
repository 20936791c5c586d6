"""Scores against scikit-image and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.errors import BadInput
from hyperdlw.testbed import metrics


def cubes(bands: int = 3, rows: int = 40, cols: int = 33) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    x = np.cumsum(r.random((bands, rows, cols)), axis=2)
    x = (x / x.max()).astype(np.float32)
    return x, (x + 0.1 * r.standard_normal(x.shape)).astype(np.float32)


def test_psnr_matches_scikit_image() -> None:
    score = pytest.importorskip("skimage.metrics").peak_signal_noise_ratio
    x, y = cubes()
    want = [score(a, b, data_range=1) for a, b in zip(x, y, strict=True)]
    found = [metrics.psnr(a[None], b[None], clip=False) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(found, want, atol=1e-4)
    assert metrics.psnr(x, y) == metrics.psnr(x, np.clip(y, 0, 1), clip=False)
    assert metrics.psnr(x, y) > metrics.psnr(x, y, clip=False)
    np.testing.assert_allclose(
        metrics.psnr(255 * x, 255 * y, peak=255), metrics.psnr(x, y), atol=1e-4
    )


@pytest.mark.parametrize("shape", [(3, 40, 33), (2, 11, 11), (2, 12, 64)])
def test_ssim_matches_scikit_image(shape: tuple[int, int, int]) -> None:
    score = pytest.importorskip("skimage.metrics").structural_similarity
    x, y = cubes(*shape)
    gauss = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    want = [score(a, b, data_range=1, **gauss) for a, b in zip(x, y, strict=True)]
    found = [metrics.ssim(a[None], b[None], clip=False) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(found, want, atol=1e-4)
    np.testing.assert_allclose(metrics.ssim(x, y, clip=False), np.mean(want), atol=1e-4)
    want = [score(a, b, data_range=2) for a, b in zip(x, y, strict=True)]
    found = [metrics.ssim_paper(a[None], b[None], clip=False) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(found, want, atol=1e-4)
    np.testing.assert_allclose(metrics.ssim_paper(x, y, clip=False), np.mean(want), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 30), (2, 30, 1), (2, 5, 6), (2, 2, 2)])
def test_ssim_of_small_images_is_defined(shape: tuple[int, int, int]) -> None:
    x, y = cubes(*shape)
    for score in (metrics.ssim, metrics.ssim_paper):
        assert score(x, x) == pytest.approx(1)
        assert -1 <= score(x, y) < 1


def test_small_window_is_the_largest_odd_one_that_fits() -> None:
    score = pytest.importorskip("skimage.metrics").structural_similarity
    x, y = cubes(2, 6, 6)
    want = [score(a, b, data_range=2, win_size=5) for a, b in zip(x, y, strict=True)]
    found = [metrics.ssim_paper(a[None], b[None], clip=False) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(found, want, atol=1e-4)


def test_spectral_angle_closed_forms() -> None:
    x, y = cubes(8)
    assert metrics.sam(x + 0.1, x + 0.1) == pytest.approx(0, abs=1e-5)
    assert metrics.sam(x + 0.1, 3 * (x + 0.1)) == pytest.approx(0, abs=1e-5)
    u, v = x.reshape(8, -1).astype(float), y.reshape(8, -1).astype(float)
    cos = (u * v).sum(0) / np.linalg.norm(u, axis=0) / np.linalg.norm(v, axis=0)
    assert metrics.sam(x, y) == pytest.approx(np.degrees(np.arccos(cos)).mean(), abs=1e-4)
    zero = np.zeros((2, 1, 2))
    half = zero.copy()
    half[:, :, 0] = 1
    assert np.isnan(metrics.sam(zero, zero))
    assert metrics.sam(zero, half) == pytest.approx(90)


def test_small_angles_keep_their_digits() -> None:
    u, v = np.array([1.0, 0.0]), np.array([1.0, 1e-7])
    got = metrics.sam(u.reshape(2, 1, 1), v.reshape(2, 1, 1))
    assert got == pytest.approx(np.degrees(1e-7), rel=1e-6)


def test_ergas_closed_form() -> None:
    x, y = cubes()
    a, b = x.astype(float), y.astype(float)
    rel = np.sqrt(((a - b) ** 2).mean(axis=(1, 2))) / a.mean(axis=(1, 2))
    assert metrics.ergas(x, y) == pytest.approx(100 * np.sqrt((rel**2).mean()))
    x[0] = 0
    assert metrics.ergas(x, y) == pytest.approx(100 * np.sqrt((rel[1:] ** 2).mean()))


def test_equal_cubes() -> None:
    x, _ = cubes()
    s = metrics.scores(x, x)
    assert s["psnr"] == np.inf
    assert s["ssim"] == pytest.approx(1)
    assert s["ssim_paper"] == pytest.approx(1)
    assert s["sam"] == pytest.approx(0, abs=1e-5)
    assert s["ergas"] == 0


def test_scores_are_the_single_scores_of_the_clipped_cube() -> None:
    x, y = cubes()
    s = metrics.scores(x, y)
    assert s["psnr"] == pytest.approx(metrics.psnr(x, y))
    assert s["ssim"] == pytest.approx(metrics.ssim(x, y))
    assert s["ssim_paper"] == pytest.approx(metrics.ssim_paper(x, y))
    assert s["sam"] == pytest.approx(metrics.sam(x, np.clip(y, 0, 1)))
    assert metrics.scores(x, y, clip=False)["psnr"] < s["psnr"]


def test_invalid_voxels_do_not_count() -> None:
    x, y = cubes(4, 40, 40)
    valid = np.ones(x.shape[1:], bool)
    valid[:, 28:] = False
    spoilt = np.where(valid, y, np.nan)
    want = metrics.scores(x[:, :, :28], y[:, :, :28])
    for mask in (valid, np.broadcast_to(valid, x.shape)):
        assert metrics.scores(x, spoilt, valid=mask) == pytest.approx(want)
    # A band without a valid voxel is left out of the mean.
    mask = np.ones(x.shape, bool)
    mask[0] = False
    assert metrics.psnr(x, y, valid=mask) == pytest.approx(metrics.psnr(x[1:], y[1:]))
    assert metrics.sam(x, y, valid=mask) == pytest.approx(metrics.sam(x[1:], y[1:]))
    nothing = metrics.scores(x, y, valid=np.zeros_like(mask))
    assert all(np.isnan(v) for v in nothing.values())


def test_a_broken_restoration_is_not_hidden() -> None:
    x, y = cubes()
    y[0, 3, 3] = np.nan
    for score in (metrics.scores, metrics.psnr, metrics.ssim, metrics.sam, metrics.ergas):
        with pytest.raises(BadInput, match="restored cube holds NaN or Inf in 1 voxels"):
            score(x, y)


def test_shapes_are_checked() -> None:
    x, y = cubes()
    for score in (metrics.psnr, metrics.ssim, metrics.ssim_paper, metrics.sam, metrics.ergas):
        with pytest.raises(BadInput, match=r"\(3, 40, 33\).*\(2, 40, 33\)"):
            score(x, y[:2])
        with pytest.raises(BadInput, match="band, row, col"):
            score(x[0], y[0])
    with pytest.raises(BadInput, match="valid mask"):
        metrics.psnr(x, y, valid=np.ones((5, 5), bool))
