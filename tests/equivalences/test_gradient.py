"""Derivatives against finite differences, and the ways of computing one thing against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from hyperdlw import models
from hyperdlw.errors import BadOption
from hyperdlw.networks.dlwnet import DLWnet2d, DLWnet3d
from hyperdlw.solver import Backward, Problem, Schedule, Solution, solve
from hyperdlw.solver import data_terms as fidelity
from hyperdlw.solver import penalties as prox
from hyperdlw.solver.admm import start, step
from hyperdlw.train import Objective
from hyperdlw.train.bilevel import bilevel_loss
from hyperdlw.weights import softmax_weights

MODELS = ["nn", "tv", "tvs"]
SHAPE = (3, 4, 5)
every_model = pytest.mark.parametrize("name", MODELS)
COMPLEX = ("lrtv", "ctv", "e3dtv", "svtv")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def instance(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """y and w > 0 of one shape."""
    g = torch.Generator().manual_seed(seed)
    y = torch.rand(shape, generator=g, dtype=torch.float64)
    return y, 0.3 + torch.rand(shape, generator=g, dtype=torch.float64)


def leaf(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_()


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


# Proximal maps


def orthonormal(rows: int, cols: int) -> Tensor:
    return torch.linalg.qr(normal(cols, rows, seed=5)).Q.T


MATRICES = {
    "wide": normal(3, 7),
    "tall": normal(6, 3),
    "batch": normal(2, 3, 5),
    "rank deficient": normal(4, 2) @ normal(2, 6, seed=1),
    "zero": torch.zeros(3, 5, dtype=torch.float64),
    "repeated": 5 * orthonormal(3, 6),
    "two repeated": torch.diag(torch.tensor([4.0, 4.0, 0.1, 0.1], dtype=torch.float64)),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("t", [0.7, 1.9])
def test_svt(kind: str, t: float) -> None:
    assert gradcheck(lambda v: prox.svt(v, t), leaf(MATRICES[kind]))


def test_svt_with_a_rank_limit() -> None:
    assert gradcheck(lambda v: prox.svt(v, 0.3, rank=2), leaf(MATRICES["wide"]))


@pytest.mark.parametrize("t", [0.5, 3.0])
def test_svt_of_equal_singular_values(t: float) -> None:
    """At X = sQ, QQ' = I, the adjoint derivative is C - t/s (C - (CQ'Q + QC'Q)/2)."""
    s, q, c = 5.0, orthonormal(4, 9), normal(4, 9, seed=6)
    x = leaf(s * q)
    (got,) = torch.autograd.grad((c * prox.svt(x, t)).sum(), x)
    want = c - t / s * (c - 0.5 * (c @ q.T @ q + q @ c.T @ q))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


def test_svt_of_a_wide_spectrum() -> None:
    """Close neighbours far below the largest value: the derivative of the SVD, where it exists."""
    values = torch.tensor([1.0, 4e-4, 2e-4, 1e-4, 5e-5], dtype=torch.float64)
    v = (orthonormal(5, 5) * values) @ orthonormal(5, 12)
    c, t, a, b = normal(5, 12, seed=7), 1.5e-4, leaf(v), leaf(v)
    left, s, right = torch.linalg.svd(b, full_matrices=False)
    (want,) = torch.autograd.grad((c * ((left * (s - t).clamp_min(0)) @ right)).sum(), b)
    (got,) = torch.autograd.grad((c * prox.svt(a, t)).sum(), a)
    assert relative(got, want) <= 1e-6


@pytest.mark.parametrize("t", [0.4, 1.3])
def test_soft_thresholds(t: float) -> None:
    v = normal(2, 2, 3, 4)
    assert gradcheck(lambda v: prox.soft(v, t), leaf(v))
    assert gradcheck(lambda v: prox.group_soft(v, t), leaf(v))
    # Groups that vanish: inside the ball the map is constant.
    assert gradcheck(lambda v: prox.group_soft(v, t), leaf(torch.where(v > 0.5, v, 0)[:, :, :1]))


FIDELITIES = [fidelity.weighted_l2(0.8), fidelity.l1(0.5), fidelity.l2_sparse(0.5)]


@pytest.mark.parametrize("f", FIDELITIES, ids=lambda f: f.name)
def test_fidelities(f: fidelity.Fidelity) -> None:
    (y, w), v = instance(2, 3, 4), 2 * normal(2, 3, 4)
    inputs = leaf(v), leaf(y), leaf(w)
    assert gradcheck(lambda v, y, w: f.prox(v, 0.9, y, w), inputs)
    assert gradcheck(f.value, inputs)


# Steps and short solves


@every_model
def test_one_step(name: str) -> None:
    """With respect to everything that goes into the step: y, w, the copies and the multipliers."""
    y, w = instance(*SHAPE)
    model = models.build_model(name, SHAPE, strength=0.4)
    first = start(Problem(model, y, w), model.schedule)
    places = Problem(model, y, w).copies
    u = [leaf(first.u[i] + 0.3 * normal(*first.u[i].shape, seed=i)) for i in places]
    m = [leaf(0.1 * normal(*first.u[i].shape, seed=9 + i)) for i in places]

    def one(y: Tensor, w: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        here = {i: rest[k] for k, i in enumerate(places)}
        duals = {i: rest[len(places) + k] for k, i in enumerate(places)}
        n = range(len(first.u))
        s = first._replace(u=tuple(here.get(i) for i in n), m=tuple(duals.get(i) for i in n))
        s = step(s, Problem(model, y, w), model.schedule)
        return s.x, *(s.u[i] for i in places), *(s.m[i] for i in places)

    assert gradcheck(one, (leaf(y), leaf(w), *u, *m))


@pytest.mark.parametrize("name", [*MODELS, *COMPLEX])
@pytest.mark.parametrize("backward", ["unroll", "checkpoint"])
def test_short_solves(name: str, backward: Backward) -> None:
    """Also through what the prox of a complex model carries: the dual of lrtv, the bases of e3dtv."""
    bands, strength, steps = (3, 0.1, 4) if name in COMPLEX else (2, 0.4, 5)
    y, w = instance(bands, 3, 4)
    model = models.build_model(name, y.shape, strength=strength)
    schedule = replace(model.schedule, steps=steps)

    def run(y: Tensor, w: Tensor) -> Tensor:
        return solve(Problem(model, y, w), schedule, backward=backward).x

    assert gradcheck(run, (leaf(y), leaf(w)))


@pytest.mark.parametrize("name", COMPLEX)
def test_training_can_look_through_complex_models(name: str) -> None:
    """Where nothing is left of the differences as well: the gradient is finite, and not zero."""
    y = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    logits = torch.zeros_like(y).requires_grad_()
    loss, _ = bilevel_loss(logits, y, torch.zeros_like(y), Objective([name]))
    (got,) = torch.autograd.grad(loss, logits)
    assert bool(torch.isfinite(got).all())
    assert bool(got.any())


def test_factors_say_that_they_have_no_gradient() -> None:
    y = torch.rand(1, 3, 8, 8)
    with pytest.raises(BadOption, match="lrtfdfr"):
        bilevel_loss(torch.zeros_like(y).requires_grad_(), y, y, Objective(["lrtfdfr"]))


# Networks


def randomised(net: torch.nn.Module) -> torch.nn.Module:
    """Random biases: zero ones put the borders of a zero image on the kink of the ReLU."""
    generator = torch.Generator().manual_seed(3)
    for p in net.parameters():
        with torch.no_grad():
            p.copy_(0.5 * torch.randn(p.shape, generator=generator))
    return net.double()


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (DLWnet3d(2, 2), (2, 3, 3, 4)),
        (DLWnet3d(2, 1), (1, 4, 3)),
        (DLWnet3d(3, 1), (4, 1, 1)),
        (DLWnet2d(2, 3, 3), (2, 2, 3, 4)),
    ],
    ids=["3d", "one band", "one pixel", "2d"],
)
def test_networks(net: torch.nn.Module, shape: tuple[int, ...]) -> None:
    net = randomised(net)
    names = [n for n, _ in net.named_parameters()]

    def call(y: Tensor, *values: Tensor) -> Tensor:
        return functional_call(net, dict(zip(names, values, strict=True)), (y,))

    assert gradcheck(call, (leaf(normal(*shape)), *map(leaf, net.parameters())))


def plain(net: DLWnet3d, y: Tensor) -> Tensor:
    """The network as the paper draws it: a chain of Conv3d layers on (image, 1, band, row, col)."""
    t = y.unsqueeze(-4)
    for space, spectrum in zip(net.space, net.spectrum, strict=True):
        t = F.relu(F.conv3d(t, space.weight.unsqueeze(2), space.bias, padding=(0, 1, 1)))
        t = F.relu(F.conv3d(t, spectrum.weight.unsqueeze(-1), spectrum.bias, padding=(1, 0, 0)))
    return F.conv3d(t, net.last.weight, net.last.bias, padding=1).squeeze(-4)


@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (1, 1, 6, 7), (2, 2, 1, 1)], ids=str)
def test_network_equals_plain_convolutions(shape: tuple[int, ...]) -> None:
    net, y, c = randomised(DLWnet3d(8)), leaf(normal(*shape)), normal(*shape, seed=1)
    inputs = [y, *net.parameters()]
    torch.testing.assert_close(net(y), plain(net, y))
    got = torch.autograd.grad((c * net(y)).sum(), inputs)
    want = torch.autograd.grad((c * plain(net, y)).sum(), inputs)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("blocks", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "shape",
    # Rows around whole groups, few bands, single rows and columns.
    [(2, 3, rows, 5) for rows in (1, 2, 7, 8, 9, 10, 11, 16, 17, 25)]
    + [(bands, 12, 4) for bands in (1, 2, 4, 5)]
    + [(3, 1, 19), (3, 19, 1), (1, 1, 1)],
    ids=str,
)
def test_network_by_rows_equals_plain_convolutions(blocks: int, shape: tuple[int, ...]) -> None:
    net, y = randomised(DLWnet3d(4, blocks)), normal(*shape)
    want = plain(net, y)
    assert net(y).requires_grad
    with torch.no_grad():
        torch.testing.assert_close(net(y), want)
    got = net.requires_grad_(False)(y)
    assert not got.requires_grad
    torch.testing.assert_close(got, want)


def test_network_by_rows_in_single_precision() -> None:
    net, y = randomised(DLWnet3d()).float(), normal(3, 31, 24).float()
    whole = net(y).detach()
    with torch.no_grad():
        assert float((net(y) - whole).abs().max()) <= 3e-6 * float(whole.abs().max())


def test_changed_weights_change_the_logits() -> None:
    net, y = randomised(DLWnet3d(4)), normal(3, 20, 4)
    with torch.no_grad():
        before = net(y)
        net.space[1].weight.mul_(2)
        assert not torch.equal(before, net(y))
        torch.testing.assert_close(net(y), plain(net, y))


@pytest.mark.parametrize("masked", [False, True])
def test_softmax_weights(masked: bool) -> None:
    logits = normal(2, 2, 3, 3)
    valid = normal(2, 2, 3, 3, seed=1) > -0.5 if masked else None
    assert gradcheck(lambda z: softmax_weights(z, valid), leaf(logits))


# One result, several ways

Solver = Callable[[Tensor, Tensor], Solution]


def gradients(run: Solver, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The image, and the gradients in y and w of a fixed linear functional of it."""
    y, w = leaf(y), leaf(w)
    x = run(y, w).x
    return x.detach(), *torch.autograd.grad((x * normal(*x.shape, seed=8)).sum(), (y, w))


@every_model
@pytest.mark.parametrize("seed", [0, 1])
def test_implicit_equals_a_long_unroll(name: str, seed: int) -> None:
    y, w = instance(3, 4, 4, seed=seed)
    model = models.build_model(name, y.shape, strength=0.3)
    # A penalty near the data term's own curvature: 600 steps reach rounding.
    mu = model.schedule.mu if name == "nn" else 0.5
    schedule = Schedule(steps=600, mu=mu, order=("image", "terms", "data"))

    def run(backward: Backward) -> Solver:
        return lambda y, w: solve(Problem(model, y, w), schedule, backward=backward)

    long, short = (gradients(run(b), y, w) for b in ("unroll", "implicit"))
    assert torch.equal(long[0], short[0])
    for a, b in zip(short[1:], long[1:], strict=True):
        assert relative(a, b) <= 1e-8


@every_model
def test_implicit_gradient_of_a_converged_solve(name: str) -> None:
    """Against finite differences of the minimiser itself, whatever the path to it."""
    y, w = instance(2, 3, 3, seed=2)
    model = models.build_model(name, y.shape, strength=0.3)
    schedule = model.schedule.converged(tolerance=1e-12, steps=5000)

    def run(y: Tensor, w: Tensor) -> Tensor:
        return solve(Problem(model, y, w), schedule, backward="implicit").x

    assert gradcheck(run, (leaf(y), leaf(w)), eps=1e-5, atol=1e-5, fast_mode=True)


@every_model
@pytest.mark.parametrize("steps", [2, 4, 9])
def test_checkpoint_equals_unroll(name: str, steps: int) -> None:
    y, w = instance(2, *SHAPE)
    model = models.build_model(name, SHAPE)
    schedule = replace(model.schedule, steps=steps)

    def run(backward: Backward) -> Solver:
        return lambda y, w: solve(Problem(model, y, w), schedule, backward=backward)

    kept, again = (gradients(run(b), y, w) for b in ("unroll", "checkpoint"))
    assert torch.equal(kept[0], again[0])
    for a, b in zip(again[1:], kept[1:], strict=True):
        assert torch.equal(a, b)


@every_model
@pytest.mark.parametrize("backward", ["unroll", "checkpoint", "implicit"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_batch_equals_its_images(name: str, backward: Backward, dtype: torch.dtype) -> None:
    y, w = (t.to(dtype) for t in instance(2, *SHAPE))
    y[1] *= 30
    model = models.build_model(name, SHAPE)

    def run(y: Tensor, w: Tensor) -> list[Tensor]:
        y, w = leaf(y), leaf(w)
        x = solve(Problem(model, y, w), backward=backward).x
        c = torch.linspace(-1, 1, SHAPE[-1], dtype=dtype)
        return [x.detach(), *torch.autograd.grad((x * c).sum(), (y, w))]

    both, singles = run(y, w), [run(y[i], w[i]) for i in (0, 1)]
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for k, part in enumerate(both):
        for i in (0, 1):
            assert relative(part[i], singles[i][k]) <= tolerance


@every_model
@pytest.mark.parametrize("backward", ["none", "unroll", "checkpoint"])
def test_a_warm_start_continues_exactly(name: str, backward: Backward) -> None:
    problem = Problem(models.build_model(name, SHAPE), *instance(*SHAPE))
    ten, twenty = (replace(problem.model.schedule, steps=n) for n in (10, 20))
    whole = solve(problem, twenty, backward=backward)
    half = solve(problem, ten, backward=backward)
    rest = solve(problem, ten, backward=backward, state=half.state)
    assert torch.equal(rest.x, whole.x)
    assert (rest.state.k, rest.state.mu) == (whole.state.k, whole.state.mu)
    assert not torch.equal(half.x, whole.x)


@every_model
@pytest.mark.parametrize("f", [None, *FIDELITIES[1:]], ids=lambda f: f.name if f else "own")
def test_unmeasured_values_have_no_influence(name: str, f: fidelity.Fidelity | None) -> None:
    """Not even through the start of a fixed number of steps; one band has no measured voxel."""
    model = models.build_model(name, SHAPE)
    model = replace(model, fidelity=f or model.fidelity)
    y, w = instance(*SHAPE)
    w[normal(*SHAPE, seed=4) > 1] = 0
    w[2] = 0
    x = solve(Problem(model, y, w)).x
    assert bool(x.isfinite().all())
    for value in (0.0, 1e6, torch.nan):
        assert torch.equal(solve(Problem(model, y.masked_fill(w == 0, value), w)).x, x)
    assert not torch.equal(solve(Problem(model, y + 0.1 * (w > 0), w)).x, x)


@every_model
@pytest.mark.parametrize("backward", ["unroll", "checkpoint", "implicit"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_twice_the_same_bytes(name: str, backward: Backward, dtype: torch.dtype) -> None:
    model = models.build_model(name, SHAPE)
    y, w = (t.to(dtype) for t in instance(*SHAPE))
    y0, w0 = y.clone(), w.clone()
    one, two = (
        gradients(lambda y, w: solve(Problem(model, y, w), backward=backward), y, w)
        for _ in range(2)
    )
    for a, b in zip(one, two, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert torch.equal(y, y0)
    assert torch.equal(w, w0)
