"""What all tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

# Helpers beside this file are imported by their names: ``from outside import Package``.
sys.path.insert(0, str(Path(__file__).parent))

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Several test processes share the cores."""
    torch.set_num_threads(1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def shared() -> Path:
    """The folder with reference data, or a skip."""
    if not SHARED.is_dir():
        pytest.skip(f"reference data are not here ({SHARED.name}/ is absent)")
    return SHARED
