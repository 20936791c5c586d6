"""What other bands say of a voxel, and which voxels are impulses in mild noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw import denoise
from hyperdlw.pipeline.mild import spare_model
from hyperdlw.pipeline.outliers import Expected, Isolated
from hyperdlw.pipeline.sample import Sample
from hyperdlw.testbed import find_noise, make_textured_scene
from hyperdlw.weights import NoiseLaw

LEVEL = 0.01


def make_spectra(bands: int = 12, pixels: int = 64 * 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal spectra of three components, clean and noisy, (band, row, col)."""
    stream = torch.Generator().manual_seed(3)
    mixing = torch.randn(bands, 3, generator=stream)
    clean = 0.5 + 0.1 * mixing @ torch.randn(3, pixels, generator=stream)
    noisy = clean + LEVEL * torch.randn(bands, pixels, generator=stream)
    side = int(pixels**0.5)
    return clean.view(bands, side, side), noisy.view(bands, side, side)


def known_law(bands: int) -> NoiseLaw:
    level, zero = torch.full((bands,), LEVEL), torch.zeros(bands)
    return NoiseLaw(level, level.square(), zero, zero)


def test_expected_is_the_conditional_mean_of_a_normal_law():
    _, y = make_spectra()
    law = known_law(len(y))
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    found = Expected.learn(sample.y, sample.ok, law)
    assert found is not None
    flat = sample.y.flatten(1).double()
    middle = flat.mean(1, keepdim=True)
    # The signal of the strong components, and the noise beside it.
    values, vectors = torch.linalg.eigh(torch.cov(flat, correction=0))
    signal = vectors[:, -3:] @ torch.diag(values[-3:] - LEVEL**2) @ vectors[:, -3:].T
    lost = torch.zeros(len(y), dtype=torch.bool)
    lost[[2, 3, 7]] = True
    noise = LEVEL**2 * torch.eye(int((~lost).sum()), dtype=torch.float64)
    gain = signal[lost][:, ~lost] @ torch.linalg.inv(signal[~lost][:, ~lost] + noise)
    pixels = y.flatten(1)[:, :50].double()
    wanted = middle[lost] + gain @ (pixels - middle)[~lost]
    told = found.predict(pixels, ~lost[:, None].expand(-1, 50))[lost]
    assert (told - wanted).abs().max() < 1e-4 * LEVEL


def test_filled_voxels_are_as_good_as_the_noise_of_their_neighbours():
    clean, y = make_spectra()
    lost = torch.zeros_like(y, dtype=torch.bool)
    lost[3:6, :, 20] = True
    y = torch.where(lost, torch.nan, y)
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    found = Expected.learn(sample.y, sample.ok, known_law(len(y)))
    assert found is not None
    filled = found.fill(y, lost)
    assert torch.equal(filled[~lost], y[~lost])
    assert (filled - clean)[lost].square().mean().sqrt() < 1.5 * LEVEL
    # Pixel by pixel: the same in strips, up to the rounding of a product.
    parts = torch.cat([found.fill(y[:, r : r + 5], lost[:, r : r + 5]) for r in range(0, 64, 5)], 1)
    assert (parts - filled).abs().max() < 1e-6


def test_an_impulse_is_isolated_and_a_line_of_a_gas_is_not():
    _, y = make_spectra()
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    rule = Isolated.learn(sample, known_law(len(y)))
    y = y.clone()
    y[4, 10, 10] += 60 * LEVEL
    y[6:8, 30, 30] -= 60 * LEVEL  # two neighbouring bands
    y[9, 40, 40:42] += 60 * LEVEL  # two neighbouring pixels
    lost = rule.find(y)
    assert lost[4, 10, 10]
    assert not lost[6:8, 30, 30].any()
    assert not lost[9, 40, 40:42].any()


@pytest.mark.parametrize("noise", ["mild", "dead-elements", "snr50"])
def test_mild_noise_needs_no_model(noise):
    x = make_textured_scene(16, 64, 64, rng=np.random.default_rng(11))
    y = find_noise(noise).apply(x, np.random.default_rng(5)).y
    result = denoise(y)
    assert result.report.steps == 0
    assert np.square(result.cube.data - x).mean() < 0.8 * np.square(y - x).mean()


def test_loud_noise_and_many_impulses_need_the_model():
    x = torch.from_numpy(make_textured_scene(16, 64, 64, rng=np.random.default_rng(11)))
    stream = torch.Generator().manual_seed(1)
    y = x + 0.02 * torch.randn(x.shape, generator=stream)
    hit = torch.rand(x.shape, generator=stream) < 0.03
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    assert spare_model(sample, sample.law, 0.0, quiet=False) is not None
    y = torch.where(hit, torch.rand(x.shape, generator=stream), y)
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    assert spare_model(sample, sample.law, 0.0, quiet=False) is None


@pytest.mark.parametrize(("noise", "alone"), [("case1", True), ("case2", False), ("even30", False)])
def test_impulses_in_loud_noise_are_left_to_the_model(noise, alone):
    """They cannot be told one by one there; eigenimages would spread them (1.2 dB on one scene)."""
    x = make_textured_scene(31, 64, 64, rng=np.random.default_rng(12))
    y = find_noise(noise).apply(x, np.random.default_rng(5)).y
    part = denoise(y).report.noise["model_part"]
    assert part == 1.0 if alone else 0.3 < part < 0.9
