"""Backward passes through an iteration: checkpointed unrolling and implicit differentiation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from .admm import State
from .problem import Problem

Step: TypeAlias = Callable[[State[Tensor], Problem], State[Tensor]]
"""One or several steps, differentiable in y and w of the problem."""


def _split(state: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """The distinct tensors of a nest, and a function that puts others in their places."""
    leaves, spec = tree_flatten(state)
    distinct = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}
    places = {key: i for i, key in enumerate(distinct)}

    def join(values: list[Tensor]) -> Any:
        new = [values[places[id(v)]] if isinstance(v, Tensor) else v for v in leaves]
        return tree_unflatten(new, spec)

    return list(distinct.values()), join


def checkpointed(advance: Step, state: State[Tensor], problem: Problem) -> State[Tensor]:
    """``advance(state, problem)`` that keeps its arguments only and recomputes the rest."""
    tensors, join = _split(state)
    box: list[Callable[[list[Tensor]], Any]] = []

    def call(y: Tensor, w: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        out, rebuild = _split(advance(join(list(values)), replace(problem, y=y, w=w)))
        box[:] = [rebuild]
        return tuple(out)

    out = checkpoint(call, problem.y, problem.w, *tensors, use_reentrant=False)
    result: State[Tensor] = box[0](list(out))
    return result


STEPS = 5000
"""Adjoint steps, at most."""


def fixed_point(step: Step, state: State[Tensor], problem: Problem) -> State[Tensor]:
    """The fixed point ``state`` of ``step(., problem)`` with the gradient of the implicit function.

    At s = T(s; y, w) the vector-Jacobian product of the solution is g' (I - T_s)^-1 T_{y,w}. The
    inverse is applied by iterating the adjoint of one step, q <- g + T_s' q, which converges where the
    iteration itself does and needs the memory of one step only.
    """
    tensors, join = _split(state)
    still = [t.detach() for t in tensors]
    apply: Callable[..., tuple[Tensor, ...]] = _FixedPoint.apply
    result: State[Tensor] = join(list(apply(step, join, problem, problem.y, problem.w, *still)))
    return result


class _FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, step: Step, join: Any, problem: Problem, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.step, ctx.join, ctx.problem = step, join, problem
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
        tolerance = 1e-12 if values[0].dtype == torch.float64 else 1e-6
        q = list(grads)
        for _ in range(STEPS):
            pulled = _vjp(outputs, inputs, q)
            fresh = [g + t for g, t in zip(grads, pulled, strict=True)]
            moved = sum(float((a - b).square().sum()) for a, b in zip(fresh, q, strict=True))
            size = sum(float(a.square().sum()) for a in fresh)
            q = fresh
            if moved <= tolerance**2 * size:
                break
        gy, gw = _vjp(outputs, [y, w], q)
        return (None, None, None, gy, gw, *([None] * len(values)))


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
