"""Weight sources: mean one where valid, 0 elsewhere, low where the noise is high."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw.errors import BadFile, BadInput, BadModel, BadOption
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet2d, DLWnet3d
from hyperdlw.pipeline.run import denoise, predict_weights
from hyperdlw.testbed import noise, scenes
from hyperdlw.weights import (
    Given,
    Net,
    Oracle,
    Precision,
    Product,
    Uniform,
    estimate_noise_level,
    list_formulas,
    predict_logits,
    resolve,
    softmax_weights,
)
from hyperdlw.weights import registry as weighting

SHAPE = (7, 18, 22)


@pytest.fixture(scope="module")
def dirty() -> noise.Noisy:
    clean = scenes.synthetic(*SHAPE, rng=np.random.default_rng(1))
    return noise.case(5, clean.data, np.random.default_rng(2))


@pytest.fixture(scope="module")
def net() -> DLWnet3d:
    torch.manual_seed(0)
    return DLWnet3d(6, 3).eval().requires_grad_(False)


def sources(dirty: noise.Noisy, net: DLWnet3d) -> dict[str, object]:
    mask = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) > 0.3
    return {
        **{name: entry.build() for name, entry in list_formulas().items()},
        "oracle": Oracle(dirty.truth),
        "given": Given(mask.float()),
        "plane": Given(mask[0].float()),
        "net": Net(net, "random"),
        "product": Product((Precision(), Given(mask.float()), Net(net, "random"))),
        "squared": Product((Precision(),) * 8),
    }


NAMES = ("uniform", "precision", "robust", "mixture", "oracle", "given", "plane", "net", "product")


@pytest.mark.parametrize("holes", [False, True], ids=["whole", "holes"])
@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("name", [*NAMES, "squared"])
def test_mean_one_and_zero_elsewhere(dirty, net, name, second, holes):
    y = torch.from_numpy(dirty.y)
    valid = torch.ones(SHAPE, dtype=torch.bool)
    if holes:
        valid = torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)) > 0.2
        valid[2] = False
        valid[:, 4] = False
    x = torch.full_like(y, 0.5) if second else None
    w = sources(dirty, net)[name](y, valid, x)
    assert w.shape == y.shape
    assert bool(torch.isfinite(w).all())
    assert bool((w[~valid] == 0).all())
    assert bool((w[valid] >= 0.99e-4).all())
    # The floor adds at most 1e-4.
    assert float(w[valid].double().mean()) == pytest.approx(1, abs=2e-4)


def test_invalid_voxels_do_not_matter(dirty, net):
    """Whatever stands there, the weights elsewhere stay (networks see them, so they are filled)."""
    valid = torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)) > 0.1
    y = torch.from_numpy(dirty.y)
    other = torch.where(valid, y, torch.full_like(y, 17.0))
    x = torch.full_like(y, 0.5)
    for name in ("uniform", "precision", "robust", "mixture", "given"):
        source = sources(dirty, net)[name]
        torch.testing.assert_close(source(y, valid, x), source(other, valid, x))


def test_noise_level_sees_the_noise_and_not_the_image():
    clean = torch.from_numpy(scenes.synthetic(5, 64, 64, rng=np.random.default_rng(0)).data)
    sigma = torch.tensor([0.05, 0.1, 0.15, 0.2, 0.3])
    y = clean + sigma[:, None, None] * torch.randn(clean.shape, generator=torch.Generator())
    level = estimate_noise_level(y, torch.ones(y.shape, dtype=torch.bool))
    assert bool(((level / sigma - 1).abs() < 0.25).all())


@pytest.fixture(scope="module")
def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean, noisy, and where impulses of 0 and 1 stand: 5 % of every band."""
    clean = 0.2 + 0.6 * scenes.synthetic(8, 40, 40, rng=np.random.default_rng(5)).data
    rng = np.random.default_rng(6)
    hit = rng.random(clean.shape) < 0.05
    y = clean + 0.03 * rng.standard_normal(clean.shape)
    y = np.where(hit, rng.integers(0, 2, clean.shape), y)
    return clean, y.astype(np.float32), hit


@pytest.mark.parametrize("model", ["nn", "tv", "tvs"])
@pytest.mark.parametrize("name", ["robust", "mixture"])
def test_reweighting_finds_planted_impulses(planted, name, model):
    _, y, hit = planted
    w = denoise(y, model=model, weights=name, range=(0, 1)).weights
    assert w[hit].mean() < 0.3 * w[~hit].mean()


@pytest.mark.parametrize("name", ["robust", "mixture"])
def test_reweighting_does_not_collapse_on_one_band(dirty, name):
    """Low rank fits the heaviest band ever more closely; its weight must not run away."""
    clean = scenes.synthetic(15, 48, 48, rng=np.random.default_rng(7)).data
    y = noise.case(5, clean, np.random.default_rng(7)).y
    share = {}
    for source in ("precision", name):
        result = denoise(y, model="nn", weights=source, range=(0, 1), paper=True)
        share[source] = result.weights.mean(axis=(1, 2)).max() / len(y)
        share[source + " error"] = float(np.square(result.cube.data - clean).mean())
    assert share[name] < 2 * share["precision"]
    assert share[name + " error"] < share["precision error"]


def test_oracle_is_the_inverse_variance(dirty):
    y = torch.from_numpy(dirty.y)
    w = Oracle(dirty.truth)(y, torch.ones(SHAPE, dtype=torch.bool)).numpy()
    t = dirty.truth
    lost = t.impulse | t.dead
    assert (w[lost] <= 1.01e-4).all()
    variance = np.broadcast_to(t.sigma, SHAPE) ** 2 + t.stripe**2
    ratio = (w * variance)[~lost]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-3)


def test_oracle_of_another_shape(dirty):
    with pytest.raises(BadInput, match="shape"):
        denoise(np.random.default_rng(0).random((7, 18, 23)), weights="oracle", truth=dirty.truth)


def test_product_is_commutative_and_scale_free(dirty, net):
    y, valid = torch.from_numpy(dirty.y), torch.ones(SHAPE, dtype=torch.bool)
    mask = torch.rand(SHAPE, generator=torch.Generator().manual_seed(3)) + 0.1
    a = Product((Precision(), Given(mask)))(y, valid)
    b = Product((Given(mask * 1e3), Precision()))(y, valid)
    torch.testing.assert_close(a, b, rtol=1e-5, atol=0)
    alone = Product((Uniform(), Net(net, "n")))(y, valid)
    torch.testing.assert_close(alone, Net(net, "n")(y, valid), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("unit", [2.0**-125, 2.0**127])
def test_the_unit_of_given_weights_does_not_matter(dirty, unit):
    """Their sum, or what makes their mean one, may be out of the range of float32."""
    y, valid = torch.from_numpy(dirty.y), torch.ones(SHAPE, dtype=torch.bool)
    numbers = torch.rand(SHAPE, generator=torch.Generator().manual_seed(3)) + 0.5
    assert torch.equal(Given(numbers * unit)(y, valid), Given(numbers)(y, valid))


@pytest.mark.parametrize("kind", ["cube", "plane", "tensor", "file"])
def test_given_weights_with_skipped_bands(dirty, tmp_path, kind):
    """An array for the whole cube is cut to the bands in use; bad bands keep weight 0."""
    y = dirty.y.copy()
    y[3] = 0.5
    mask = (np.random.default_rng(0).random(SHAPE) > 0.4).astype(np.float32)
    mask[1, 0, 0] = 1
    spec: object = mask
    if kind == "plane":
        spec = mask[0]
        mask = np.broadcast_to(mask[0], SHAPE)
    elif kind == "tensor":
        spec = torch.from_numpy(mask)
    elif kind == "file":
        np.save(tmp_path / "mask.npy", mask.transpose(1, 2, 0))
        spec = tmp_path / "mask.npy"
    for source in (spec, ["uniform", spec]):
        w = predict_weights(y, source, range=(0, 1), columns=False)
        assert (w[3] == 0).all()
        use = np.arange(SHAPE[0]) != 3
        assert (w[use][mask[use] == 0] <= 1.01e-4).all()
        high = w[use][mask[use] == 1]
        np.testing.assert_allclose(high, high[0], rtol=1e-5)
        assert w[use].mean() == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("tile", [1, 5, 8, 13, 40])
@pytest.mark.parametrize("size", [(5, 31, 26), (3, 9, 40), (1, 1, 33)])
def test_tiles_give_the_logits_of_the_whole(net, tile, size):
    y = torch.rand(size, generator=torch.Generator().manual_seed(0))
    whole, tiled = net(y), predict_logits(net, y, tile)
    assert float((whole - tiled).abs().max()) <= 1e-5
    torch.testing.assert_close(softmax_weights(tiled), softmax_weights(whole), rtol=1e-5, atol=1e-5)


def test_strips_give_the_logits_of_the_whole(net, monkeypatch):
    monkeypatch.setattr(weighting, "STRIP_BYTES", 0)
    widths = []
    y = torch.rand(2, 11, 150, generator=torch.Generator().manual_seed(0))
    with net.register_forward_pre_hook(lambda _, inputs: widths.append(inputs[0].shape[-1])):
        strips = predict_logits(net, y)
    assert len(widths) == 4
    assert max(widths) == 48 + 2 * net.radius
    assert float((net(y) - strips).abs().max()) <= 1e-5


def test_tiles_of_the_colour_network():
    torch.manual_seed(1)
    colour = DLWnet2d().eval().requires_grad_(False)
    y = torch.rand(3, 30, 41)
    assert float((colour(y) - predict_logits(colour, y, 11)).abs().max()) <= 1e-5


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("unifrom", BadOption, "did you mean 'uniform'"),
        ("oracle", BadOption, "benchmarks"),
        ("uniform**precision", BadOption, "not a product"),
        ("", BadOption, "not a product"),
        ([], BadOption, "empty"),
        ("no/such.safetensors", BadFile, "no network file"),
        ("such.pth", BadFile, "no network file"),
        ("absent.npy", BadFile, "there is no file"),
    ],
)
def test_resolve_refuses(spec, error, words):
    with pytest.raises(error, match=words):
        resolve(spec)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((7, 18, 21)), "shape"),
        (np.ones((6, 18, 22)), "shape"),
        (-np.ones(SHAPE), "negative"),
        (np.full(SHAPE, np.nan), "finite"),
        (np.zeros(SHAPE), "nothing to fit"),
        (np.ones(5), "shape"),
    ],
)
def test_given_weights_must_fit(dirty, values, words):
    with pytest.raises(BadInput, match=words):
        predict_weights(dirty.y, values, range=(0, 1))


def test_resolve_finds_a_network_file_and_refuses_a_damaged_one(tmp_path, net):
    path = tmp_path / "mine.safetensors"
    store.save_network(path, net, {"name": "mine"})
    source = resolve(path)
    assert isinstance(source, Net)
    assert (source.name, len(source.sha256)) == ("mine", 64)
    assert resolve(f"uniform * {path}").name == "uniform*mine"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(BadModel):
        resolve(path)


def test_weights_that_need_a_residual_say_so(dirty):
    with pytest.raises(BadOption, match="restored image"):
        predict_weights(dirty.y, "robust")
