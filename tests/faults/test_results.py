"""A result that is no number is never handed over; odd limits are refused."""

from __future__ import annotations

import numpy as np
import pytest

from hyperdlw import denoise, denoise_file
from hyperdlw.errors import BadOption, DlwError
from hyperdlw.pipeline import Outputs
from hyperdlw.solver import Schedule


def make_data() -> np.ndarray:
    return np.random.default_rng(1).random((4, 18, 10)).astype(np.float32)


@pytest.mark.parametrize("limits", [(-1e39, 1e39), (0.0, 1e-45), (-3e38, 3e38)])
def test_a_range_beyond_float32_is_refused(limits):
    with pytest.raises(BadOption, match="beyond float32"):
        denoise(make_data(), model="tv", weights="uniform", range=limits)


@pytest.mark.parametrize("tile", [None, 6])
def test_a_cube_of_nan_is_never_written(tmp_path, tile, monkeypatch):
    np.save(tmp_path / "in.npy", make_data())
    monkeypatch.setattr(
        "hyperdlw.cube.BandRange.from_unit", lambda self, data: np.full_like(data, np.nan)
    )
    with pytest.raises(DlwError, match="voxels that are not finite"):
        denoise_file(
            tmp_path / "in.npy", tmp_path / "out.npy", model="tv", weights="uniform", tile=tile
        )
    assert not (tmp_path / "out.npy").exists()


@pytest.mark.parametrize("tile", [None, 6])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("tolerance", [1e3, 1e-12])
def test_a_strict_run_hands_over_all_or_nothing(tmp_path, tile, strict, tolerance):
    """The cube, the weights, the picture and the report: all if the solver converges, else none."""
    np.save(tmp_path / "in.npy", make_data())
    names = {"weights": "w.npy", "report": "r.json", "picture": "p.png"}
    report = denoise_file(
        tmp_path / "in.npy",
        tmp_path / "out.npy",
        outputs=Outputs(**{kind: str(tmp_path / name) for kind, name in names.items()}),
        strict=strict,
        model="tv",
        weights="uniform",
        schedule=Schedule(6, 1.0, tolerance=tolerance),
        tile=tile,
    )
    assert report.converged == (tolerance > 1)
    wanted = {"out.npy", *names.values()} if report.converged or not strict else set()
    assert {p.name for p in tmp_path.iterdir()} == {"in.npy", *wanted}
