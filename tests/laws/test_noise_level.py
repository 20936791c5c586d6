"""Levels found on scenes made by code: right with many bands, never too high with few."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw.testbed import make_textured_scene
from hyperdlw.weights import BLOCKS, noise_of_sample, sample_blocks, sample_step


def ratios(bands: int, snr: float, side: int = 96) -> torch.Tensor:
    """Found over true levels of bands whose noise is proportional to the signal."""
    clean = make_textured_scene(max(31, bands), side, side, rng=np.random.default_rng(3))
    if bands < 31:
        clean = clean[np.linspace(2, 28, bands).astype(int)]
    noise = np.random.default_rng(4).standard_normal(clean.shape) * clean / snr
    y = torch.from_numpy((clean + noise).astype(np.float32))
    blocks = sample_blocks(y, torch.ones_like(y, dtype=torch.bool), sample_step(y.shape, BLOCKS))
    found = noise_of_sample(*blocks).level
    return found / torch.from_numpy(clean / snr).square().mean((1, 2)).sqrt()


@pytest.mark.parametrize(("bands", "side"), [(31, 96), (200, 64)])
@pytest.mark.parametrize("snr", [5, 50, 1000])
def test_level_of_many_bands(bands: int, side: int, snr: float) -> None:
    found = ratios(bands, snr, side)
    assert abs(float(found.median()) - 1) < 0.15
    # 64 blocks scatter more than 144.
    assert float(found.max()) < (1.3 if side == 96 else 1.4)


@pytest.mark.parametrize("bands", [1, 2, 4])
@pytest.mark.parametrize("snr", [5, 50, 1000])
def test_few_bands_are_never_too_high(bands: int, snr: float) -> None:
    found = ratios(bands, snr)
    assert float(found.max()) < 1.3
    if snr == 5:
        assert float(found.min()) > 0.5
