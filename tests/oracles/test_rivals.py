"""Rivals against outputs of the original programs, and against figures that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw.bench.experiment import Scene
from hyperdlw.bench.runner import make_noisy
from hyperdlw.io import open_cube
from hyperdlw.models.denoisers import catalogue as denoisers
from hyperdlw.models.published import hyres, lrmr, nmog
from hyperdlw.models.registry import find_model
from hyperdlw.networks.hsidcnn import HSIDCNN, neighbour_indices
from hyperdlw.networks.hsidenet import HSIDeNet
from hyperdlw.testbed import SceneChoice, load_scenes
from hyperdlw.testbed.metrics import psnr

each_case = pytest.mark.parametrize("case", [1, pytest.param(5, marks=pytest.mark.slow)])


def arrays(folder: Path, name: str) -> dict[str, np.ndarray]:
    with np.load(folder / "golden" / "variational" / f"{name}.npz") as stored:
        return dict(stored)


def cube(array: np.ndarray) -> Tensor:
    """A stored (row, col, band) array as (band, row, col)."""
    return torch.from_numpy(np.moveaxis(array, -1, 0).copy())


def test_lrmr_one_patch_with_the_recorded_random_matrices(shared: Path) -> None:
    gold = arrays(shared, "lrmr_ip31_case1")
    patch, sketches = torch.from_numpy(gold["P"]), torch.from_numpy(gold["Om"]).permute(2, 0, 1)
    low = lrmr.decompose(patch.unsqueeze(0), sketches)[0]
    torch.testing.assert_close(low, torch.from_numpy(gold["L1"]), rtol=0, atol=1e-8)
    sparse = torch.nn.functional.softshrink(patch - low, 0.15)
    torch.testing.assert_close(sparse, torch.from_numpy(gold["S1"]), rtol=0, atol=1e-8)


@each_case
def test_lrmr_whole_image(shared: Path, case: int) -> None:
    """The random matrices are not recorded; our seeds scatter with a deviation of 0.05 dB."""
    given, gold = arrays(shared, f"input_ip31_case{case}"), arrays(shared, f"lrmr_ip31_case{case}")
    clean = cube(given["clean"]).numpy()
    x = lrmr.run(cube(given["noisy"]), rank=3)
    assert psnr(clean, x.numpy()) == pytest.approx(psnr(clean, cube(gold["out"]).numpy()), abs=0.1)


@each_case
def test_nmog_from_the_recorded_start(shared: Path, case: int) -> None:
    given, gold = arrays(shared, f"input_ip31_case{case}"), arrays(shared, f"nmog_ip31_case{case}")
    # Components count from one, pixels down the columns.
    labels = gold["R0"].astype(np.int64).T.reshape(31, 128, 128).transpose(0, 2, 1) - 1
    x = nmog.run(cube(given["noisy"]).double(), labels=torch.from_numpy(labels.copy()))
    torch.testing.assert_close(x, cube(gold["out"]).double(), rtol=0, atol=1e-6)


def test_hyres_on_a_known_scene(shared: Path) -> None:
    found, _ = load_scenes(shared / "data/hsi/test", SceneChoice(("stuffed_toys",), crop=128))
    scene = Scene("stuffed_toys", found["stuffed_toys"])
    noisy = make_noisy(scene, 1, 0)
    assert psnr(scene.data, hyres.run(torch.from_numpy(noisy.y)).numpy()) >= 27.5


@pytest.mark.parametrize(("level", "known"), [(25, 38.6), (50, 36.2), (75, 34.2)])
def test_gaussian_denoiser_on_a_known_scene(shared: Path, level: int, known: float) -> None:
    """Within 1.5 dB of the full FFDNet in the same wrapper, with a quarter of its parameters."""
    whole = open_cube(shared / "data" / "hsi" / "test" / "stuffed_toys.npz").data
    clean = np.ascontiguousarray(whole[:, 192:320, 192:320])
    found = []
    for seed in range(3):
        noise = np.random.default_rng([seed, level]).standard_normal(clean.shape, np.float32)
        y = torch.from_numpy(clean + np.float32(level / 255) * noise)
        found.append(psnr(clean, denoisers.EigenDenoiser(rank=4)(y, level / 255).numpy()))
    assert np.mean(found) > known - 1.5


def test_hyres_risk_is_the_squared_error() -> None:
    """Stein's estimate is unbiased: over many coefficients it is the error that was made."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.zeros(1, 200_000, dtype=torch.float64)
    truth[:, ::20] = 5.0
    c = truth + torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    threshold, risk = hyres.best_thresholds(c)
    shrunk = c.sign() * (c.abs() - threshold).clamp_min(0)
    error = float((shrunk - truth).square().mean())
    estimate = float(risk + c.square().sum()) / c.numel() - 1
    assert estimate == pytest.approx(error, abs=0.01)
    other = c.sign() * (c.abs() - 2 * threshold).clamp_min(0)
    assert error < float((other - truth).square().mean())


def count(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_parameter_counts() -> None:
    assert count(HSIDCNN()) == 399_161 == find_model("hsid-cnn").count_parameters(31)
    assert count(HSIDCNN(60)) == 458_921
    assert count(HSIDeNet()) == 2_767_680 == find_model("hsi-denet").count_parameters(31)
    assert count(HSIDeNet(10)) == 2_743_488
    assert all(
        find_model(n).count_parameters(31) == 0 for n in ("lrmr", "nmog", "hyres", "fasthymix")
    )


def test_neighbours_at_the_ends_and_in_the_middle() -> None:
    table = neighbour_indices(31, 24)
    assert table.shape == (31, 24)
    for b in range(12):
        assert table[b].tolist() == list(range(24))
    for b in range(12, 19):
        assert table[b].tolist() == [*range(b - 12, b), *range(b + 1, b + 13)]
    for b in range(19, 31):
        assert table[b].tolist() == list(range(7, 31))


@pytest.mark.parametrize("bands", [2, 3, 12, 23])
def test_neighbours_of_a_short_spectrum_are_reflected(bands: int) -> None:
    table = neighbour_indices(bands, 24)
    wave = [*range(bands), *range(bands - 2, 0, -1)] * 30
    middle = 10 * (2 * bands - 2)
    for b in range(bands):
        around = [*range(middle + b - 12, middle + b), *range(middle + b + 1, middle + b + 13)]
        assert table[b].tolist() == [wave[k] for k in around]


def test_the_four_heads_are_four() -> None:
    net = HSIDCNN()
    y = torch.rand(26, 8, 8)
    before = net(y)
    for head in net.heads:
        kept = head.weight.detach().clone()
        torch.nn.init.zeros_(head.weight)
        assert not torch.allclose(net(y), before)
        head.weight.data.copy_(kept)
    assert torch.equal(net(y), before)


def test_a_network_without_a_correction_changes_nothing() -> None:
    y = torch.rand(31, 9, 8)
    for net in (HSIDCNN(), HSIDeNet().eval()):
        final = net.last if isinstance(net, HSIDCNN) else net.layers[-1]
        for p in final.parameters():
            torch.nn.init.zeros_(p)
        assert torch.equal(net(y), y)
