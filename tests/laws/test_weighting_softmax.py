"""The masked softmax: mean one over the valid voxels, nothing from the others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hyperdlw.weights import FLOOR, softmax_weights
from hyperdlw.weights.source import find_scale

SHAPES = [(3, 4, 5), (2, 3, 4, 5), (1, 1, 1), (2, 2, 1, 6, 1)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def logits_and_mask(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    valid = torch.rand(shape, generator=g) > 0.3
    valid[..., 0, 0, 0] = True
    return 3 * torch.randn(shape, generator=g, dtype=torch.float64), valid


@every_shape
def test_mean_one(shape: tuple[int, ...]) -> None:
    logits, valid = logits_and_mask(shape)
    one = torch.ones(shape[:-3], dtype=torch.float64) + FLOOR
    torch.testing.assert_close(softmax_weights(logits).mean((-3, -2, -1)), one)
    w = softmax_weights(logits, valid)
    torch.testing.assert_close(w.sum((-3, -2, -1)) / valid.sum((-3, -2, -1)), one)


@every_shape
def test_masked_voxels_have_no_weight_and_no_influence(shape: tuple[int, ...]) -> None:
    logits, valid = logits_and_mask(shape)
    w = softmax_weights(logits, valid)
    assert torch.equal(w > 0, valid)
    for value in (1e3, -1e3, torch.nan, torch.inf):
        assert torch.equal(softmax_weights(logits.masked_fill(~valid, value), valid), w)


@every_shape
def test_a_full_mask_is_no_mask(shape: tuple[int, ...]) -> None:
    logits, valid = logits_and_mask(shape)
    assert torch.equal(softmax_weights(logits, torch.ones_like(valid)), softmax_weights(logits))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shift", [-1e4, 2.5, 1e4])
def test_shift_invariance(masked: bool, shift: float) -> None:
    logits, mask = logits_and_mask((2, 3, 4, 5))
    valid = mask if masked else None
    # Each image may be shifted by its own constant.
    moved = logits + shift * torch.tensor([1.0, -2.0], dtype=torch.float64).view(2, 1, 1, 1)
    torch.testing.assert_close(
        softmax_weights(moved, valid), softmax_weights(logits, valid), rtol=1e-9, atol=0
    )


def test_weights_are_ratios_of_exponentials() -> None:
    w = softmax_weights(torch.tensor([[[0.0, 1.0]]], dtype=torch.float64)).flatten() - FLOOR
    torch.testing.assert_close(w[1] / w[0], torch.tensor(1.0, dtype=torch.float64).exp())


def test_a_mask_may_broadcast() -> None:
    logits, _ = logits_and_mask((3, 4, 5))
    columns = torch.tensor([True, False, True, True, False])
    w = softmax_weights(logits, columns)
    assert torch.equal(w, softmax_weights(logits, columns.expand(3, 4, 5)))


def test_the_scale_makes_the_mean_one_and_forgets_last_digits():
    """Sums over strips and over bands differ in their last digits; their scales do not."""
    assert find_scale(8, 4.0) == 2.0
    assert find_scale(3, 7.0) == pytest.approx(3 / 7, rel=2**-24)
    assert find_scale(3, 7.0) != 3 / 7
    for total in (1e-30, 7.0, 3e38):
        assert find_scale(5, total) == find_scale(5, total * (1 + 1e-13))
    assert find_scale(5, 0.0) == 0.0
