"""The limit holds: 400 MB of float32 within 1 GB, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CHILD = """
import resource, sys
from hyperdlw.app.cli.main import run
code = run(sys.argv[1:])
sys.stderr.write(str(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
sys.exit(code)
"""


def noisy(path: Path, bands: int, side: int) -> None:
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (side, side, bands))
    spectra = rng.random((4, bands))
    for row in range(side):
        phase = np.arange(side)[:, None] / 48 * np.arange(1, 5) + row / 64
        out[row] = 0.5 + 0.1 * np.sin(phase) @ spectra + 0.05 * rng.standard_normal((side, bands))
    out.flush()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
def test_default_model_and_network_within_a_gigabyte(tmp_path):
    noisy(tmp_path / "in.npy", 100, 1024)
    line = ["denoise", str(tmp_path / "in.npy"), str(tmp_path / "out.npy"), "--memory", "1G"]
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, *line, "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["model"], report["tiling"]["exact"]) == ("lrtfdfr", True)
    assert np.load(tmp_path / "out.npy", mmap_mode="r").shape == (1024, 1024, 100)
    assert int(ran.stderr.split()[-1]) <= 1.3e9
