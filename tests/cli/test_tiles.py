"""The command line with a limit of memory, and the products beside the cube."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hyperdlw.pipeline import plan as tiles


@pytest.fixture
def small(monkeypatch):
    """A limit that the little cube does not fit in, as if the process itself took nothing."""
    for name in ("BASE", "NETWORK", "RESERVE", "SAMPLE_BYTES", "MILD_COPIES"):
        monkeypatch.setattr(tiles, name, 0)
    return "-m", "nn", "--memory", "150K"


def test_tiles_and_whole_agree(hyperdlw, tmp_path, noisy, small):
    whole = hyperdlw("denoise", noisy, tmp_path / "a.npy", "-m", "nn")
    parts = hyperdlw("denoise", noisy, tmp_path / "b.npy", *small)
    assert (whole.code, parts.code) == (0, 0), parts.err
    assert "hyperdlw: plan: " in parts.err
    assert "exact" in parts.err
    a, b = np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy")
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert not list(tmp_path.glob(".*"))


def test_products_of_both_ways(hyperdlw, tmp_path, noisy, small):
    pytest.importorskip("matplotlib")
    for name, limit in (("a", ("-m", "nn")), ("b", small)):
        more = [
            part
            for flag, end in (
                ("--save-weights", "w.npy"),
                ("--save-flags", "f.npy"),
                ("--save-report", "r.json"),
                ("--quicklook", "q.png"),
            )
            for part in (flag, tmp_path / f"{name}-{end}")
        ]
        ran = hyperdlw(
            "denoise", noisy, tmp_path / f"{name}.npy", "--fill", "--json", *more, *limit
        )
        assert ran.code == 0, ran.err
        report = json.loads((tmp_path / f"{name}-r.json").read_text())
        assert (report["tiling"] is not None) == (name == "b")
        assert report["clipped_voxels"] == 0
        assert (tmp_path / f"{name}-q.png").stat().st_size > 1000
    w, f = ([np.load(tmp_path / f"{n}-{k}.npy") for n in "ab"] for k in "wf")
    np.testing.assert_allclose(*w, atol=1e-5 * w[0].max())
    assert f[0].dtype == np.uint8
    np.testing.assert_array_equal(*f)


def test_bad_sizes_are_one_sentence(hyperdlw, tmp_path, noisy):
    for text in ("lots", "0"):
        ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", "--memory", text)
        assert ran.code == 2
        assert "memory" in ran.err
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", "--memory", "1M")
    assert ran.code == 0 or "raise --memory" in ran.err
    assert not list(tmp_path.glob(".*"))


def test_audit_tells_bands(hyperdlw, tmp_path, noisy):
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("audit: what was removed is ")
    ran = hyperdlw("audit", noisy, tmp_path / "a.npy", "--map", tmp_path / "m.png")
    assert ran.code == 0, ran.err
    assert "band 5" in ran.out
    assert ran.out.splitlines()[-1].startswith("audit: what was removed is ")
    assert (tmp_path / "m.png").exists()
    found = json.loads(hyperdlw("audit", noisy, tmp_path / "a.npy", "--json").out)
    assert len(found["bands"]) == 6
