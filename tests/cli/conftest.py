"""What the command-line tests share: a tiny scene on disk, and a way to run ``hyperdlw``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.app.cli import main as cli
from hyperdlw.testbed import scenes


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def hyperdlw(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process, with errors handled as the script does."""
    monkeypatch.delenv("HYPERDLW_DEBUG", raising=False)

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = cli.run([str(a) for a in arguments])
        seen = capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    return run


@pytest.fixture(scope="session")
def clean() -> np.ndarray:
    """A clean scene (row, col, band) in [0, 1]; three different sizes."""
    scene = scenes.synthetic(6, 20, 24, rng=np.random.default_rng(3))
    return np.ascontiguousarray(scene.data.transpose(1, 2, 0))


@pytest.fixture
def noisy(tmp_path: Path, clean: np.ndarray) -> Path:
    """A noisy cube in a file of its own folder, so that listing the folder shows what was made."""
    rng = np.random.default_rng(4)
    path = tmp_path / "noisy.npy"
    np.save(path, (clean + 0.1 * rng.standard_normal(clean.shape)).astype(np.float32))
    return path
