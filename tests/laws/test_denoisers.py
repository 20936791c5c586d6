"""Gaussian denoisers: the eigenimage wrapper, the shipped network, the registry."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw.errors import BadFile, BadInput, BadModel, BadOption
from hyperdlw.models.denoisers import catalogue as denoisers
from hyperdlw.models.denoisers import look_again
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.networks.ffdnet import FFDNet
from hyperdlw.networks.sert import SERT
from hyperdlw.testbed import scenes
from hyperdlw.testbed.metrics import psnr


def untouched(images: Tensor, sigma: Tensor) -> Tensor:
    assert images.shape[0] == len(sigma)
    return images


def low_rank(rank: int, bands: int = 7) -> Tensor:
    random = torch.Generator().manual_seed(rank)
    a, b = (torch.rand(s, generator=random) for s in ((bands, rank), (rank, 9, 10)))
    return torch.tensordot(a, b, 1) / rank


@pytest.fixture(scope="module")
def small() -> FFDNet:
    """A network with weights that do something."""
    torch.manual_seed(0)
    net = FFDNet(filters=6, layers=3)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.1)
    return net.eval().requires_grad_(False)


def test_full_rank_around_the_identity_is_the_identity() -> None:
    x = torch.rand(6, 8, 9)
    torch.testing.assert_close(denoisers.EigenDenoiser(untouched, 6)(x, 0.1), x)
    torch.testing.assert_close(denoisers.EigenDenoiser(untouched, 99)(x, 0.1), x)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_no_noise_and_the_right_rank_change_nothing(rank: int, small: FFDNet) -> None:
    x = low_rank(rank)
    torch.testing.assert_close(denoisers.EigenDenoiser(small, rank)(x, 0.0), x)
    if rank > 1:
        fewer = denoisers.EigenDenoiser(small, rank - 1)(x, 0.0)
        assert float((fewer - x).abs().max()) > 1e-3


def test_bands_in_another_order(small: FFDNet) -> None:
    x = torch.rand(6, 12, 11)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    f = denoisers.EigenDenoiser(small)
    torch.testing.assert_close(f(x[order], 0.2), f(x, 0.2)[order], atol=1e-5, rtol=1e-4)
    assert float((f(x, 0.2) - denoisers.EigenDenoiser(untouched)(x, 0.2)).abs().max()) > 1e-3


def find_components(x: Tensor, rank: int | Literal["auto"], sigma: float) -> Tensor:
    return denoisers.components_from_sums(denoisers.sum_spectra(x), rank, sigma).to(x.dtype)


def test_levels_are_those_of_the_scaled_images() -> None:
    """Noise of an eigenimage is the cube's: dividing by its range divides the level too."""
    seen: list[tuple[Tensor, Tensor]] = []

    def spy(images: Tensor, sigma: Tensor) -> Tensor:
        seen.append((images, sigma))
        return images

    x = low_rank(2)
    basis = find_components(x, 2, 0.1)
    torch.testing.assert_close(basis.T @ basis, torch.eye(2))
    denoisers.EigenDenoiser(spy, 2)(x, 0.1)
    ((images, sigma),) = seen
    raw = torch.tensordot(basis.T, x, 1)
    spread = raw.amax((1, 2)) - raw.amin((1, 2))
    torch.testing.assert_close(sigma, 0.1 / spread)
    assert float(images.min()) == pytest.approx(0.0, abs=1e-6)
    assert float(images.max()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("rank", [1, 3])
def test_auto_rank_counts_what_stands_out(rank: int) -> None:
    random = torch.Generator().manual_seed(5)
    a, b = (torch.randn(s, generator=random) for s in ((12, rank), (rank, 30, 30)))
    x = torch.tensordot(a, b, 1) + 0.05 * torch.randn(12, 30, 30, generator=random)
    assert find_components(x, "auto", 0.05).shape == (12, rank)
    noise = 0.05 * torch.randn(12, 30, 30, generator=random)
    assert find_components(noise, "auto", 0.05).shape == (12, 1)


def test_batches_are_cubes_one_by_one(small: FFDNet) -> None:
    f, x = denoisers.EigenDenoiser(small), torch.rand(2, 3, 5, 8, 8)
    torch.testing.assert_close(f(x, 0.1)[1, 2], f(x[1, 2], 0.1))


@pytest.mark.parametrize("bands", [1, 2, 3, 31])
def test_any_number_of_bands_and_constant_images(bands: int, small: FFDNet) -> None:
    for x in (torch.rand(bands, 7, 5), torch.full((bands, 7, 5), 0.3)):
        out = denoisers.EigenDenoiser(small)(x, 0.1)
        assert out.shape == x.shape
        assert bool(torch.isfinite(out).all())


@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (8, 5), (7, 7)])
def test_network_takes_odd_sizes(shape: tuple[int, int], small: FFDNet) -> None:
    y = torch.rand(2, *shape)
    assert small(y, torch.tensor(0.1)).shape == y.shape


def test_odd_sizes_are_padded_by_their_last_row_and_column(small: FFDNet) -> None:
    y = torch.rand(1, 7, 9)
    full = torch.nn.functional.pad(y[None], (0, 1, 0, 1), mode="replicate")[0]
    sigma = torch.tensor(0.1)
    torch.testing.assert_close(small(y, sigma), small(full, sigma)[:, :7, :9])


def test_noise_level_as_number_vector_and_map(small: FFDNet) -> None:
    y = torch.rand(3, 6, 8)
    one = small(y, torch.tensor(0.2))
    torch.testing.assert_close(small(y, torch.full((3,), 0.2)), one)
    torch.testing.assert_close(small(y, torch.full((3, 6, 8), 0.2)), one)
    other = small(y, torch.tensor([0.2, 0.2, 0.1]))
    torch.testing.assert_close(other[:2], one[:2])
    assert not torch.equal(other[2], one[2])
    with pytest.raises(BadInput, match="image, row, col"):
        small(y[0], torch.tensor(0.2))


def test_shipped_denoiser_is_no_weight_network() -> None:
    assert "gauss" not in store.list_networks()
    stored = store.load_denoiser("gauss")
    assert stored.card["kind"] == "denoiser"
    assert sum(p.numel() for p in stored.net.parameters()) == 128_644
    for field in ("data", "noise", "seed", "steps", "training_seconds", "validation", "version"):
        assert stored.card[field] not in (None, [], ""), field
    assert not set(stored.card["data"]) & set(stored.card["validation"])
    with pytest.raises(BadModel, match="gives no weights"):
        store.load_network(store.SHIPPED_DENOISERS / "gauss.safetensors")


@pytest.mark.parametrize(("level", "gain"), [(25, 10.0), (50, 12.0), (75, 13.0)])
def test_shipped_denoiser_removes_white_noise(level: int, gain: float) -> None:
    clean = scenes.synthetic(31, 64, 64, rng=np.random.default_rng(3)).data
    noise = np.random.default_rng(level).standard_normal(clean.shape, np.float32)
    y = clean + noise * np.float32(level / 255)
    x = denoisers.resolve_denoiser("eigen")(torch.from_numpy(y), level / 255)
    assert psnr(clean, x.numpy()) > psnr(clean, y, clip=False) + gain


def test_shipped_grey_denoiser_takes_a_map() -> None:
    clean = torch.from_numpy(scenes.synthetic(3, 48, 50, rng=np.random.default_rng(3)).data)
    sigma = torch.linspace(0.02, 0.3, 50).expand(3, 48, 50)
    y = clean + sigma * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    told = float((denoisers.denoise_planes(y, sigma) - clean).square().mean())
    middle = float((denoisers.denoise_planes(y, 0.16) - clean).square().mean())
    assert told < middle < float((y - clean).square().mean())


def test_files_and_callables_plug_in(tmp_path: Path, small: FFDNet) -> None:
    path = tmp_path / "mine.safetensors"
    store.save_network(path, small, {"name": "mine", "kind": "denoiser"})
    x = torch.rand(5, 8, 8)
    torch.testing.assert_close(
        denoisers.resolve_denoiser(path)(x, 0.1), denoisers.EigenDenoiser(small)(x, 0.1)
    )
    sert = SERT(5, "sert-tiny").eval()
    store.save_network(path, sert, {"name": "mine"}, overwrite=True)
    torch.testing.assert_close(denoisers.resolve_denoiser(str(path))(x, 0.1), sert(x))
    assert denoisers.resolve_denoiser(untouched) is untouched


def test_what_is_no_denoiser_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="did you mean 'eigen'"):
        denoisers.resolve_denoiser("egen")
    with pytest.raises(BadFile, match="no network file"):
        denoisers.resolve_denoiser("nowhere.safetensors")
    path = tmp_path / "w.safetensors"
    store.save_network(path, DLWnet3d(2, 1), {"name": "w"})
    with pytest.raises(BadModel, match="no Gaussian denoiser"):
        denoisers.resolve_denoiser(path)
    with pytest.raises(BadOption, match="rank"):
        denoisers.EigenDenoiser(untouched, 0)


@pytest.mark.parametrize("name", list(denoisers.PLANE_DENOISERS))
def test_grey_denoisers_know_no_units(name: str) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.rand((2, 12, 13), generator=random)
    sigma = 0.1 + 0.1 * torch.rand(x.shape, generator=random)
    f = denoisers.resolve_plane_denoiser(name)
    want = 40 * f(x, sigma) - 7
    torch.testing.assert_close(f(40 * x - 7, 40 * sigma), want, atol=1e-3, rtol=1e-3)
    level = torch.tensor([0.1, 0.2])
    flat = level[:, None, None].expand_as(x)
    torch.testing.assert_close(f(x, level), f(x, flat), atol=1e-5, rtol=1e-4)
    assert float((f(x, level) - x).abs().max()) > 1e-3


def test_grey_denoisers_by_name_and_file(small: FFDNet, tmp_path: Path) -> None:
    store.save_network(tmp_path / "small.safetensors", small, {"name": "small"})
    x, level = torch.rand(2, 8, 8), torch.tensor([0.1, 0.2])
    low, high = x.amin((1, 2), True), x.amax((1, 2), True)
    want = low + (high - low) * small((x - low) / (high - low), level / (high - low).flatten())
    got = denoisers.resolve_plane_denoiser(tmp_path / "small.safetensors")(x, level)
    torch.testing.assert_close(got, want)
    count = sum(p.numel() for p in small.parameters())
    stored = denoisers.find_network(tmp_path / "small.safetensors")
    assert sum(p.numel() for p in stored.net.parameters()) == count
    store.save_network(tmp_path / "sert.safetensors", SERT(), {"name": "sert"})
    with pytest.raises(BadOption, match="denoiser of cubes"):
        denoisers.resolve_plane_denoiser(tmp_path / "sert.safetensors")
    with pytest.raises(BadOption, match="did you mean 'gauss'"):
        denoisers.resolve_plane_denoiser("gaus")


def test_what_was_taken_away_comes_back_where_it_is_structure() -> None:
    """A line of one band in a small plume, at twice the noise, returns; of noise hardly anything does."""
    stream = torch.Generator().manual_seed(0)
    noise = 0.02 * torch.randn(6, 64, 64, generator=stream)
    x = torch.full_like(noise, 0.5)
    plume = torch.zeros_like(noise)
    plume[2, 20:30, 24:32] = 0.04

    def variance(image: torch.Tensor) -> torch.Tensor:
        return torch.full_like(image, 0.02**2)

    back = look_again(x + plume + noise, x, variance, 2.5) - x
    assert float(back[2, 20:30, 24:32].mean()) > 0.6 * 0.04
    quiet = back[[0, 1, 3, 4, 5]].square().mean() / noise.square().mean()
    assert float(quiet) < 0.005
    nothing = look_again(x + plume, x, lambda image: torch.zeros_like(image), 2.5)
    torch.testing.assert_close(nothing, x + plume)
