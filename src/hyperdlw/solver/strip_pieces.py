"""The pieces of a step of :mod:`hyperdlw.solver.solve` on one strip of an image on disk, or on one band.

A state is the solver's own, with an :class:`~hyperdlw.solver.disk_array.DiskArray` in the place of every image. What is
local to a strip and its halo is done by the solver's functions on a window of that state; what is
not is one strip's share in a sum, or one band of a transform. :mod:`hyperdlw.solver.strip_solver` puts them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .admm import State, argument, central_step, centre, finish, mapped, right_side, start, update
from .disk_array import DiskArray, Rows
from .operators import BAND
from .penalties import exact_gram
from .problem import Model, Problem, Schedule, Term, Whole
from .stopping import change_sums, gap, residual_sums
from .windows import Strips


@dataclass(frozen=True)
class Spectrum:
    """An image that is held as its transform along columns, and along bands where ``bands`` says so."""

    array: DiskArray
    cols: int
    bands: bool

    def read(self, rows: Rows = slice(None)) -> Tensor:
        part = self.array.read(rows)
        if self.bands:
            part = torch.fft.ifft(part, dim=BAND)
        image: Tensor = torch.fft.irfft(part, n=self.cols, dim=-1)
        return image


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem on disk; it can be sent to another process.

    Attributes:
        folder: for the arrays of the state.
        model: in stages (see :func:`staged`).
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

    def array(self, name: str, lead: Sequence[int]) -> DiskArray:
        return DiskArray(self.folder / name, (*lead, *self.shape[1:]), self.y.dtype)

    @property
    def complex_dtype(self) -> str:
        return "complex64" if self.y.dtype == "float32" else "complex128"


def staged(model: Model) -> Model:
    """The model with the last stage of every spread prox in its place.

    The carry of such a term is (small, images), made by the stages before.
    """

    def last(t: Term) -> Term:
        spread = t.spread
        if spread is None:
            return t
        apply = spread.apply
        return replace(
            t,
            prox=lambda v, t, carry: (apply(v, t, *carry), carry),
            start=lambda v: (None, None),
        )

    return replace(model, terms=tuple(last(t) for t in model.terms))


def load(s: Any, rows: Rows) -> Any:
    """A window of a state on disk, without K x."""
    return tree_map(lambda a: a.read(rows) if isinstance(a, DiskArray | Spectrum) else a, s)


@torch.no_grad()
def first_sums(g: Setting, i: int) -> None:
    """What the first state wants to know of the whole image, one strip's share."""
    window = g.plan.window(i)
    p = g.problem(window.rows)
    parts = []
    for f in p.functions:
        if f.spread is not None:
            v = f.operator.apply(p.measured)[..., window.inside, :]
            parts.append(f.spread.first_part(v))
    if g.model.begin is not None:
        own = p.measured[..., window.inside, :]
        # The largest value of every strip in a place of its own: adding them up keeps them apart.
        peak = torch.zeros(len(g.plan.strips))
        peak[i] = own.abs().amax()
        parts += [exact_gram(own), peak]
    save_parts(g, "first", i, parts)


@torch.no_grad()
def first_low(g: Setting, f: int, small: Any, out: DiskArray, i: int) -> None:
    window = g.plan.window(i, 0)
    low = g.model.terms[f - 1].spread.low  # type: ignore[union-attr]
    assert low is not None
    out.write(window.own, low(g.problem(window.rows).measured, small))


@torch.no_grad()
def first_state(g: Setting, out: State, i: int) -> float:
    window = g.plan.window(i)
    s = start(g.problem(window.rows), g.schedule)
    _write(out, s, window.own, window.inside)
    return s.mu


@torch.no_grad()
def local_strip(g: Setting, ops: tuple[str, ...], s: State, out: State, i: int) -> None:
    """Some pieces of a step on one strip, with the solver's functions."""
    window = g.plan.window(i)
    central = g.model.central == "data" and {"image", "centre"} & set(ops)
    p = g.problem(window.rows if central or "data" in ops else None)
    held = load(s, window.rows)
    held = held._replace(kx=(None,) * len(held.u) if held.x is None else mapped(held.x, p))
    for op in ops:
        if op == "finish":
            held = finish(held, p, g.schedule)
        elif op == "centre":
            held = centre(held, p, g.schedule)
        elif op == "mean":
            r = right_side(held, p, g.schedule)
            held = held._replace(x=p.inverse(held.mu, g.schedule.proximal)(r))
        elif op == "spectrum":
            r = torch.fft.rfft(right_side(held, p, g.schedule), dim=-1)
            held = held._replace(x=torch.fft.fft(r, dim=BAND) if over_bands(g.model) else r)
        else:
            held = update(held, p, g.schedule, op)  # type: ignore[arg-type]
    _write(out, held, window.own, window.inside)


@torch.no_grad()
def divide_band(g: Setting, spectrum: DiskArray, out: DiskArray, mu: float, b: int) -> None:
    """One (transformed) band: transform the rows, divide by the operators, and transform back."""
    plane = spectrum.read_band(b)
    half = plane.shape[-1]
    eigenvalues = torch.zeros((), dtype=torch.float64)
    for a, k in g.problem(None).weighted_operators(mu, g.schedule.proximal):
        symbol = k.symbol(g.shape)
        eigenvalues = eigenvalues + a * symbol[b if len(symbol) > 1 else 0, :, :half]
    divided = torch.fft.fft(plane, dim=0) / eigenvalues.to(plane.real.dtype)
    divided = torch.fft.ifft(divided, dim=0)
    out.write_band(b, divided)


def _point(g: Setting, s: State, f: int, rows: Rows) -> tuple[Tensor, float]:
    """Where the prox of function f is taken on a window, and its step."""
    p = g.problem(None)
    x = s.x.read(rows)  # type: ignore[attr-defined]
    if f == p.central:
        return x, central_step(s, p, g.schedule)
    kx: list[Any] = [None] * len(p.functions)
    kx[f] = p.functions[f].operator.apply(x)
    return argument(s._replace(kx=tuple(kx), m=load(s.m, rows)), p, f)


@torch.no_grad()
def sum_strip(g: Setting, s: State, f: int, stage: str, i: int) -> None:
    """One strip's share in the sum of a spread prox."""
    window = g.plan.window(i)
    v, t = _point(g, s, f, window.rows)
    small, images = s.carry[f]
    images = None if images is None else images.read(window.own)
    part = g.model.terms[f - 1].spread.part  # type: ignore[union-attr]
    save_parts(g, stage, i, [part(v[..., window.inside, :], t, small, images)])


@torch.no_grad()
def low_strip(g: Setting, s: State, f: int, out: DiskArray, i: int) -> None:
    """One strip of the few images of a spread prox."""
    window = g.plan.window(i)
    v, _ = _point(g, s, f, window.rows)
    low = g.model.terms[f - 1].spread.low  # type: ignore[union-attr]
    assert low is not None
    out.write(window.own, low(v[..., window.inside, :], s.carry[f][0]))


@torch.no_grad()
def measure_strip(g: Setting, old: State, new: State, i: int) -> list[float]:
    """One strip's share in what the schedule stops by."""
    window = g.plan.window(i)
    p = g.problem(None)
    a, b = (load(s._replace(carry=()), window.rows) for s in (old, new))
    b = b._replace(kx=mapped(b.x, p))
    sums = residual_sums if g.schedule.stopping == "residuals" else change_sums
    return sums(a, b, p, window.inside)


@torch.no_grad()
def gap_strip(g: Setting, s: State, i: int) -> float:
    window = g.plan.window(i)
    p = g.problem(None)
    held = load(s._replace(carry=(), m=()), window.rows)
    cut = tree_map(
        lambda v: v[..., window.inside, :] if isinstance(v, Tensor) else v,
        held._replace(kx=mapped(held.x, p)),
    )
    return gap(cut, p)


def save_parts(g: Setting, stage: str, i: int, parts: Sequence[Tensor]) -> None:
    np.savez(g.folder / f"{stage}-{i}.npz", *[v.double().numpy() for v in parts])


def _write(out: State, made: State, own: slice, inside: slice) -> None:
    """Write the images for which ``out`` has a new array."""
    pairs = [(out.x, made.x)]
    for a, b in ((out.u, made.u), (out.m, made.m), (out.carry, made.carry)):
        pairs += zip(a, b, strict=True)  # type: ignore[arg-type]
    for target, value in pairs:
        if isinstance(target, DiskArray):
            target.write(own, value[..., inside, :])


def over_bands(model: Model) -> bool:
    return any(BAND in t.operator.axes for t in model.terms)
