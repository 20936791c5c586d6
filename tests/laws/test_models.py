"""What every registered model promises, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hyperdlw import denoise, models
from hyperdlw.bench import runner
from hyperdlw.bench.experiment import Scene
from hyperdlw.bench.tables import Row, Table
from hyperdlw.cube import Cube
from hyperdlw.errors import BadOption
from hyperdlw.pipeline.prepare import prepare_cube
from hyperdlw.solver import Problem, solve
from hyperdlw.testbed import noise, psnr, scenes
from hyperdlw.weights import resolve

COMPLEX = ["lrtv", "e3dtv", "lrtfdfr", "ctv", "svtv"]
VERSIONS = [(m, False) for m in ("nn", "tv", "tvs", *COMPLEX)] + [(m, True) for m in COMPLEX]


def image(bands: int = 6, side: int = 16, sigma: float = 0.05) -> tuple[torch.Tensor, torch.Tensor]:
    """A piecewise constant scene of rank two with smooth spectra, and the same with noise."""
    g = torch.Generator().manual_seed(0)
    maps = torch.zeros(2, side, side)
    maps[0, : side // 2] = 0.5
    maps[1, :, : side // 3] = 0.4
    spectra = torch.stack([torch.linspace(0.6, 1.2, bands), torch.linspace(1.1, 0.3, bands)], 1)
    clean = torch.tensordot(spectra, maps, 1)
    return clean, clean + sigma * torch.randn(clean.shape, generator=g)


def bands_of(name: str) -> int:
    return models.list_models("model")[name].bands or 6


@pytest.mark.parametrize(("name", "original"), VERSIONS)
def test_noise_goes_and_equal_runs_are_equal(name: str, original: bool) -> None:
    clean, y = image(bands_of(name), side=64, sigma=0.15)
    rank = 2 if "rank" in models.list_models("model")[name].takes else None
    model = models.build_model(name, y.shape, original=original, rank=rank)
    x = solve(Problem(model, y, torch.ones_like(y))).x
    assert x.shape == y.shape
    assert float((x - clean).norm()) < float((y - clean).norm())
    again = models.build_model(name, y.shape, original=original, rank=rank)
    assert torch.equal(x, solve(Problem(again, y, torch.ones_like(y))).x)


@pytest.mark.parametrize(("bands", "rows", "cols"), [(3, 24, 18), (6, 64, 64)])
def test_single_precision_does_for_factors(bands: int, rows: int, cols: int) -> None:
    """Of few bands most maps are smoothed to almost nothing, and grow again from what is left."""
    scene = scenes.synthetic(bands, rows, cols, rng=np.random.default_rng(3)).data
    ready = prepare_cube(Cube.from_array(noise.case(5, scene, np.random.default_rng(4)).y))
    random = np.random.default_rng(5)
    random.random(scene.shape)
    mask = (random.random((rows, cols)) > 0.3).astype(np.float32)
    source = resolve("precision" if bands == 3 else mask)
    y, w = ready.y, source(ready.y, ready.valid)
    model = models.build_model("lrtfdfr", y.shape)
    exact = solve(Problem(model, y.double(), w.double())).x
    found = solve(Problem(model, y, w)).x
    assert float((found - exact).abs().max()) <= 3e-4 * float(exact.abs().max())


@pytest.mark.parametrize(("name", "original"), VERSIONS)
def test_what_is_not_measured_does_not_matter(name: str, original: bool) -> None:
    _, y = image(bands_of(name))
    w = torch.ones_like(y)
    w[:, 3:6, 4:9] = 0
    wild = torch.where(w > 0, y, 1e3)
    model = models.build_model(name, y.shape, original=original)
    a, b = (solve(Problem(model, v, w)).x for v in (y, wild))
    assert torch.equal(a, b)
    assert float(a.abs().max()) < 3


@pytest.mark.parametrize(("name", "original"), VERSIONS)
def test_a_batch_is_its_images(name: str, original: bool) -> None:
    if (name, original) == ("ctv", True):
        pytest.skip("its first penalty is that of the largest image of the batch")
    y = torch.stack([image(bands_of(name))[1], image(bands_of(name), sigma=0.2)[1]]).double()
    w = 0.5 + torch.rand(y.shape, generator=torch.Generator().manual_seed(1)).double()
    # A second try is for one image.
    model = replace(models.build_model(name, y.shape, original=original), again=None)
    together = solve(Problem(model, y, w)).x
    for i in range(2):
        alone = solve(Problem(model, y[i], w[i])).x
        torch.testing.assert_close(together[i], alone, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["lrtv", "lrtfdfr"])
@pytest.mark.parametrize("original", [False, True])
def test_rank_is_the_rank(name: str, original: bool) -> None:
    _, y = image(sigma=0.2)
    for rank in (1, 4):
        model = models.build_model(name, y.shape, original=original, rank=rank, strength=0.01)
        x = solve(Problem(model, y.double(), torch.ones_like(y).double())).x
        assert model.rank == rank
        assert int(torch.linalg.matrix_rank(x.flatten(1), rtol=1e-6)) == rank


def test_report_says_rank_and_version() -> None:
    _, y = image()
    cube = y.numpy()
    found = denoise(cube, model="lrtv", weights="original", rank=2, range=(0, 1)).report
    assert (found.original, found.rank, found.weights) == (True, 2, "original")
    assert found.title == "original lrtv, rank 2, strength 1"
    auto = denoise(cube, model="lrtfdfr", weights="uniform", rank="auto", range=(0, 1)).report
    # What stands above the noise, and not less than the published rank.
    assert (auto.original, auto.rank) == (False, len(cube))
    assert denoise(cube, model="lrtv", weights="uniform", range=(0, 1)).report.rank == 4
    plain = denoise(cube, model="tv", weights="uniform", range=(0, 1)).report
    assert (plain.original, plain.rank) == (False, None)


def test_original_is_not_the_weighted_model() -> None:
    _, y = image()
    a = denoise(y.numpy(), model="lrtv", weights="original", range=(0, 1))
    b = denoise(y.numpy(), model="lrtv", weights="uniform", range=(0, 1))
    assert np.array_equal(a.weights, b.weights)
    assert not np.allclose(a.cube.data, b.cube.data, atol=1e-3)


def test_original_keeps_out_what_is_not_valid() -> None:
    _, y = image()
    cube = y.numpy()
    cube[2, 4:7, 4:7] = np.nan
    found = denoise(cube, model="e3dtv", weights="original", range=(0, 1))
    assert not found.weights[2, 4:7, 4:7].any()
    assert (found.weights[np.isfinite(cube)] == 1).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "tv", "weights": "original"}, "no original version"),
        ({"model": "tv", "rank": 3}, "no rank to choose"),
        ({"model": "lrtv", "rank": 0}, "at least 1"),
        ({"model": "lrtv", "rank": 7}, "more than the 6 bands"),
        ({"model": "lrtv", "rank": "many"}, "'auto', not 'many'"),
        ({"model": "svtv"}, "'svtv' is for 3 bands, and there are 6"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        denoise(image()[1].numpy(), range=(0, 1), **{"weights": "uniform", **options})


def test_benchmark_rows_of_originals(tmp_path) -> None:
    clean, _ = image()
    scene = Scene("made", clean.numpy())
    table = Table("t", "t", ("lrtv", "tv"), (Row("original"), Row("uniform")), ("case1",))
    made = runner.run_table(table, [scene], tmp_path)
    records = {(r["model"], r["weights"]): r for r in made}
    assert records["lrtv", "original"]["psnr"] != records["lrtv", "uniform"]["psnr"]
    assert "no original version" in records["tv", "original"]["skipped"]
    assert records["tv", "uniform"]["psnr"] > 0


@pytest.mark.parametrize("name", list(models.list_models("preset")))
def test_presets_have_the_constants_of_the_paper(name: str) -> None:
    """They restore, differ from ours, and are not offered where a model is looked for."""
    ours = name.removesuffix("-paper")
    assert name not in models.list_models("model")
    bands = models.find_model(name).bands or 6
    # kappa does not follow the size of the image: the nuclear norm flattens a small one.
    clean = np.tile(np.linspace(0.2, 0.8, 96, dtype=np.float32), (bands, 96, 1))
    noisy = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape).astype(np.float32)
    a, b = (
        denoise(noisy, model=m, weights="uniform", range=(0, 1)).cube.data for m in (name, ours)
    )
    assert np.abs(a - b).max() > 1e-3
    assert psnr(clean, a) > psnr(clean, noisy)
