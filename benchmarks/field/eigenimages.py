"""Mild noise: local Wiener shrinkage of noise-whitened eigenimages.

The bands, each divided by its noise level, are rotated to their principal components z = V'(y / s). The
noise stays white over components, with the variance  sum_b V_bk^2 v_b(p) / s_b^2  at pixel p, where v is the
law of the noise. Every eigenimage is shrunk in a tight frame by what its neighbourhood shows above that
variance; no component is thrown away unless it is pure noise, so nothing is lost when the noise is small.

Images on disk: the Gram matrix is a sum over strips; the frame reaches 64 rows.
"""

from __future__ import annotations

import math

import torch
from noise_level import NoiseLaw
from torch import Tensor

from hyperdlw.models.denoisers import framelet

CAUTION = 2.0
"""Factor on the noise variance in the shrinkage (1.5 for FastHyMix in the package)."""


def denoise_eigenimages(y: Tensor, law: NoiseLaw) -> Tensor:
    """Remove noise of a known law from an image (band, row, col) without gaps, on the unit scale."""
    # Bands without noise must not get an endless weight: a ten-thousandth of the loudest is nothing.
    level = law.level.clamp_min(max(1e-4 * float(law.level.max()), 1e-7))[:, None, None]
    z = y / level
    flat = z.flatten(1).double()
    n, bands = flat.shape[1], len(y)
    values, vectors = torch.linalg.eigh(flat @ flat.T / n)
    # Largest eigenvalue of pure noise (Marchenko and Pastur): below it nothing can be told from noise.
    edge = (1 + math.sqrt(bands / n)) ** 2
    count = max(1, int((values > edge).sum()))
    strong = max(1, int((values > 2 * edge).sum()))
    basis = vectors.flip(1)[:, :count].to(y)
    images = torch.tensordot(basis.T, z, 1)
    # The law is read where the strong components, which carry little noise, put the signal.
    signal = torch.tensordot(basis[:, :strong], images[:strong], 1) * level
    noise = law.variance(signal) / level.square()
    spread = torch.tensordot(basis.T.square(), noise, 1).sqrt()
    return torch.tensordot(basis, _shrink(images, spread), 1) * level


def _shrink(images: Tensor, spread: Tensor) -> Tensor:
    """The frame of the package with our caution: its constant becomes an argument there."""
    return framelet.denoise(images, spread * math.sqrt(CAUTION / framelet.CAUTION))
