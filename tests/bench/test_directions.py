"""The script ``benchmarks/directions.py``: a divergence that knows the direction of a transfer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from hyperdlw.bench import theory


def load_script() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/directions.py"
    spec = importlib.util.spec_from_file_location("directions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_directions_differ() -> None:
    """U with the weights of the network is zero on its own model, and not the same in both directions."""
    directions = load_script()
    scene = theory.make_scenes(1, 16)[0]
    psnr, apart = directions.measure_directions([scene], ["case1"])
    assert apart["N", "nn"] == apart["T", "tv"] == 0.0
    there, back = apart["N", "tv"], apart["T", "nn"]
    assert there > 0
    assert abs(there - back) > 0.01 * back
    text = "\n".join(directions.write_directions(psnr, apart, apart))
    lost = psnr["T", "tv"] - psnr["N", "tv"]
    assert f"| N | tv | {lost:.2f} | 2.21 |" in text  # the paper: 33.47 and 31.26 dB
