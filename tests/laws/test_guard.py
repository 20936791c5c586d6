"""What may be removed: proportional noise at any level, a floor only where it is loud."""

from __future__ import annotations

import pytest
import torch

from hyperdlw.pipeline.guard import guard_share, spare_floor, sum_change
from hyperdlw.weights import NoiseLaw


def law(a: float, b: float, c: float, mean: float = 0.4, bands: int = 5) -> NoiseLaw:
    """The law of bands whose signal has this mean and the mean square 1.3 mean^2."""
    level = (a + b * mean + 1.3 * c * mean**2) ** 0.5
    return NoiseLaw(*(torch.full((bands,), v) for v in (level, a, b, c)))


def test_proportional_noise_may_go_at_any_level() -> None:
    for snr in (5, 50, 1000):
        old, new = (found := law(0.0, 0.0, snr**-2)), spare_floor(found)
        torch.testing.assert_close(new.level, old.level)
        torch.testing.assert_close(new.c, old.c)


@pytest.mark.parametrize("parts", [(0.002**2, 0.0), (0.0, 0.002**2 / 0.4)])
def test_a_weak_floor_is_the_images_own(parts: tuple[float, float]) -> None:
    new = spare_floor(law(*parts, 0.0))
    assert float(new.level.max()) < 1e-5
    y = torch.rand(5, 16, 16)
    lost = torch.zeros_like(y, dtype=torch.bool)
    assert float(guard_share(*sum_change(y, torch.zeros_like(y), lost, new)).max()) < 1e-6


def test_a_band_that_loses_more_than_its_noise_is_taken_back() -> None:
    y, noise = torch.rand(5, 16, 16), law(0.01, 0.0, 0.0)
    lost = torch.zeros_like(y, dtype=torch.bool)
    lost[:, 0] = True
    x = y + 0.1
    x[2] += 0.1
    x[:, 0] = 7.0
    kept = guard_share(*sum_change(y, x, lost, noise))
    torch.testing.assert_close(kept, torch.tensor([1.0, 1.0, 0.25, 1.0, 1.0]))


@pytest.mark.parametrize("level", [0.0045, 0.02, 0.1])
def test_a_loud_floor_may_go(level: float) -> None:
    for a, b in ((level**2, 0.0), (0.0, level**2 / 0.4)):
        old = law(a, b, 0.0)
        torch.testing.assert_close(spare_floor(old).level, old.level)


def test_one_loud_band_among_quiet_ones_is_judged_alone() -> None:
    found = law(0.001**2, 0.0, 0.0)
    found.a[2], found.level[2] = 0.03**2, 0.03
    new = spare_floor(found)
    assert float(new.level[2]) == pytest.approx(0.03)
    assert float(new.level[[0, 1, 3, 4]].max()) == 0


def test_less_floor_more_proportion_is_removed() -> None:
    """From a mixture nothing, from nearly pure proportional noise all of it, and no jump between."""
    found = [float(spare_floor(law(0.0, b, 1e-6)).level[0]) for b in (1e-5, 6e-8, 5e-8, 1e-9)]
    assert found[0] == 0
    assert found == sorted(found)
    assert 0 < found[1] < found[2] < found[3]
