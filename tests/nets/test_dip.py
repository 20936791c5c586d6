"""The deep image prior: the network's size, one seed one result, and where it stops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hyperdlw
from hyperdlw import models
from hyperdlw.errors import BadOption
from hyperdlw.models import dip
from hyperdlw.networks.skip import SkipNet
from hyperdlw.solver import Problem, Schedule, solve
from hyperdlw.testbed import scenes
from hyperdlw.testbed.metrics import psnr


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    clean = scenes.synthetic(3, 20, 24, rng=np.random.default_rng(0)).data
    noise = np.random.default_rng(1).standard_normal(clean.shape, np.float32)
    return torch.from_numpy(clean), torch.from_numpy(clean + np.float32(0.2) * noise)


def plan(steps: int, seconds: float | None = None) -> Schedule:
    return Schedule(steps=steps, mu=dip.MU, seconds=seconds)


@pytest.mark.parametrize(("bands", "count"), [(31, 1_687_531), (32, 1_688_816)])
def test_number_of_parameters(bands: int, count: int) -> None:
    assert sum(p.numel() for p in SkipNet(bands).parameters()) == count


def test_differences_by_hand() -> None:
    x = torch.tensor([[[0.0, 1.0], [3.0, 2.0]], [[0.0, 5.0], [3.0, 2.0]]])
    across, down, across_between, down_between = dip.variation(x)
    assert across.tolist() == [[[1.0], [1.0]], [[5.0], [1.0]]]
    assert down.tolist() == [[[3.0, 1.0]], [[3.0, 3.0]]]
    assert across_between.tolist() == [[[4.0], [0.0]]]
    assert down_between.tolist() == [[[0.0, 4.0]]]


@pytest.mark.parametrize("weighted", [True, False])
def test_fit_improves_and_is_recorded(
    pair: tuple[torch.Tensor, torch.Tensor], weighted: bool
) -> None:
    clean, y = pair
    seen: dict[int, float] = {}

    def progress(k: int, x: torch.Tensor) -> None:
        seen[k] = psnr(clean.numpy(), x.numpy())

    w = torch.ones_like(y) if weighted else None
    x, loss = dip.restore(y, w, plan(12), progress=progress)
    assert x.shape == y.shape
    assert len(loss) == 12
    assert list(seen) == list(range(1, 13))
    if weighted:
        assert min(loss[-3:]) < 0.7 * loss[0]
    # Without weights the threshold caps every part of the loss; the image still improves.
    assert seen[12] > seen[1] + 2
    assert seen[12] == psnr(clean.numpy(), x.numpy())


def test_one_seed_one_result(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    _, y = pair
    w = torch.ones_like(y)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    a, b, c = (dip.restore(y, w, plan(2), seed=s) for s in (3, 3, 4))
    assert torch.equal(a[0], b[0])
    assert a[1] == b[1]
    assert not torch.equal(a[0], c[0])
    # The caller's stream is left alone.
    assert torch.equal(torch.random.get_rng_state(), before)


def test_weightless_voxels_leave_no_trace(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    _, y = pair
    w = torch.ones_like(y)
    w[1, 4:9, 3:7] = 0.0
    other = torch.where(w > 0, y, 77.0)
    assert torch.equal(*(dip.restore(v, w, plan(2))[0] for v in (y, other)))


def test_time_limit_ends_the_fit(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    _, y = pair
    assert len(dip.restore(y, None, plan(50, seconds=0.0))[1]) == 1


@pytest.mark.parametrize("weights", ["uniform", "original"])
def test_through_denoise(pair: tuple[torch.Tensor, torch.Tensor], weights: str) -> None:
    _, y = pair
    seen = []
    results = [
        hyperdlw.denoise(
            y.numpy(),
            model="dip",
            weights=weights,
            range=(0, 1),
            schedule=plan(2),
            seed=seed,
            watch=lambda s: seen.append(s.k),
        )
        for seed in (0, 1)
    ]
    assert seen == [1, 2, 1, 2]
    assert results[0].report.steps == 2
    want = dip.restore(y, None if weights == "original" else torch.ones_like(y), plan(2))[0]
    torch.testing.assert_close(torch.from_numpy(results[0].cube.data), want)
    assert not np.array_equal(results[0].cube.data, results[1].cube.data)


def test_neither_gradient_nor_tolerance(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    _, y = pair
    problem = Problem(models.build_model("dip", y.shape), y, torch.ones_like(y))
    with pytest.raises(BadOption, match="no gradient"):
        solve(problem, backward="unroll")
    with pytest.raises(BadOption, match="give it steps"):
        solve(problem, problem.model.schedule.converged())
