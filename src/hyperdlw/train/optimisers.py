"""Optimisers for small convolutional networks.

The networks here have a hundred thousand parameters and a step costs half a second, so an optimiser
may spend some milliseconds on small dense matrices if that saves steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

Name = Literal["adam", "soap"]


class Soap(torch.optim.Optimizer):
    """Adam in the eigenbasis of Shampoo's preconditioner (Vyas et al. 2024, "SOAP").

    A kernel is a matrix G (filters out x everything else). Running means of G G' and G'G give two
    orthonormal bases, refreshed every ``refresh`` steps by one step of orthogonal iteration;
    the second moments of Adam are kept for the gradient in these bases. Vectors, and sides
    longer than ``largest``, are left as they are.

    Args:
        lr: learning rate.
        betas: decay of the first and the second moment, and of the two running means.
        refresh: steps between two updates of the bases.
        largest: longest side that gets a basis.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 3e-3,
        betas: tuple[float, float, float] = (0.95, 0.95, 0.95),
        eps: float = 1e-8,
        refresh: int = 10,
        largest: int = 1024,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "refresh": refresh, "largest": largest}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter; the first step only measures."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p: Tensor, group: dict[str, Any]) -> None:
        state, grad = self.state[p], p.grad
        assert grad is not None
        g = grad.reshape(grad.shape[0], -1) if grad.dim() > 1 else grad.reshape(1, -1)
        sides = [s for s in (0, 1) if 1 < g.shape[s] <= group["largest"] and grad.dim() > 1]
        first, second, running = group["betas"]
        if not state:
            state["step"] = 0
            state["mean"], state["square"] = torch.zeros_like(g), torch.zeros_like(g)
            for s in sides:
                state[f"gram{s}"] = _gram(g, s)
                state[f"basis{s}"] = torch.linalg.eigh(state[f"gram{s}"])[1]
            return
        state["step"] += 1
        k = state["step"]
        rotated = _rotate(g, state, sides)
        state["mean"].lerp_(g, 1 - first)
        state["square"].lerp_(rotated.square(), 1 - second)
        mean = _rotate(state["mean"], state, sides) / (1 - first**k)
        root = (state["square"] / (1 - second**k)).sqrt_().add_(group["eps"])
        move = _rotate(mean / root, state, sides, back=True)
        p.add_(move.view_as(p), alpha=-group["lr"])
        for s in sides:
            state[f"gram{s}"].lerp_(_gram(g, s), 1 - running)
        if k % group["refresh"] == 0:
            for s in sides:
                state[f"basis{s}"], state["square"] = _refresh(
                    state[f"gram{s}"], state[f"basis{s}"], state["square"], s
                )


def _gram(g: Tensor, side: int) -> Tensor:
    return g @ g.mT if side == 0 else g.mT @ g


def _rotate(g: Tensor, state: dict[str, Any], sides: list[int], back: bool = False) -> Tensor:
    """Into the bases of both sides, or back."""
    for s in sides:
        q = state[f"basis{s}"]
        q = q if back else q.mT
        g = q @ g if s == 0 else g @ q.mT
    return g


def _refresh(gram: Tensor, basis: Tensor, square: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """One step of orthogonal iteration, directions sorted by their size."""
    size = torch.einsum("ij,ik,kj->j", basis, gram, basis)
    order = size.argsort(descending=True)
    return torch.linalg.qr(gram @ basis[:, order])[0], square.index_select(side, order)


def build_optimiser(name: Name, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
    """The optimiser of a recipe by name."""
    if name == "soap":
        return Soap(parameters, lr=rate)
    return torch.optim.Adam(parameters, lr=rate)
