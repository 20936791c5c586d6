"""The steps of :mod:`hyperdlw.solver.admm` for an image on disk, over all strips.

What is local runs in as few passes over the strips as may be (:mod:`hyperdlw.solver.strip_pieces`). What is not:

- a prox that mixes all pixels: the stages of :class:`~hyperdlw.solver.penalties.Spread`, with sums over the strips;
- the image update in Fourier space: bands and columns are transformed strip by strip, rows and the
  division follow band by band, and whoever reads the image transforms bands and columns back.

A pass over the strips reads one version of the arrays and writes another, so that it can be repeated
after a crash, and strips never see a neighbour that is ahead of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from .admm import State, central_step, grown, output, start
from .disk_array import DiskArray
from .operators import ROW
from .problem import Problem, Schedule, norm_of
from .solve import iterate
from .stopping import Residuals, changes_of, residuals_of
from .strip_pieces import (
    Setting,
    Spectrum,
    divide_band,
    first_low,
    first_state,
    first_sums,
    gap_strip,
    local_strip,
    low_strip,
    measure_strip,
    over_bands,
    sum_strip,
)
from .work import Work

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


class Solver:
    """The solver over all strips."""

    def __init__(self, setting: Setting, work: Work) -> None:
        self.g, self.work = setting, work
        self.p = setting.problem(None)
        self.fourier = any(ROW in t.operator.axes for t in setting.model.terms)
        # Residuals need the state before the step, and a guard may go back further.
        self.recent: deque[State] = deque(maxlen=1 + (setting.schedule.guard or 0))

    @torch.no_grad()
    def solve(self) -> tuple[DiskArray, int, Residuals, bool]:
        """The restored image, steps, residuals and whether they are small enough."""
        s, history, done = iterate(self.first(), self.g.schedule, self.step, self.measure, self.gap)
        last = history[-1] if history else Residuals(0.0, 0.0)
        return self.image(s), s.k, last, done

    def image(self, s: State) -> DiskArray:
        """The output of a state as a plain array."""
        held: Any = output(s, self.p)
        if isinstance(held, DiskArray):
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
        made: list[DiskArray] = []

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

    def first_images(self, f: int, small: Any) -> DiskArray | None:
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
                if isinstance(a, DiskArray) and {part, group(part, f)} & made
                else a
                for f, a in enumerate(held)
            )

        x: Any = s.x
        bands, rows, cols = self.g.shape
        if "spectrum" in ops:
            half = (bands, rows, cols // 2 + 1)
            x = DiskArray(self.g.folder / f"{name}-x", half, self.g.complex_dtype)
        elif "x" in made and not (ops[0] == "centre" and self.p.central is None):
            x = self.g.array(f"{name}-x", (bands,))
        out = s._replace(x=x, u=fresh("u", s.u), m=fresh("m", s.m), carry=fresh("carry", s.carry))
        return self.run(s, tuple(ops), out, name)

    def run(self, s: State, ops: tuple[str, ...], out: State, name: str) -> State:
        given, wanted = needed(s, ops, self.g.schedule), only_new(out, s)
        makes = [a for a in tree_leaves(wanted) if isinstance(a, DiskArray)]
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
            if isinstance(a, DiskArray | Spectrum)
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
    known = {a.path for a in tree_leaves(old) if isinstance(a, DiskArray)}
    return tree_map(  # type: ignore[no-any-return]
        lambda a: None if isinstance(a, DiskArray) and a.path in known else a, out
    )
