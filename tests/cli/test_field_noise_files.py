"""Noises of the field and scenes made by code in commands."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.mark.parametrize("name", ["gaps", "bright20"])
def test_gaps_and_bright_pixels_reach_the_files(hyperdlw, tmp_path, name: str) -> None:
    """NaN where nothing is measured; a bright pixel belongs to the clean cube."""
    np.savez(tmp_path / "x.npz", cube=np.random.default_rng(0).random((24, 30, 4)))
    words = ["--case", name, "--clean", tmp_path / "c.npy", "--truth", tmp_path / "t.npz"]
    ran = hyperdlw("noise", tmp_path / "x.npz", tmp_path / "y.npy", *words)
    assert ran.code == 0, ran.err
    noisy, clean = (np.load(tmp_path / place) for place in ("y.npy", "c.npy"))
    with np.load(tmp_path / "t.npz") as truth:
        bright = truth["bright"]
    assert np.isnan(noisy).any() == (name == "gaps")
    assert np.isfinite(clean).all()
    assert (clean.max() > 2) == bright.any() == (name == "bright20")


def test_tables_need_no_data_for_scenes_made_by_code(hyperdlw, tmp_path) -> None:
    """Gaps and bright pixels have no part in the figures of any table."""
    words = ["--scenes", "made:1", "--crop", "16", "--bands", "4", "--seeds", "1", "--no-pictures"]
    words += ["--models", "tv", "--cases", "gaps,bright200", "--out", tmp_path]
    ran = hyperdlw("bench", "simple", *words)
    assert ran.code == 0, ran.err
    records = [json.loads(line) for line in (tmp_path / "simple.jsonl").read_text().splitlines()]
    assert {r["scene"] for r in records} == {"made:1[4]"}
    assert {r["noise"] for r in records} == {"gaps", "bright200"}
    assert all(np.isfinite(r["psnr"]) for r in records)
    assert all(r["psnr"] > 20 for r in records if r["model"] == "noisy")
