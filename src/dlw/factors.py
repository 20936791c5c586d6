"""Images that are a product, x = A B: spectra A (band, rank) times maps B (rank, row, col).

The inner solver of LRTF-DFR (Zheng et al. 2020). Its penalty

    smooth ||D_band A||^2 + edges sum_k sum_pixels log ||(D_k B)_pixel||_2 ,   k = row, col,

has no closed prox, so one call improves the factors it is handed: a step for A, then a few ADMM
passes for B with the reweighted group threshold of the logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .errors import BadOption
from .operators import BAND, COL, ROW, gradient
from .prox import exact_gram, leading_of, unfold_bands


class Factors(NamedTuple):
    """Spectra (..., band, rank), in float64, and maps (..., rank, row, col)."""

    spectra: Tensor
    maps: Tensor

    @property
    def image(self) -> Tensor:
        """A B, (..., band, row, col)."""
        return times(self.spectra, self.maps)


def times(matrix: Tensor, images: Tensor) -> Tensor:
    """A matrix (..., m, n) times every pixel of images (..., n, row, col), rounded once.

    The penalty is not convex, and makes more of a rounding error than others do. A product in float32 is
    rounded in another way for another number of pixels; this one is not.
    """
    flat = matrix.double() @ unfold_bands(images).double()
    return flat.to(images.dtype).view(*flat.shape[:-1], *images.shape[-2:])


def factorise(y: Tensor, rank: int) -> Factors:
    """The best product of a given rank: A the leading spectral singular vectors, B = A'y."""
    spectra = leading_of(exact_gram(y), rank)
    return Factors(spectra, times(spectra.mT, y))


def scattered(y: Tensor, rank: int) -> Factors:
    """Factors that say nothing: the fractional parts of k^2 times the golden ratio, k = 1, 2, ...

    They are spread evenly over [0, 1) and take the place of the random start of the original program.
    """

    def spread(*shape: int) -> Tensor:
        return scattered_numbers(shape).to(y).expand(*y.shape[:-3], *shape)

    return Factors(spread(y.shape[-3], rank), spread(rank, *y.shape[-2:]))


def scattered_numbers(shape: Sequence[int]) -> Tensor:
    k = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)
    return (k * k * (0.5 * (1.0 + math.sqrt(5.0)))).frac().view(*shape)


@dataclass(frozen=True)
class FactorPenalty:
    """The penalty above and how its inner problem is solved.

    Attributes:
        edges: weight of the logarithm of the spatial differences of the maps.
        smooth: weight of the squared spectral differences of the spectra.
        coupling: penalty beta of the inner ADMM.
        inertia: weight rho of 1/2 ||A - old A||^2 and 1/2 ||B - old B||^2.
        passes: inner ADMM passes.
    """

    edges: float
    smooth: float
    coupling: float
    inertia: float = 0.1
    passes: int = 10

    def __call__(self, v: Tensor, t: float, old: Factors) -> tuple[Tensor, Factors]:
        """Lower  t penalty(A, B) + 1/2 ||v - A B||^2  from the old factors."""
        if torch.is_grad_enabled() and v.requires_grad:
            # Eigenvectors have no derivative where eigenvalues coincide; in A'A = I all do.
            raise BadOption("a product of factors (lrtfdfr) has no gradient; train through others")
        maps = unfold_bands(old.maps).double()
        pull = unfold_bands(v).to(maps) @ maps.mT
        spectra = self.spectra(pull, maps @ maps.mT, old.spectra.to(maps), t)
        low = times(spectra.mT, v)
        new = Factors(spectra, self.maps(low, Factors(spectra, old.maps), t))
        return new.image, new

    def spectra(self, pull: Tensor, gram: Tensor, old: Tensor, t: float) -> Tensor:
        """Solve  A B B' + (2 t smooth D'D + inertia) A = v B' + inertia old A  for A, in float64.

        B B' is diagonal in its eigenvectors, the periodic D'D along the bands in Fourier space.

        Args:
            pull, gram: v B', (..., band, rank), and B B'.
        """
        values, rotation = torch.linalg.eigh(gram)
        right = pull + self.inertia * old
        bands = right.shape[-2]
        symbol = gradient(BAND).symbol((bands, 1, 1)).to(right).view(bands, 1)
        divisor = values.unsqueeze(-2) + 2.0 * t * self.smooth * symbol + self.inertia
        turned = torch.fft.fft(right @ rotation, dim=-2) / divisor
        spectra: Tensor = torch.fft.ifft(turned, dim=-2).real @ rotation.mT
        return spectra

    def maps(self, low: Tensor, old: Factors, t: float) -> Tensor:
        """ADMM passes for  t edges sum log ||D_k B|| + 1/2 ||v - A B||^2 + inertia/2 ||B - old B||^2.

        In the eigenvectors of A'A the channels of B decouple, and the norms over channels in the
        penalty do not see the rotation: one turn before the passes and one after.

        Args:
            low: A'v, (..., rank, row, col).
        """
        values, rotation = torch.linalg.eigh(old.spectra.mT.double() @ old.spectra.double())
        turn = rotation.to(low.dtype)
        shape, coupling = low.shape, self.coupling
        right = torch.add(low, old.maps, alpha=self.inertia)
        right = torch.matmul(turn.mT, unfold_bands(right)).view(shape)
        d = gradient(ROW, COL)
        symbol = coupling * d.symbol(shape[-3:])[..., : shape[-1] // 2 + 1]
        inverse = (1.0 / (values[..., None, None] + self.inertia + symbol)).to(low.dtype)
        maps, dual = right, None
        for k in range(self.passes):
            maps = _filtered(maps, inverse)
            if k == self.passes - 1:
                break
            pull, dual = _threshold(d.apply(maps), dual, t * self.edges, coupling)
            maps = right + d.adjoint(pull)
        return torch.matmul(turn, unfold_bands(maps)).view(shape)


def _filtered(r: Tensor, inverse: Tensor) -> Tensor:
    """r times ``inverse`` in Fourier space, channel by channel: the spectra take much room."""
    out = torch.empty_like(r)
    for k in range(r.shape[-3]):
        spectrum = torch.fft.rfft2(r[..., k, :, :]).mul_(inverse[..., k, :, :])
        out[..., k, :, :] = torch.fft.irfft2(spectrum, s=r.shape[-2:])
    return out


ROWS = 64
"""Rows of the maps that are thresholded at a time, in place."""


def _threshold(
    edge: Tensor, dual: Tensor | None, edges: float, coupling: float
) -> tuple[Tensor, Tensor]:
    """Copy and dual of the differences; returns coupling copy - dual and the dual, in place of both."""
    dual = torch.zeros_like(edge) if dual is None else dual
    for top in range(0, edge.shape[-2], ROWS):
        rows = (..., slice(top, top + ROWS), slice(None))
        moved = torch.add(edge[rows], dual[rows], alpha=1.0 / coupling)
        kept = log_soft(moved, edges / coupling)
        dual[rows] = moved.sub_(kept).mul_(coupling)
        edge[rows] = kept.mul_(coupling).sub_(dual[rows])
    return edge, dual


def spectra_first(
    first: Literal["leading", "scattered"], gram: Tensor, shape: Sequence[int], rank: int
) -> Tensor:
    """The spectra to start with, from the Gram matrix of y and its shape."""
    return leading_of(gram, rank) if first == "leading" else scattered_numbers((shape[0], rank))


def log_soft(v: Tensor, t: float) -> Tensor:
    """Group threshold over channels with weight 1 / norm: v max(1 - t / ||v||^2, 0)."""
    square = (v * v).sum(-3, keepdim=True)
    kept = square > t
    return v * torch.where(kept, 1.0 - t / torch.where(kept, square, square + 1.0), 0.0)
