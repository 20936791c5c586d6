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

from ..errors import BadOption
from .operators import BAND, COL, ROW, gradient
from .penalties import StagedProx, leading_of, unfold_bands
from .terms import Carry, Term


class Factors(NamedTuple):
    """Spectra A (..., band, rank) and maps B (..., rank, row, col), which are ``maps + level``.

    Spectra and levels (..., rank) are in float64. A map that is smoothed flat keeps its few differences
    in ``maps``, where no large mean rounds them away; the next maps grow out of them.
    """

    spectra: Tensor
    maps: Tensor
    level: Tensor

    @property
    def image(self) -> Tensor:
        """A B, (..., band, row, col)."""
        return times(self.spectra, self.maps, matvec(self.spectra, self.level))


class NewSpectra(NamedTuple):
    """What a step finds out before its maps, in float64.

    Attributes:
        spectra: A, with A'A diagonal.
        level: means of the new maps.
        turn: the rotation (rank, rank) of the old spectra to which these belong; None at the start.
        centre: means of the bands of the image, (..., band).
    """

    spectra: Tensor
    level: Tensor
    turn: Tensor | None
    centre: Tensor

    def project(self, v: Tensor) -> Tensor:
        """A'(v - centre), the maps of an image."""
        return times(self.spectra.mT, v, -matvec(self.spectra.mT, self.centre))


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """A matrix (..., m, n) times a vector (..., n)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def times(matrix: Tensor, images: Tensor, add: Tensor | None = None) -> Tensor:
    """A matrix (..., m, n) times every pixel of images (..., n, row, col), plus (..., m), rounded once.

    The penalty is not convex, and makes more of a rounding error than others do. A product in float32 is
    rounded in another way for another number of pixels; this one is not.
    """
    flat = matrix.double() @ unfold_bands(images).double()
    if add is not None:
        flat += add.unsqueeze(-1)
    return flat.to(images.dtype).view(*flat.shape[:-1], *images.shape[-2:])


def with_ones(images: Tensor) -> Tensor:
    """The unfolding (..., band, pixel) with a row of ones below, in float64."""
    flat = unfold_bands(images)
    shape = (*flat.shape[:-2], flat.shape[-2] + 1, flat.shape[-1])
    wide = torch.ones(shape, dtype=torch.float64, device=flat.device)
    wide[..., :-1, :] = flat
    return wide


def pixel_moments(y: Tensor) -> Tensor:
    """``[y; 1] [y; 1]'``: Gram matrix, sums and number of the pixels of an image."""
    wide = with_ones(y)
    return wide @ wide.mT


def factor_sums(v: Tensor, maps: Tensor) -> Tensor:
    """``[v; maps; 1] [maps; 1]'``, what :meth:`FactorPenalty.update_spectra` must know of image and maps."""
    wide = with_ones(maps)
    return torch.cat([unfold_bands(v).to(wide) @ wide.mT, wide @ wide.mT], -2)


def leading_start(total: Tensor, rank: int) -> NewSpectra:
    """The best product of a given rank from ``pixel_moments(y)``: A the leading singular vectors, B = A'y."""
    spectra = leading_of(total[..., :-1, :-1], rank)
    centre = total[..., :-1, -1] / total[..., -1:, -1]
    return NewSpectra(spectra, matvec(spectra.mT, centre), None, centre)


def arbitrary_start(total: Tensor, rank: int) -> NewSpectra:
    """Arbitrary spectra (see :func:`arbitrary_values`); of ``total`` only the shape counts."""
    bands = total.shape[-1] - 1
    spectra = arbitrary_values((bands, rank)).to(total).expand(*total.shape[:-2], bands, rank)
    return NewSpectra(spectra, torch.zeros_like(spectra[..., 0, :]), None, total[..., :-1, -1])


def arbitrary_values(shape: Sequence[int]) -> Tensor:
    """The fractional parts of k^2 times the golden ratio, k = 1, 2, ..., spread evenly over [0, 1)."""
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
        now = self.update_spectra(factor_sums(v, old.maps), t, old.spectra.double(), old.level)
        new = Factors(now.spectra, self.update_maps(now.project(v), t, now, old.maps), now.level)
        return new.image, new

    def update_spectra(self, total: Tensor, t: float, old: Tensor, level: Tensor) -> NewSpectra:
        """The new spectra and the means of the new maps, from the :func:`factor_sums` and the old ones.

        The product (A R)(R'B) and the penalty are the same for every rotation R. It is chosen so that
        A'A is diagonal: the channels of B decouple, and a map that is smoothed to almost nothing and
        grows again has one of its own. Mixed with a map of a million times its size it would be left
        with the rounding errors of that one.
        """
        rank = level.shape[-1]
        eye = torch.eye(rank, dtype=level.dtype, device=level.device).expand(*level.shape, rank)
        lift = torch.cat([eye, level.unsqueeze(-1)], -1)  # B = lift [maps; 1]
        pull = total[..., : -rank - 1, :] @ lift.mT
        gram = lift @ total[..., -rank - 1 :, :] @ lift.mT
        centre = total[..., : -rank - 1, -1] / total[..., -1:, -1]
        # A B B' + (2 t smooth D'D + inertia) A = v B' + inertia old A. B B' is diagonal in its
        # eigenvectors, the periodic D'D along the bands in Fourier space.
        values, rotation = torch.linalg.eigh(gram)
        bands = pull.shape[-2]
        symbol = gradient(BAND).symbol((bands, 1, 1)).to(pull).view(bands, 1)
        divisor = values.unsqueeze(-2) + 2.0 * t * self.smooth * symbol + self.inertia
        turned = torch.fft.fft((pull + self.inertia * old) @ rotation, dim=-2) / divisor
        spectra = torch.fft.ifft(turned, dim=-2).real @ rotation.mT
        turn = torch.linalg.eigh(spectra.mT @ spectra).eigenvectors
        spectra = spectra @ turn
        # Differences do not see a mean: its problem is quadratic.
        right = matvec(spectra.mT, centre) + self.inertia * matvec(turn.mT, level)
        mean = right / (spectra.square().sum(-2) + self.inertia)
        return NewSpectra(spectra, mean, turn, centre)

    def update_maps(self, low: Tensor, t: float, now: NewSpectra, old: Tensor) -> Tensor:
        """ADMM passes for  t edges sum log ||D_k B|| + 1/2 ||v - A B||^2 + inertia/2 ||B - R'old B||^2.

        Args:
            low: A'(v - centre), (..., rank, row, col).
            old: the maps before, without their level and not yet turned.
        """
        assert now.turn is not None
        values = now.spectra.square().sum(-2)
        shape, coupling = low.shape, self.coupling
        right = torch.add(low, times(now.turn.mT, old), alpha=self.inertia)
        d = gradient(ROW, COL)
        symbol = coupling * d.symbol(shape[-3:])[..., : shape[-1] // 2 + 1].to(values)
        inverse = (1.0 / (values[..., None, None] + self.inertia + symbol)).to(low.dtype)
        maps, dual = right, None
        for k in range(self.passes):
            maps = _filtered(maps, inverse)
            if k == self.passes - 1:
                break
            pull, dual = _threshold(d.apply(maps), dual, t * self.edges, coupling)
            maps = right + d.adjoint(pull)
        return maps


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
        # copy = moved - dual / coupling
        torch.mul(moved, log_part(moved, edges / coupling).mul_(coupling), out=dual[rows])
        torch.sub(moved.mul_(coupling), dual[rows], alpha=2.0, out=edge[rows])
    return edge, dual


def log_part(v: Tensor, t: float) -> Tensor:
    """The part min(t / ||v||^2, 1) of v that the group threshold with weight 1 / norm takes."""
    square = v.square().sum(-3, keepdim=True)
    return torch.div(t, square.clamp_min_(1e-30)).clamp_max_(1.0)


def product(
    rank: int, penalty: FactorPenalty, first: Literal["leading", "arbitrary"] = "leading"
) -> Term:
    """x = A B with a penalty on both factors; the carry is :class:`Factors`.

    Args:
        first: the factors start from the leading singular vectors of y, or from arbitrary values,
            which take the place of the random start of the original program.
    """
    begin = leading_start if first == "leading" else arbitrary_start

    def start(y: Tensor) -> Factors:
        small = begin(pixel_moments(y), rank)
        if first == "leading":
            return Factors(small.spectra, small.project(y), small.level)
        maps = start_images(y.shape[-3:]).to(y)
        return Factors(small.spectra, maps.expand(*y.shape[:-3], *maps.shape), small.level)

    def start_images(shape: Sequence[int]) -> Tensor:
        return arbitrary_values((rank, *shape[1:]))

    def prox(v: Tensor, t: float, old: Carry) -> tuple[Tensor, Carry]:
        return penalty(v, t, Factors(*old))

    # In stages: the sums are v B' and B B', which give A; the few images are A'v and the maps B.

    def sum_part(v: Tensor, t: float, small: NewSpectra, images: Tensor | None) -> Tensor:
        assert images is not None
        return factor_sums(v, images)

    def update_small(total: Tensor, t: float, small: NewSpectra) -> NewSpectra:
        return penalty.update_spectra(total, t, small.spectra, small.level)

    def prox_part(v: Tensor, t: float, small: NewSpectra, images: Tensor | None) -> Tensor:
        assert images is not None
        return Factors(small.spectra, images, small.level).image

    staged = StagedProx(
        sum_part,
        update_small,
        prox_part,
        project_part=lambda v, small: small.project(v),
        update_images=penalty.update_maps,
        start_sum_part=pixel_moments,
        start_small=lambda total, shape: begin(total, rank),
        start_images=None if first == "leading" else start_images,
        values_per_pixel=11 * rank,
    )
    return Term(prox, start=start, staged=staged)
