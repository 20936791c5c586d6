"""Implanted signals and the detectors that look for them."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw.testbed import mix_materials, signals

SHAPE = (24, 48, 56)


@pytest.fixture(scope="module")
def drawn() -> dict[str, signals.Signal]:
    return signals.draw_signals(SHAPE, np.random.default_rng(3))


def test_signals_are_apart(drawn: dict[str, signals.Signal]) -> None:
    """Every kind has pixels, a spectrum of largest value 1, and a background free of the local ones."""
    local = [drawn[k] for k in ("gas", "mineral", "target")]
    for s in drawn.values():
        assert np.isclose(np.abs(s.spectrum).max(), 1)
        assert 0 <= s.place.min() <= s.place.max() <= 1
        assert s.target.sum() >= 10
        assert not (s.target & s.background).any()
        for other in local:
            assert not (s.background & other.target).any()
    assert not (local[0].target & local[1].target).any()


def test_the_filter_reads_the_amplitude(drawn: dict[str, signals.Signal]) -> None:
    """q's = 1 whatever the cube; on a cube of noise the estimate is right and the cosine is a cosine."""
    rng = np.random.default_rng(0)
    noise = (0.02 * rng.standard_normal(SHAPE)).astype(np.float32)
    clean = np.full(SHAPE, 0.5, np.float32)
    image = signals.implant_signals(clean, drawn, 0.1) + noise
    for s in drawn.values():
        detector = signals.Detector.learn(image, s.spectrum)
        assert np.isclose(detector.filter @ s.spectrum, 1)
        assert np.abs(detector.cosine(image)).max() <= 1 + 1e-9
        sight = signals.judge_signal(s, 0.1, image, image, clean)
        assert abs(sight.bias) < 0.08
        assert sight.rise == 0
        flat = signals.judge_signal(s, 0.1, clean, image, clean)
        assert np.isclose(flat.bias, -1)
        assert np.isclose(flat.auc, 0.5)
        assert flat.rise < 0


def test_areas_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    t, b = rng.normal(0.7, 1, 40).round(1), rng.normal(0, 1, 300).round(1)
    expected = metrics.roc_auc_score(np.r_[np.ones(40), np.zeros(300)], np.r_[t, b])
    assert np.isclose(signals.area_under_curve(t, b), expected)


def test_the_error_of_a_rise_is_what_draws_show() -> None:
    """DeLong's standard error against the spread over 300 draws of correlated scores."""
    rng = np.random.default_rng(2)
    rises, errors = [], []
    for _ in range(300):
        t, b = rng.normal(1, 1, 30), rng.normal(0, 1, 200)
        later = t + rng.normal(0, 0.7, 30), b + rng.normal(0, 0.7, 200)
        rise, error = signals.compare_areas((t, b), later)
        rises.append(rise)
        errors.append(error)
    assert np.isclose(np.std(rises), np.mean(errors), rtol=0.15)


def test_endmembers_and_indices_of_a_clean_mixture() -> None:
    nm = np.linspace(400, 1000, 40)
    mixed = mix_materials(40, 40, 40, rng=np.random.default_rng(0), endmembers=4, wavelengths=nm)
    assert np.allclose(mixed.abundance.sum(axis=0), 1)
    assert signals.judge_endmembers(mixed.data, mixed.spectra) < 1
    leaf = mixed.spectra[0][:, None]
    assert 700 < signals.find_red_edge(leaf, nm)[0] < 730
    assert signals.find_index(leaf, nm, 800, 670)[0] > 0.6
    slope = np.linspace(0, 1, 40)[:, None]
    assert np.isclose(signals.read_at(slope, nm, 700.0)[0], 0.5)
    assert np.isclose(signals.read_at(slope, nm, 1000.0)[0], 1)
