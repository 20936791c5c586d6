"""Noise of every band, and how it grows with the signal, from the noisy cube alone.

Texture is not noise: it is shared by the bands and by neighbouring pixels. So every band is regressed on the
others (spectral decorrelation), mixed differences of the residual are taken (spatial decorrelation; they
cancel offsets of columns and rows too), and of the blocks with a similar signal the calmest say what the
noise is, less what does not fall off as white noise does when pixels are averaged. The regressors bring
noise of their own. With coefficients beta it is known exactly,

    variance of residual b  =  s_b^2 + sum_c beta_bc^2 s_c^2 ,

and solved for s^2. The law of a band is  variance = a + b signal + c signal^2,  a, b, c >= 0 (electronics,
photons, gain), fitted to the calm blocks of bins of equal signal.

Exact for images on disk: everything is computed from the sample of blocks of
:mod:`hyperdlw.weights.block_sample`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .block_sample import SIDE, find_medians, find_stuck, sort_values

CALM = 0.2
"""The quantile over blocks of equal signal that is taken for their noise."""
BELOW, ABOVE = 0.75, 1.6
"""That quantile, and the largest value that is accepted, for blocks of pure noise, over their mean."""
BIN = 16
"""Blocks in a bin of equal signal at least; at most :data:`BINS` bins."""
BINS = 8
ROUNDS = 8
KEPT = 0.90
"""Share of the variance of Gaussian noise that the cuts leave (found with white noise)."""
UNMIX = 10
UNSURE, SURE = 0.25, 0.5
"""Share of white noise, in the median over bands, below which it is not believed, and above which it is."""
REGRESSIONS = 4
"""Rounds of the regression on other bands."""
WAVES = 3.0
"""Variance of texture in means of 2x2 pixels over that in pixels, white noise being 1 (measured: 4 to 5)."""
BLOCKS = 400
"""Blocks of the sample at most: 25 600 pixels fix a level to better than one per cent."""
CUT = 4.0
"""Values this many spreads from the median of their block are cut before the regression."""


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """variance = a + b signal + c signal^2 of every band, on the unit scale.

    Attributes:
        level: (band,) root of the mean variance over the image.
        a, b, c: (band,) coefficients, all >= 0.
    """

    level: Tensor
    a: Tensor
    b: Tensor
    c: Tensor

    def variance(self, signal: Tensor) -> Tensor:
        """Variance of the noise (band, ...) where the clean image is ``signal``."""
        s = signal.clamp_min(0)
        law = [v.to(s).view(-1, *(1,) * (s.dim() - 1)) for v in (self.a, self.b, self.c)]
        return law[0] + s * (law[1] + s * law[2])

    def scale(self, factor: float) -> NoiseLaw:
        """The law of noise with ``factor`` times the variance."""
        return NoiseLaw(
            self.level * math.sqrt(factor), *(factor * v for v in (self.a, self.b, self.c))
        )


def noise_of_sample(blocks: Tensor, ok: Tensor, grain: bool = False) -> NoiseLaw:
    """The noise law from a sample of blocks (band, block, 8, 8) and its mask.

    ``grain``: what neighbours share counts as noise, too, as far as differences show it.
    """
    ok = ok & (blocks.abs() < 1e30)
    ok = ok & ~find_stuck(blocks, ok)
    y = _cut(blocks.double(), ok)
    rest, beta = _decorrelated(y, ok)
    # What the others say a voxel is: a clean signal that knows nothing of its own noise.
    signal = (y - rest).clamp_min(0) if bool(beta.any()) else _smoothed(y)
    law, calm = _fit_law(rest, signal, ok)
    mean = _mean_law(law, signal, ok)
    white = mean if grain else mean * _white_share(rest, ok, calm)
    law = law * (_unmix(white, beta) / mean.clamp_min(1e-30))[:, None]
    a, b, c = law.float().unbind(1)
    return NoiseLaw(_mean_law(law, signal, ok).sqrt().float(), a, b, c)


@dataclass(frozen=True, eq=False)
class Regression:
    """What the other bands say of a band: beta y + middle, with beta (band, band), middle (band,).

    Edges and textures of the image are in the other bands too and cancel in the residual; an impulse, a dead
    column or a stripe of one band remains.
    """

    beta: Tensor
    middle: Tensor

    def residual(self, y: Tensor, ok: Tensor) -> Tensor:
        """Every band less what the other bands say of it, for pixels (band, ...)."""
        middle = self.middle.view(-1, *(1,) * (y.dim() - 1))
        said: Tensor = torch.tensordot(self.beta, torch.where(ok, y, 0.0), 1)
        return y - said - middle


def regress_bands(blocks: Tensor, ok: Tensor) -> Regression:
    """Every band from the others, by the sample of blocks (band, block, 8, 8) and its mask."""
    _, beta = _decorrelated(_cut(blocks.double(), ok), ok)
    beta = beta.to(blocks)
    rest = blocks - torch.tensordot(beta, torch.where(ok, blocks, 0.0), 1)
    return Regression(beta, find_medians(rest.flatten(1), ok.flatten(1)))


def _smoothed(y: Tensor) -> Tensor:
    """Means of blocks: the signal where there is no other band."""
    return y.mean((2, 3), keepdim=True).expand_as(y).clamp_min(0)


def _mean_law(law: Tensor, signal: Tensor, ok: Tensor) -> Tensor:
    """Mean variance (band,) over the voxels that count."""
    seen = ok.double()
    size = seen.sum((1, 2, 3)).clamp_min(1)
    means = torch.stack([(seen * signal**k).sum((1, 2, 3)) / size for k in range(3)], 1)
    return (law * means).sum(1)


def _cut(y: Tensor, ok: Tensor) -> Tensor:
    """Values cut to the median of their block plus or minus four spreads; the median where not ok."""
    flat, seen = y.flatten(2), ok.flatten(2)
    middle = find_medians(flat, seen)
    spread = find_medians((flat - middle.unsqueeze(2)).abs(), seen) / 0.6745
    gap = CUT * spread[..., None, None]
    middle = middle[..., None, None]
    return torch.where(ok, torch.minimum(torch.maximum(y, middle - gap), middle + gap), middle)


def _decorrelated(y: Tensor, ok: Tensor) -> tuple[Tensor, Tensor]:
    """Every band less its regression on the others, and the coefficients (band, band), diagonal 0.

    With G the Gram matrix of the centred bands, the residual of band b is (G^-1 y)_b / (G^-1)_bb. It is
    scaled up by the share of freedom that the coefficients have used. Blocks count by the inverse of what
    they leave: the calm ones, which say what the noise is, decide what the bands have in common.
    """
    bands, blocks = y.shape[:2]
    if bands == 1 or blocks * SIDE**2 < 4 * bands:
        return y, y.new_zeros(bands, bands)
    trust = y.new_ones(blocks)
    for _ in range(REGRESSIONS):
        mean = torch.einsum("bnij,n->b", y, trust) / (SIDE**2 * trust.sum())
        centred = y - mean[:, None, None, None]
        flat = (centred * trust.sqrt()[:, None, None]).flatten(1)
        scale = flat.square().sum(1).sqrt().clamp_min(1e-12)
        gram = flat @ flat.T / (scale[:, None] * scale)
        inverse = torch.linalg.inv(gram + 1e-9 * torch.eye(bands, dtype=y.dtype))
        operator = inverse / inverse.diagonal()[:, None] * (scale[:, None] / scale)
        rest = (operator @ centred.flatten(1)).view_as(y)
        left = _mixed(rest).square().mean((2, 3))
        left = left / left.median(1, keepdim=True).values.clamp_min(1e-300)
        used = bands / float(SIDE**2 * trust.sum().square() / trust.square().sum())
        trust = left.mean(0).clamp_min(0.3).reciprocal()
    beta = -operator
    beta.fill_diagonal_(0.0)
    return rest / math.sqrt(1 - min(0.5, used)), beta


def _white_share(rest: Tensor, ok: Tensor, calm: Tensor) -> Tensor:
    """The share (band,) of the variance of calm blocks that is white noise; the rest is texture.

    Means of 2x2 pixels have a quarter of the variance of white noise, but all of the texture: with r the
    variance of mixed differences of means over that of pixels, white noise being 1, the share of noise is
    (WAVES - r) / (WAVES - 1). The factor is what texture has; it is chosen rather low, so is the noise.
    Where texture has most of it in most bands, nothing is left: then no band can tell the two apart.
    """
    mean = _mean_of(_corners(rest))
    seen = _all_corners(ok)
    pairs = ((_mixed(rest), _all_corners(ok), 1), (_mixed(mean, 2), _all_corners(seen, 2), 4))
    found = []
    for d, m, factor in pairs:
        count = m.flatten(2).sum(2)
        v = factor * (d.square() * m).flatten(2).sum(2) / count.clamp_min(1)
        found.append((v, count >= 8))
    use = calm & found[0][1] & found[1][1]
    fine, wide = (find_medians(v, use) for v, _ in found)
    r = torch.where(fine > 0, wide / fine, 1.0)
    share = ((WAVES - r) / (WAVES - 1)).clamp(0.0, 1.0)
    most = share.median()
    fade = ((most - UNSURE) / (SURE - UNSURE)).clamp(0.0, 1.0)
    return torch.minimum(torch.maximum(share, most / 1.5), most * 1.15) * fade


def _corners(v: Tensor, step: int = 1) -> list[Tensor]:
    """The four pixels of every square of side ``step`` inside blocks."""
    n = v.shape[-1] - step
    return [v[..., i : i + n, j : j + n] for i in (0, step) for j in (0, step)]


def _mean_of(parts: list[Tensor]) -> Tensor:
    """The mean of four images."""
    return (parts[0] + parts[1] + parts[2] + parts[3]) / 4


def _all_corners(ok: Tensor, step: int = 1) -> Tensor:
    """True where all four pixels of a square are."""
    return torch.stack(_corners(ok, step)).all(0)


def _mixed(v: Tensor, step: int = 1) -> Tensor:
    """v_ij - v_i+1,j - v_i,j+1 + v_i+1,j+1 inside blocks, for pixels ``step`` apart."""
    a, b, c, d = _corners(v, step)
    return a - b - c + d


def _calm_blocks(square: Tensor, known: Tensor, signal: Tensor, shared: bool) -> Tensor:
    """Blocks (band, block) whose variance, in units of the law, is what pure noise may have.

    Among blocks of similar signal the 20 % quantile is noise even if most of them are textured. The variance
    of a block of pure noise scatters by about a fifth, so those up to 1.6 times its level belong to it.

    Args:
        square: robust variance of every block over the law.
        shared: one level for all signals (the law is right already) in place of one per bin.
    """
    bands, n = square.shape
    bins = max(1, min(BINS, n // BIN))
    order = torch.where(known, signal, torch.inf).argsort(1)
    ratio, seen = square.gather(1, order), known.gather(1, order)
    parts = torch.arange(n).tensor_split(bins)
    levels = []
    for part in parts:
        count = seen[:, part].sum(1)
        v = sort_values(torch.where(seen[:, part], ratio[:, part], torch.inf))
        at = (CALM * (count - 1).clamp_min(0)).round().long()
        levels.append(v.gather(1, at[:, None]).squeeze(1) / BELOW)
    level = torch.stack(levels, 1)
    if shared:
        level = level.median(1, keepdim=True).values.expand_as(level)
    limit = torch.cat([level[:, k : k + 1].expand(bands, len(p)) for k, p in enumerate(parts)], 1)
    calm = torch.zeros_like(known)
    calm.scatter_(1, order, seen & (ratio <= ABOVE * limit))
    return calm


def _unmix(total: Tensor, beta: Tensor) -> Tensor:
    """s^2 from  total = (I + beta o beta) s^2  in a few multiplicative steps, which keep it positive.

    It starts from bands that are all alike, and is not run to the end: neighbouring bands explain each other
    so well that the end would give all noise to some of them.
    """
    mix = torch.eye(len(total), dtype=total.dtype) + beta.square()
    s = total / mix.sum(1)
    for _ in range(UNMIX):
        s = s * (mix.T @ (total / (mix @ s).clamp_min(1e-30))) / mix.sum(0)
    return s


def _fit_law(rest: Tensor, signal: Tensor, ok: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients (band, 3) >= 0 of the law of residuals, and the calm blocks (band, block) it is from.

    In turn: the calm blocks under the law, and the law by least squares of d^2 / 4 on the powers of the
    signal, weighted by 1 / law^2; differences beyond three standard deviations are left out.
    """
    d = _mixed(rest)
    m = _all_corners(ok)
    square = d.square() / 4
    known = m.flatten(2).sum(2) >= 8
    corners = _corners(signal)
    ones = torch.ones_like(d)
    powers = torch.stack([ones, _mean_of(corners), _mean_of([c.square() for c in corners])], 1)
    flat = powers.flatten(2)
    mean = find_medians(signal.flatten(2), ok.flatten(2))
    scale = find_medians(d.abs().flatten(1), m.flatten(1)) / (2 * 0.6745)
    scale = torch.where(scale > 0, scale, 1e-12).square()
    law = torch.stack([scale, 0 * scale, 0 * scale], 1)
    for k in range(ROUNDS):
        now = (law[:, None] @ flat).view_as(d).clamp_min_(1e-6 * scale[:, None, None, None])
        ratio = square / now
        robust = find_medians(ratio.sqrt().flatten(2), m.flatten(2)).square() / 0.6745**2
        calm = _calm_blocks(robust, known, mean, shared=k >= ROUNDS // 2)
        inside = ratio <= 9 * torch.where(calm, robust, 0.0).clamp_max(2.0)[..., None, None]
        use = (m & calm[..., None, None] & inside).double().div_(now.square_()).flatten(1)
        gram = (use[:, None] * flat) @ flat.mT
        pull = (flat @ (use * square.flatten(1)).unsqueeze(2)).squeeze(2) / KEPT
        law = _least_squares(gram, pull, law)
    return law, calm


def _least_squares(gram: Tensor, pull: Tensor, old: Tensor) -> Tensor:
    """Non-negative least squares of three coefficients (band, 3): the best of the seven sets of them."""
    best, value = old, torch.full_like(pull[:, 0], torch.inf)
    unit = gram.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt()
    g, p = gram * unit[:, :, None] * unit[:, None, :], pull * unit
    for k in range(1, 8):
        some = [i for i in range(3) if k >> i & 1]
        small = g[:, some][:, :, some] + 1e-9 * torch.eye(len(some), dtype=g.dtype)
        x = torch.zeros_like(p)
        x[:, some] = torch.linalg.solve(small, p[:, some])
        loss = ((g @ x.unsqueeze(2)).squeeze(2) * x).sum(1) - 2 * (p * x).sum(1)
        better = (x >= 0).all(1) & (loss < value) & (pull[:, 0] > 0)
        best = torch.where(better[:, None], x * unit, best)
        value = torch.where(better, loss, value)
    return best
