"""``dlw denoise --strength auto``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_chosen_strength_is_told(dlw: Callable[..., Any], noisy: Path) -> None:
    out = noisy.with_name("out.npy")
    ran = dlw("denoise", noisy, out, "--model", "tv", "--strength", "auto", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["choice"]["strength"] == told["strength"]
    assert {t["strength"] for t in told["choice"]["curve"]} >= {1.0, 2.0}
    ran = dlw("denoise", noisy, out, "--strength", "auto", "--model", "tv", "--overwrite")
    assert "(auto, sure)" in ran.out


def test_a_strength_that_is_no_number(dlw: Callable[..., Any], noisy: Path) -> None:
    ran = dlw("denoise", noisy, noisy.with_name("out.npy"), "--strength", "much")
    assert ran.code == 1
    assert "--strength is a number or auto, not 'much'" in ran.err
