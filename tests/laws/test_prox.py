"""Every proximal map minimises its own definition, and obeys the laws that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from hyperdlw.solver import data_terms as fidelity
from hyperdlw.solver import factor_model as factors
from hyperdlw.solver import penalties as prox

SMALL = {"nuclear": (1, 2, 3, 1), "basis": (1, 2, 1, 1)}
"""Shapes for the numerical minimiser, six unknowns or fewer; the default has groups of two."""


@dataclass(frozen=True)
class Map:
    """A function g, its prox, and prox_{s g*}, the prox of the conjugate, in closed form."""

    name: str
    prox: Callable[[Tensor, float], Tensor]
    value: Callable[[Tensor], Tensor]
    conjugate: Callable[[Tensor, float], Tensor]

    def objective(self, u: Tensor, v: Tensor, t: float) -> float:
        return float(t * self.value(u) + 0.5 * (u - v).square().sum())


def l1_ball(z: Tensor, s: float) -> Tensor:
    return torch.from_numpy(np.clip(z.numpy(), -1, 1))


def group_ball(z: Tensor, s: float) -> Tensor:
    return z / z.norm(dim=-4, keepdim=True).clamp_min(1)


def spectral_ball(z: Tensor, s: float) -> Tensor:
    left, values, right = np.linalg.svd(z.flatten(-2).numpy(), full_matrices=False)
    cut = (left * np.minimum(values, 1)[..., None, :]) @ right
    return torch.from_numpy(cut).view_as(z)


def colour_balls(z: Tensor, s: float) -> Tensor:
    def into(part: Tensor, radius: float) -> Tensor:
        return part * (radius / part.norm(dim=(-4, -3), keepdim=True)).clamp_max(1)

    return torch.cat([into(z[..., :2, :, :], 1.0), into(z[..., 2:, :, :], 0.1)], -3)


BALLS = {
    "l1": l1_ball,
    "group": group_ball,
    "nuclear": spectral_ball,
    "saturation value": colour_balls,
}


def penalty(g: prox.Penalty) -> Map:
    return Map(g.name, g.prox, g.value, BALLS[g.name])


def data_term(name: str, shape: tuple[int, ...]) -> Map:
    """A fidelity at random y and w; every third weight is zero."""
    y, w = normal(shape, 1), normal(shape, 2).abs()
    w.view(-1)[::3] = 0
    c = 0.7
    f = {"weighted_l2": fidelity.weighted_l2, "l1": fidelity.l1, "l2_sparse": fidelity.l2_sparse}
    chosen = f[name](c)

    def conjugate(z: Tensor, s: float) -> Tensor:
        # f*(p) = <p, y> + p^2/(2 a) on |p| <= limit, voxel by voxel.
        if name == "weighted_l2":
            return c * w * (z - s * y) / (s + c * w)
        if name == "l1":
            return (z - s * y).clamp(-c * w, c * w)
        return (w * (z - s * y) / (s + w)).clamp(-c * w, c * w)

    return Map(
        name, lambda v, t: chosen.prox(v, t, y, w), lambda x: chosen.value(x, y, w), conjugate
    )


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MAKERS = {g.name: (lambda shape, g=g: penalty(g)) for g in prox.PENALTIES} | {
    f"data {name}": (lambda shape, name=name: data_term(name, shape))
    for name in ("weighted_l2", "l1", "l2_sparse")
}


def in_a_basis(shape: tuple[int, ...]) -> Map:
    """||V'u||_1 with a fixed orthonormal V across the bands."""
    basis = torch.linalg.qr(normal((shape[-3], shape[-3]), 12)).Q

    def turned(z: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return (basis @ f(basis.mT @ z.flatten(-2))).view_as(z)

    return Map(
        "basis",
        lambda v, t: prox.basis_soft(v.flatten(-2), t, basis, adapt=False)[0].view_as(v),
        lambda u: (basis.mT @ u.flatten(-2)).abs().sum(),
        lambda z, s: turned(z, lambda c: c.clamp(-1, 1)),
    )


MAKERS["basis"] = in_a_basis
every_map = pytest.mark.parametrize("name", MAKERS)
every_shape = pytest.mark.parametrize("shape", [(2, 3, 4, 2), (3, 5, 2, 1), (1, 1, 1, 1)], ids=str)
every_t = pytest.mark.parametrize("t", [0.05, 0.8, 5.0])


@every_map
@every_shape
@every_t
def test_nothing_is_better_than_the_prox(name: str, shape: tuple[int, ...], t: float) -> None:
    """The objective is 1-strongly convex: away from the minimiser p it exceeds by |u - p|^2 / 2."""
    g, v = MAKERS[name](shape), normal(shape, 3)
    p = g.prox(v, t)
    best = g.objective(p, v, t)
    for k, scale in enumerate(np.repeat([1e-4, 1e-2, 0.3, 3.0], 15)):
        u = p + scale * normal(shape, 10 + k) * (normal(shape, 100 + k) > 0.5)
        margin = 0.5 * float((u - p).square().sum())
        assert g.objective(u, v, t) >= best + margin - 1e-12 * (1 + best)
    for u in (v, torch.zeros_like(v)):
        assert g.objective(u, v, t) >= best + 0.5 * float((u - p).square().sum()) - 1e-12 * best


@every_map
@pytest.mark.parametrize("t", [0.2, 1.1])
def test_a_numerical_minimiser_agrees(name: str, t: float) -> None:
    shape = SMALL.get(name, (2, 3, 1, 1))
    g, v = MAKERS[name](shape), normal(shape, 4)

    def objective(u: np.ndarray) -> float:
        return g.objective(torch.from_numpy(u).view(shape), v, t)

    u = v.numpy().ravel()
    # A simplex collapses at the kinks now and then: start it again from where it stopped.
    for _ in range(5):
        u = minimize(objective, u, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).x
    np.testing.assert_allclose(g.prox(v, t).numpy().ravel(), u, atol=2e-5)


@every_map
@every_shape
@every_t
def test_moreau(name: str, shape: tuple[int, ...], t: float) -> None:
    """v = prox_{t g}(v) + t prox_{g*/t}(v/t)."""
    g, v = MAKERS[name](shape), normal(shape, 5)
    torch.testing.assert_close(g.prox(v, t) + t * g.conjugate(v / t, 1 / t), v, rtol=0, atol=1e-12)


@every_map
@every_shape
@every_t
def test_firmly_non_expansive(name: str, shape: tuple[int, ...], t: float) -> None:
    g = MAKERS[name](shape)
    for k in range(5):
        a = normal(shape, 20 + k)
        b = a + 10.0 ** (-k) * normal(shape, 30 + k)
        d = g.prox(a, t) - g.prox(b, t)
        assert float(d.square().sum()) <= float((d * (a - b)).sum()) + 1e-13


@pytest.mark.parametrize("g", prox.PENALTIES, ids=lambda g: g.name)
def test_scaled(g: prox.Penalty) -> None:
    v = normal((2, 3, 4, 2), 6)
    assert torch.equal(g.scaled(0.3).prox(v, 2.0), g.prox(v, 0.6))
    torch.testing.assert_close(g.scaled(0.3).value(v), 0.3 * g.value(v))


def by_svd(v: Tensor, t: float, rank: int | None = None) -> Tensor:
    left, values, right = torch.linalg.svd(v, full_matrices=False)
    values = (values - t).clamp_min(0)
    if rank is not None:
        values[..., rank:] = 0
    return (left * values.unsqueeze(-2)) @ right


@pytest.mark.parametrize(
    "shape", [(7, 40), (40, 7), (5, 5), (1, 9), (9, 1), (2, 3, 6, 20)], ids=str
)
@pytest.mark.parametrize("rank", [None, 1, 3, 99])
@pytest.mark.parametrize("t", [0.0, 0.5, 2.5, 100.0])
def test_svt_is_the_thresholded_svd(shape: tuple[int, ...], rank: int | None, t: float) -> None:
    v = normal(shape, 7)
    torch.testing.assert_close(prox.svt(v, t, rank), by_svd(v, t, rank), rtol=0, atol=1e-12)


def test_penalty_of_rank() -> None:
    v = normal((6, 4, 5), 8)
    u = prox.nuclear_of_rank(2).prox(v, 0.4)
    torch.testing.assert_close(u.flatten(1), by_svd(v.flatten(1), 0.4, 2), rtol=0, atol=1e-12)
    assert int(torch.linalg.matrix_rank(u.flatten(1))) == 2


@pytest.mark.parametrize("t", [1e-5, 1e-4, 1e-3, 3.3e-3, 1e-2, 0.3])
@pytest.mark.parametrize("pixels", [900, 50001])
def test_svt_in_single_precision(pixels: int, t: float) -> None:
    """Singular values over six decades, thresholds relative to the largest, long and short sums."""
    left = torch.linalg.qr(normal((31, 31), 9)).Q
    # A positive first component, as images have: its long sum is the one that loses digits.
    mix = normal((pixels, 31), 10)
    mix[:, 0] = mix[:, 0].abs()
    v = (left * torch.logspace(0, -6, 31, dtype=torch.float64)) @ torch.linalg.qr(mix).Q.T
    error = torch.linalg.matrix_norm(prox.svt(v.float(), t).double() - by_svd(v, t), 2)
    # The rounding of the input itself is 6e-8; a threshold must be resolved to a hundredth.
    assert float(error) <= min(3e-7 + 1e-2 * t, 2e-5)


@pytest.mark.parametrize("shape", [(3, 9000), (2, 3, 9000), (2, 3, 8192)], ids=str)
def test_svt_of_blocks_is_the_svt(shape: tuple[int, ...]) -> None:
    v = normal(shape, 11)
    torch.testing.assert_close(
        prox.svt(v.float(), 50.0).double(), by_svd(v, 50.0), rtol=0, atol=5e-6
    )


def test_svt_adds_up_many_pixels() -> None:
    """A strong mean and noise just above the threshold: a plain float32 sum is off by 5e-6 here."""
    v = torch.rand(31, 100_000, generator=torch.Generator().manual_seed(0))
    t = 0.1 * float(torch.linalg.matrix_norm(v, 2))
    assert float((prox.svt(v, t).double() - by_svd(v.double(), t)).abs().max()) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_svt_of_nothing(dtype: torch.dtype) -> None:
    assert not prox.svt(torch.zeros(4, 9, dtype=dtype), 0.1).any()


# Maps that are found by an inner iteration, or that are not convex


@pytest.mark.parametrize("t", [0.1, 1.0])
@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 1, 6), (2, 1, 3, 3)], ids=str)
def test_total_variation(shape: tuple[int, ...], t: float) -> None:
    """The primal value meets the dual one: no other image is better."""
    v = normal(shape, 13)
    start = torch.zeros_like(prox.GRADIENT.apply(v))
    u, dual = prox.tv_prox(v, t, start, passes=3000)
    assert float(dual.norm(dim=-4).max()) <= 1 + 1e-12
    primal = t * prox.GRADIENT.apply(u).norm(dim=-4).sum() + 0.5 * (u - v).square().sum()
    bound = 0.5 * (v.square().sum() - (v - t * prox.GRADIENT.adjoint(dual)).square().sum())
    assert float(primal - bound) <= 1e-6 * float(v.square().sum())
    # A few passes from the dual of an earlier call are as good as many from nothing.
    warm, _ = prox.tv_prox(v, t, dual, passes=2)
    torch.testing.assert_close(warm, u, rtol=0, atol=1e-4)


def test_a_basis_adapts_downhill() -> None:
    """Each pass lowers t ||U||_1 + 1/2 ||v - V U||^2, and V stays orthonormal."""
    v, t = normal((7, 60), 14), 0.4
    basis = torch.eye(7, 3, dtype=torch.float64)
    values = []
    for _ in range(30):
        u, basis = prox.basis_soft(v, t, basis)
        torch.testing.assert_close(basis.mT @ basis, torch.eye(3, dtype=torch.float64))
        scores = basis.mT @ u
        values.append(float(t * scores.abs().sum() + 0.5 * (v - u).square().sum()))
    assert all(b <= a + 1e-9 for a, b in pairwise(values))
    assert values[-1] < values[0]


def test_a_basis_that_is_not_used_stays() -> None:
    basis = torch.linalg.qr(normal((5, 2), 15)).Q
    u, new = prox.basis_soft(normal((5, 9), 16), 100.0, basis)
    assert not u.any()
    torch.testing.assert_close(new, basis)


def test_leading_vectors() -> None:
    v = normal((6, 50), 17)
    left = torch.linalg.svd(v).U[:, :2]
    found = prox.leading(v, 2)
    torch.testing.assert_close(found @ found.mT, left @ left.mT)
    assert abs(float(found[:, 0] @ left[:, 0])) == pytest.approx(1)


@pytest.mark.parametrize("t", [0.05, 0.8])
def test_one_reweighting(t: float) -> None:
    """s = sign(r) max(|r| - t w c / |r|, 0) is the weighted soft threshold with weight 1 / |r|."""
    v, y, w = normal((2, 3, 4), 18), normal((2, 3, 4), 19), normal((2, 3, 4), 20).abs()
    w.view(-1)[::4] = 0
    r = y - v
    sparse = r.sign() * (r.abs() - t * 0.3 * w / r.abs()).clamp_min(0)
    torch.testing.assert_close(fidelity.reweighted_l1(0.3).prox(v, t, y, w), y - sparse)
    channels = normal((3, 2, 4, 5), 21)
    norm = channels.norm(dim=-3, keepdim=True)
    want = channels * (1 - t / norm / norm).clamp_min(0)
    torch.testing.assert_close(channels * (1 - factors.log_part(channels, t)), want)
