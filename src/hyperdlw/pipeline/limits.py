"""Limits of bands, fitted jointly: what maps a noisy cube to the unit interval.

The extremes of a noisy band measure its noise, and limits that differ from band to band by what the
noise happened to be mislead the networks. The bands of a scene are mixtures of a few images, so the
limits are read from a robust low-rank fit of the pixels,

    y_bj / s_b  =  m_b + sum_k L_bk f_kj + noise,      s_b the noise level of band b,   j a cell of pixels,

as extremes of the fitted values over j. A wild voxel, an impulse or a dead column has no influence: the
fit is found by reweighting, started from medians of blocks.

Exact for images on disk: only the sample of :mod:`hyperdlw.weights.block_sample` is used (all blocks of an
image up to about 180x180); gather it strip by strip and call :func:`limits_of_sample`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..weights import SIDE, find_block_noise, find_medians, find_stuck

LARGEST_RANK = 6
ROUNDS = 6
"""Rounds of reweighting."""
TAIL = 2.0
"""Residuals above this many standard deviations lose influence."""
QUIET = 0.05
"""Noise of the fitted values that is accepted, in ranges; cells grow until it is reached."""
SHARE = 1e-3
"""Share of the cells beyond each limit."""
TARGETS = 0.005
"""Share of the cells at each end that may be bright targets: the limits go beyond the others by at most one
range of those, so that a few pixels, however bright, cannot press all others into a corner."""
LEAST_RANGE = 2.5
"""Smallest range of a band, in noise levels."""
REACHED = 1.5
"""Ranges beyond the limits that all values but 0.5 % at each end lie in."""
NEIGHBOURS = 3
"""Bands to each side that share the form of their limits."""
WIDER = 0.03
"""What the limits are widened by on each side, in ranges."""
LOUDEST = 0.22
"""Largest noise level of the middle band, in ranges, that suits the networks (the best of five that were
tried). Where the noise is louder, the limits of all bands are widened by one factor."""


def limits_of_sample(blocks: Tensor, ok: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper limits (band,) from a sample of blocks (band, block, 8, 8) and its mask."""
    blocks, ok = blocks.double(), ok & (blocks.abs() < 1e30)
    ok = ok & ~find_stuck(blocks, ok)
    level = find_block_noise(blocks, ok)
    centre, spread = _location(blocks.flatten(1), ok.flatten(1))
    # Bands without noise, or constant ones, must not get an endless weight.
    level = torch.maximum(level, 2e-3 * spread)
    level = torch.where(level > 0, level, 1.0)
    z = (blocks - centre[:, None, None, None]) / level[:, None, None, None]
    weight = ok.double()
    spectra, shift, bound = _start(z, ok)
    # A wild voxel must not spoil the first least squares of its cell.
    z = z.clamp(-bound[:, None, None, None], bound[:, None, None, None])
    rank = spectra.shape[1]
    side = 1
    if rank:
        fit, seen = _cell_fit(z, weight, spectra, shift, 8)
        range_ = _extent(fit, seen, 0.0)
        noise = math.sqrt(rank / len(z)) / float((range_[1] - range_[0]).median().clamp_min(1e-9))
        while side < 4 and noise / side > QUIET:
            side *= 2
    else:
        side = 4
    fit, seen = _cell_fit(z, weight, spectra, shift, side)
    lo, hi = _extent(fit, seen, SHARE)
    low, high = _extent(fit, seen, TARGETS)
    lo, hi = torch.maximum(lo, 2 * low - high), torch.minimum(hi, 2 * high - low)
    lo, hi = _alike(fit, seen, lo, hi)
    gap = WIDER * (hi - lo)
    lo, hi = lo - gap, hi + gap
    # In units of the noise a range is 1 / level. Extremes of bright targets that the cells have
    # averaged away lie on the longer side of the median, so that side grows more.
    ranges = (hi - lo)[hi > lo]
    if len(ranges):
        more = max(1.0, 1.0 / (LOUDEST * float(ranges.median())))
        lo, hi = lo * more, hi * more
        # A band without any signal that others share would get no range at all, and one with much of its
        # own too little: what is far beyond the range would be taken for wild.
        low, high = _extent(z.flatten(1), ok.flatten(1), TARGETS)
        least = (torch.maximum(lo - low, high - hi) / REACHED).clamp_min(LEAST_RANGE)
        lack = (least - (hi - lo)).clamp_min(0) / 2
        lo, hi = lo - lack, hi + lack
    lo, hi = (lo * level + centre).float(), (hi * level + centre).float()
    # A constant band gets some range; it must only stay finite.
    flat = ~(hi - lo > 1e-6 * torch.maximum(lo.abs(), hi.abs()))
    size = torch.maximum(lo.abs(), torch.ones_like(lo))
    return torch.where(flat, lo - 0.5 * size, lo), torch.where(flat, hi + 0.5 * size, hi)


def _location(v: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Median, and mean distance from it of the nearer 90 %, of every row."""
    centre = find_medians(v, seen)
    away = torch.where(seen, (v - centre[:, None]).abs(), torch.inf).sort(1).values
    kept = torch.arange(v.shape[1]) < (0.9 * seen.sum(1, keepdim=True)).ceil()
    spread = torch.where(kept & away.isfinite(), away, 0.0).sum(1) / kept.sum(1).clamp_min(1)
    return centre, spread


def _start(z: Tensor, ok: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Spectra (band, rank) and offsets (band,) of the medians of blocks, by reweighted least squares.

    The third is the largest value (band,) that is believed: four times what any block has, and noise.

    The noise of a median of n values is 1.25 / sqrt(n). A component counts if its variance is above what
    that noise can make (the edge of Marchenko and Pastur, and a factor of two for its tails).
    """
    bands, n = z.shape[:2]
    count = ok.flatten(2).sum(2)
    middle = find_medians(z.flatten(2), ok.flatten(2))
    seen = count >= min(4, int(count.max())) if bool((count > 0).any()) else count > 0
    use = seen.double().mean(0) >= 0.5
    if not bool(use.any()):
        use = seen.any(0)
    middle, seen = middle[:, use], seen[:, use]
    n = middle.shape[1]
    most = min(LARGEST_RANK, bands - 1, n - 1)
    shift = find_medians(middle, seen)
    bound = 4 * torch.where(seen, middle.abs(), 0.0).amax(1) + 10
    if most < 1:
        return z.new_zeros(bands, 0), shift, bound
    # Cut at ten spreads, so that no block of wild values takes the first component.
    _, spread = _location(middle, seen)
    cut = 10 * spread[:, None]
    x = torch.where(seen, (middle - shift[:, None]).clamp(-cut, cut), 0.0)
    values, vectors = torch.linalg.eigh(x @ x.T / n)
    edge = 2 * 1.57 / 64 * (1 + math.sqrt(bands / n)) ** 2
    rank = max(1, min(most, int((values > edge).sum())))
    spectra = vectors[:, -rank:]
    data = torch.where(seen, middle, 0.0)
    return *_refine(data, seen.double(), spectra, shift, 1.25 / 8), bound


def _refine(
    z: Tensor, weight: Tensor, spectra: Tensor, shift: Tensor, least: float
) -> tuple[Tensor, Tensor]:
    """Alternate spectra and scores of  z = shift + spectra scores  with weights that forgive outliers.

    Args:
        least: smallest standard deviation of a residual that is believed.

    Returns:
        Spectra (band, rank) and offsets (band,).
    """
    now = weight
    for _ in range(ROUNDS):
        scores = _solve(spectra, z - shift[:, None], now, 1e-4)
        high = torch.cat([scores, torch.ones_like(scores[:1])])
        both = _solve(high.T, z.T, now.T, 1e-9).T
        spectra, shift = both[:, :-1], both[:, -1]
        rest = (z - spectra @ scores - shift[:, None]).abs()
        level = (find_medians(rest, weight > 0) / 0.6745).clamp_min(least)[:, None]
        now = weight / level.square() / (rest / (TAIL * level)).clamp_min(1.0).square()
    return spectra, shift


def _cell_fit(
    z: Tensor, weight: Tensor, spectra: Tensor, shift: Tensor, side: int
) -> tuple[Tensor, Tensor]:
    """Fitted values (band, cell) of cells of side x side pixels, and whether each was seen in the band.

    The voxels of a cell share their scores; each has its own weight.
    """
    bands, n = z.shape[:2]
    parts = SIDE // side

    def cells(v: Tensor) -> Tensor:
        v = v.view(bands, n, parts, side, parts, side).transpose(3, 4)
        return v.reshape(bands, n * parts * parts, side * side)

    z, weight = cells(z), cells(weight)
    if not spectra.shape[1]:
        return find_medians(z, weight > 0), (weight > 0).any(-1)
    fit = shift[:, None, None].expand_as(z)
    now = weight
    for k in range(4):
        mass = now.sum(-1)
        mean = (now * (z - shift[:, None, None])).sum(-1) / mass.clamp_min(1e-30)
        scores = _solve(spectra, mean, mass, 1e-4)
        fit = (spectra @ scores + shift[:, None]).unsqueeze(-1)
        rest = (z - fit).abs()
        level = (
            torch.ones_like(shift)
            if k < 1
            else find_medians(rest.flatten(1), weight.flatten(1) > 0) / 0.6745
        )
        level = level.clamp_min(1.0)[:, None, None]
        now = weight / level.square() / (rest / (TAIL * level)).clamp_min(1.0).square()
    # A cell that fewer bands than components have seen has no scores.
    placed = (weight.sum(-1) > 0).sum(0) >= min(bands, spectra.shape[1] + 2)
    return fit.squeeze(-1), placed.expand(bands, -1)


def _alike(fit: Tensor, seen: Tensor, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """Limits that neighbouring bands share, in units of the mean m_b and spread d_b of the fit.

    (m - lo) / d and (hi - m) / d are replaced by their medians over seven bands: means and spreads are
    far better known than extremes, and networks compare a band with its neighbours.
    """
    count = seen.sum(1).clamp_min(1)
    mean = torch.where(seen, fit, 0.0).sum(1) / count
    away = torch.where(seen, fit - mean[:, None], 0.0)
    spread = (away.square().sum(1) / count).sqrt()
    # A constant band has no form to share.
    safe = torch.where(spread > 1e-9 * spread.amax(), spread, torch.nan)
    half = min(NEIGHBOURS, len(fit) - 1)

    def shared(v: Tensor) -> Tensor:
        wide = torch.nn.functional.pad(v[None, None], (half, half), mode="reflect")[0, 0]
        return wide.unfold(0, 2 * half + 1, 1).nanmedian(1).values.nan_to_num()

    return mean - shared((mean - lo) / safe) * spread, mean + shared((hi - mean) / safe) * spread


def _extent(fit: Tensor, seen: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The values of every band with ``share`` of what was seen below and above."""
    order = torch.where(seen, fit, torch.inf).sort(1).values
    count = seen.sum(1, keepdim=True)
    skip = (share * count).long()
    last = (count - 1 - skip).clamp_min(0)
    empty = count.squeeze(1) == 0
    lo = order.gather(1, skip.clamp_max(fit.shape[1] - 1)).squeeze(1)
    hi = order.gather(1, last).squeeze(1)
    return torch.where(empty, 0.0, lo), torch.where(empty, 0.0, hi)


def _solve(a: Tensor, z: Tensor, weight: Tensor, ridge: float) -> Tensor:
    """Weighted least squares  min_s sum_b w_bj (z_bj - sum_k a_bk s_kj)^2  for every j: (k, j)."""
    k = a.shape[1]
    outer = (a.unsqueeze(2) * a.unsqueeze(1)).flatten(1)
    gram = (weight.T @ outer).view(-1, k, k)
    size = gram.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-12)[:, None, None]
    right = (weight * z).T @ a
    eye = torch.eye(k, dtype=z.dtype)
    scores: Tensor = torch.linalg.solve(gram + ridge * size * eye, right)
    return scores.T
