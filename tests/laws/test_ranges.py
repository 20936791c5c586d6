"""Ranges of noisy bands."""

import numpy as np

from hyperdlw.cube import ranges


def test_rows_spread_over_a_large_band_give_its_range(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    rows, cols = np.mgrid[:256, :200]
    clean = 0.5 + 0.5 * np.sin(rows / 90) * np.cos(cols / 25)
    band = (clean + 0.05 * rng.standard_normal(clean.shape)).astype(np.float32)[None]
    valid = rng.random(band.shape) > 0.1
    whole = ranges.robust_range(band, valid)
    monkeypatch.setattr(ranges, "ENOUGH", 200 * 64)
    some = ranges.robust_range(band, valid)
    assert (some.lo, some.hi) != (whole.lo, whole.hi)
    np.testing.assert_allclose([some.lo, some.hi], [whole.lo, whole.hi], atol=0.03)


def test_groups_of_rows_have_the_median_of_the_whole(monkeypatch) -> None:
    """Without gaps between the groups nothing changes."""
    band = np.random.default_rng(1).random((40, 9), np.float32)
    ok = np.ones_like(band, bool)
    whole = ranges._smoothed(band, ok)
    monkeypatch.setattr(ranges, "ENOUGH", band.size // 2)
    monkeypatch.setattr(ranges, "GROUP", 10)
    every_other = ranges._smoothed(band, ok)
    rows = whole.reshape(40, 9)
    np.testing.assert_array_equal(every_other.reshape(20, 9), np.r_[rows[:10], rows[20:30]])


def test_bands_without_values_in_the_rows_read(monkeypatch) -> None:
    monkeypatch.setattr(ranges, "ENOUGH", 32)
    monkeypatch.setattr(ranges, "GROUP", 2)
    band = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 16, 4)
    valid = np.zeros_like(band, bool)
    valid[0, 2] = True
    found = ranges.robust_range(band, valid)
    assert (found.lo[0], found.hi[0]) == (band[0, 2, 0], band[0, 2, 3])
