"""What is minimised, and how:  f(x; y, w) + sum_i g_i(K_i x).

A :class:`Term` is one g(K x), a :class:`Model` is the terms with a data term f and its
:class:`Schedule`, and a :class:`Problem` is a model with a noisy cube y and weights w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ..errors import BadOption
from .data_terms import Fidelity, weighted_l2
from .operators import Operator, identity, invert
from .penalties import exact_gram
from .terms import Term

if TYPE_CHECKING:
    from .admm import State, Watch
    from .loop import Solution

Block = Literal["terms", "image", "data"]
Stopping = Literal["residuals", "change"]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: data, not code.

    Attributes:
        steps: number of steps, or the largest number when ``tolerance`` is given.
        mu: first penalty.
        growth: factor on mu after every step.
        largest: limit of mu.
        tolerance: stop when what ``stopping`` names is below it.
        stopping: "residuals": the relative primal and dual residuals; "change": the relative
            change ||output - old output|| / ||old output||.
        balance: let mu follow the ratio of the residuals (needs ``tolerance``).
        order: the order of the updates within a step.
        multipliers: without them a copy is only drawn to K x: half-quadratic splitting.
        proximal: weight, relative to mu, of 1/2 ||x - old x||^2 in the image update.
        guard: stop, and say so, when ||u - K x|| has grown by more than 2 % this many times running
            (with a network in the place of a prox it can diverge); the state before is the result.
        seconds: stop after the step that passes this time.
    """

    steps: int
    mu: float
    growth: float = 1.0
    largest: float = math.inf
    tolerance: float | None = None
    balance: bool = False
    order: tuple[Block, ...] = ("terms", "image", "data")
    stopping: Stopping = "residuals"
    multipliers: bool = True
    proximal: float = 0.0
    guard: int | None = None
    seconds: float | None = None

    def converged(self, tolerance: float = 1e-5, steps: int = 1000) -> Schedule:
        """The same penalties run to a tolerance, in the order for which ADMM provably converges."""
        long = replace(self, steps=steps, growth=1.0, tolerance=tolerance)
        if not self.multipliers:
            return replace(long, stopping="change")
        order: tuple[Block, ...] = ("image", "terms", "data")
        return replace(long, balance=True, order=order, stopping="residuals")


@dataclass(frozen=True)
class Model:
    """What a clean image looks like, and how the model is usually solved.

    Attributes:
        terms: the regularisers.
        fidelity: the data term.
        schedule: the steps of the paper (the ones the networks are trained with).
        central: the function solved in the image update: "data", the index of a term, or None.
        output: what is returned: "image", or the index of the term whose copy it is.
        begin: (problem, plain first state) -> first state, for models that start otherwise.
        rank: the rank of the model, for the report.
        degree: the power of the noise level that its strength is in proportion to: 1 for penalties of
            degree one, 2 for logarithms of edges and for denoisers that are told a variance.
        selects: whether it answers noise in jumps (a logarithmic penalty that keeps or drops edges).
        method: another way to the solution, for what is not of this form (a deep image prior); it
            gets the problem, the schedule and ``watch``.
        again: (problem, its solution x) -> the model to solve with instead, where x is no solution,
            or None; for one image in memory, without gradients.
    """

    terms: tuple[Term, ...]
    schedule: Schedule
    fidelity: Fidelity = field(default_factory=weighted_l2)
    central: Literal["data"] | int | None = None
    output: Literal["image"] | int = "image"
    begin: Callable[[Problem, State[Tensor]], State[Tensor]] | None = None
    rank: int | None = None
    degree: int = 1
    selects: bool = False
    method: Callable[[Problem, Schedule, Watch | None], Solution] | None = None
    again: Callable[[Problem, Tensor], Model | None] | None = None


@dataclass(frozen=True)
class Whole:
    """What a part of an image must know of the whole.

    Attributes:
        means: of every band, over the measured voxels.
        norm, peak: largest singular value (band by pixel) and absolute value of the image.
    """

    means: Tensor
    norm: float = math.nan
    peak: float = math.nan


@dataclass(frozen=True)
class Problem:
    """A model, the noisy cube y and the weights w, all (..., band, row, col).

    The seed is for a ``method`` that draws random numbers; ``whole`` is there if y is a part of a
    larger image.
    """

    model: Model
    y: Tensor
    w: Tensor
    seed: int = 0
    whole: Whole | None = None

    @cached_property
    def functions(self) -> tuple[Term, ...]:
        """The data term and the regularisers on one footing; the data term comes first."""
        f = self.model.fidelity
        data = Term(lambda v, t, carry: (f.prox(v, t, self.measured, self.w), carry), held=f.held)
        return (data, *self.model.terms)

    @cached_property
    def measured(self) -> Tensor:
        """y, with the mean of the band where w = 0, so that no trace of those values is left.

        They have no part in the data term, but a fixed number of steps remembers where it started.
        """
        ok = (self.w > 0).expand_as(self.y)
        if bool(ok.all()):
            return self.y
        if self.whole is not None:
            return torch.where(ok, self.y, self.whole.means.to(self.y)[:, None, None])
        known = torch.where(ok, self.y, torch.zeros_like(self.y))

        def mean(*axes: int) -> Tensor:
            total = known.sum(axes, keepdim=True, dtype=torch.float64)
            return (total / ok.sum(axes, keepdim=True).clamp_min(1)).to(known)

        # Summed in double precision, so that it is the same number for an image in strips.
        band = torch.where(ok.any(-1).any(-1)[..., None, None], mean(-2, -1), mean(-3, -2, -1))
        return torch.where(ok, self.y, band)

    @property
    def norm(self) -> float:
        """The largest singular value of the image, band by pixel."""
        return norm_of(exact_gram(self.measured)) if self.whole is None else self.whole.norm

    @property
    def peak(self) -> float:
        """The largest absolute value of the image."""
        return float(self.measured.abs().amax()) if self.whole is None else self.whole.peak

    @property
    def central(self) -> int | None:
        """Index of the function that is minimised in the image update, or None."""
        c = self.model.central
        return None if c is None else 0 if c == "data" else c + 1

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """Indices of the functions that have a copy."""
        split = [i for i in range(len(self.functions)) if i != self.central]
        return {"data": tuple(i for i in split if i == 0), "terms": tuple(i for i in split if i)}

    @property
    def copies(self) -> tuple[int, ...]:
        """Indices of the functions that have a copy; the data term comes first."""
        return self.groups["data"] + self.groups["terms"]

    def ratio(self, i: int, mu: float) -> float:
        """mu_i / mu."""
        f = self.functions[i]
        return f.penalty if f.held is None else f.held / mu

    def step_size(self, i: int, mu: float) -> float:
        """1 / mu_i, the step of the prox of a copy."""
        return 1.0 / (mu * self.ratio(i, mu))

    def inverse(self, mu: float, proximal: float = 0.0) -> Callable[[Tensor], Tensor]:
        """r -> (sum_i (mu_i / mu) K_i'K_i + proximal I)^-1 r."""
        held = any(self.functions[i].held is not None for i in self.copies)
        key = (mu if held else None, proximal)
        if key not in self._inverses:
            parts = self.weighted_operators(mu, proximal)
            if self.central is not None and any(k.axes for _, k in parts):
                raise BadOption("a central function needs every operator to be the identity")
            self._inverses.clear()
            self._inverses[key] = invert(parts, self.y.shape)
        return self._inverses[key]

    def weighted_operators(self, mu: float, proximal: float = 0.0) -> list[tuple[float, Operator]]:
        """(mu_i / mu, K_i) of every copy, and what keeps the image where it was."""
        parts = [(self.ratio(i, mu), self.functions[i].operator) for i in self.copies]
        return [*parts, (proximal, identity)] if proximal else parts

    @cached_property
    def _inverses(self) -> dict[tuple[float | None, float], Callable[[Tensor], Tensor]]:
        """The last inverse; it changes with mu only where a copy is held."""
        return {}

    def objective(self, x: Tensor) -> Tensor:
        """f(x) + sum_i g_i(K_i x)."""
        total = self.model.fidelity.value(x, self.y, self.w)
        for t in self.model.terms:
            if t.value is None:
                raise BadOption("this model has a term without a formula for its value")
            total = total + t.value(t.operator.apply(x))
        return total


def norm_of(gram: Tensor) -> float:
    """The largest singular value behind a Gram matrix."""
    return math.sqrt(float(torch.linalg.eigvalsh(gram).amax().clamp_min(0)))
