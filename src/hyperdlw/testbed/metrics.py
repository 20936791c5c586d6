"""How close a restored cube is to the clean one.

All functions take a reference ``clean`` in [0, 1] and ``restored``, both (band, row, col), compute in
float64 and return plain floats: means over the bands, as in the paper. ``valid`` is True where a voxel
counts, (band, row, col) or (row, col); bands without a valid voxel are left out. Scores with ``clip``
cut ``restored`` to [0, 1] first, unless it is False.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d, minimum_filter

from ..errors import BadInput

F64 = NDArray[np.float64]
Values = NDArray[np.generic]
Mask = NDArray[np.bool_]


def psnr(
    clean: Values,
    restored: Values,
    *,
    clip: bool = True,
    peak: float = 1.0,
    valid: Mask | None = None,
) -> float:
    """Peak signal-to-noise ratio in dB, mean over the bands (infinite for equal cubes).

    10 log10(peak^2 / mean_pixels (clean_b - restored_b)^2), averaged over b.

    Args:
        clip: cut ``restored`` to [0, peak] first (the noisy rows of the paper are not cut).
        peak: largest possible value.

    >>> round(psnr(np.zeros((2, 4, 4)), np.full((2, 4, 4), 0.1)), 6)
    20.0
    """
    a, b, ok = _pair(clean, restored, valid)
    if clip:
        b = np.clip(b, 0.0, peak)
    with np.errstate(divide="ignore"):
        return _mean(20 * np.log10(peak) - 10 * np.log10(_mse(a, b, ok)))


def ssim(clean: Values, restored: Values, *, clip: bool = True, valid: Mask | None = None) -> float:
    """Structural similarity after Wang et al. (2004), mean over the bands.

    11 x 11 Gaussian window of standard deviation 1.5, K = 0.01 and 0.03, data range 1, population
    covariance, averaged over the windows that lie inside the image and touch valid voxels only. An
    image side shorter than the window gets the largest odd window that fits along that side.

    >>> x = np.random.default_rng(0).random((2, 16, 16))
    >>> ssim(x, x)
    1.0
    """
    return _mean(_ssim(clean, restored, clip, valid, WANG))


def ssim_paper(
    clean: Values, restored: Values, *, clip: bool = True, valid: Mask | None = None
) -> float:
    """Structural similarity in the convention that the paper's figures most likely have.

    7 x 7 uniform window, sample covariance and data range 2: what old versions of scikit-image took
    for floating-point images when no range was given. It is larger than :func:`ssim`, which is the
    honest figure; use this one only beside the tables of the paper.
    """
    return _mean(_ssim(clean, restored, clip, valid, PAPER))


def sam(clean: Values, restored: Values, *, valid: Mask | None = None) -> float:
    """Spectral angle in degrees, mean over the pixels.

    The angle between the spectra u and v of a pixel, arccos(u'v / |u||v|). Pixels where both
    spectra vanish have no angle and are left out; if only one vanishes the angle is 90. ``restored``
    is not clipped.

    >>> u = np.array([1.0, 0.0]).reshape(2, 1, 1)
    >>> v = np.array([1.0, 1.0]).reshape(2, 1, 1)
    >>> round(sam(u, v), 6)
    45.0
    """
    a, b, ok = _pair(clean, restored, valid)
    a, b = np.where(ok, a, 0.0), np.where(ok, b, 0.0)
    norm_a = np.sqrt((a * a).sum(axis=0))
    norm_b = np.sqrt((b * b).sum(axis=0))
    u = a / np.where(norm_a > 0, norm_a, 1.0)
    v = b / np.where(norm_b > 0, norm_b, 1.0)
    # arccos loses half the digits near zero; this form of the same angle does not.
    half = np.arctan2(np.linalg.norm(u - v, axis=0), np.linalg.norm(u + v, axis=0))
    angle = np.where((norm_a > 0) & (norm_b > 0), 2 * half, np.pi / 2)
    return _mean(np.degrees(np.where((norm_a > 0) | (norm_b > 0), angle, np.nan)))


def ergas(clean: Values, restored: Values, *, valid: Mask | None = None) -> float:
    """Relative global error (ERGAS) at resolution ratio 1, 0 for equal cubes; nothing is clipped.

    100 sqrt(mean_b (rmse_b / mean(clean_b))^2); bands whose clean mean is 0 are left out.

    >>> round(ergas(np.full((2, 4, 4), 0.5), np.full((2, 4, 4), 0.6)), 6)
    20.0
    """
    a, b, ok = _pair(clean, restored, valid)
    count = ok.sum(axis=(1, 2))
    level = np.abs(np.where(ok, a, 0.0).sum(axis=(1, 2))) / np.maximum(count, 1)
    error = 100 * np.sqrt(_mse(a, b, ok)) / np.where(level > 0, level, np.nan)
    return float(np.sqrt(_mean(error**2)))


def scores(
    clean: Values, restored: Values, *, clip: bool = True, valid: Mask | None = None
) -> dict[str, float]:
    """All scores of one restored cube: psnr (dB), ssim, ssim_paper, sam (degrees), ergas.

    ``restored`` is cut to [0, 1] once, for all of them, unless ``clip`` is False.

    >>> x = np.random.default_rng(0).random((3, 16, 16))
    >>> sorted(scores(x, x * 0.9))
    ['ergas', 'psnr', 'sam', 'ssim', 'ssim_paper']
    """
    if clip:
        restored = np.clip(restored, 0.0, 1.0)
    return {
        "psnr": psnr(clean, restored, clip=False, valid=valid),
        "ssim": ssim(clean, restored, clip=False, valid=valid),
        "ssim_paper": ssim_paper(clean, restored, clip=False, valid=valid),
        "sam": sam(clean, restored, valid=valid),
        "ergas": ergas(clean, restored, valid=valid),
    }


def _pair(clean: Values, restored: Values, valid: Mask | None) -> tuple[F64, F64, Mask]:
    a, b = np.asarray(clean, np.float64), np.asarray(restored, np.float64)
    if a.shape != b.shape:
        raise BadInput(f"the clean cube has shape {a.shape}, the restored one {b.shape}")
    if a.ndim != 3 or a.size == 0:
        raise BadInput(f"scores need cubes (band, row, col); these have shape {a.shape}")
    ok = np.ones(a.shape[1:], bool) if valid is None else np.asarray(valid, bool)
    if ok.shape not in (a.shape, a.shape[1:]):
        raise BadInput(f"the valid mask has shape {ok.shape}, the cubes {a.shape}")
    ok = np.broadcast_to(ok, a.shape)
    for name, cube in (("clean", a), ("restored", b)):
        # A NaN would else look like a band that is left out, and a broken result would score well.
        broken = np.count_nonzero(~np.isfinite(cube) & ok)
        if broken:
            raise BadInput(
                f"the {name} cube holds NaN or Inf in {broken} voxels: mark them in `valid`"
            )
    return a, b, ok


def _mean(values: F64) -> float:
    """Mean of what is defined (not NaN); NaN when nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def _mse(a: F64, b: F64, ok: Mask) -> F64:
    count = ok.sum(axis=(1, 2))
    error = np.where(ok, a - b, 0.0)
    mean = np.einsum("brc,brc->b", error, error) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.nan)


@dataclass(frozen=True)
class Similarity:
    """A convention of structural similarity.

    Attributes:
        size: side of the window in pixels; ``sigma`` its standard deviation, infinite: uniform.
        sample: take the sample covariance, not that of the population.
    """

    size: int
    sigma: float
    data_range: float
    sample: bool

    def make_window(self, size: int) -> F64:
        """Weights of the window along one side of ``size`` pixels."""
        window = np.exp(-0.5 * ((np.arange(size) - size // 2) / self.sigma) ** 2)
        return np.asarray(window / window.sum())


WANG = Similarity(11, 1.5, data_range=1.0, sample=False)
PAPER = Similarity(7, np.inf, data_range=2.0, sample=True)


def _ssim(clean: Values, restored: Values, clip: bool, valid: Mask | None, how: Similarity) -> F64:
    a, b, ok = _pair(clean, restored, valid)
    sides = [min(how.size, n - 1 + n % 2) for n in a.shape[1:]]
    rows, cols = (how.make_window(side) for side in sides)
    inside = tuple(
        slice(side // 2, n - side // 2) for side, n in zip(sides, a.shape[1:], strict=True)
    )
    number = sides[0] * sides[1]
    norm = number / (number - 1) if how.sample and number > 1 else 1.0
    c1, c2 = (0.01 * how.data_range) ** 2, (0.03 * how.data_range) ** 2

    def average(band: F64) -> F64:
        rowwise = correlate1d(band, rows, axis=0)[inside[0]]
        out: F64 = correlate1d(rowwise, cols, axis=1)[:, inside[1]]
        return out

    out = np.empty(len(a))
    for i, (p, q, good) in enumerate(zip(a, b, ok, strict=True)):
        if valid is not None:
            p, q = np.where(good, p, 0.0), np.where(good, q, 0.0)
        if clip:
            q = np.clip(q, 0.0, 1.0)
        mean_p, mean_q = average(p), average(q)
        var_p = norm * (average(p * p) - mean_p**2)
        var_q = norm * (average(q * q) - mean_q**2)
        cov = norm * (average(p * q) - mean_p * mean_q)
        similar = ((2 * mean_p * mean_q + c1) * (2 * cov + c2)) / (
            (mean_p**2 + mean_q**2 + c1) * (var_p + var_q + c2)
        )
        if valid is not None:
            whole = minimum_filter(good, size=sides)[inside]
            out[i] = similar[whole].mean() if whole.any() else np.nan
        else:
            out[i] = similar.mean()
    return out
