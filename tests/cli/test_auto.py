"""``hyperdlw denoise --strength auto``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_chosen_strength_is_told(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    out = noisy.with_name("out.npy")
    ran = hyperdlw("denoise", noisy, out, "--model", "tv", "--strength", "auto", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["choice"]["strength"] == told["strength"]
    assert {t["strength"] for t in told["choice"]["curve"]} >= {1.0, 2.0}
    ran = hyperdlw("denoise", noisy, out, "--strength", "auto", "--model", "tv", "--overwrite")
    assert "(auto, sure)" in ran.out


def test_a_strength_that_is_no_number(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    ran = hyperdlw("denoise", noisy, noisy.with_name("out.npy"), "--strength", "much")
    assert ran.code == 1
    assert "--strength is a number or auto, not 'much'" in ran.err


def test_advise_prints_reasons_and_a_command(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    ran = hyperdlw("advise", noisy)
    assert ran.code == 0, ran.err
    for word in ("model", "network", "strength", "rank", "noise", "dead columns"):
        assert word in ran.out
    assert f"hyperdlw denoise {noisy} OUT -m " in ran.out


def test_denoise_auto_follows_the_advice(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    told = json.loads(hyperdlw("advise", noisy, "--json").out)
    ran = hyperdlw("denoise", noisy, noisy.with_name("out.npy"), "--auto", "--json")
    assert ran.code == 0, ran.err
    done = json.loads(ran.out)
    assert (done["model"], done["weights"], done["strength"]) == (
        told["model"],
        told["network"],
        told["strength"],
    )
    assert set(told["divergence"]["tv"]) >= {"N", "T", "TS", "N+T+TS"}
    assert len(told["bands"]) == 6


def test_advise_on_a_missing_file(hyperdlw: Callable[..., Any], tmp_path: Path) -> None:
    ran = hyperdlw("advise", tmp_path / "none.npy")
    assert ran.code == 2
    assert "none.npy" in ran.err
