"""Proximal maps, prox_{t g}(v) = argmin_u  t g(u) + 1/2 ||u - v||^2, as plain functions of (v, t)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators import COL, ROW, gradient


def soft(v: Tensor, t: float) -> Tensor:
    """Soft threshold, the prox of the l1 norm: sign(v) max(|v| - t, 0).

    >>> soft(torch.tensor([-3.0, 0.5, 2.0]), 1.0)
    tensor([-2.,  0.,  1.])
    """
    return F.softshrink(v, t)


def group_soft(v: Tensor, t: float, dim: int | tuple[int, ...] = -4) -> Tensor:
    """Shrink the 2-norm of every group along ``dim``: the prox of sum ||v_group||_2.

    >>> group_soft(torch.tensor([[3.0], [4.0]]), 2.5, dim=0).flatten()
    tensor([1.5000, 2.0000])
    """
    square = (v * v).sum(dim, keepdim=True)
    # The factor is 0 inside the ball; keep the root's argument positive there so that its
    # derivative stays finite.
    inside = square <= t * t
    norm = torch.where(inside, torch.ones_like(square), square).sqrt()
    return v * torch.where(inside, torch.zeros_like(norm), 1.0 - t / norm)


def svt(v: Tensor, t: float, rank: int | None = None) -> Tensor:
    """Singular value soft threshold of (..., band, pixel) matrices: the prox of the nuclear norm.

    With the Gram matrix G = v v' = Q diag(l) Q' the result is Q diag(h(l)) Q' v,
    h(l) = max(1 - t / sqrt(l), 0): one eigenproblem of the size of the band count instead of a
    singular value decomposition of a tall matrix. ``rank`` keeps at most that many values.
    """
    if v.shape[-2] > v.shape[-1]:
        return svt(v.mT, t, rank).mT
    gram = gram_of(v)
    # A float32 Gram matrix resolves singular values down to about 3e-4 of the largest.
    # Thresholds well above that do not need more; smaller ones get a float64 product.
    # A rank limit cuts between two values, and their difference decides how much rounding counts.
    if v.dtype == torch.float32:
        largest = gram.detach().diagonal(dim1=-2, dim2=-1).sum(-1).max()
        if rank is not None or t * t < 1e-5 * float(largest):
            gram = v.double() @ v.double().mT
    shrink = shrink_gram(gram.double(), t, rank)
    return torch.matmul(shrink.to(v.dtype), v)


BLOCK = 4096
"""Pixels that a float32 Gram matrix adds up before the sum goes on in float64."""


def gram_of(v: Tensor) -> Tensor:
    """v v' of wide matrices. Blocks cost nothing and keep a long sum as exact as a short one."""
    n = v.shape[-1]
    if v.dtype != torch.float32 or n <= BLOCK:
        return torch.matmul(v, v.mT)
    whole = n - n % BLOCK
    blocks = v[..., :whole].reshape(*v.shape[:-1], -1, BLOCK).movedim(-2, 0)
    rest = v[..., whole:]
    return torch.matmul(blocks, blocks.mT).double().sum(0) + torch.matmul(rest, rest.mT)


class _Shrink(torch.autograd.Function):
    """G -> Q diag(h(l)) Q' for symmetric G = Q diag(l) Q', with the Daleckii-Krein derivative.

    The derivative is Q (D * (Q' dG Q)) Q' with the divided differences
    D_ij = (h(l_i) - h(l_j)) / (l_i - l_j). With r = sqrt(l) they have closed forms without
    cancellation: t / (r_i r_j (r_i + r_j)) if both values are kept, which is h'(l) on the
    diagonal; (1 - t / r_i) / (l_i - l_j) if only r_i > t >= r_j is; else 0. All are finite for
    repeated and for zero singular values.
    """

    @staticmethod
    def forward(ctx: Any, gram: Tensor, t: float, rank: int | None) -> Tensor:
        values, vectors = torch.linalg.eigh(gram)
        root = values.clamp_min(0).sqrt()
        kept = root > t
        if rank is not None and rank < root.shape[-1]:
            kept = kept.clone()
            kept[..., : root.shape[-1] - rank] = False
        safe = torch.where(kept, root, torch.ones_like(root))
        factor = torch.where(kept, 1.0 - t / safe, torch.zeros_like(root))
        if ctx is not None:
            ctx.save_for_backward(root, vectors, factor, kept)
            ctx.t = t
        return torch.matmul(vectors * factor.unsqueeze(-2), vectors.mT)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        root, vectors, factor, kept = ctx.saved_tensors
        (grad,) = grads
        a, b = root.unsqueeze(-1), root.unsqueeze(-2)
        both = kept.unsqueeze(-1) & kept.unsqueeze(-2)
        one = kept.unsqueeze(-1) ^ kept.unsqueeze(-2)
        # A rank limit may cut between equal values, where the map jumps: no gap, no derivative.
        gap = (a - b) * (a + b)
        one = one & (gap != 0)
        unit = torch.ones_like(gap)
        inside = ctx.t / torch.where(both, a * b * (a + b), unit)
        across = (factor.unsqueeze(-1) - factor.unsqueeze(-2)) / torch.where(one, gap, unit)
        divided = torch.where(both, inside, torch.where(one, across, torch.zeros_like(gap)))
        symmetric = 0.5 * (grad + grad.mT)
        inner = vectors.mT @ symmetric @ vectors
        return vectors @ (divided * inner) @ vectors.mT, None, None


shrink_gram: Callable[[Tensor, float, int | None], Tensor] = _Shrink.apply
"""(G, t, rank) -> Q diag(h(l)) Q', see :class:`_Shrink`."""


def unfold_bands(x: Tensor) -> Tensor:
    """(..., band, row, col) -> (..., band, pixel)."""
    return x.flatten(-2)


def svt_bands(v: Tensor, t: float, rank: int | None = None) -> Tensor:
    """Singular value threshold of the band-by-pixel unfolding of an image."""
    return svt(unfold_bands(v), t, rank).view_as(v)


GRADIENT = gradient(ROW, COL, wrap=False)
"""Spatial differences that end at the border."""


def tv_prox(v: Tensor, t: float, dual: Tensor, passes: int) -> tuple[Tensor, Tensor]:
    """Prox of the isotropic total variation of every band, and the dual it was found with.

    prox = v - t D'p, where p minimises ||v - t D'p|| over |p| <= 1 in every pixel: fast gradient
    projection (Beck and Teboulle 2009) from the given ``dual``, shape (..., 2, band, row, col), all
    bands at once. |p| <= 1 whatever t is, so the dual of an earlier call is a good start.
    """
    p = q = dual
    momentum = 1.0
    for _ in range(passes):
        q = torch.add(
            q, GRADIENT.apply(torch.sub(v, GRADIENT.adjoint(q), alpha=t)), alpha=0.125 / t
        )
        old, p = p, q * (q * q).sum(-4, keepdim=True).clamp_min(1.0).rsqrt()
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        q = torch.lerp(old, p, 1.0 + (momentum - 1.0) / following)
        momentum = following
    return torch.sub(v, GRADIENT.adjoint(p), alpha=t), p


def polar(m: Tensor) -> Tensor:
    """The matrix with orthonormal columns nearest to m: P R' of the decomposition m = P S R'."""
    left, _, right = torch.linalg.svd(m.double(), full_matrices=False)
    nearest: Tensor = (left @ right).to(m.dtype)
    return nearest


def basis_soft(v: Tensor, t: float, basis: Tensor, adapt: bool = True) -> tuple[Tensor, Tensor]:
    """One pass of  min over U, V:  t ||U||_1 + 1/2 ||v - V U||^2,  V'V = I, for (..., band, pixel).

    U = soft(V'v, t), then V = polar(v U'). A direction of V that U does not use is not determined; it
    stays as near as possible to its old value. ``basis`` is V, (..., band, rank); with a square V and
    without ``adapt`` this is the prox of ||V'v||_1.
    """
    scores = soft(basis.mT.to(v) @ v, t)
    if adapt and torch.is_grad_enabled() and v.requires_grad:
        # The derivative of a polar factor is NaN where singular values are exactly equal, as they are
        # in float64 when nothing pulls; the rounding of float32 keeps them apart.
        basis = adapt_basis(torch.matmul(v, scores.mT), basis.to(v))
    elif adapt:
        # The sums in float64: where a direction is hardly used, V makes much of their rounding.
        basis = adapt_basis(v.double() @ scores.double().mT, basis)
    return torch.matmul(basis.to(v), scores), basis


def adapt_basis(pull: Tensor, basis: Tensor) -> Tensor:
    """polar(pull), with the old basis where the pull is none."""
    size = torch.linalg.matrix_norm(pull)[..., None, None]
    return polar(pull + basis * (1e-7 * size + torch.finfo(torch.float32).tiny))


def leading(v: Tensor, rank: int) -> Tensor:
    """The first ``rank`` left singular vectors of (..., band, pixel) matrices, largest first."""
    return leading_of(v.double() @ v.double().mT, rank)


def leading_of(gram: Tensor, rank: int) -> Tensor:
    """The same from the Gram matrix v v'."""
    vectors: Tensor = torch.linalg.eigh(gram.double()).eigenvectors
    return vectors[..., -rank:].flip(-1)


class ProxMap(Protocol):
    """(v, t) -> prox_{t g}(v)."""

    def __call__(self, v: Tensor, t: float) -> Tensor: ...


Small = Any
"""Matrices that every part of an image shares, in a tuple, or None."""


@dataclass(frozen=True)
class StagedProx:
    """A prox in stages, for an image that is held in parts (strips of rows).

    Its pixels are mixed through sums over all of them, and through a few images that are small
    enough to be held whole. From v on a part, t, and what the step before left (``small`` matrices
    and a part of the few ``images``):

        total  = sum over the parts of sum_part(v, t, small, images)
        small  = update_small(total, t, small)
        images = update_images(project_part(v, small), t, small, images)    of the whole image
        prox   = prox_part(v, t, small, images)

    Attributes:
        project_part, update_images: None where there are no few images.
        start_sum_part: K y on a part -> its share in a sum, before the first step.
        start_small: (that sum, (band, row, col)) -> the first small matrices.
        start_images: (band, row, col) -> the first images; None: project_part(K y).
        values_per_pixel: numbers that ``update_images`` holds at once for every pixel.
    """

    sum_part: Callable[[Tensor, float, Small, Tensor | None], Tensor]
    update_small: Callable[[Tensor, float, Small], Small]
    prox_part: Callable[[Tensor, float, Small, Tensor | None], Tensor]
    project_part: Callable[[Tensor, Small], Tensor] | None = None
    update_images: Callable[[Tensor, float, Small, Tensor], Tensor] | None = None
    start_sum_part: Callable[[Tensor], Tensor] = lambda v: v.new_zeros(1)
    start_small: Callable[[Tensor, tuple[int, ...]], Small] = lambda total, shape: None
    start_images: Callable[[tuple[int, ...]], Tensor] | None = None
    values_per_pixel: int = 0


@dataclass(frozen=True)
class Penalty:
    """A function g with its proximal map; ``value`` is g, ``prox`` is (v, t) -> prox_{t g}(v).

    ``reach`` is the number of rows around a voxel that its prox depends on; where that is all of
    them (None), ``staged`` may say how to find the prox of an image held in parts.
    """

    name: str
    prox: ProxMap
    value: Callable[[Tensor], Tensor]
    convex: bool = True
    reach: int | None = None
    staged: StagedProx | None = None

    def scaled(self, strength: float) -> Penalty:
        """The penalty ``strength * g``."""
        staged = self.staged
        if staged is not None:
            update = staged.update_small
            staged = replace(
                staged, update_small=lambda g, t, small: update(g, t * strength, small)
            )
        return Penalty(
            self.name,
            lambda v, t: self.prox(v, t * strength),
            lambda u: strength * self.value(u),
            self.convex,
            self.reach,
            staged,
        )


L1 = Penalty("l1", soft, lambda u: u.abs().sum(), reach=0)
"""sum |u|, anisotropic total variation when applied to differences."""

GROUP = Penalty("group", group_soft, lambda u: u.norm(dim=-4).sum(), reach=0)
"""sum over voxels of the 2-norm over the stacked differences: isotropic total variation."""


def exact_gram(v: Tensor) -> Tensor:
    """v v' of the band-by-pixel unfolding, in float64."""
    wide = unfold_bands(v).double()
    return wide @ wide.mT


def staged_svt(rank: int | None = None) -> StagedProx:
    """Singular value threshold in stages: the sum is the Gram matrix, the rest a matrix product."""

    def update_small(gram: Tensor, t: float, small: Small) -> Small:
        return shrink_gram(gram, t, rank)

    def prox_part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
        return torch.matmul(small.to(v.dtype), unfold_bands(v)).view_as(v)

    return StagedProx(lambda v, t, small, images: exact_gram(v), update_small, prox_part)


NUCLEAR = Penalty(
    "nuclear",
    svt_bands,
    lambda u: torch.linalg.svdvals(unfold_bands(u)).sum(),
    staged=staged_svt(),
)
"""Sum of the singular values of the band-by-pixel unfolding."""


def nuclear_of_rank(rank: int) -> Penalty:
    """Nuclear norm plus the constraint rank(u) <= ``rank`` (not convex)."""
    return Penalty(
        f"nuclear, rank <= {rank}",
        lambda v, t: svt_bands(v, t, rank),
        NUCLEAR.value,
        convex=False,
        staged=staged_svt(rank),
    )


def saturation_value(value_weight: float) -> Penalty:
    """sum ||(p_1, p_2)||_2 + value_weight sum ||p_3||_2 over pixels, of stacked differences p of the
    opponent channels (..., 2, 3, row, col): saturation and value total variation."""

    def parts(u: Tensor) -> tuple[Tensor, Tensor]:
        return u[..., :2, :, :], u[..., 2:, :, :]

    def prox(v: Tensor, t: float) -> Tensor:
        saturation, value = parts(v)
        both = (-4, -3)
        return torch.cat(
            [group_soft(saturation, t, both), group_soft(value, t * value_weight, both)], -3
        )

    def total(u: Tensor) -> Tensor:
        saturation, value = (p.square().sum((-4, -3)).sqrt().sum() for p in parts(u))
        return saturation + value_weight * value

    return Penalty("saturation value", prox, total, reach=0)


SATURATION_VALUE = saturation_value(0.1)
"""With the weight of SV-TV."""

PENALTIES: tuple[Penalty, ...] = (L1, GROUP, NUCLEAR, SATURATION_VALUE)
"""Every convex penalty of the package: the laws are tested over this list."""
