"""What one strip of an image on disk, or one band, contributes to a step of :mod:`hyperdlw.solver.admm`.

A state is the solver's own, with an image on disk in the place of every tensor. What is local to a
strip and its halo is done by the solver's functions on a window of that state; what is not is one
strip's share in a sum, or one band of a transform. :mod:`hyperdlw.solver.strip_solver` puts them
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .admm import State, argument, central_step, centre, finish, mapped, right_side, start, update
from .disk import DiskArray, Rows, Strips, Window
from .operators import BAND, invert_symbol
from .penalties import Small, StagedProx, exact_gram
from .problem import Model, Problem, Schedule, Whole
from .stopping import MEASURES, measure_gap
from .terms import Term

Piece = Literal["terms", "data", "image", "mean", "spectrum", "centre", "finish"]
"""A piece of a step: a block of it; or "mean" and "spectrum", the image update up to where it becomes
global, "centre", the rest of it, and "finish", the multipliers."""


@dataclass(frozen=True)
class RowSpectrum:
    """An image that is held as its transform along columns, and along bands where ``bands`` says so."""

    array: DiskArray
    cols: int
    bands: bool

    def read(self, rows: Rows = slice(None)) -> Tensor:
        """Some rows of the image, transformed back."""
        part = self.array.read(rows)
        if self.bands:
            part = torch.fft.ifft(part, dim=BAND)
        image: Tensor = torch.fft.irfft(part, n=self.cols, dim=-1)
        return image


DiskState: TypeAlias = State[DiskArray | RowSpectrum | None]
"""A state on disk; an image is None where a piece of a step neither reads nor writes it."""


@dataclass(frozen=True, eq=False)
class DiskProblem:
    """A problem on disk; it can be sent to another process.

    Attributes:
        folder: for the arrays of the state.
        plan: the strips.
        model: in stages (see :func:`use_stages`).
        y: noisy image on the unit interval, NaN where nothing was measured.
        w: weights, 0 there.
    """

    folder: Path
    plan: Strips
    model: Model
    schedule: Schedule
    y: DiskArray
    w: DiskArray
    whole: Whole
    seed: int = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.plan.shape

    def problem(self, rows: Rows | None) -> Problem:
        """The problem on some rows; without its data for None."""
        if rows is None:
            y = w = torch.empty(self.shape, device="meta")
        else:
            y, w = self.y.read(rows).nan_to_num_(), self.w.read(rows)
        return Problem(self.model, y, w, self.seed, self.whole)

    def staged(self, f: int) -> StagedProx:
        """The stages of the prox of function f, which has them."""
        found = self.model.terms[f - 1].staged
        assert found is not None
        return found

    def array(self, name: str, lead: Sequence[int]) -> DiskArray:
        """Images (*lead, row, col) in a file of the folder; not made yet."""
        shape = (*lead, *self.shape[1:])
        return DiskArray(self.folder / name, shape, self.y.dtype, self.y.device)


def use_stages(model: Model) -> Model:
    """The model with the last stage of every staged prox in its place.

    The carry of such a term is (small, images), made by the stages before.
    """

    def last(t: Term) -> Term:
        if t.staged is None:
            return t
        prox_part = t.staged.prox_part
        return replace(
            t,
            prox=lambda v, t, carry: (prox_part(v, t, *carry), carry),
            start=lambda v: (None, None),
        )

    return replace(model, terms=tuple(last(t) for t in model.terms))


def load_state(s: DiskState, rows: Rows) -> State[Tensor]:
    """A window of a state on disk, without K x."""
    held: State[Tensor] = tree_map(
        lambda a: a.read(rows) if isinstance(a, DiskArray | RowSpectrum) else a, s
    )
    return held


@torch.no_grad()
def sum_start(g: DiskProblem, i: int) -> None:
    """What the first state must know of the whole image, one strip's share."""
    window = g.plan.window(i)
    p = g.problem(window.rows)
    parts = []
    for f in p.functions:
        if f.staged is not None:
            v = f.operator.apply(p.measured)[..., window.inside, :]
            parts.append(f.staged.start_sum_part(v))
    if g.model.begin is not None:
        own = p.measured[..., window.inside, :]
        # The largest value of every strip in a place of its own: adding them up keeps them apart.
        peak = own.new_zeros(len(g.plan.strips))
        peak[i] = own.abs().amax()
        parts += [exact_gram(own), peak]
    save_share(g, "first", i, parts)


@torch.no_grad()
def write_start(g: DiskProblem, out: DiskState, i: int) -> float:
    """One strip of the first state; returns the first mu."""
    window = g.plan.window(i)
    s = start(g.problem(window.rows), g.schedule)
    _write(out, s, window)
    return s.mu


@torch.no_grad()
def update_strip(
    g: DiskProblem, pieces: tuple[Piece, ...], s: DiskState, out: DiskState, i: int
) -> None:
    """Some pieces of a step on one strip, with the solver's functions."""
    window = g.plan.window(i)
    central = g.model.central == "data" and {"image", "centre"} & set(pieces)
    p = g.problem(window.rows if central or "data" in pieces else None)
    held = load_state(s, window.rows)
    if s.x is not None:
        held = held._replace(kx=mapped(held.x, p))
    for piece in pieces:
        if piece == "finish":
            held = finish(held, p, g.schedule)
        elif piece == "centre":
            held = centre(held, p, g.schedule)
        elif piece == "mean":
            r = right_side(held, p, g.schedule)
            held = held._replace(x=p.inverse(held.mu, g.schedule.proximal)(r))
        elif piece == "spectrum":
            r = torch.fft.rfft(right_side(held, p, g.schedule), dim=-1)
            held = held._replace(x=torch.fft.fft(r, dim=BAND) if acts_on_bands(g.model) else r)
        else:
            held = update(held, p, g.schedule, piece)
    _write(out, held, window)


@torch.no_grad()
def divide_band(g: DiskProblem, spectrum: DiskArray, out: DiskArray, mu: float, b: int) -> None:
    """One (transformed) band: transform the rows, divide by the operators, and transform back."""
    plane = spectrum.read_band(b)
    parts = g.problem(None).weighted_operators(mu, g.schedule.proximal)
    reciprocal = invert_symbol(parts, g.shape)
    factor = reciprocal[b if len(reciprocal) > 1 else 0, :, : plane.shape[-1]]
    divided = torch.fft.fft(plane, dim=0) * factor.to(plane.real)
    divided = torch.fft.ifft(divided, dim=0)
    out.write_band(b, divided)


def _prox_point(g: DiskProblem, s: DiskState, f: int, rows: Rows) -> tuple[Tensor, float]:
    """Where the prox of function f is taken on a window, and its step."""
    p = g.problem(None)
    assert s.x is not None
    x = s.x.read(rows)
    if f == p.central:
        return x, central_step(s.mu, p, g.schedule)
    m = s.m[f]
    kx = p.functions[f].operator.apply(x)
    return argument(kx, None if m is None else m.read(rows), p.step_size(f, s.mu))


@torch.no_grad()
def sum_strip(g: DiskProblem, s: DiskState, f: int, stage: str, i: int) -> None:
    """One strip's share in the sum of a staged prox."""
    window = g.plan.window(i)
    v, t = _prox_point(g, s, f, window.rows)
    small, images = s.carry[f]
    images = None if images is None else images.read(window.own)
    share = g.staged(f).sum_part(v[..., window.inside, :], t, small, images)
    save_share(g, stage, i, [share])


@torch.no_grad()
def project_strip(
    g: DiskProblem, s: DiskState | None, f: int, small: Small, out: DiskArray, i: int
) -> None:
    """One strip of the few images of a staged prox, before they are updated; of y without a state."""
    window = g.plan.window(i)
    v = g.problem(window.rows).measured if s is None else _prox_point(g, s, f, window.rows)[0]
    project_part = g.staged(f).project_part
    assert project_part is not None
    out.write(window.own, project_part(v[..., window.inside, :], small))


@torch.no_grad()
def measure_strip(g: DiskProblem, old: DiskState, new: DiskState, i: int) -> list[float]:
    """One strip's share in what the schedule stops by."""
    window = g.plan.window(i)
    p = g.problem(None)
    a, b = (load_state(s._replace(carry=()), window.rows) for s in (old, new))
    b = b._replace(kx=mapped(b.x, p))
    return MEASURES[g.schedule.stopping][0](a, b, p, window.inside)


@torch.no_grad()
def measure_strip_gap(g: DiskProblem, s: DiskState, i: int) -> float:
    """One strip's share in ||u - K x||^2."""
    window = g.plan.window(i)
    p = g.problem(None)
    held = load_state(s._replace(carry=(), m=()), window.rows)
    return measure_gap(held._replace(kx=mapped(held.x, p)), p, window.inside)


def save_share(g: DiskProblem, stage: str, i: int, parts: Sequence[Tensor]) -> None:
    """Write one strip's share in some sums, in float64."""
    np.savez(g.folder / f"{stage}-{i}.npz", *[v.cpu().double().numpy() for v in parts])


def _write(out: DiskState, made: State[Tensor], window: Window) -> None:
    """Write the images for which ``out`` has a new array."""
    targets = [out.x, *out.u, *out.m, *out.carry]
    values = [made.x, *made.u, *made.m, *made.carry]
    for target, value in zip(targets, values, strict=True):
        if isinstance(target, DiskArray):
            target.write(window.own, value[..., window.inside, :])


def acts_on_bands(model: Model) -> bool:
    """Whether an operator of the model takes differences between bands."""
    return any(BAND in t.operator.axes for t in model.terms)
