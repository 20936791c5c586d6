"""``python -m hyperdlw`` is the command."""

from __future__ import annotations

import subprocess
import sys

from hyperdlw import __version__


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "hyperdlw"]
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["hyperdlw", __version__]
    wrong = subprocess.run([*command, "info", "no.hdr"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "there is no file" in wrong.stderr
