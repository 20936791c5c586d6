"""Strength and rank from the data.

Strength 1 means right for the noise of the cube: the constants of a model hold for a noise level of
40/255, and are multiplied by :func:`hyperdlw.pipeline.mild.strength_factor`. The rank is what stands above
the noise. Both are read from the sample of blocks.

strength="auto" looks around this strength for a better one, on the same rows of a cube in memory and in
strips (:func:`choice_rows`). It minimises an unbiased estimate of the risk. With noise of variance c / w_i
at voxel i, the weighted risk of a restored image x(y) is

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
from torch import Tensor

from ..solver import Model, Problem, State, solve
from ..weights import Source
from .mild import FIRM, IMPULSES, count_components, strength_factor
from .options import Options
from .sample import Sample

Rule = Literal["sure", "discrepancy", "none"]

WEAKEST, STRONGEST = 2.0**-6, 2.0**4
"""Limits of the search."""

CAUTION = 1.6
"""Factor on the noise constant for weights that were made from the same noisy voxels. A network gives
less weight to a voxel *because* its noise came out large, so weights and noise are not independent
as the formula wants, and the fit looks better than it is. Found on training scenes: without it
0.7 dB are lost, with 1.4 to 1.8 about 0.1. Weights that are fixed, or one number per band, get 1."""

PROBE = 0.3
"""Size of the probe, in standard deviations sqrt(c) of the noise, at most MOST_PROBE of the range."""
MOST_PROBE = 1e-2

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
    sigma = math.sqrt(c)
    size = min(PROBE * sigma, MOST_PROBE)
    if build(1.0).selects:
        size = max(size, WIDE_PROBE * sigma)
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
    # In 64ths of an octave: nobody sees less, and rounding errors do not show in the image.
    return float(2.0 ** (k + round(64 * max(-0.5, min(0.5, shift))) / 64))


# --- both, for a cube that is worked on whole or in strips

MOST_RANK = 16
"""Of the default model: what is beyond it, the eigenimages keep."""

MOST_VOXELS = 2**21
"""Voxels of the rows on which an automatic strength is chosen: a cube of 31 bands of 256 x 256 is used
whole. The rows depend on the shape of the cube alone, not on the limit of memory."""


def choice_rows(shape: Sequence[int]) -> slice:
    """The rows on which the strength for a cube (band, row, col) is chosen: all, or the middle ones.

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
        factor: on the strength, from the noise level: the model is built with strength * factor.
        choice: the curve of the strength, ready for JSON.
        rows: first row, and the row after the last one.
    """

    strength: float
    rank: int | None
    factor: float = 1.0
    choice: dict[str, object] | None = None
    rows: tuple[int, int] | None = None

    def total(self, last: bool) -> float:
        """What the model is built with.

        Rounds before the last one are for weights that learn from the residual: outliers show in it if
        the image is smooth, whatever the noise level.
        """
        return self.strength * (self.factor if last else 1.0)


NOTHING = torch.empty(0)


@dataclass
class ImageRounds:
    """An image in memory, its weights, and the image restored so far."""

    source: Source
    y: Tensor
    valid: Tensor
    weights: Tensor = NOTHING
    x: Tensor | None = None
    device: str = "cpu"
    """Where the source works; the rest is where the image is."""

    def weigh(self) -> None:
        """The weights, from the restored image where there is one."""
        x = None if self.x is None else self.x.to(self.device)
        found = self.source(self.y.to(self.device), self.valid.to(self.device), x)
        self.weights = found.to(self.y.device)

    def to(self, place: str) -> ImageRounds:
        """The same on a device."""
        x = None if self.x is None else self.x.to(place)
        y, valid, w = (v.to(place) for v in (self.y, self.valid, self.weights))
        return ImageRounds(self.source, y, valid, w, x, self.device)

    def problem(self, model: Model, seed: int = 0) -> Problem:
        """The model with this image and its weights."""
        return Problem(model, self.y, self.weights, seed)

    def on_rows(self, rows: slice) -> ImageRounds:
        """The same for some rows."""
        cut = self.y[:, rows], self.valid[:, rows], self.weights[:, rows]
        return ImageRounds(self.source.on_rows(rows), *cut, device=self.device)


def choose_settings(
    options: Options,
    shape: Sequence[int],
    sample: Sample,
    rows: slice,
    read: Callable[[], ImageRounds],
) -> Chosen:
    """Strength and rank: as given, or from the noise and the image.

    Args:
        shape: of the image.
        sample: of its blocks, without voxels that have hardly any weight.
        rows, read: the rows on which an automatic strength is chosen, and what gives them, if they are
            needed. Weights that follow the restored image are those of the last round at strength 1.
    """
    strength, rank, factor = options.strength, options.rank, 1.0
    if options.follows_level or rank == "auto":
        law = sample.law
        sketch = options.build_sketch(shape)
        if options.follows_level:
            least = FIRM if sample.impulses > IMPULSES else 0.0
            factor = strength_factor(law, sketch.degree, least)
        if rank == "auto" or (rank is None and options.mild and sketch.rank is not None):
            # A component too many costs little, because the maps are smoothed too; one too few costs much.
            most = shape[0] if rank == "auto" else MOST_RANK
            rank = max(sketch.rank or 1, min(most, count_components(sample, law)))
    assert not isinstance(rank, str)
    if strength != "auto":
        return Chosen(strength, rank, factor)
    image, where = read(), (rows.start, rows.stop)

    def build(strength: float) -> Model:
        return options.build(image.y.shape, strength * factor, rank)

    for _ in range(image.source.rounds - 1):
        image.x = solve(image.problem(options.build(image.y.shape, 1.0, rank))).x
        image.weigh()
    follows = image.source.follows_noise
    choice = choose_strength(build, image.y, image.weights, follows_noise=follows)
    return Chosen(choice.strength, rank, factor, asdict(choice), where)
