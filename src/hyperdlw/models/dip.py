"""Deep image prior: S2DIP (Luo et al. 2021) and DLW-S2DIP.

An untrained network is fitted to the noisy cube, and stopped before it learns the noise. This is
not of the form of the solver: one loop of its own, behind the same call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..errors import BadOption
from ..networks import MULTIPLE, SkipNet, files, reflect_to
from ..solver import Model, Problem, Schedule, Solution, State, Watch, soft

MU, TV, SSTV = 0.12, 1.0, 10.0
"""The penalty, and the weights of spatial and spatial-spectral variation."""
THRESHOLD, SPARSE = 0.1, 0.02
RATE, INPUT, JITTER = 0.005, 0.1, 0.01
STEPS = {"weights": 500, "sparse": 1500}
"""Iterations with weights, which lead there sooner, and with the sparse term."""
AVERAGE = 0.98
"""Decay of the running mean of the images."""


def build(shape: Sequence[int], strength: float = 1.0) -> Model:
    """What an untrained network fits first, with little variation (DLW-S2DIP: weighted data term)."""
    return _model(strength, sparse=False)


def original(shape: Sequence[int], strength: float = 1.0) -> Model:
    """S2DIP as published: the same network with a term for sparse noise in place of weights."""
    return _model(strength, sparse=True)


def count_parameters(bands: int) -> int:
    """Parameters of the network that is fitted to an image of so many bands."""
    return files.count_parameters(SkipNet, bands=bands)


def _model(strength: float, sparse: bool) -> Model:
    def method(p: Problem, schedule: Schedule, watch: Watch | None) -> Solution:
        if schedule.tolerance is not None:
            raise BadOption("a deep image prior has no solution to converge to; give it steps")

        def progress(k: int, x: Tensor) -> None:
            if watch is not None:
                watch(State(x, (), (), (), (), schedule.mu, k))

        w = None if sparse else p.w
        x, loss = restore(
            p.measured, w, schedule, strength=strength, seed=p.seed, progress=progress
        )
        return Solution(x, State(x, (), (), (), (), schedule.mu, len(loss)), (), True)

    steps = STEPS["sparse" if sparse else "weights"]
    return Model(terms=(), schedule=Schedule(steps=steps, mu=MU), method=method)


@torch.enable_grad()
def restore(
    y: Tensor,
    w: Tensor | None,
    schedule: Schedule,
    *,
    strength: float = 1.0,
    seed: int = 0,
    progress: Callable[[int, Tensor], None] | None = None,
) -> tuple[Tensor, list[float]]:
    """Fit the network to a cube (band, row, col) in [0, 1]; the image, and the loss of every iteration.

    Minimises  ||sqrt(w) (y - x)|| + strength R(x)  over the parameters of x = net(z), R the l1 norm
    of |D x| for spatial and spatial-spectral differences, split with the penalty mu: one step of
    Adam, then one update of the split. Without w the data term is ||y - x - s|| with a sparse s,
    as published. The norms are not squared and the differences are absolute, as in the authors'
    program. With weights the rate of Adam falls to 0 along a cosine and the image is a running mean:
    nobody can see which iteration is the best one, so the last one has to be as good.

    Args:
        w: weights with mean one; None: the sparse term.
        schedule: steps of Adam (the authors' program takes 7000), the penalty mu, and a limit of time.
        seed: of the network, its input and the jitter of the input.
        progress: called with the number of the iteration, from 1, and its image.
    """
    begun = time.monotonic()
    mu, iterations = schedule.mu, schedule.steps
    # Random numbers are drawn on the CPU, so that a seed means the same on every device.
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SkipNet(y.shape[-3]).to(y.device)
    crop = (..., slice(y.shape[-2]), slice(y.shape[-1]))
    padded = reflect_to(y.detach(), MULTIPLE)
    z = INPUT * torch.rand(padded[None].shape, generator=random).to(y.device)
    root = None if w is None else w.detach().expand_as(y).sqrt()
    measured = (y != 0).to(y)  # the authors' program takes exact zeros for dead pixels
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
    duals: list[Tensor] | None = None
    image, losses = y, list[float]()
    for k in range(iterations):
        jitter = JITTER * torch.randn(z.shape, generator=random).to(y.device)
        x = net(z + jitter)[0][crop]
        fields = variation(x)
        duals = duals or [torch.zeros_like(d) for d in fields]
        loss = y.new_zeros(())
        for i, (d, dual) in enumerate(zip(fields, duals, strict=True)):
            v = soft(d.detach() + dual / mu, THRESHOLD)
            weight = (TV if i < 2 else SSTV) * 0.5 * mu * strength
            loss = loss + weight * (d - v + dual / mu).norm()
            duals[i] = dual + mu * (d.detach() - v)
        if root is None:
            loss = loss + (measured * (y - x) - soft(y - x.detach(), SPARSE)).norm()
        else:
            loss = loss + (root * (y - x)).norm()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if root is None:
            image = x.detach()
        else:
            share = max(1.0 - AVERAGE, 1.0 / (k + 1))
            image = x.detach() if k == 0 else torch.lerp(image, x.detach(), share)
            for group in optimiser.param_groups:
                group["lr"] = RATE * 0.5 * (1.0 + math.cos(math.pi * (k + 1) / iterations))
        losses.append(float(loss.detach()))
        if progress is not None:
            progress(k + 1, image)
        if schedule.seconds is not None and time.monotonic() - begun > schedule.seconds:
            break
    return image, losses


def variation(x: Tensor) -> list[Tensor]:
    """Absolute differences along columns and rows, of the bands and of |band differences|."""
    between = (x[1:] - x[:-1]).abs()
    return [t.diff(dim=axis).abs() for t in (x, between) for axis in (-1, -2)]
