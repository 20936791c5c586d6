"""The demo on a small scene: the table, and a page that can be read back."""

from __future__ import annotations

import re
import shlex
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hyperdlw import Cube, io
from hyperdlw.app.cli import main as cli
from hyperdlw.bench import demo, real_demo


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


def test_real_cube(tmp_path: Path, monkeypatch):
    """Noise falls most in the noisiest bands, and the page, both cubes and the sentences are there."""
    clean = demo.scenes.synthetic(12, 32, 40, rng=np.random.default_rng(0))
    level = np.linspace(0.01, 0.2, 12)[:, None, None]
    noisy = clean.data + level * np.random.default_rng(1).normal(size=clean.shape)
    counts = Cube.from_array((1000 + 4000 * noisy).round(), wavelengths=clean.wavelengths)
    monkeypatch.setattr(real_demo, "indian_pines", lambda: (counts, None))
    console = Console(width=200, record=True, file=StringIO())
    page = io.open_cube(real_demo.run_real(tmp_path / "new", console))
    assert page.shape[1:] == (1320, 1200)
    text = console.export_text()
    assert "was it noise?" in text
    assert "next, with a file of your own: hyperdlw info YOUR_FILE" in text
    seen = real_demo.BeforeAfter(counts, io.open_cube(tmp_path / "new" / "pines-clean.hdr"))
    assert set(seen.worst) == {9, 10, 11}
    assert all(seen.noise[1][b] < seen.noise[0][b] / 3 for b in seen.worst)


def test_path_of_a_newcomer(tmp_path: Path, capsys, monkeypatch):
    """From the demo to a cleaned file and its audit: every command is printed by the one before."""
    small = demo.scenes.synthetic(6, 24, 28, rng=np.random.default_rng(0))
    noisy = demo.noise.case(5, small.data, np.random.default_rng(1)).y
    io.save_cube(small.with_data(noisy), tmp_path / "own file.hdr")
    monkeypatch.chdir(tmp_path)
    commands = []
    assert cli.run(["demo", "--scene"]) == 0
    for _ in range(5):
        monkeypatch.setattr(
            cli.console, "out", Console(force_terminal=True, soft_wrap=True, highlight=False)
        )
        printed = capsys.readouterr()
        found = re.findall(r"next.*: hyperdlw (.+)", printed.out + printed.err)
        if not found:
            break
        words = [
            str(tmp_path / "own file.hdr") if w == "YOUR_FILE" else w
            for w in shlex.split(found[-1])
        ]
        commands.append(words[0])
        assert cli.run(words) == 0
    assert commands == ["info", "denoise", "audit"]
    assert (tmp_path / "own file-clean.hdr").exists()
    page = (tmp_path / "own file-clean.html").read_text()
    assert "What denoising took away" in page
    assert "hyperdlw audit" in page
