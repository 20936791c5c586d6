"""Rivals behind the common call: any shape or one clear sentence, the same seed the same image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw.bench import runner
from hyperdlw.bench.experiment import Scene
from hyperdlw.bench.tables import Row, Table
from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, BadInput, BadModel, BadOption
from hyperdlw.models.denoisers import framelet
from hyperdlw.models.published import lrmr, nmog
from hyperdlw.models.registry import build_model, find_model, list_models
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.networks.hsidcnn import HSIDCNN
from hyperdlw.networks.hsidenet import HSIDeNet
from hyperdlw.pipeline.run import denoise
from hyperdlw.solver import Model, Problem, solve
from hyperdlw.testbed import SceneChoice, find_noise, load_scenes, psnr, scenes

FORMULAS = ("lrmr", "nmog", "hyres", "fasthymix", "mnf")
SHIPPED = (
    *FORMULAS,
    *(["hsid-cnn"] if (store.SHIPPED_RIVALS / "hsid-cnn.safetensors").exists() else []),
)
SHAPES = [(3, 16, 21), (31, 24, 17), (191, 12, 15), (31, 8, 9), (2, 33, 32)]


def image(shape: tuple[int, int, int], noise: float = 0.1) -> Tensor:
    clean = scenes.synthetic(*shape, rng=np.random.default_rng(1)).data
    y = clean + noise * np.random.default_rng(2).standard_normal(shape)
    return torch.from_numpy(y.astype(np.float32))


def restore(name: str, y: Tensor, rank: int | None = None, seed: int = 0) -> Tensor:
    """A published method is a model with a method: built and solved like any other."""
    model = build_model(name, y.shape, rank=rank)
    return solve(Problem(model, y, torch.ones_like(y), seed)).x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SHIPPED)
def test_any_shape(name: str, shape: tuple[int, int, int]) -> None:
    y = image(shape)
    kept = y.clone()
    x = restore(name, y)
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    assert bool(torch.isfinite(x).all())
    assert torch.equal(y, kept)
    assert torch.equal(restore(name, y), x)


@pytest.mark.parametrize("name", SHIPPED)
def test_constant_bands_and_images(name: str) -> None:
    y = image((6, 20, 18))
    y[2], y[4] = 0.5, 0.0
    assert bool(torch.isfinite(restore(name, y)).all())
    for value in (0.0, 0.5):
        x = restore(name, torch.full((5, 12, 13), value))
        assert bool(torch.isfinite(x).all())


@pytest.mark.parametrize("name", FORMULAS)
def test_a_clean_image_of_low_rank_stays(name: str) -> None:
    rng = np.random.default_rng(0)
    maps = np.stack([np.cumsum(rng.standard_normal((28, 40)), 1) for _ in range(2)])
    flat = rng.random((31, 2)) @ maps.reshape(2, -1)
    x = ((flat - flat.min()) / np.ptp(flat)).reshape(31, 28, 40).astype(np.float32)
    out = restore(name, torch.from_numpy(x)).numpy()
    assert float(np.abs(out - x).max()) < 5e-3


@pytest.mark.parametrize("name", SHIPPED)
def test_rivals_denoise(name: str) -> None:
    clean = torch.from_numpy(scenes.synthetic(31, 40, 36, rng=np.random.default_rng(1)).data)
    y = image((31, 40, 36), 0.15)
    x = restore(name, y)
    assert float((x - clean).square().mean()) < 0.5 * float((y - clean).square().mean())


@pytest.mark.parametrize("name", ["nmog", "hyres", "fasthymix"])
def test_rows_and_columns_are_not_mixed_up(name: str) -> None:
    """An image turned on its side gives a similar result turned on its side."""
    y = image((12, 40, 24))
    a, b = restore(name, y), restore(name, y.mT.contiguous()).mT
    assert float((a - b).square().mean().sqrt()) < 0.03


def test_lrmr_turned_on_its_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same random matrices for all patches the result is the same, since every patch is."""
    drawn = torch.randn(lrmr.STEPS, 1, 12, 3, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(lrmr, "_sketches", lambda *given: drawn)
    y = image((12, 40, 24))
    torch.testing.assert_close(lrmr.run(y), lrmr.run(y.mT.contiguous()).mT, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["hyres", "fasthymix", "hsid-cnn", "hsi-denet"])
def test_one_band_is_refused_where_others_are_needed(name: str, tmp_path: Path) -> None:
    model = name
    if name.startswith("hsi"):
        net = HSIDCNN() if name == "hsid-cnn" else HSIDeNet(4).eval()
        model = str(tmp_path / "a.safetensors")
        store.save_network(model, net, {})
    with pytest.raises(BadInput, match="band"):
        restore(model, image((1, 12, 12)))


@pytest.mark.parametrize("name", ["lrmr", "nmog"])
def test_one_band_is_enough_elsewhere(name: str) -> None:
    assert restore(name, image((1, 12, 13))).shape == (1, 12, 13)


@pytest.mark.parametrize("name", ["lrmr", "nmog"])
def test_the_seed_decides(name: str) -> None:
    y = image((10, 22, 20), 0.2)
    a, b, c = (restore(name, y, seed=s) for s in (3, 3, 4))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("name", FORMULAS)
def test_rank_is_kept(name: str) -> None:
    y = image((9, 20, 20))
    x = restore(name, y, rank=2)
    if name == "lrmr":  # overlapping patches of rank 2 add up to more; here there is one
        x = restore(name, y[:, :20, :20], rank=2)
    flat = x.flatten(1).double()
    if name == "mnf":  # its components have no mean
        flat = flat - flat.mean(1, keepdim=True)
    values = torch.linalg.svdvals(flat)
    assert float(values[2]) < 1e-4 * float(values[0])
    for bad in (0, -1, 10):
        with pytest.raises(BadOption, match="rank"):
            restore(name, y, rank=bad)


def test_nmog_in_small_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    y = image((12, 20, 18), 0.2)
    whole = nmog.run(y)
    monkeypatch.setattr(nmog, "STORE_BYTES", 0)
    monkeypatch.setattr(nmog, "CHUNK_BYTES", 40_000)
    torch.testing.assert_close(nmog.run(y), whole, rtol=0, atol=1e-5)


def test_lrmr_in_small_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    y = image((6, 30, 27), 0.2)
    whole = lrmr.run(y)
    monkeypatch.setattr(lrmr, "CHUNK", 1)
    torch.testing.assert_close(lrmr.run(y), whole, rtol=0, atol=1e-5)


def test_framelets_are_a_tight_frame_and_know_the_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 23, 37, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(framelet.denoise(x, 0.0), x)
    noise = 0.3 * torch.randn(1, 96, 96, generator=generator)
    left = framelet.denoise(noise, 0.3)
    assert float(left.std()) < 0.35 * 0.3
    maps = torch.full((1, 96, 96), 0.3)
    torch.testing.assert_close(framelet.denoise(noise, maps), left)
    torch.testing.assert_close(framelet.denoise(noise, torch.tensor([0.3])), left)


# --- the common call


def test_denoise_scales_and_reports() -> None:
    y = image((8, 20, 22)).numpy()
    a = denoise(y, model="hyres", range=(0, 1))
    b = denoise(y * 4000 + 100, model="hyres", range=(100, 4100))
    np.testing.assert_allclose((b.cube.data - 100) / 4000, a.cube.data, atol=1e-3)
    assert a.report.weights == "none"
    assert a.report.model == "hyres"
    assert (a.weights == 1).all()
    assert "<table>" in a._repr_html_()


def test_gaps_come_back_as_they_were() -> None:
    y = image((8, 20, 22)).numpy()
    y[0, 1, 2], y[3, 4, 5] = np.nan, np.inf
    y[5] = 0.25
    result = denoise(y, model="fasthymix")
    gaps = ~np.isfinite(y)
    np.testing.assert_array_equal(result.cube.data[gaps], y[gaps])
    np.testing.assert_array_equal(result.cube.data[5], y[5])
    assert np.isfinite(result.cube.data[~gaps]).all()
    assert result.report.bands_skipped == {5: "constant"}
    assert (result.weights[gaps] == 0).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"weights": "uniform"}, "weights"),
        ({"weights": np.ones((8, 20, 22))}, "weights"),
        ({"strength": 2.0}, "strength"),
        ({"schedule": "converged"}, "schedule"),
    ],
)
def test_what_a_rival_has_no_use_for_is_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(BadOption, match=f"no {word}"):
        denoise(image((8, 20, 22)).numpy(), model="lrmr", **options)  # type: ignore[arg-type]


def test_a_network_file_is_a_model(tmp_path: Path) -> None:
    net = HSIDeNet(5)
    for layer in net.modules():  # statistics of batch normalisation are part of the network
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.1, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    path = tmp_path / "own.safetensors"
    store.save_network(path, net, {"name": "own"})
    y = image((5, 11, 14))
    with torch.no_grad():
        assert torch.equal(restore(str(path), y), net.eval()(y))
    result = denoise(Cube.from_array(y.numpy()), model=str(path), range=(0, 1))
    assert result.report.networks == {str(path): store.load_rival(path).sha256}
    assert find_model(str(path)).count_parameters(5) == 2_731_968 + 1_152 * 5
    with pytest.raises(BadInput, match=r"5 bands and this one has 6.*groups of 5"):
        restore(str(path), image((6, 11, 14)))


def test_weight_networks_and_rivals_are_not_mixed_up(tmp_path: Path) -> None:
    own, weight = tmp_path / "own.safetensors", tmp_path / "weight.safetensors"
    store.save_network(own, HSIDCNN(), {})
    store.save_network(weight, DLWnet3d(2, 1), {})
    with pytest.raises(BadModel, match="gives no weights"):
        store.load_network(own)
    with pytest.raises(BadModel, match="gives no weights"):
        denoise(image((4, 9, 9)).numpy(), weights=str(own))
    with pytest.raises(BadOption, match="gives no weights"):
        store.load_network("hsid-cnn")
    with pytest.raises(BadOption, match="no weight source 'hsid-cnn'"):
        denoise(image((4, 9, 9)).numpy(), weights="hsid-cnn")
    with pytest.raises(BadModel, match="cannot restore"):
        restore(str(weight), image((4, 9, 9)))
    with pytest.raises(BadFile, match="nowhere"):
        restore("nowhere.safetensors", image((4, 9, 9)))
    assert not set(store.list_networks()) & set(list_models())
    for name in store.list_networks():
        store.load_network(name)


@pytest.mark.parametrize("sizes", [{"neighbours": 3}, {"neighbours": 10**6}, {"channels": 4}])
def test_cards_of_rivals_must_fit(tmp_path: Path, sizes: dict[str, int]) -> None:
    net = HSIDCNN()
    net.config = {"architecture": "hsid-cnn", **sizes}
    store.save_network(tmp_path / "a.safetensors", net, {})
    with pytest.raises(BadModel, match="card"):
        store.load_rival(tmp_path / "a.safetensors")


def test_an_untrained_network_says_how_to_train_it() -> None:
    missing = [n for n in ("hsid-cnn", "hsi-denet") if n not in SHIPPED]
    for name in missing:
        with pytest.raises(BadOption, match=f"hyperdlw train-rival {name}"):
            restore(name, image((31, 9, 9)))
    assert "hsi-denet" in missing


def test_names() -> None:
    for entry in list_models("published").values():
        assert entry.summary.endswith(".")
        assert not entry.takes & {"weights", "strength", "schedule", "original"}
    with pytest.raises(BadOption, match="did you mean 'nmog'"):
        find_model("nmg")
    with pytest.raises(BadInput):
        restore("lrmr", torch.zeros(3, 4))


def test_the_benchmark_runs_rivals(tmp_path: Path) -> None:
    data = scenes.synthetic(31, 32, 30, rng=np.random.default_rng(0)).data
    low, high = data.min((1, 2), keepdims=True), data.max((1, 2), keepdims=True)
    scene = Scene("a", (data - low) / (high - low))
    table = Table(
        "t", "t", ("tv", "hyres", "hsi-denet"), (Row("uniform"), Row("robust")), ("case1",)
    )
    cases = runner.plan_cases(table, [scene], range(1))
    assert [(c.model, c.weights) for c in cases] == [
        ("noisy", ""),
        ("tv", "uniform"),
        ("hyres", ""),
        ("hsi-denet", ""),
        ("tv", "robust"),
    ]
    records = runner.run_table(table, [scene], tmp_path)
    by_model = {r["model"]: r for r in records}
    assert by_model["hyres"]["psnr"] > by_model["noisy"]["psnr"]
    assert by_model["hyres"]["parameters"] == 0
    assert by_model["hyres"]["seconds"] >= 0
    assert "train-rival" in by_model["hsi-denet"]["skipped"]


def test_mnf_keeps_what_stands_above_the_noise() -> None:
    clean = load_scenes(None, SceneChoice(("made:1",), crop=64))[0]["made:1"]
    noisy = find_noise("mild").apply(clean, np.random.default_rng(0)).y
    x = restore("mnf", torch.from_numpy(noisy)).numpy()
    assert psnr(clean, x) > psnr(clean, noisy) + 2
    with pytest.raises(BadInput, match="two rows"):
        restore("mnf", torch.zeros(3, 1, 9))


def test_the_published_lrtfdfr_is_a_fair_rival_on_dark_scenes() -> None:
    """Its penalty smoothed a dark scene to the means of its bands; others are as they were, to the digit."""
    made = [scenes.synthetic(31, 48, 48, rng=np.random.default_rng(k)).data for k in (0, 1)]
    y, dark = map(torch.from_numpy, made)
    model = build_model("lrtfdfr", y.shape, original=True)
    plain = replace(model, again=None)

    def run(m: Model, image: Tensor) -> Tensor:
        return solve(Problem(m, image, torch.ones_like(image))).x

    assert torch.equal(run(model, y), run(plain, y))
    flat = dark.mean((1, 2), keepdim=True).expand_as(dark)
    wiped, kept, means = (
        psnr(dark.numpy(), x.numpy()) for x in (run(plain, dark), run(model, dark), flat)
    )
    assert wiped < means + 1
    assert kept > means + 3
