"""The demo on a small scene: the table, and a page that can be read back."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hyperdlw import io
from hyperdlw.bench import demo
from hyperdlw.errors import MissingDependency


@pytest.fixture(scope="module")
def small() -> demo.Demo:
    return demo.run_models(24, 32, 8)


def test_table_has_every_source_and_one_best_per_model(small):
    console = Console(width=120, force_terminal=True, record=True, file=StringIO())
    console.print(demo.make_table(small))
    text = console.export_text()
    for name in ("none (noisy)", *demo.FORMULAS):
        assert name in text
    assert small.best.weights != "oracle"
    best = max(r.psnr for r in small.runs if r.weights != "oracle")
    assert small.best.psnr == best


def test_page(tmp_path: Path, small, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "run_models", lambda: small)
    target = demo.run(tmp_path / "new" / "folder", Console(quiet=True))
    page = io.open_cube(target)
    assert page.bands in (3, 4)
    assert page.shape[2] == 1200
    assert len(np.unique(page.data)) > 100


def test_spots_differ(small):
    a, b = demo.choose_pixels(small.clean.data)
    assert a != b


def test_missing_matplotlib(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match="pip install"):
        demo.run(tmp_path / "x", Console(quiet=True))
    assert not (tmp_path / "x").exists()
