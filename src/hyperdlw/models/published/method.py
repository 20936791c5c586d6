"""A published method as a model: the solver runs its function in place of its own steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import BadInput
from ...networks import files
from ...solver import Model, Problem, Schedule, Solution, State, Watch

Run = Callable[..., Tensor]
"""(image (band, row, col) with bands in [0, 1], seed=) -> the restored image.

A method with the keyword ``rank`` or ``denoiser`` lets the user choose it."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network as a method, by the name of its architecture or by its file."""

    name: str

    @property
    def summary(self) -> str:
        if self.name in files.RIVALS:
            return files.RIVALS[self.name].summary
        return f"{files.load_rival(self.name).card['architecture']} from {self.name}"

    def __call__(self, y: Tensor, *, seed: int = 0) -> Tensor:
        net = files.load_rival(self.name).net
        with torch.no_grad():
            out: Tensor = net(y)
        return out


def model_with_method(run: Run) -> Callable[..., Model]:
    """``build`` of a published method; weights, strength and schedule have no part in it."""

    def build(shape: Sequence[int], strength: float = 1.0, **chosen: object) -> Model:
        def method(p: Problem, schedule: Schedule, watch: Watch | None) -> Solution:
            if p.y.dim() != 3 or 0 in p.y.shape:
                raise BadInput(
                    f"a published method wants an image (band, row, col), not shape {tuple(p.y.shape)}"
                )
            x = run(p.y, seed=p.seed, **chosen)
            return Solution(x, State(x, (), (), (), (), schedule.mu, 0), (), True)

        if isinstance(run, TrainedNetwork):
            files.load_rival(run.name)  # a file that is missing or damaged is refused here
        rank = chosen.get("rank")
        return Model(
            terms=(),
            schedule=Schedule(steps=0, mu=1.0),
            rank=rank if isinstance(rank, int) else None,
            method=method,
        )

    return build
