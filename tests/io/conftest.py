"""What the io tests share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hyperdlw.cube import Cube


def assert_same(a: Cube, b: Cube) -> None:
    np.testing.assert_array_equal(a.data, b.data)
    np.testing.assert_array_equal(a.valid, b.valid)
    np.testing.assert_array_equal(a.good_bands, b.good_bands)
    assert (a.wavelengths is None) == (b.wavelengths is None)
    if a.wavelengths is not None and b.wavelengths is not None:
        np.testing.assert_array_equal(a.wavelengths, b.wavelengths)


@pytest.fixture(scope="session")
def same() -> Callable[[Cube, Cube], None]:
    """Fails unless two cubes have the same values, mask, wavelengths and good bands."""
    return assert_same


@pytest.fixture(scope="session")
def scene() -> np.ndarray:
    """A (row, col, band) array whose three sizes differ, so that a swapped axis shows."""
    return np.random.default_rng(1).integers(0, 4000, (5, 7, 3)).astype(np.uint16)
