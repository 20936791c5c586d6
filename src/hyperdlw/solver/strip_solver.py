"""The steps of :mod:`hyperdlw.solver.admm` for an image on disk, over all strips.

What is local runs in as few passes over the strips as possible (:mod:`hyperdlw.solver.strip_step`). What
is not:

- a prox that mixes all pixels: the stages of :class:`~hyperdlw.solver.penalties.StagedProx`, with sums over
  the strips;
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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from . import strip_step
from .admm import central_step, grow_penalty, output, start
from .disk import DiskArray, Work
from .loop import iterate
from .operators import ROW
from .penalties import Small
from .problem import Problem, Schedule, norm_of
from .stopping import MEASURES, Residuals
from .strip_step import DiskProblem, DiskState, Piece, RowSpectrum, acts_on_bands
from .terms import Carry

COPIES = {"u.terms", "u.data", "m.terms", "m.data"}
NEEDS: dict[Piece, tuple[set[str], set[str]]] = {
    "terms": ({"x", "m.terms", "carry"}, {"u.terms", "carry"}),
    "data": ({"x", "m.data"}, {"u.data"}),
    "image": (COPIES, {"x"}),
    "mean": (COPIES, {"x"}),
    "spectrum": (COPIES, {"x"}),
    "centre": ({"x", "carry"}, {"x"}),
    "finish": (COPIES | {"x"}, {"m.terms", "m.data"}),
}
"""The parts of a state that a piece of a step reads, and those that it writes."""

Held = DiskArray | RowSpectrum | None


class StripSolver:
    """The solver over all strips."""

    def __init__(self, problem: DiskProblem, work: Work) -> None:
        self.g, self.work = problem, work
        self.p = problem.problem(None)
        self.fourier = any(ROW in t.operator.axes for t in problem.model.terms)
        # Residuals need the state before the step, and a guard may go back further.
        self.recent: deque[DiskState] = deque(maxlen=1 + (problem.schedule.guard or 0))

    @torch.no_grad()
    def solve(self) -> tuple[DiskArray, int, Residuals, bool]:
        """The restored image, steps, residuals and whether they are small enough."""
        s, history, done = iterate(
            self.start(), self.g.schedule, self.step, self.measure, self.measure_gap
        )
        last = history[-1] if history else Residuals(0.0, 0.0)
        return self.write_output(s), s.k, last, done

    def write_output(self, s: DiskState) -> DiskArray:
        """The output of a state as a plain array."""
        held = output(s, self.p)
        if isinstance(held, DiskArray):
            return held
        plain = self.g.array("out", (self.g.shape[0],))
        self.run_pass(s, (), s._replace(x=plain), "out")
        return plain

    def start(self) -> DiskState:
        """The first state, on disk."""
        g, p = self.g, self.p
        self.work.map("start: sums", partial(strip_step.sum_start, g), g.plan.strips)
        totals = self.add_up("first")
        carry: list[Carry] = [None] * len(p.functions)
        for f, function in enumerate(p.functions):
            if function.staged is not None:
                small = function.staged.start_small(totals.pop(0), g.shape)
                carry[f] = small, self.start_images(f, small)
        if g.model.begin is not None:
            gram, peaks = totals
            whole = replace(g.whole, norm=norm_of(gram), peak=float(peaks.max()))
            self.g = g = replace(g, whole=whole)
        tiny = torch.zeros(g.shape[0], 2, 2, device=g.y.device)
        # The shapes of all images, from an image of four pixels.
        like = start(Problem(g.model, tiny, tiny, 0, g.whole), g.schedule)
        made: list[DiskArray] = []

        def new(v: object) -> object:
            if not isinstance(v, Tensor):
                return v
            made.append(g.array(f"start-{len(made)}", v.shape[:-2]))
            return made[-1]

        out: DiskState = tree_map(new, like._replace(kx=(None,) * len(like.kx)))
        (mu, *_) = self.work.map(
            "start", partial(strip_step.write_start, g, out), g.plan.strips, made
        )
        kept = zip(p.functions, carry, out.carry, strict=True)
        both = tuple(old if f.staged is not None else new for f, old, new in kept)
        return out._replace(mu=mu, carry=both)

    def start_images(self, f: int, small: Small) -> DiskArray | None:
        """The first few images of a staged prox, where it has some."""
        g, staged = self.g, self.g.staged(f)
        if staged.project_part is None:
            return None
        channels = staged.project_part(self.one_pixel(), small).shape[:-2]
        out, stage = g.array(f"start-images{f}", channels), f"start: images {f}"
        if staged.start_images is None:
            work = partial(strip_step.project_strip, g, None, f, small, out)
            self.work.map(stage, work, g.plan.strips, [out])
        else:
            make, whole = staged.start_images, slice(None)
            self.work.map(stage, lambda _: out.write(whole, make(g.shape)), [0], [out], here=True)
        return out

    def one_pixel(self) -> Tensor:
        """An image of one pixel, for the shapes of others."""
        return torch.zeros(self.g.shape[0], 1, 1, device=self.g.y.device)

    def step(self, s: DiskState) -> DiskState:
        """One step over all strips: what is local in as few passes as possible."""
        self.recent.append(s)
        p = self.p
        waiting: list[Piece] = []
        for block in self.g.schedule.order:
            staged = [f for f in p.groups.get(block, ()) if p.functions[f].staged is not None]
            if staged:
                s, waiting = self.update_local(s, waiting), []
                for f in staged:
                    s = self.update_staged(s, f)
            if block != "image":
                waiting.append(block)
            elif self.fourier:
                s = self.divide_spectrum(self.update_local(s, [*waiting, "spectrum"]))
                waiting = ["centre"]
            elif p.central is not None and p.functions[p.central].staged is not None:
                s = self.update_staged(self.update_local(s, [*waiting, "mean"]), p.central)
                waiting = ["centre"]
            else:
                waiting.append("image")
        s = self.update_local(s, [*waiting, "finish"])
        return s._replace(mu=grow_penalty(s.mu, self.g.schedule), k=s.k + 1)

    def update_local(self, s: DiskState, pieces: Sequence[Piece]) -> DiskState:
        """A pass over the strips for some pieces of a step."""
        if not pieces:
            return s
        made = set().union(*(NEEDS[piece][1] for piece in pieces))
        name = f"{s.k}-" + "-".join(pieces)

        def fresh(part: str, f: int, held: Carry) -> Carry:
            """A new array for what is written; other entries stay."""
            if isinstance(held, DiskArray) and {part, part_name(part, f)} & made:
                return replace(held, path=self.g.folder / f"{name}-{part}{f}")
            return held

        x = s.x
        bands, rows, cols = self.g.shape
        if "spectrum" in pieces:
            half = (bands, rows, cols // 2 + 1)
            dtype = "complex64" if self.g.y.dtype == "float32" else "complex128"
            x = DiskArray(self.g.folder / f"{name}-x", half, dtype, self.g.y.device)
        elif "x" in made and not (pieces[0] == "centre" and self.p.central is None):
            x = self.g.array(f"{name}-x", (bands,))
        out = s._replace(
            x=x,
            u=tuple(fresh("u", f, a) for f, a in enumerate(s.u)),
            m=tuple(fresh("m", f, a) for f, a in enumerate(s.m)),
            carry=tuple(fresh("carry", f, a) for f, a in enumerate(s.carry)),
        )
        return self.run_pass(s, tuple(pieces), out, name)

    def run_pass(
        self, s: DiskState, pieces: tuple[Piece, ...], out: DiskState, name: str
    ) -> DiskState:
        """Some pieces of a step over all strips, from one state into the new arrays of another."""
        given, wanted = keep_read(s, pieces, self.g.schedule), keep_new(out, s)
        makes = [a for a in tree_leaves(wanted) if isinstance(a, DiskArray)]
        work = partial(strip_step.update_strip, self.g, pieces, given, wanted)
        self.work.map(f"step {name}", work, self.g.plan.strips, makes)
        self.remove_unused(out)
        return out

    def update_staged(self, s: DiskState, f: int) -> DiskState:
        """The stages of a prox before the last one."""
        g, staged = self.g, self.g.staged(f)
        stage = f"{s.k}-sum{f}"
        slim = s._replace(u=(), m=tuple(m if j == f else None for j, m in enumerate(s.m)))
        self.work.map(
            f"step {stage}", partial(strip_step.sum_strip, g, slim, f, stage), g.plan.strips
        )
        (total,) = self.add_up(stage)
        central = f == self.p.central
        t = central_step(s.mu, self.p, g.schedule) if central else self.p.step_size(f, s.mu)
        old, images = s.carry[f]
        small = staged.update_small(total, t, old)
        if staged.project_part is not None:
            update = staged.update_images
            assert update is not None
            channels = staged.project_part(self.one_pixel(), small).shape[:-2]
            low, new = (g.array(f"{s.k}-{name}{f}", channels) for name in ("low", "images"))
            work = partial(strip_step.project_strip, g, slim._replace(carry=()), f, small, low)
            self.work.map(f"step {s.k}-low{f}", work, g.plan.strips, [low])

            def update_images(_: int) -> None:
                with torch.no_grad():
                    new.write(slice(None), update(low.read(), t, small, images.read()))

            self.work.map(f"step {s.k}-mix{f}", update_images, [0], [new], here=True)
            images = new
        s = s._replace(carry=(*s.carry[:f], (small, images), *s.carry[f + 1 :]))
        self.remove_unused(s)
        return s

    def divide_spectrum(self, s: DiskState) -> DiskState:
        """The image from the transform of the right side."""
        g = self.g
        assert isinstance(s.x, DiskArray)
        out = replace(s.x, path=g.folder / f"{s.k}-divided")
        work = partial(strip_step.divide_band, g, s.x, out, s.mu)
        self.work.map(f"step {s.k}-divide", work, range(g.shape[0]), [out])
        s = s._replace(x=RowSpectrum(out, g.shape[2], acts_on_bands(g.model)))
        self.remove_unused(s)
        return s

    def measure(self, old: DiskState, new: DiskState) -> Residuals:
        """What the schedule stops by."""
        work = partial(strip_step.measure_strip, self.g, old, new)
        parts = self.work.map(f"step {old.k}-measure", work, self.g.plan.strips)
        sums = [sum(column) for column in zip(*parts, strict=True)]
        return MEASURES[self.g.schedule.stopping][1](sums)

    def measure_gap(self, s: DiskState) -> float:
        """||u - K x||^2 over all copies."""
        work = partial(strip_step.measure_strip_gap, self.g, s)
        return float(sum(self.work.map(f"step {s.k}-gap", work, self.g.plan.strips)))

    def add_up(self, stage: str) -> list[Tensor]:
        """Sums of the shares of all strips, in their order."""
        path = self.g.folder / f"{stage}.npz"
        if not path.exists():
            files = [self.g.folder / f"{stage}-{i}.npz" for i in self.g.plan.strips]
            sums = [sum(parts[1:], parts[0]) for parts in zip(*map(_load, files), strict=True)]
            np.savez(path.with_suffix(".tmp.npz"), *sums)
            path.with_suffix(".tmp.npz").replace(path)
            for file in files:
                file.unlink()
        return [torch.from_numpy(total).to(self.g.y.device) for total in _load(path)]

    def remove_unused(self, *states: DiskState) -> None:
        """Remove the images that no state refers to any more."""
        if self.work.resuming():
            return
        held = {
            (a.array if isinstance(a, RowSpectrum) else a).path
            for a in tree_leaves([*states, *self.recent])
            if isinstance(a, DiskArray | RowSpectrum)
        }
        for path in self.g.folder.iterdir():
            if path.suffix != ".npz" and path not in held:
                path.unlink()


def _load(path: Path) -> list[NDArray[np.float64]]:
    with np.load(path) as held:
        return [held[name] for name in held.files]


def part_name(part: str, f: int) -> str:
    """The name of a part of a state in :data:`NEEDS`."""
    return f"{part}.{'data' if f == 0 else 'terms'}"


def keep_read(s: DiskState, pieces: Sequence[Piece], schedule: Schedule) -> DiskState:
    """The state without the images that these pieces do not read."""
    fresh: set[str] = set()
    need: set[str] = set() if pieces else {"x"}
    for piece in pieces:
        more = {"x"} if schedule.proximal and piece in ("image", "mean") else set()
        reads, writes = NEEDS[piece]
        need |= (reads | more) - fresh
        fresh |= writes

    def kept(part: str, held: Sequence[Held]) -> tuple[Held, ...]:
        return tuple(a if part_name(part, f) in need else None for f, a in enumerate(held))

    x = s.x if "x" in need else None
    carry = s.carry if "carry" in need else (None,) * len(s.carry)
    return s._replace(x=x, u=kept("u", s.u), m=kept("m", s.m), carry=carry)


def keep_new(out: DiskState, old: DiskState) -> DiskState:
    """The arrays of a state that another one does not have."""
    known = {a.path for a in tree_leaves(old) if isinstance(a, DiskArray)}
    new: DiskState = tree_map(
        lambda a: None if isinstance(a, DiskArray) and a.path in known else a, out
    )
    return new
