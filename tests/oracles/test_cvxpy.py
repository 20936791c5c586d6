"""Converged solutions of nn, tv and tvs against a general convex solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw import models
from hyperdlw.solver import Problem, solve

from .steps import make_noisy_steps

cp = pytest.importorskip("cvxpy")

SHAPES = [(4, 6, 6), (3, 5, 4)]


def instance(shape: tuple[int, int, int], masked: bool) -> tuple[Tensor, Tensor]:
    """A scene with noise, and weights log-uniform in 1e-3..3; masked: some of them are 0."""
    rng = np.random.default_rng(11)
    y = make_noisy_steps(shape, rng)
    w = 10 ** rng.uniform(-3, math.log10(3), shape)
    if masked:
        w.flat[rng.permutation(w.size)[: w.size // 10]] = 0
    return torch.from_numpy(y), torch.from_numpy(w)


def oracle(name: str, y: np.ndarray, w: np.ndarray, strength: float) -> tuple[np.ndarray, float]:
    """The minimiser and the least value, from the formulas in the models' docstrings."""
    bands, rows, cols = y.shape
    x = cp.Variable((bands, rows * cols))
    data = 0.5 * cp.sum(cp.multiply(w.reshape(bands, -1), cp.square(x - y.reshape(bands, -1))))

    def total_variation(after: np.ndarray) -> cp.Expression:
        """sum |x[next] - x| with the flat index of every voxel's periodic neighbour."""
        return cp.sum(cp.abs(cp.vec(x, order="C")[after.ravel()] - cp.vec(x, order="C")))

    index = np.arange(y.size).reshape(y.shape)
    if name == "nn":
        objective = 25 / math.sqrt(rows * cols) * data + strength * cp.normNuc(x)
    else:
        axes = {"tv": (1, 2), "tvs": (0,)}[name]
        roughness = sum(total_variation(np.roll(index, -1, a)) for a in axes)
        objective = data + 0.1 * strength * roughness
    problem = cp.Problem(cp.Minimize(objective))
    tight = {f"tol_{k}": 1e-9 for k in ("gap_abs", "gap_rel", "feas")}
    problem.solve(solver=cp.CLARABEL, **tight)
    assert problem.status == cp.OPTIMAL
    return x.value.reshape(y.shape), float(problem.value)


@pytest.mark.parametrize("name", ["nn", "tv", "tvs"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("strength", [1.0, 0.3])
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_converged(name: str, shape: tuple[int, int, int], strength: float, masked: bool) -> None:
    y, w = instance(shape, masked)
    model = models.build_model(name, shape, strength)
    problem = Problem(model, y, w)
    found = solve(problem, model.schedule.converged(tolerance=1e-9, steps=20000))
    assert found.converged
    want, least = oracle(name, y.numpy(), w.numpy(), strength)
    # The minimiser is unique where w > 0; elsewhere any value between its neighbours may do as
    # well, and the objective decides.
    ok = w.numpy() > 0
    error = np.linalg.norm((found.x.numpy() - want)[ok]) / np.linalg.norm(want[ok])
    assert error <= 1e-4
    assert abs(float(problem.objective(found.x)) - least) <= 1e-6 * least
    # The comparison means something only if the model changes the image.
    assert np.linalg.norm((y.numpy() - want)[ok]) > 0.05 * np.linalg.norm(want[ok])


@pytest.mark.parametrize("name", ["nn", "tv", "tvs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.7])
def test_a_constant_image_converges_at_once(name: str, dtype: torch.dtype, value: float) -> None:
    """Its multipliers vanish; nothing may be divided by them."""
    y = torch.full((3, 5, 4), value, dtype=dtype)
    model = models.build_model(name, y.shape)
    found = solve(Problem(model, y, torch.ones_like(y)), model.schedule.converged(steps=300))
    assert found.converged
    if name != "nn":
        torch.testing.assert_close(found.x, y)
