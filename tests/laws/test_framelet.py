"""The tight frame at borders and in strips."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hyperdlw.models.denoisers import framelet


def noisy(rows: int, cols: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(rows)
    x = torch.linspace(0, 3, rows)[:, None].sin() + torch.rand(2, rows, cols, generator=random)
    return x, 0.1 + 0.3 * torch.rand(2, rows, cols, generator=random)


@pytest.mark.parametrize("height", [7, 50, 64])
def test_strips_with_a_halo_are_the_whole(height: int) -> None:
    x, sigma = noisy(150, 40)
    whole = framelet.denoise(x, sigma)
    for top in range(0, 150, height):
        end = min(150, top + height)
        a, b = max(0, top - framelet.REACH), min(150, end + framelet.REACH)
        part = framelet.denoise(x[:, a:b], sigma[:, a:b])[:, top - a : end - a]
        torch.testing.assert_close(part, whole[:, top:end], rtol=0, atol=1e-6)


def test_reach_is_the_true_one() -> None:
    x, sigma = noisy(150, 40)
    x, sigma = x.double(), sigma.double()
    changed = x.clone()
    changed[:, 60] += 1
    moved = (framelet.denoise(changed, sigma) - framelet.denoise(x, sigma)).abs().amax((0, 2))
    rows = moved.nonzero().flatten()
    assert (int(rows.min()), int(rows.max())) == (60 - framelet.REACH, 60 + framelet.REACH)


@pytest.mark.parametrize("shape", [(1, 5), (6, 3), (40, 23)])
def test_an_image_goes_on_as_its_mirror(shape: tuple[int, int]) -> None:
    x, sigma = noisy(*shape)

    def doubled(v: Tensor) -> Tensor:
        v = torch.cat([v, v.flip(1)], 1)
        return torch.cat([v, v.flip(2)], 2)

    whole = framelet.denoise(doubled(x), doubled(sigma))
    torch.testing.assert_close(whole, doubled(framelet.denoise(x, sigma)), rtol=0, atol=1e-6)


def test_caution_is_a_factor_on_the_variance() -> None:
    x, sigma = noisy(40, 30)
    twice = framelet.denoise(x, sigma, 2.0)
    torch.testing.assert_close(twice, framelet.denoise(x, sigma * 2**0.5, 1.0))
    torch.testing.assert_close(framelet.denoise(x, sigma), framelet.denoise(x, sigma, 1.5))
    assert float((twice - framelet.denoise(x, sigma)).abs().max()) > 1e-3
