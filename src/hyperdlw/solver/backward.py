"""Backward passes through an iteration: checkpointed unrolling and implicit differentiation.

Both work on any ``step(state, problem) -> state`` whose state is a nest of tuples with tensors at
the leaves and whose problem is a frozen dataclass with tensor fields ``y`` and ``w``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

S = TypeVar("S")
P = TypeVar("P", bound="Weighted")


class Weighted(Protocol):
    """A frozen dataclass with the tensors a gradient is wanted for."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def y(self) -> Tensor: ...

    @property
    def w(self) -> Tensor: ...


def _split(state: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """The distinct tensors of a nest, and a function that puts others in their places."""
    leaves, spec = tree_flatten(state)
    tensors: list[Tensor] = []
    slots: list[int | None] = []
    seen: dict[int, int] = {}
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            slots.append(None)
            continue
        if id(leaf) not in seen:
            seen[id(leaf)] = len(tensors)
            tensors.append(leaf)
        slots.append(seen[id(leaf)])

    def join(values: list[Tensor]) -> Any:
        new = [leaf if i is None else values[i] for leaf, i in zip(leaves, slots, strict=True)]
        return tree_unflatten(new, spec)

    return tensors, join


def checkpointed(advance: Callable[[S, P], S], state: S, problem: P) -> S:
    """``advance(state, problem)`` that keeps its arguments only and recomputes the rest."""
    tensors, join = _split(state)
    box: list[Callable[[list[Tensor]], Any]] = []

    def call(y: Tensor, w: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        new = advance(join(list(values)), replace(problem, y=y, w=w))
        out, rebuild = _split(new)
        box[:] = [rebuild]
        return tuple(out)

    out = checkpoint(call, problem.y, problem.w, *tensors, use_reentrant=False)
    result: S = box[0](list(out))
    return result


def fixed_point(
    step: Callable[[S, P], S],
    state: S,
    problem: P,
    tolerance: float | None = None,
    steps: int = 5000,
) -> S:
    """The fixed point ``state`` of ``step(., problem)`` with the gradient of the implicit function.

    At s = T(s; y, w) the vector-Jacobian product of the solution is g' (I - T_s)^-1 T_{y,w}. The
    inverse is applied by iterating the adjoint of one step, q <- g + T_s' q, which converges where the
    iteration itself does and needs the memory of one step only.
    """
    tensors, _ = _split(state)
    if tolerance is None:
        tolerance = 1e-12 if tensors[0].dtype == torch.float64 else 1e-6
    still = [t.detach() for t in tensors]
    apply: Callable[..., tuple[Tensor, ...]] = _FixedPoint.apply
    out = apply(step, state, problem, tolerance, steps, problem.y, problem.w, *still)
    _, join = _split(state)
    result: S = join(list(out))
    return result


class _FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        step: Any,
        state: Any,
        problem: Any,
        tolerance: float,
        steps: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.step, ctx.problem, ctx.tolerance, ctx.steps = step, problem, tolerance, steps
        _, ctx.join = _split(state)
        ctx.save_for_backward(*tensors)
        return tuple(t.clone() for t in tensors[2:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        y, w, *values = ctx.saved_tensors
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            w = w.detach().requires_grad_()
            inputs = [v.detach().requires_grad_() for v in values]
            # The step may alias one tensor in several places of its result (x and its copy under
            # the identity): give every place of the input nest its own output.
            new = ctx.step(ctx.join(inputs), replace(ctx.problem, y=y, w=w))
        outputs = _match(ctx.join(inputs), new, inputs)
        q = list(grads)
        for _ in range(ctx.steps):
            pulled = _vjp(outputs, inputs, q)
            fresh = [g + t for g, t in zip(grads, pulled, strict=True)]
            moved = sum(float((a - b).square().sum()) for a, b in zip(fresh, q, strict=True))
            size = sum(float(a.square().sum()) for a in fresh)
            q = fresh
            if moved <= (ctx.tolerance**2) * size:
                break
        gy, gw = _vjp(outputs, [y, w], q)
        return (None, None, None, None, None, gy, gw, *([None] * len(values)))


def _match(old: Any, new: Any, inputs: list[Tensor]) -> list[Tensor]:
    """The tensors of ``new`` that stand where the distinct ``inputs`` stand in ``old``."""
    first: dict[int, Tensor] = {}
    for a, b in zip(tree_flatten(old)[0], tree_flatten(new)[0], strict=True):
        if isinstance(a, Tensor) and id(a) not in first:
            first[id(a)] = b
    return [first[id(t)] for t in inputs]


def _vjp(outputs: list[Tensor], inputs: list[Tensor], vectors: list[Tensor]) -> list[Tensor]:
    live = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
    found = torch.autograd.grad(
        [o for o, _ in live], inputs, [v for _, v in live], retain_graph=True, allow_unused=True
    )
    return [torch.zeros_like(i) if f is None else f for f, i in zip(found, inputs, strict=True)]
