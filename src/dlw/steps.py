"""The steps of :mod:`dlw.solver` for an image on disk, strip by strip.

A state is the solver's own, with an :class:`~dlw.scratch.Array` in the place of every image. What is
local to a strip and its halo is done by the solver's functions on a window of that state. What is not:

- a prox that mixes all pixels: the stages of :class:`~dlw.prox.Spread`, with sums over the strips;
- the image update in Fourier space: bands and columns are transformed strip by strip, rows and the
  division follow band by band, and whoever reads the image transforms bands and columns back.

A pass over the strips reads one version of the arrays and writes another, so that it can be repeated
after a crash, and strips never see a neighbour that is ahead of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from .operators import BAND, ROW
from .prox import exact_gram
from .scratch import Array, Rows
from .solver import (
    Model,
    Problem,
    Residuals,
    Schedule,
    State,
    Term,
    Whole,
    argument,
    central_step,
    centre,
    change_sums,
    changes_of,
    finish,
    gap,
    grown,
    iterate,
    mapped,
    norm_of,
    output,
    residual_sums,
    residuals_of,
    right_side,
    start,
    update,
)
from .tiles import Plan


class Work(Protocol):
    """Does and remembers work (see ``large.Run``)."""

    def map(
        self,
        stage: str,
        function: Callable[[int], Any],
        items: Sequence[int],
        makes: Sequence[Array] = (),
        here: bool = False,
    ) -> list[Any]:
        """The results for all items; those that are finished are not computed again.

        Args:
            makes: arrays that the function writes.
            here: in this process.
        """

    def resuming(self) -> bool:
        """Whether everything so far was done by an earlier run."""


READS = {
    "terms": {"x", "m.terms", "carry"},
    "data": {"x", "m.data"},
    "image": {"u.terms", "u.data", "m.terms", "m.data"},
    "mean": {"u.terms", "u.data", "m.terms", "m.data"},
    "spectrum": {"u.terms", "u.data", "m.terms", "m.data"},
    "centre": {"x", "carry"},
    "finish": {"x", "u.terms", "u.data", "m.terms", "m.data"},
}
WRITES = {
    "terms": {"u.terms", "carry"},
    "data": {"u.data"},
    "image": {"x"},
    "mean": {"x"},
    "spectrum": {"x"},
    "centre": {"x"},
    "finish": {"m.terms", "m.data"},
}
"""The parts of a state that a piece of a step needs and makes. "mean" and "spectrum" are the image
update up to where it becomes global; "centre" is the rest of it."""


@dataclass(frozen=True)
class Spectrum:
    """An image that is held as its transform along columns, and along bands where ``bands`` says so."""

    array: Array
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
    plan: Plan
    model: Model
    schedule: Schedule
    y: Array
    w: Array
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

    def array(self, name: str, lead: Sequence[int]) -> Array:
        return Array(self.folder / name, (*lead, *self.shape[1:]), self.y.dtype)

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


# --- one item of each pass


def load(s: Any, rows: Rows) -> Any:
    """A window of a state on disk, without K x."""
    return tree_map(lambda a: a.read(rows) if isinstance(a, Array | Spectrum) else a, s)


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
def first_low(g: Setting, f: int, small: Any, out: Array, i: int) -> None:
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
def divide_band(g: Setting, spectrum: Array, out: Array, mu: float, b: int) -> None:
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
def low_strip(g: Setting, s: State, f: int, out: Array, i: int) -> None:
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
        if isinstance(target, Array):
            target.write(own, value[..., inside, :])


def over_bands(model: Model) -> bool:
    return any(BAND in t.operator.axes for t in model.terms)


# --- the whole image


class Solver:
    """The solver over all strips."""

    def __init__(self, setting: Setting, work: Work) -> None:
        self.g, self.work = setting, work
        self.p = setting.problem(None)
        self.fourier = any(ROW in t.operator.axes for t in setting.model.terms)
        # Residuals need the state before the step, and a guard may go back further.
        self.recent: deque[State] = deque(maxlen=1 + (setting.schedule.guard or 0))

    @torch.no_grad()
    def solve(self) -> tuple[Array, int, Residuals, bool]:
        """The restored image, steps, residuals and whether they are small enough."""
        s, history, done = iterate(self.first(), self.g.schedule, self.step, self.measure, self.gap)
        last = history[-1] if history else Residuals(0.0, 0.0)
        return self.image(s), s.k, last, done

    def image(self, s: State) -> Array:
        """The output of a state as a plain array."""
        held: Any = output(s, self.p)
        if isinstance(held, Array):
            return held
        plain = self.g.array("out", (self.g.shape[0],))
        return self.run(s, (), s._replace(x=plain), "out").x  # type: ignore

    # --- the first state

    def first(self) -> State:
        g, p = self.g, self.p
        self.work.map("start: sums", partial(first_sums, g), g.plan.strips)
        totals = self.totals("first")
        carry: list[Any] = [None] * len(p.functions)
        for f, function in enumerate(p.functions):
            if function.spread is not None:
                small = function.spread.first(totals.pop(0), g.shape)
                carry[f] = small, self.first_images(f, small)
        if g.model.begin is not None:
            gram, peaks = totals
            whole = replace(g.whole, norm=norm_of(gram), peak=float(peaks.max()))
            self.g = g = replace(g, whole=whole)
        tiny = torch.zeros(g.shape[0], 2, 2)  # all it gives is shapes
        # The shapes of all images, from an image of four pixels.
        like = start(Problem(g.model, tiny, tiny, 0, g.whole), g.schedule)
        made: list[Array] = []

        def new(v: Any) -> Any:
            if isinstance(v, Tensor):
                made.append(g.array(f"start-{len(made)}", v.shape[:-2]))
                return made[-1]
            return v

        out = tree_map(new, like._replace(kx=(None,) * len(like.kx)))
        (mu, *_) = self.work.map("start", partial(first_state, g, out), g.plan.strips, made)
        kept = zip(p.functions, carry, out.carry, strict=True)
        both = tuple(old if f.spread is not None else new for f, old, new in kept)
        return out._replace(mu=mu, carry=both)  # type: ignore[no-any-return]

    def first_images(self, f: int, small: Any) -> Array | None:
        g, spread = self.g, self.p.functions[f].spread
        assert spread is not None
        if spread.low is None:
            return None
        channels = spread.low(torch.zeros(g.shape[0], 1, 1), small).shape[:-2]
        out, stage = g.array(f"start-images{f}", channels), f"start: images {f}"
        if spread.first_images is None:
            self.work.map(stage, partial(first_low, g, f, small, out), g.plan.strips, [out])
        else:
            make, whole = spread.first_images, slice(None)
            self.work.map(stage, lambda _: out.write(whole, make(g.shape)), [0], [out], here=True)
        return out

    # --- a step

    def step(self, s: State) -> State:
        """One step over all strips: what is local in as few passes as may be."""
        self.recent.append(s)
        p = self.p
        waiting: list[str] = []
        for block in self.g.schedule.order:
            spread = [f for f in p.groups.get(block, ()) if p.functions[f].spread is not None]
            if spread:
                s, waiting = self.local(s, waiting), []
                for f in spread:
                    s = self.settle(s, f)
            if block != "image":
                waiting.append(block)
            elif self.fourier:
                s, waiting = self.divide(self.local(s, [*waiting, "spectrum"])), ["centre"]
            elif p.central is not None and p.functions[p.central].spread is not None:
                s, waiting = self.settle(self.local(s, [*waiting, "mean"]), p.central), ["centre"]
            else:
                waiting.append("image")
        s = self.local(s, [*waiting, "finish"])
        return s._replace(mu=grown(s.mu, self.g.schedule), k=s.k + 1)

    def local(self, s: State, ops: Sequence[str]) -> State:
        """A pass for some pieces of a step."""
        if not ops:
            return s
        made = set().union(*(WRITES[op] for op in ops))
        name = f"{s.k}-" + "-".join(ops)

        def fresh(part: str, held: tuple[Any, ...]) -> tuple[Any, ...]:
            """New arrays for what is written; other entries stay."""
            return tuple(
                replace(a, path=self.g.folder / f"{name}-{part}{f}")
                if isinstance(a, Array) and {part, group(part, f)} & made
                else a
                for f, a in enumerate(held)
            )

        x: Any = s.x
        bands, rows, cols = self.g.shape
        if "spectrum" in ops:
            half = (bands, rows, cols // 2 + 1)
            x = Array(self.g.folder / f"{name}-x", half, self.g.complex_dtype)
        elif "x" in made and not (ops[0] == "centre" and self.p.central is None):
            x = self.g.array(f"{name}-x", (bands,))
        out = s._replace(x=x, u=fresh("u", s.u), m=fresh("m", s.m), carry=fresh("carry", s.carry))
        return self.run(s, tuple(ops), out, name)

    def run(self, s: State, ops: tuple[str, ...], out: State, name: str) -> State:
        given, wanted = needed(s, ops, self.g.schedule), only_new(out, s)
        makes = [a for a in tree_leaves(wanted) if isinstance(a, Array)]
        work = partial(local_strip, self.g, ops, given, wanted)
        self.work.map(f"step {name}", work, self.g.plan.strips, makes)
        self.forget(out)
        return out

    def settle(self, s: State, f: int) -> State:
        """The stages of a spread prox before the last one."""
        g, spread = self.g, self.p.functions[f].spread
        assert spread is not None
        stage = f"{s.k}-sum{f}"
        only: Any = tuple(m if j == f else None for j, m in enumerate(s.m))
        slim = s._replace(u=(), m=only)
        self.work.map(f"step {stage}", partial(sum_strip, g, slim, f, stage), g.plan.strips)
        (total,) = self.totals(stage)
        if f == self.p.central:
            t = central_step(s, self.p, g.schedule)
        else:
            t = 1.0 / (s.mu * self.p.ratio(f, s.mu))
        old, images = s.carry[f]
        small = spread.settle(total, t, old)
        if spread.low is not None:
            mix = spread.mix
            assert mix is not None
            channels = spread.low(torch.zeros(g.shape[0], 1, 1), small).shape[:-2]
            low, new = (g.array(f"{s.k}-{name}{f}", channels) for name in ("low", "images"))
            carried = tuple((small, None) if j == f else None for j in range(len(s.carry)))
            slim = slim._replace(carry=carried)
            work = partial(low_strip, g, slim, f, low)
            self.work.map(f"step {s.k}-low{f}", work, g.plan.strips, [low])

            def mixed(_: int) -> None:
                with torch.no_grad():
                    new.write(slice(None), mix(low.read(), t, small, images.read()))

            self.work.map(f"step {s.k}-mix{f}", mixed, [0], [new], here=True)
            images = new
        carry = (*s.carry[:f], (small, images), *s.carry[f + 1 :])
        s = s._replace(carry=carry)
        self.forget(s)
        return s

    def divide(self, s: State) -> State:
        """The image from the transform of the right side."""
        g = self.g
        spectrum: Any = s.x
        out = replace(spectrum, path=g.folder / f"{s.k}-divided")
        work = partial(divide_band, g, spectrum, out, s.mu)
        self.work.map(f"step {s.k}-divide", work, range(g.shape[0]), [out])
        image: Any = Spectrum(out, g.shape[2], over_bands(g.model))
        s = s._replace(x=image)
        self.forget(s)
        return s

    def measure(self, old: State, new: State) -> Residuals:
        work = partial(measure_strip, self.g, old, new)
        parts = self.work.map(f"step {old.k}-measure", work, self.g.plan.strips)
        sums = [sum(column) for column in zip(*parts, strict=True)]
        return residuals_of(sums) if self.g.schedule.stopping == "residuals" else changes_of(sums)

    def gap(self, s: State) -> float:
        work = partial(gap_strip, self.g, s)
        return float(sum(self.work.map(f"step {s.k}-gap", work, self.g.plan.strips)))

    # --- files

    def totals(self, stage: str) -> list[Tensor]:
        """Sums of the shares of all strips, in their order."""
        path = self.g.folder / f"{stage}.npz"
        if not path.exists():
            files = [self.g.folder / f"{stage}-{i}.npz" for i in self.g.plan.strips]
            sums = [sum(parts) for parts in zip(*map(_numbers, files), strict=True)]
            np.savez(path.with_suffix(".tmp.npz"), *sums)
            path.with_suffix(".tmp.npz").replace(path)
            for file in files:
                file.unlink()
        return [torch.from_numpy(total) for total in _numbers(path)]

    def forget(self, *states: State) -> None:
        """Remove the images that no state refers to any more."""
        if self.work.resuming():
            return
        held = {
            (a.array if isinstance(a, Spectrum) else a).path
            for a in tree_leaves([*states, *self.recent])
            if isinstance(a, Array | Spectrum)
        }
        for path in self.g.folder.iterdir():
            if path.suffix != ".npz" and path not in held:
                path.unlink()


def _numbers(path: Path) -> list[Any]:
    with np.load(path) as held:
        return [held[name] for name in held.files]


def group(part: str, f: int) -> str:
    """The name of a part of a state in ``READS`` and ``WRITES``."""
    return f"{part}.{'data' if f == 0 else 'terms'}"


def needed(s: State, ops: Sequence[str], schedule: Schedule) -> State:
    """The state without the images that these pieces do not read."""
    fresh: set[str] = set()
    need: set[str] = set() if ops else {"x"}
    for op in ops:
        reads = READS[op] | ({"x"} if schedule.proximal and op in ("image", "mean") else set())
        need |= reads - fresh
        fresh |= WRITES[op]

    def kept(part: str, held: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(a if group(part, f) in need else None for f, a in enumerate(held))

    x: Any = s.x if "x" in need else None
    carry = s.carry if "carry" in need else (None,) * len(s.carry)
    return s._replace(x=x, u=kept("u", s.u), m=kept("m", s.m), carry=carry)


def only_new(out: State, old: State) -> State:
    """The arrays of a state that another one does not have."""
    known = {a.path for a in tree_leaves(old) if isinstance(a, Array)}
    return tree_map(  # type: ignore[no-any-return]
        lambda a: None if isinstance(a, Array) and a.path in known else a, out
    )
