"""What a prompt shows: short words about a cube, and completion of commands."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from hyperdlw import Cube, denoise


def test_cubes_and_results_are_short_to_read() -> None:
    data = np.random.default_rng(0).random((4, 9, 8)).astype(np.float32)
    data[0, 0, 0] = np.nan
    cube = Cube.from_array(data, wavelengths=[400, 500, 600, 700.5])
    assert repr(cube) == "<Cube 4 bands x 9 x 8, 400 to 700.5 nm, float32, 1 voxel not valid>"
    result = denoise(cube, model="tv", weights="uniform")
    assert repr(result).startswith("<Result tv, strength 1, weights uniform: <Cube 4 bands")
    assert len(repr(result)) < 200


def test_the_shell_completes_commands() -> None:
    words = {"_HYPERDLW_COMPLETE": "complete_bash", "COMP_WORDS": "hyperdlw den", "COMP_CWORD": "1"}
    code = "from hyperdlw.app.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.split() == ["denoise"]
