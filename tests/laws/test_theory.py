"""The lemmas and bounds of the paper: what holds, what does not as printed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hyperdlw import models
from hyperdlw.errors import BadOption
from hyperdlw.pipeline import theory


def draws(count: int, eps: float = 0.05) -> list[tuple[list[Tensor], list[Tensor], Tensor, Tensor]]:
    """Random gradients of two source and one target model, weights in [eps, 1], noise in [-1, 1]."""
    g = torch.Generator().manual_seed(11)
    found = []
    for _ in range(count):
        voxels = 2 + int(torch.randint(0, 30, (), generator=g))
        source = [torch.randn(voxels, generator=g, dtype=torch.float64) for _ in range(2)]
        target = [torch.randn(voxels, generator=g, dtype=torch.float64)]
        h = eps + (1 - eps) * torch.rand(voxels, generator=g, dtype=torch.float64) ** 2
        n = 2 * torch.rand(voxels, generator=g, dtype=torch.float64) - 1
        found.append((source, target, h, n))
    return found


def test_the_gap_is_the_difference_of_the_losses() -> None:
    """x = y - grad R / h^2, loss ||x - clean||^2."""
    for source, target, h, n in draws(5):
        loss = [float(((n - u / h**2) ** 2).sum()) for u in (*source, *target)]
        assert theory.gap(source, target, h, n) == pytest.approx(
            abs((loss[0] + loss[1]) / 2 - loss[2]), rel=1e-9
        )


def test_the_corrected_lemma_3_is_never_violated() -> None:
    for source, target, h, n in draws(200):
        assert theory.gap(source, target, h, n) <= theory.lemma3(source, target, 0.05, n) * (
            1 + 1e-12
        )
        assert theory.lemma3(source, target, 0.05, n) <= theory.lemma3(source, target, 0.05)


def test_the_powers_of_eps() -> None:
    """1/h^2 is at most 1/eps^2: halving eps makes the first term four and the second 16 times as large."""
    for source, target, _, n in draws(3):
        first, second = theory.a1(source, target, n), theory.a2(source, target)
        assert theory.lemma3(source, target, 0.5, n) == pytest.approx(4 * first + 16 * second)
        norm, count = theory.a1_norm(source, target, 0.5), source[0].numel()
        assert theory.lemma3_norm(source, target, 0.5, 0.5) == pytest.approx(
            4 * norm + 16 * second / count
        )
        printed = theory.a2(source, target, printed=True)
        assert theory.lemma3_printed(source, target, 0.5, n) == pytest.approx(
            2 * first + 4 * printed
        )


def test_the_printed_lemma_3_is_violated() -> None:
    violated = sum(
        theory.gap(s, t, h, n) > theory.lemma3_printed(s, t, 0.05, n) for s, t, h, n in draws(200)
    )
    assert violated > 100


def test_no_power_of_eps_saves_the_printed_second_term() -> None:
    """h = (0.1, 0.2), squared gradients (1, 4) against (4, 1): left 28125, right 0."""
    h = torch.tensor([0.1, 0.2], dtype=torch.float64)
    source, target = [torch.tensor([1.0, 2.0]).double()], [torch.tensor([2.0, 1.0]).double()]
    nothing = torch.zeros(2, dtype=torch.float64)
    assert theory.gap(source, target, h, nothing) == pytest.approx(28125.0)
    assert theory.a2(source, target, printed=True) == 0.0
    assert theory.a2(source, target) == 6.0
    assert theory.a2(source, target) / 0.1**4 >= 28125.0


def test_lemma_2_part_3() -> None:
    """|h^2 - k^2| <= (B - eps)^2 fails at (2, 1.9); the constant of 1/h^2 is checked on a grid."""
    largest, eps = 2.0, 1.9
    assert abs(largest**2 - eps**2) == pytest.approx(0.39)
    assert abs(largest**2 - eps**2) > (largest - eps) ** 2
    for low, high in ((0.01, 30.0), (0.1, 2.0), (1.9, 2.0)):
        h = torch.logspace(math.log10(low), math.log10(high), 400, dtype=torch.float64)
        slope = (1 / h[:-1] ** 2 - 1 / h[1:] ** 2) / (h[1:] - h[:-1])
        assert float(slope.max()) <= theory.lipschitz(low) <= theory.lipschitz(low, high)
        assert float(slope.max()) > 0.9 * theory.lipschitz(low)
    with pytest.raises(BadOption, match="eps"):
        theory.lipschitz(0.0)


@pytest.mark.parametrize("name", ["nn", "tv", "tvs"])
def test_subgradients_support_the_regulariser(name: str) -> None:
    """R(z) >= R(x) + <g, z - x> for every z, on the scale of a data term 1/2 sum w (y - x)^2."""
    g = torch.Generator().manual_seed(2)
    x = torch.rand(4, 6, 5, generator=g, dtype=torch.float64)
    value = theory.regulariser(models.build_model(name, x.shape))
    slope = theory.subgradient(name, x)
    for _ in range(20):
        z = torch.rand(4, 6, 5, generator=g, dtype=torch.float64)
        assert float(value(z)) >= float(value(x) + (slope * (z - x)).sum()) - 1e-9


def test_the_optimality_condition_that_everything_rests_on() -> None:
    """At the solution y - x = grad R(x) / w; the nuclear norm is smooth at full rank."""
    from hyperdlw.solver import Problem, solve

    g = torch.Generator().manual_seed(3)
    y = torch.rand(3, 20, 20, generator=g, dtype=torch.float64)
    w = 20 + torch.rand(3, 20, 20, generator=g, dtype=torch.float64)
    model = models.build_model("nn", y.shape)
    x = solve(Problem(model, y, w), model.schedule.converged(1e-9, 5000)).x
    assert torch.allclose(y - x, theory.subgradient(model, x) / w, atol=1e-5)


def test_a_flat_image_has_finite_subgradients() -> None:
    flat = torch.full((3, 4, 4), 0.5)
    for name in ("nn", "tv", "tvs"):
        assert bool(torch.isfinite(theory.subgradient(name, flat)).all())


def test_the_divergence_is_symmetric_and_zero_on_itself() -> None:
    g = torch.Generator().manual_seed(4)
    x, y = torch.rand(2, 5, 8, 8, generator=g)
    assert theory.divergence(["tv", "nn"], ["nn", "tv"], x, y) == 0.0
    there, back = (
        theory.divergence(["nn"], ["tv"], x, y),
        theory.divergence(["tv"], ["nn"], x, y),
    )
    assert there == back > 0
    assert theory.divergence(["nn", "tv"], ["tv"], x, y) < there
    with pytest.raises(BadOption, match="at least one"):
        theory.divergence([], ["tv"], x)


def test_every_registered_model_with_values_is_found() -> None:
    assert {"nn", "tv", "tvs"} <= set(theory.convex_models((4, 6, 6)))


def test_gaussian_complexity() -> None:
    """One function: 0. The pair (f, -f): E |<g, f>| / N = ||f|| sqrt(2/pi) / N."""
    g = torch.Generator().manual_seed(5)
    f = torch.randn(6, 10, generator=g)
    size = float(f.norm()) / 6
    alone = theory.gaussian_complexity([f], g, 4000)
    assert abs(alone) < 0.08 * size
    pair = theory.gaussian_complexity([f, -f], g, 4000)
    assert pair == pytest.approx(size * math.sqrt(2 / math.pi), rel=0.06)
    more = theory.gaussian_complexity([f, -f, f.flip(0), -f.flip(1)], g, 4000)
    assert pair < more < size * math.sqrt(2 * math.log(4))
    with pytest.raises(BadOption, match="axes"):
        theory.gaussian_complexity([torch.ones(())], g)


def test_the_training_bound() -> None:
    """Tighter with more samples, looser with less doubt; the deviation is that of both halves of delta."""
    kind = {"complexity": 0.2, "delta": 0.05, "largest_loss": 1.0, "lipschitz_loss": 2.0}
    few, many = (theory.training_bound(0.1, samples=n, **kind) for n in (100, 10_000))
    assert 0.1 < many < few
    assert theory.training_bound(0.1, samples=100, **{**kind, "delta": 0.001}) > few
    plain = theory.training_bound(0.0, 0.0, 50, 0.1, 1.0, 1.0)
    assert plain == pytest.approx(3 * math.sqrt(math.log(40) / 100))
    simple = theory.training_bound(0.1, samples=100, **{**kind, "complexity": 0.0})
    assert few - simple == pytest.approx(math.sqrt(2 * math.pi) * 2.0 * 0.2)
    assert theory.generalisation_bound(few, 0.3) == pytest.approx(few + 0.3)
    with pytest.raises(BadOption, match="delta"):
        theory.training_bound(0.1, samples=100, **{**kind, "delta": 1.0})


def test_the_training_bound_holds_for_averages() -> None:
    """The best of 20 losses in [0, 1] with mean 1/2: the bound fails in at most delta of the draws."""
    g = torch.Generator().manual_seed(6)
    functions, samples, delta = 20, 60, 0.2
    failed = 0
    for _ in range(100):
        loss = torch.rand(functions, samples, generator=g)
        complexity = theory.gaussian_complexity(loss, g, 50)
        best = int(loss.mean(1).argmin())
        bound = theory.training_bound(
            float(loss[best].mean()), complexity, samples, delta, 1.0, 1.0
        )
        failed += bound < 0.5
    assert failed <= delta * 100


def test_the_norm_in_the_first_term_is_a_bound_too() -> None:
    """With the noise in [-1, 1] = 2 B_d, the loss is the mean over the voxels."""
    for source, target, h, n in draws(200):
        bound = theory.lemma3_norm(source, target, 0.05, largest=0.5)
        assert theory.gap(source, target, h, n) / h.numel() <= bound * (1 + 1e-12)


def test_the_directed_divergence_bounds_the_gap_with_the_weights_in_it() -> None:
    for source, target, h, n in draws(50):
        us, ut = [g / h**2 for g in source], [g / h**2 for g in target]
        bound = theory.directed_divergence(us, ut)
        assert theory.gap(source, target, h, n) / h.numel() <= bound * (1 + 1e-12)


def test_the_theorem_for_one_source_and_one_target() -> None:
    """Random solutions x = y - g / h^2 in [-1, 1] with |g| <= B_r."""
    g = torch.Generator().manual_seed(3)
    eps, slope = 0.3, 0.02
    for _ in range(50):
        clean, h = torch.rand(20, generator=g) - 0.5, eps + torch.rand(20, generator=g)
        y = clean + 0.1 * torch.randn(20, generator=g).clamp(-2, 2)
        loss = [
            float(((y - slope * (2 * torch.rand(20, generator=g) - 1) / h**2 - clean) ** 2).mean())
            for _ in range(2)
        ]
        assert loss[1] <= theory.transfer_bound(loss[0], 1.0, slope, eps)


def test_the_solution_is_lipschitz_in_the_weight() -> None:
    g = torch.Generator().manual_seed(4)
    eps, most = 0.2, 1.5
    constant = theory.lipschitz_solution(eps, most, 1.0, 1.0)
    for _ in range(100):
        a, b = (eps + (most - eps) * torch.rand(1, generator=g) for _ in range(2))
        slope = a**2 * 2.0  # |y - x| <= B_y + B_d
        moved = (slope / a**2 - slope / b**2).abs()
        assert float(moved) <= constant * float((a - b).abs()) + 1e-6


def test_tasks_and_samples_of_the_training_bound() -> None:
    words = {"delta": 0.1, "largest_loss": 1.0, "lipschitz_loss": 1.0}
    one = theory.training_bound(0.0, 0.0, 300, **words)
    assert theory.training_bound(0.0, 0.0, [100] * 3, **words) == pytest.approx(one)
    assert theory.training_bound(0.0, 0.0, [10, 290], **words) > one
    with pytest.raises(BadOption, match="sample"):
        theory.training_bound(0.0, 0.0, [], **words)
