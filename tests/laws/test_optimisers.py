"""Laws of the optimisers."""

from __future__ import annotations

import torch
from torch import Tensor

from hyperdlw.train.optimisers import Soap, build_optimiser


def iterates(
    rule: type, start: Tensor, target: Tensor, left: Tensor, right: Tensor
) -> list[Tensor]:
    """Minimise 1/2 |left (x - target) right'|^2 and keep every iterate."""
    x = start.clone().requires_grad_()
    step = rule([x], lr=0.05)
    kept = []
    for _ in range(25):
        x.grad = None
        (0.5 * (left @ (x - target) @ right.mT).square().sum()).backward()
        step.step()
        kept.append(x.detach().clone())
    return kept


def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    start, target, left, right = (
        torch.randn(5, 5, generator=g, dtype=torch.float64) for _ in range(4)
    )
    return start, target, left, right


def test_soap_does_not_depend_on_the_axes() -> None:
    """Turning the space of both sides of a matrix turns the iterates; Adam's change."""
    start, target, left, right = problem()
    g = torch.Generator().manual_seed(1)
    p, q = (
        torch.linalg.qr(torch.randn(5, 5, generator=g, dtype=torch.float64))[0] for _ in range(2)
    )

    def gap(rule: type) -> float:
        plain = iterates(rule, start, target, left, right)
        turned = iterates(rule, p @ start @ q.mT, p @ target @ q.mT, left @ p.mT, right @ q.mT)
        return max(
            float((p @ a @ q.mT - b).abs().max()) for a, b in zip(plain, turned, strict=True)
        )

    # Entries that vanish in the first basis are divided by second moments of rounding size.
    assert gap(Soap) < 1e-3
    assert gap(torch.optim.Adam) > 1e-1


def test_soap_on_a_vector_is_adam() -> None:
    """Vectors have no basis of their own; only the measuring first step differs."""
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    a, b = start.clone().requires_grad_(), start.clone().requires_grad_()
    soap = Soap([a], lr=0.1, betas=(0.9, 0.99, 0.9))
    adam = torch.optim.Adam([b], lr=0.1, betas=(0.9, 0.99))
    scale = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    a.grad = scale * a.detach()
    soap.step()
    for _ in range(20):
        a.grad, b.grad = scale * a.detach(), scale * b.detach()
        soap.step()
        adam.step()
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_soap_goes_on_from_its_state() -> None:
    """A saved and loaded optimiser takes the same steps, to the last bit."""
    start, target, left, right = problem()

    def run(x: Tensor, rule: torch.optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            x.grad = None
            (0.5 * (left @ (x - target) @ right.mT).square().sum()).backward()
            rule.step()

    whole = start.clone().requires_grad_()
    run(whole, build_optimiser("soap", [whole], 0.05), 30)
    part = start.clone().requires_grad_()
    first = build_optimiser("soap", [part], 0.05)
    run(part, first, 17)
    second = build_optimiser("soap", [part], 0.05)
    second.load_state_dict(first.state_dict())
    run(part, second, 13)
    assert torch.equal(whole, part)
