"""What advise finds in a noisy cube, against the truth of the noise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from hyperdlw import models
from hyperdlw.bench.tables import NETWORKS
from hyperdlw.pipeline import DEFAULT_MODEL, theory
from hyperdlw.pipeline.advice import (
    Advice,
    advise,
    dead_lines,
    divergences,
    held_out,
    impulse_share,
    networks,
    preferred,
    striped_lines,
)
from hyperdlw.solver import Problem, solve
from hyperdlw.testbed import noise, scenes


@cache
def clean() -> np.ndarray:
    return scenes.synthetic(31, 64, 64, rng=np.random.default_rng(8)).data


@cache
def looked(case: int) -> tuple[noise.Noisy, Advice]:
    dirty = noise.case(case, clean(), np.random.default_rng(case))
    return dirty, advise(dirty.y, range=(0, 1), among=("nn", "tv", "tvs"))


def score(found: np.ndarray, truth: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Precision over all of the truth, recall over the part that can be seen."""
    return (found & truth).sum() / max(1, found.sum()), (found & wanted).sum() / max(
        1, wanted.sum()
    )


def lines(advice: Advice, what: str, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros((shape[0], shape[2]), bool)
    for b in advice.bands:
        out[b.band, list(getattr(b, what))] = True
    return out


@pytest.mark.parametrize("case", [3, 5])
def test_dead_columns_are_found(case: int) -> None:
    dirty, advice = looked(case)
    truth = dirty.truth.dead.all(axis=1)
    precision, recall = score(lines(advice, "dead", dirty.y.shape), truth, truth)
    assert precision == 1.0
    assert recall > 0.9


@pytest.mark.parametrize("case", [2, 5])
def test_stripes_are_found(case: int) -> None:
    dirty, advice = looked(case)
    size = np.abs(dirty.truth.stripe).max(axis=1)
    dead = dirty.truth.dead.all(axis=1)
    found = lines(advice, "striped", dirty.y.shape)
    precision, recall = score(found, (size > 0) & ~dead, (size > 0.1) & ~dead)
    assert precision > 0.8
    assert recall > 0.6


@pytest.mark.parametrize("case", [1, 4])
def test_nothing_is_found_where_nothing_is(case: int) -> None:
    dirty, advice = looked(case)
    assert not lines(advice, "dead", dirty.y.shape).any()
    assert lines(advice, "striped", dirty.y.shape).mean() < 0.01


def test_bands_with_impulses_are_told_from_those_without() -> None:
    dirty, advice = looked(1)
    truth = dirty.truth.impulse.mean(axis=(1, 2))
    found = set(advice.impulse_bands)
    assert len(found & set(np.flatnonzero(truth > 0))) >= 0.85 * len(found)
    # Where the noise alone spans the range, an impulse is none to anyone who looks.
    visible = set(np.flatnonzero((truth > 0) & (dirty.truth.sigma.mean(axis=(1, 2)) < 0.15)))
    assert len(visible) >= 3
    assert visible <= found


def test_the_noise_of_every_band_is_estimated() -> None:
    dirty, advice = looked(2)
    sigma = np.array([b.sigma for b in advice.bands])
    assert sigma == pytest.approx(dirty.truth.sigma.mean(axis=(1, 2)), rel=0.2)


def test_dead_lines_of_either_direction_and_masks() -> None:
    y = np.random.default_rng(0).standard_normal((2, 12, 10))
    y[0, :, 3] = 0.0
    y[1, 5, :] = 7.0
    valid = np.ones(y.shape, bool)
    assert np.argwhere(dead_lines(y, valid, 2)).tolist() == [[0, 3]]
    assert np.argwhere(dead_lines(y, valid, 1)).tolist() == [[1, 5]]
    valid[0, 1:, 3] = False
    assert not dead_lines(y, valid, 2).any()
    assert not dead_lines(np.zeros((2, 12, 10)), np.ones(y.shape, bool)).any()


def test_a_shifted_line_sticks_out_by_its_median() -> None:
    r = 0.1 * np.random.default_rng(0).standard_normal((3, 200, 40))
    r[1, :, 7] += 0.08
    r[2, 4, :] -= 0.2
    none = np.zeros((3, 40), bool)
    assert np.argwhere(striped_lines(r, none)).tolist() == [[1, 7]]
    assert np.argwhere(striped_lines(r, np.zeros((3, 200), bool), axis=1)).tolist() == [[2, 4]]


def test_half_of_a_band_may_be_impulses() -> None:
    rng = np.random.default_rng(0)
    r = 0.05 * rng.standard_normal((2, 100, 100))
    hit = rng.random((100, 100)) < 0.5
    r[1][hit] = 0.7
    share = impulse_share(r, np.zeros((2, 100), bool))
    assert share == pytest.approx([0.0, 0.5], abs=0.02)


def test_the_divergence_is_that_of_the_theory() -> None:
    x = torch.from_numpy(clean()[:6, :16, :16].copy())
    table = divergences(x)
    assert set(networks()) == set(NETWORKS)
    assert {"nn", "tv", "tvs"} <= set(table)
    assert table["tv"]["T"] == 0.0
    assert table["nn"]["N+T"] == pytest.approx(theory.divergence(["nn", "tv"], ["nn"], x))


def test_a_hidden_voxel_has_no_part_in_its_prediction() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.rand(5, 12, 12, generator=g)
    w = torch.ones_like(y)
    hide = torch.rand(y.shape, generator=g) < 0.1
    tv = models.build_model("tv", y.shape)
    error = held_out(tv, y, w, w, hide)
    moved = torch.where(hide, y + 1, y)
    # With the same prediction x the error changes by mean(2 (y - x) + 1) exactly.
    x = solve(Problem(tv, y, torch.where(hide, 0 * w, w))).x
    expected = error + float((2 * (y - x)[hide] + 1).mean())
    assert held_out(tv, moved, w, w, hide) == pytest.approx(expected, rel=1e-5)


def test_the_default_is_left_for_clear_reasons_only() -> None:
    assert preferred({}) == DEFAULT_MODEL
    assert preferred({"tv": 1.0, "tvs": 0.9}) == "tvs"
    assert preferred({DEFAULT_MODEL: 1.0, "tvs": 0.91}) == DEFAULT_MODEL
    assert preferred({DEFAULT_MODEL: 1.0, "tvs": 0.8, "tv": 0.9}) == "tvs"


def test_the_advice_says_why() -> None:
    _, advice = looked(5)
    assert set(advice.reasons) == {"model", "network", "rank", "strength"}
    assert all(advice.reasons.values())
    assert advice.strength == advice.choice["strength"]
    assert set(advice.held_out) == {"nn", "tv", "tvs"}
