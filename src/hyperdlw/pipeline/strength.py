"""strength="auto": the strength that minimises an unbiased estimate of the risk.

With noise of variance c / w_i at voxel i, the weighted risk of a restored image x(y) is

    1/M sum w_i (x_i - clean_i)^2  =  1/M sum w_i (y_i - x_i)^2 - c + 2 c/M sum dx_i/dy_i

in expectation (Stein 1981). Weighted by w, a voxel with hardly any weight, whose variance c / w is huge
and not to be believed, counts as little as it does in the model itself. The last sum is estimated
with one random probe (Ramani, Blu, Unser 2008): b'(x(y + e b) - x(y)) / e. It needs nothing but the
map y -> x, with the number of steps it really runs, so it holds for every model and schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..solver import Model, Problem, Schedule, State, solve

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
class Trial:
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
    curve: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def risk(self) -> float:
        """The smallest estimated risk on the curve (infinite without one)."""
        return min((t.risk for t in self.curve), default=math.inf)


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
        total = sum(torch.roll(w * y, k, axis) for k in (1, -1))
        weight = sum(torch.roll(w, k, axis) for k in (1, -1))
        assert isinstance(total, Tensor)
        assert isinstance(weight, Tensor)
        known = weight > 0
        mean = total / torch.where(known, weight, torch.ones_like(weight))
        gaps.append(own - mean[inside])
        ok = ok & known[inside]
    pairs = [(a, b) for i, a in enumerate(gaps) for b in gaps[:i]]
    if not pairs or not bool(ok.any()):
        return None
    found = [float((w[inside] * a * b)[ok].mean(dtype=torch.float64)) for a, b in pairs]
    return min((c for c in found if math.isfinite(c) and c > 0), default=None)


def choose(
    build: Callable[[float], Model],
    y: Tensor,
    w: Tensor,
    schedule: Callable[[Model], Schedule] = lambda model: model.schedule,
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
        schedule: model -> the steps it will run.
        follows_noise: whether the weight of a voxel depends on its own noise.
        seed: of the probe.
    """
    c = noise_constant(y, w)
    if c is None:
        return Choice(
            1.0, "none", "the image is too small or too even to measure its noise", math.nan, ()
        )
    size = max(PROBE, WIDE_PROBE * math.sqrt(c)) if build(1.0).selects else PROBE
    bold = c * CAUTION if follows_noise else c
    curve = _Curve(build, y, w, schedule, bold, size, seed)
    best, rule = _descend(curve.risk), "sure"
    if not curve.usable:
        best, rule = (
            _descend(lambda s: abs(math.log(max(curve.at(s).fit, 1e-30) / c))),
            "discrepancy",
        )
    reason = (
        "smallest estimated risk"
        if rule == "sure"
        else "the result does not vary smoothly with the data, so the residual is matched to the noise"
    )
    trials = tuple(sorted(curve.trials.values(), key=lambda t: t.strength))
    return Choice(best, rule, reason, c, trials)  # type: ignore[arg-type]


class _Curve:
    """The trials made so far; each strength is solved once."""

    def __init__(
        self,
        build: Callable[[float], Model],
        y: Tensor,
        w: Tensor,
        schedule: Callable[[Model], Schedule],
        c: float,
        size: float,
        seed: int,
    ) -> None:
        self.build, self.y, self.w, self.schedule, self.c = build, y, w, schedule, c
        generator = torch.Generator().manual_seed(seed)
        sign = torch.randint(0, 2, y.shape, generator=generator).to(y) * 2 - 1
        self.size = size
        self.probe = torch.where(w > 0, size * sign, torch.zeros_like(y))
        self.count = max(1, int((w > 0).sum()))
        self.trials: dict[float, Trial] = {}
        self.states: tuple[State[Tensor] | None, State[Tensor] | None] = (None, None)

    def at(self, strength: float) -> Trial:
        if strength not in self.trials:
            self.trials[strength] = self._try(strength)
        return self.trials[strength]

    def risk(self, strength: float) -> float:
        return self.at(strength).risk

    @property
    def usable(self) -> bool:
        """A divergence outside [0, 1], beyond the error of one probe, belongs to no denoiser."""
        return all(
            math.isfinite(t.risk) and -0.05 <= t.freedom <= 1.05 for t in self.trials.values()
        )

    def _try(self, strength: float) -> Trial:
        model = self.build(strength)
        plan = self.schedule(model)
        warm = plan.tolerance is not None
        here = solve(Problem(model, self.y, self.w), plan, state=self.states[0] if warm else None)
        moved = replace(Problem(model, self.y, self.w), y=self.y + self.probe)
        there = solve(moved, plan, state=self.states[1] if warm else None)
        if warm:
            self.states = (here.state, there.state)
        fit = float((self.w * (self.y - here.x) ** 2).sum(dtype=torch.float64)) / self.count
        change = (self.probe * (there.x - here.x)).sum(dtype=torch.float64)
        freedom = float(change) / self.size**2 / self.count
        return Trial(strength, fit, freedom, fit - self.c + 2 * self.c * freedom)


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
