"""HyRes (Rasti, Ulfarsson, Ghamisi, GRSL 2017): sparse eigenimages, no parameter to choose."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import BadInput, MissingDependency

WAVELET, LEVELS, THRESHOLDS = "db5", 5, 15
RIDGE = 1e-6
"""Added to the Gram matrix of the bands, which is singular for a clean image of low rank."""


def run(y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor:
    """HyRes: wavelet shrinkage of the eigenimages, thresholds and rank by Stein's unbiased risk.

    The cube, whitened by the noise level of every band, is W C V' plus white noise, with an orthogonal
    wavelet basis W and the spectral singular vectors V; the columns of C are soft-thresholded.

    Args:
        rank: number of eigenimages kept; None: the one of least estimated risk.
    """
    bands, rows, cols = y.shape
    data = y.reshape(bands, -1).double()
    std = clamp_deviation(regression_residual(data, "hyres").std(1, keepdim=True))
    white = data / std
    basis: Tensor = torch.linalg.eigh(white @ white.T).eigenvectors.flip(1)
    images = (basis.T @ white).view(bands, rows, cols)
    coefficients, slices = _analyse(images)
    threshold, risk = best_thresholds(coefficients.flatten(1))
    r = int(risk.cumsum(0).argmin()) + 1 if rank is None else min(rank, bands)
    kept = coefficients[:r]
    shrunk = kept.sign() * (kept.abs() - threshold[:r, None, None]).clamp_min(0)
    smooth = _synthesise(shrunk, slices)[:, :rows, :cols]
    x = std * (basis[:, :r] @ smooth.reshape(r, -1))
    return x.view(bands, rows, cols).to(y.dtype)


def regression_residual(y: Tensor, who: str) -> Tensor:
    """Residual of the regression of every band on all the others, for (band, pixel) data.

    With the inverse P of the Gram matrix of the bands the residual of band i is (P y)_i / P_ii: one
    inverse serves all bands. ``who`` is named when there is no other band to regress on.
    """
    if len(y) < 2:
        raise BadInput(
            f"{who} estimates the noise of a band from the other bands, so it needs at least two "
            "bands and this image has one"
        )
    gram = y @ y.T
    gram.diagonal().add_(RIDGE + 1e-12 * float(gram.diagonal().mean()))
    inverse: Tensor = torch.linalg.inv(gram)
    return (inverse @ y) / inverse.diagonal().unsqueeze(1)


def clamp_deviation(std: Tensor) -> Tensor:
    """Standard deviations that can be divided by: bands without noise get a very small one."""
    return std.clamp_min(1e-6)


def best_thresholds(c: Tensor) -> tuple[Tensor, Tensor]:
    """For every row of coefficients with unit noise, the soft threshold of least risk and that risk.

    The risk is Stein's estimate of the squared error, less the part that no threshold changes:
    sum over coefficients of 2 [|c| > t] - max(c^2 - t^2, 0). A component that is left out has 0.
    """
    top = math.sqrt(2 * math.log(max(2, c.shape[1])))
    size = c.abs()
    # Too many thresholds at once would copy the coefficients as often.
    grid = torch.linspace(0.0, top, THRESHOLDS, dtype=c.dtype, device=c.device)
    risks = torch.stack(
        [2.0 * (size > t).sum(1) - (size.square() - t * t).clamp_min(0).sum(1) for t in grid]
    )
    least = risks.min(0)
    return grid[least.indices], least.values


def _pywt() -> Any:
    try:
        import pywt
    except ImportError as error:
        raise MissingDependency(
            "hyres needs PyWavelets; install it with: pip install 'hyperdlw[bench]'"
        ) from error
    return pywt


def _analyse(images: Tensor) -> tuple[Tensor, Any]:
    """Orthogonal wavelet coefficients of images (n, row, col), as one array of the padded size."""
    pywt = _pywt()
    multiple = 2**LEVELS
    extra = [(0, -n % multiple) for n in images.shape[1:]]
    padded = np.pad(images.numpy(force=True), [(0, 0), *extra], mode="symmetric")
    with warnings.catch_warnings():
        # A small image has fewer levels than the filter is long; the transform stays orthogonal.
        warnings.simplefilter("ignore", UserWarning)
        parts = pywt.wavedec2(padded, WAVELET, "periodization", LEVELS, axes=(1, 2))
    array, slices = pywt.coeffs_to_array(parts, axes=(1, 2))
    return torch.from_numpy(array), slices


def _synthesise(coefficients: Tensor, slices: Any) -> Tensor:
    pywt = _pywt()
    parts = pywt.array_to_coeffs(coefficients.numpy(force=True), slices, output_format="wavedec2")
    return torch.from_numpy(pywt.waverec2(parts, WAVELET, "periodization", axes=(1, 2)))
