"""Mild noise: noise-whitened eigenimages, each without its noise.

The bands, each divided by its noise level s, are rotated to their principal components z = V'(y / s). The
noise stays white over components, with the variance  sum_b V_bk^2 v_b(p) / s_b^2  at pixel p, where v is the
law of the noise. Every eigenimage is shrunk in a tight frame by what its neighbourhood shows above that
variance, or goes through a network that sees the strongest ones beside it, or the result is between the two,
which err differently. No component is thrown away unless it is pure noise, so nothing is lost when the noise
is small.

A narrow line of a gas in a small plume is spread over many components, none of which shows it. So what was
taken away is looked at once more, band by band (:func:`look_again`): what stands above the noise of its
neighbourhood there comes back.

The second moments of the bands are sums over pixels, frame and network reach :data:`REACH` rows, and the
network looks at squares of :data:`hyperdlw.networks.FOLD` pixels. So an image on disk is restored strip by
strip with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...networks import MapNet, files, find_details, place_network
from . import framelet

CAUTION = 2.0
"""Factor on the noise variance in the shrinkage, unless told."""
REACH = max(framelet.REACH, MapNet.reach)
"""Rows around a strip that its result depends on; the first of them must be a multiple of FOLD."""


@dataclass(frozen=True, eq=False)
class Sensor:
    """What ``hyperdlw adapt`` has learned of the noise of a sensor, which need not be white."""

    net: MapNet
    excess: float = 1.0
    """Variance of the noise over that which differences of neighbours show."""
    coarse: float = 1.0
    """Variance of means over 4x4 pixels over that of white noise."""


@dataclass(frozen=True, eq=False)
class Eigenimages:
    """The rotation of an image whose noise is known.

    Attributes:
        level: (band,) noise level that the bands are divided by.
        basis: (band, component) V; the first ``strong`` components carry more signal than noise.
    """

    level: Tensor
    basis: Tensor
    strong: int

    def denoise(
        self,
        y: Tensor,
        variance: Callable[[Tensor], Tensor],
        caution: float = CAUTION,
        learned: float = 0.0,
        doubt: float = 1.0,
        net: MapNet | None = None,
    ) -> Tensor:
        """Remove the noise from an image (band, row, col) without gaps.

        Args:
            variance: of the noise, (band, row, col), where the clean image is its argument.
            caution: factor on the noise variance in the shrinkage.
            learned: part of the network, 0 to 1; the rest is the shrinkage.
            doubt: factor on the noise level that the network is told.
            net: the network; None: the shipped one.
        """
        images, spread = self.rotate(y, variance)
        kept = shrink_images(images, spread, caution) if learned < 1 else images
        if learned > 0:
            kept = torch.lerp(kept, guess_images(images, doubt * spread, net), learned)
        found: Tensor = torch.tensordot(self.basis, kept, 1)
        return found * self.level[:, None, None]

    def rotate(self, y: Tensor, variance: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The eigenimages (image, row, col) of an image, and the noise level of every pixel of them."""
        level = self.level[:, None, None]
        images = torch.tensordot(self.basis.T, y / level, 1)
        # The law is read where the strong components, which carry little noise, put the signal.
        strong = slice(0, self.strong)
        signal = torch.tensordot(self.basis[:, strong], images[strong], 1) * level
        noise = variance(signal) / level.square()
        return images, torch.tensordot(self.basis.T.square(), noise, 1).sqrt()


def shrink_images(images: Tensor, spread: Tensor, caution: float) -> Tensor:
    """Eigenimages (image, row, col) without noise of a level that is known everywhere, by their frame."""
    shrunk: Tensor = framelet.denoise(images, spread, caution)
    return shrunk


@torch.no_grad()
def guess_images(images: Tensor, spread: Tensor, net: MapNet | None = None) -> Tensor:
    """The same by the network; the strongest come first."""
    spread = spread.clamp_min(1e-12)
    guessed: Tensor = place_network(net or load_maps(), images.device)(images / spread) * spread
    return guessed


def guess_refined(images: Tensor, known: Tensor, trust: Tensor) -> Tensor:
    """Eigenimages in units of their noise after a step that is learned.

    Args:
        images: of measured and restored values together (image, row, col).
        known: the same of the restored ones.
        trust: how much of an image was measured, 0 to 1.
    """
    net = place_network(load_maps("refine"), images.device)
    guessed: Tensor = net(images, make_hints(known, trust))
    return guessed


def make_hints(known: Tensor, trust: Tensor) -> Tensor:
    """What the network for a learned step sees beside the images (image, hint, row, col)."""
    return torch.cat([find_details(known[:, None]), 4 * trust[:, None] - 2], 1)


@cache
def load_maps(name: str = "maps") -> MapNet:
    """A shipped network for eigenimages."""
    net = files.load_denoiser(name).net
    assert isinstance(net, MapNet)
    return net


def look_again(
    y: Tensor, x: Tensor, variance: Callable[[Tensor], Tensor], caution: float
) -> Tensor:
    """An estimate x of an image y (band, row, col) with the structure of y - x put back, band by band."""
    left: Tensor = framelet.denoise(y - x, variance(x).sqrt(), caution)
    return left.add_(x)


def find_eigenimages(moments: Tensor, pixels: int, level: Tensor) -> Eigenimages:
    """The rotation from the second moments of the bands.

    Args:
        moments: (band, band) sum over the pixels of y y', float64.
        pixels: number of pixels in the sum.
        level: (band,) noise level of the bands.
    """
    # Bands without noise must not get an endless weight: a ten-thousandth of the loudest is nothing.
    level = level.clamp_min(max(1e-4 * float(level.max()), 1e-7))
    s = level.double()
    values, vectors = torch.linalg.eigh(moments / pixels / (s[:, None] * s))
    # Largest eigenvalue of pure noise (Marchenko and Pastur): below it nothing can be told from noise.
    edge = (1 + math.sqrt(len(level) / pixels)) ** 2
    count = max(1, int((values > edge).sum()))
    strong = max(1, int((values > 2 * edge).sum()))
    return Eigenimages(level, vectors.flip(1)[:, :count].to(level), strong)
