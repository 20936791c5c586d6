"""Images that are a product, x = A B: spectra A (band, rank) times maps B (rank, row, col).

The inner solver of LRTF-DFR (Zheng et al. 2020). Its penalty

    smooth ||D_band A||^2 + edges sum_k sum_pixels log ||(D_k B)_pixel||_2 ,   k = row, col,

has no closed prox, so one call improves the factors it is handed: a step for A, then a few ADMM
passes for B with the reweighted group threshold of the logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .errors import BadOption
from .operators import BAND, COL, ROW, gradient
from .prox import leading, unfold_bands


class Factors(NamedTuple):
    """Spectra (..., band, rank) and maps (..., rank, row, col)."""

    spectra: Tensor
    maps: Tensor

    @property
    def image(self) -> Tensor:
        """A B, (..., band, row, col)."""
        flat = torch.matmul(self.spectra, unfold_bands(self.maps))
        return flat.view(*flat.shape[:-1], *self.maps.shape[-2:])


def factorise(y: Tensor, rank: int) -> Factors:
    """The best product of a given rank: A the leading spectral singular vectors, B = A'y."""
    spectra = leading(unfold_bands(y), rank)
    maps = torch.matmul(spectra.mT, unfold_bands(y))
    return Factors(spectra, maps.view(*maps.shape[:-1], *y.shape[-2:]))


def scattered(y: Tensor, rank: int) -> Factors:
    """Factors that say nothing: the fractional parts of k^2 times the golden ratio, k = 1, 2, ...

    They are spread evenly over [0, 1) and take the place of the random start of the original program.
    """

    def spread(*shape: int) -> Tensor:
        k = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64, device=y.device)
        values = (k * k * (0.5 * (1.0 + math.sqrt(5.0)))).frac().view(shape)
        return values.to(y.dtype).expand(*y.shape[:-3], *shape)

    return Factors(spread(y.shape[-3], rank), spread(rank, *y.shape[-2:]))


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
        spectra = update_spectra(v, old, t * self.smooth, self.inertia)
        maps = update_maps(
            v, Factors(spectra, old.maps), t * self.edges, self.coupling, self.inertia, self.passes
        )
        new = Factors(spectra, maps)
        return new.image, new


def update_spectra(v: Tensor, old: Factors, smooth: float, inertia: float) -> Tensor:
    """Solve  A B B' + (2 smooth D'D + inertia) A = v B' + inertia old A  for A.

    B B' is diagonal in its eigenvectors, the periodic D'D along the bands in Fourier space.
    """
    maps = unfold_bands(old.maps).double()
    values, rotation = torch.linalg.eigh(maps @ maps.mT)
    right = unfold_bands(v).to(maps) @ maps.mT + inertia * old.spectra.to(maps)
    bands = right.shape[-2]
    symbol = gradient(BAND).symbol((bands, 1, 1)).to(right).view(bands, 1)
    divisor = values.unsqueeze(-2) + 2.0 * smooth * symbol + inertia
    turned = torch.fft.fft(right @ rotation, dim=-2) / divisor
    spectra: Tensor = (torch.fft.ifft(turned, dim=-2).real @ rotation.mT).to(v.dtype)
    return spectra


def update_maps(
    v: Tensor, old: Factors, edges: float, coupling: float, inertia: float, passes: int
) -> Tensor:
    """ADMM passes for  edges sum log ||D_k B|| + 1/2 ||v - A B||^2 + inertia/2 ||B - old B||^2.

    In the eigenvectors of A'A the channels of B decouple, and the norms over channels in the
    penalty do not see the rotation: one turn before the passes and one after.
    """
    values, rotation = torch.linalg.eigh((old.spectra.mT @ old.spectra).double())
    turn = rotation.to(v.dtype)
    shape = old.maps.shape
    right = torch.matmul(turn.mT, torch.matmul(old.spectra.mT, unfold_bands(v)))
    right = torch.add(right, torch.matmul(turn.mT, unfold_bands(old.maps)), alpha=inertia).view(
        shape
    )
    d = gradient(ROW, COL)
    symbol = coupling * d.symbol(shape[-3:])[..., : shape[-1] // 2 + 1]
    reciprocal = (1.0 / (values[..., None, None] + inertia + symbol)).to(v.dtype)
    pull: Tensor | None = None
    dual: Tensor | None = None
    maps = old.maps
    for k in range(passes):
        r = right if pull is None else right + d.adjoint(pull)
        spectrum = torch.fft.rfft2(r) * reciprocal
        maps = torch.fft.irfft2(spectrum, s=shape[-2:])
        if k == passes - 1:
            break
        edge = d.apply(maps)
        moved = edge if dual is None else torch.add(edge, dual, alpha=1.0 / coupling)
        kept = log_soft(moved, edges / coupling)
        dual = (moved - kept) * coupling
        pull = torch.sub(coupling * kept, dual)
    return torch.matmul(turn, unfold_bands(maps)).view(shape)


def log_soft(v: Tensor, t: float) -> Tensor:
    """Group threshold over channels with weight 1 / norm: v max(1 - t / ||v||^2, 0)."""
    square = (v * v).sum(-3, keepdim=True)
    kept = square > t
    return v * torch.where(kept, 1.0 - t / torch.where(kept, square, square + 1.0), 0.0)
