"""The estimated rank is the true one where there is one, whatever the noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw.pipeline.mild import count_components
from hyperdlw.pipeline.sample import Sample
from hyperdlw.weights import NoiseLaw


def estimate_rank(y: torch.Tensor, w: torch.Tensor) -> int:
    """As the pipeline does it: the sample of blocks, without voxels that have hardly any weight."""
    y, w = y.float(), w.float()
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    sample = sample.trusting(sample.blocks_of(w))
    return count_components(sample, sample.law)


def scene(rank: int, bands: int = 20, side: int = 48) -> tuple[np.ndarray, np.random.Generator]:
    """Smooth maps times independent spectra, (band, row, col), values of order one half."""
    rng = np.random.default_rng(rank)
    i = np.linspace(0, np.pi, side)
    maps = np.stack([np.outer(np.cos(k * i), np.cos((rank - k) * i)) for k in range(rank)])
    spectra = np.linalg.qr(rng.standard_normal((bands, rank)))[0] * 0.5 * np.sqrt(bands)
    return np.tensordot(spectra, maps, 1), rng


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("level", [0.02, 0.15])
def test_gaussian_noise_of_every_level(rank: int, level: float) -> None:
    """Bands differ by a factor of five in noise."""
    clean, rng = scene(rank)
    sigma = level * np.linspace(0.4, 2.0, clean.shape[0])[:, None, None]
    y = torch.from_numpy(clean + sigma * rng.standard_normal(clean.shape)).float()
    assert estimate_rank(y, torch.ones_like(y)) == rank


@pytest.mark.parametrize("rank", [2, 4])
def test_impulses_do_not_count_if_the_weights_see_them(rank: int) -> None:
    clean, rng = scene(rank)
    y = clean + 0.05 * rng.standard_normal(clean.shape)
    hit = rng.random(clean.shape) < np.linspace(0, 0.05, clean.shape[0])[:, None, None]
    y[hit] = 4 * rng.integers(0, 2, hit.sum()) - 2
    # Heavy tails, as the weights of a network have.
    w = np.where(hit, 1e-3, rng.lognormal(0, 0.5, clean.shape))
    assert estimate_rank(torch.from_numpy(y), torch.from_numpy(w)) == rank


def test_voxels_without_weight_have_no_part() -> None:
    clean, rng = scene(3)
    y = torch.from_numpy(clean + 0.05 * rng.standard_normal(clean.shape))
    w = torch.from_numpy((rng.random(clean.shape) > 0.02).astype(float))
    wild = torch.where(w > 0, y, 1e3 * torch.rand(y.shape, dtype=torch.float64))
    assert estimate_rank(y, w) == estimate_rank(wild, w) == 3


@pytest.mark.parametrize(("blocks", "count"), [(4, 2), (1, 3)])
def test_components_count_from_twice_the_edge_of_noise(blocks: int, count: int) -> None:
    """Rows with given energies: one just above twice the edge of Marchenko and Pastur, one below."""
    bands, pixels = 8, 64 * blocks
    edge = 2 * (1 + (bands / pixels) ** 0.5) ** 2
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.standard_normal((pixels, bands)))[0].T * pixels**0.5
    energy = np.array([50.0, edge * 1.02, edge * 0.98, 1, 1, 1, 1, 1])
    if count == 3:
        energy[3] = edge * 1.02
    level = torch.linspace(0.5, 2, bands)
    y = torch.from_numpy(rows * energy[:, None] ** 0.5).float() * level[:, None]
    sample = Sample(y.view(bands, blocks, 8, 8), torch.ones(bands, blocks, 8, 8, dtype=bool), ())
    law = NoiseLaw(level, level**2, torch.zeros(bands), torch.zeros(bands))
    assert count_components(sample, law) == count
    gaps = sample.ok.clone()
    gaps.view(bands, -1)[0, 31:] = False  # fewer than four pixels a band are left
    assert count_components(Sample(sample.y, gaps, ()), law) == 1


@pytest.mark.parametrize("bands", [1, 4])
def test_limits(bands: int) -> None:
    noise = torch.randn(bands, 16, 16, generator=torch.Generator().manual_seed(0))
    assert estimate_rank(noise, torch.ones_like(noise)) == 1
    smooth = torch.linspace(0, 1, 16).expand(bands, 16, 16)
    assert estimate_rank(smooth, torch.ones_like(smooth)) == 1
