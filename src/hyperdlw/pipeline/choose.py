"""Strength and rank from the data: strength="auto" and rank="auto".

Both are chosen on the same rows of a cube in memory and in strips (:func:`choice_rows`). The strength
minimises an unbiased estimate of the risk. With noise of variance c / w_i at voxel i, the weighted risk
of a restored image x(y) is

    1/M sum w_i (x_i - clean_i)^2  =  1/M sum w_i (y_i - x_i)^2 - c + 2 c/M sum dx_i/dy_i

in expectation (Stein 1981). Weighted by w, a voxel with hardly any weight, whose variance c / w is huge
and not to be believed, counts as little as it does in the model itself. The last sum is estimated
with one random probe (Ramani, Blu, Unser 2008): b'(x(y + e b) - x(y)) / e. It needs nothing but the
map y -> x, with the number of steps it really runs, so it holds for every model and schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..solver import Model, Problem, State, solve
from ..weights import Source
from .options import Options

Rule = Literal["sure", "discrepancy", "none"]

WEAKEST, STRONGEST = 2.0**-3, 2.0**4
"""Limits of the search."""

CAUTION = 1.6
"""Factor on the noise constant for weights that were made from the same noisy voxels. A network gives
less weight to a voxel *because* its noise came out large, so weights and noise are not independent
as the formula wants, and the fit looks better than it is. Found on training scenes: without it
0.7 dB are lost, with 1.4 to 1.8 about 0.1. Weights that are fixed, or one number per band, get 1."""

PROBE = 1e-2
"""Size of the probe, in units of the data range: far above rounding, far below the noise."""

WIDE_PROBE = 1.0
"""Size of the probe for models that select, in standard deviations sqrt(c) of the noise. They answer
noise in jumps, which a small probe does not meet, and would be made too weak by 0.3 dB on training scenes."""


@dataclass(frozen=True)
class StrengthTrial:
    """One strength that was tried.

    Attributes:
        fit: 1/M sum w (y - x)^2.
        freedom: 1/M sum dx_i/dy_i, the share of the voxels' freedom that the image uses, 0..1.
        risk: estimated 1/M sum w (x - clean)^2 (up to the same constant for every strength).
    """

    strength: float
    fit: float
    freedom: float
    risk: float


@dataclass(frozen=True)
class Choice:
    """The chosen strength, why, and the curve it was read from.

    Attributes:
        rule: "sure"; "discrepancy" where the divergence is no use (the reason says why); "none"
            where even the noise cannot be estimated: then the strength is 1.
        noise: c, the mean of w (y - clean)^2 as estimated.
    """

    strength: float
    rule: Rule
    reason: str
    noise: float
    curve: tuple[StrengthTrial, ...]


def noise_constant(y: Tensor, w: Tensor) -> float | None:
    """c = mean of w (y - clean)^2, from the noisy image (band, row, col) and the weights alone.

    The product of two differences of a voxel, y_i - (mean of its row neighbours) and
    y_i - (mean of its column neighbours), has the expectation n_i^2 where the image is smooth: the
    neighbours are different ones, so only the voxel's own noise is left. Its weight may depend on
    that noise in any way. The neighbours are averaged with their weights. Image structure adds to
    the product, so the smallest mean of the three pairs (row, column), (row, band), (column, band)
    is taken. None if fewer than two axes have three entries, or there is no noise.
    """
    inside = tuple(slice(1, -1) if n >= 3 else slice(None) for n in y.shape)
    own, ok = y[inside], w[inside] > 0
    gaps: list[Tensor] = []
    for axis in (-1, -2, -3):
        if y.shape[axis] < 3:
            continue
        total, weight = (torch.roll(v, 1, axis) + torch.roll(v, -1, axis) for v in (w * y, w))
        known = weight > 0
        mean = total / torch.where(known, weight, torch.ones_like(weight))
        gaps.append(own - mean[inside])
        ok = ok & known[inside]
    pairs = [(a, b) for i, a in enumerate(gaps) for b in gaps[:i]]
    if not pairs or not bool(ok.any()):
        return None
    found = [float((w[inside] * a * b)[ok].mean(dtype=torch.float64)) for a, b in pairs]
    return min((c for c in found if math.isfinite(c) and c > 0), default=None)


def choose_strength(
    build: Callable[[float], Model],
    y: Tensor,
    w: Tensor,
    *,
    follows_noise: bool = True,
    seed: int = 0,
) -> Choice:
    """The strength for one image and its weights.

    Walks in octaves from 1, downhill on the estimated risk, and returns the vertex of the parabola
    through the lowest point and its neighbours: two solves for each of usually three to five strengths.
    With a schedule that runs to a tolerance each solve starts where the one before ended; a fixed
    number of steps has to start anew, because there the start is part of the result.

    Args:
        build: strength -> model.
        y: noisy image (band, row, col) on the unit interval.
        w: weights, 0 where nothing was measured.
        follows_noise: whether the weight of a voxel depends on its own noise.
        seed: of the probe.
    """
    c = noise_constant(y, w)
    if c is None:
        why = "the image is too small or too even to measure its noise"
        return Choice(1.0, "none", why, math.nan, ())
    size = max(PROBE, WIDE_PROBE * math.sqrt(c)) if build(1.0).selects else PROBE
    generator = torch.Generator().manual_seed(seed)
    sign = torch.randint(0, 2, y.shape, generator=generator).to(y) * 2 - 1
    probe = torch.where(w > 0, size * sign, torch.zeros_like(y))
    curve = _Curve(build, y, w, probe, size, c * CAUTION if follows_noise else c)
    rule: Rule = "sure"
    best, why = _descend(lambda s: curve.at(s).risk), "smallest estimated risk"
    if not curve.usable:
        rule = "discrepancy"
        best = _descend(lambda s: abs(math.log(max(curve.at(s).fit, 1e-30) / c)))
        why = "the result does not vary smoothly with the data, so the residual is matched to the noise"
    trials = tuple(sorted(curve.trials.values(), key=lambda t: t.strength))
    return Choice(best, rule, why, c, trials)


@dataclass
class _Curve:
    """The trials made so far; each strength is solved once.

    Attributes:
        probe: what is added to y, of the given size.
        c: the noise constant in the risk.
    """

    build: Callable[[float], Model]
    y: Tensor
    w: Tensor
    probe: Tensor
    size: float
    c: float
    trials: dict[float, StrengthTrial] = field(default_factory=dict)
    states: tuple[State[Tensor] | None, State[Tensor] | None] = (None, None)

    def at(self, strength: float) -> StrengthTrial:
        if strength not in self.trials:
            self.trials[strength] = self._try(strength)
        return self.trials[strength]

    @property
    def usable(self) -> bool:
        """A divergence outside [0, 1], beyond the error of one probe, belongs to no denoiser."""
        return all(
            math.isfinite(t.risk) and -0.05 <= t.freedom <= 1.05 for t in self.trials.values()
        )

    def _try(self, strength: float) -> StrengthTrial:
        model = self.build(strength)
        count = max(1, int((self.w > 0).sum()))
        warm = model.schedule.tolerance is not None
        here = solve(Problem(model, self.y, self.w), state=self.states[0] if warm else None)
        moved = Problem(model, self.y + self.probe, self.w)
        there = solve(moved, state=self.states[1] if warm else None)
        if warm:
            self.states = (here.state, there.state)
        fit = float((self.w * (self.y - here.x) ** 2).sum(dtype=torch.float64)) / count
        change = (self.probe * (there.x - here.x)).sum(dtype=torch.float64)
        freedom = float(change) / self.size**2 / count
        return StrengthTrial(strength, fit, freedom, fit - self.c + 2 * self.c * freedom)


def _descend(f: Callable[[float], float]) -> float:
    """Minimise f over [WEAKEST, STRONGEST] in octaves from 1, then by a parabola in log2."""
    low, high = round(math.log2(WEAKEST)), round(math.log2(STRONGEST))
    k = 0
    step = 1 if f(2.0) < f(1.0) else -1
    while low <= k + step <= high and f(2.0 ** (k + step)) < f(2.0**k):
        k += step
    if k in (low, high):
        return float(2.0**k)
    left, middle, right = (f(2.0**j) for j in (k - 1, k, k + 1))
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend > 0 else 0.0
    return float(2.0 ** (k + max(-0.5, min(0.5, shift))))


@torch.no_grad()
def estimate_rank(y: Tensor, w: Tensor) -> int:
    """The number of spectral components that are stronger than the noise.

    A voxel is believed if its weight is above a third of the median weight of its band; any other is
    replaced by the mean of the believed ones among its 5 x 5 neighbours, so that impulses, stripes and dead
    columns have no part in what follows, if the weights see them. The noise variance of a band is
    the mean square of mixed second differences of believed voxels over 4; these hardly see the
    image. In units of the noise, sum_pixels z_b z_c / (n sigma_b sigma_c), the noise alone has
    eigenvalues near one, and a component with an eigenvalue above two carries more signal than
    noise: keeping it lowers the error of a projection (the rule of HySime, Bioucas-Dias and
    Nascimento 2008).

    Args:
        y: noisy image (band, row, col).
        w: weights of the same shape, 0 on voxels that were not measured.
    """
    y, w = y.double(), w.double()
    middle = torch.stack([b[b > 0].median() if bool((b > 0).any()) else b.new_ones(()) for b in w])
    good = (w > middle[:, None, None] / 3).double()
    z = _fill_gaps(torch.where(good > 0, y, torch.zeros_like(y)), good)
    d = z[:, :-1, :-1] - z[:, 1:, :-1] - z[:, :-1, 1:] + z[:, 1:, 1:]
    known = good[:, :-1, :-1] * good[:, 1:, :-1] * good[:, :-1, 1:] * good[:, 1:, 1:]
    variance = (known * d * d).sum((1, 2)) / (4.0 * known.sum((1, 2))).clamp_min(1.0)
    scaled = (z / variance.clamp_min(1e-12).sqrt()[:, None, None]).flatten(1)
    values = torch.linalg.eigvalsh(scaled @ scaled.mT / scaled.shape[1])
    return max(1, int((values > 2.0).sum()))


def _fill_gaps(y: Tensor, trust: Tensor) -> Tensor:
    """y where it is trusted, elsewhere the mean of the trusted neighbours, or of the band."""

    def blur(v: Tensor) -> Tensor:
        return F.avg_pool2d(v.unsqueeze(0), 5, stride=1, padding=2).squeeze(0)

    near = blur(trust)
    band = (trust * y).sum((1, 2), keepdim=True) / trust.sum((1, 2), keepdim=True).clamp_min(1e-12)
    mean = torch.where(near > 1e-3, blur(trust * y) / near.clamp_min(1e-3), band)
    return torch.lerp(mean, y, trust)


# --- both, for a cube that is worked on whole or in strips

MOST_VOXELS = 2**21
"""Voxels of the rows on which strength and rank are chosen: a cube of 31 bands of 256 x 256 is used
whole. The rows depend on the shape of the cube alone, not on the limit of memory."""


def choice_rows(shape: Sequence[int]) -> slice:
    """The rows on which strength and rank of a cube (band, row, col) are chosen: all, or the middle ones.

    >>> choice_rows((31, 256, 256)), choice_rows((224, 2000, 600))
    (slice(0, 256, None), slice(992, 1007, None))
    """
    bands, rows, cols = shape
    height = min(rows, max(8, MOST_VOXELS // (bands * cols)))
    top = (rows - height) // 2
    return slice(top, top + height)


@dataclass(frozen=True)
class Chosen:
    """Strength and rank of a run; what it was chosen from, where it was.

    Attributes:
        choice: the curve of the strength, ready for JSON.
        rows: first row, and the row after the last one.
    """

    strength: float
    rank: int | None
    choice: dict[str, object] | None = None
    rows: tuple[int, int] | None = None


NOTHING = torch.empty(0)


@dataclass
class ImageRounds:
    """An image in memory, its weights, and the image restored so far."""

    source: Source
    y: Tensor
    valid: Tensor
    weights: Tensor = NOTHING
    x: Tensor | None = None

    def weigh(self) -> None:
        """The weights, from the restored image where there is one."""
        self.weights = self.source(self.y, self.valid, self.x)

    def problem(self, model: Model, seed: int = 0) -> Problem:
        """The model with this image and its weights."""
        return Problem(model, self.y, self.weights, seed)

    def on_rows(self, rows: slice) -> ImageRounds:
        """The same for some rows."""
        cut = self.y[:, rows], self.valid[:, rows], self.weights[:, rows]
        return ImageRounds(self.source.on_rows(rows), *cut)


def choose_settings(options: Options, rows: slice, read: Callable[[], ImageRounds]) -> Chosen:
    """Strength and rank: as given, or from some rows of the image and their weights.

    ``read`` gives these rows, if they are needed. Weights that follow the restored image are those of
    the last round at strength 1.
    """
    strength, rank = options.strength, options.rank
    if strength != "auto" and rank != "auto":
        return Chosen(strength, rank)
    image, where = read(), (rows.start, rows.stop)
    if rank == "auto":
        rank = estimate_rank(image.y, image.weights)
    if strength != "auto":
        return Chosen(strength, rank, None, where)

    def build(strength: float) -> Model:
        return options.build(image.y.shape, strength, rank)

    for _ in range(image.source.rounds - 1):
        image.x = solve(image.problem(build(1.0))).x
        image.weigh()
    follows = image.source.follows_noise
    choice = choose_strength(build, image.y, image.weights, follows_noise=follows)
    return Chosen(choice.strength, rank, asdict(choice), where)
