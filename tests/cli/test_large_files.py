"""Files as they come, through the command line: metadata, faults, and two processes at once."""

from __future__ import annotations

import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.pipeline import plan as tiles
from hyperdlw.pipeline.journal import folder_of, open_journal


@pytest.fixture
def small(monkeypatch):
    """A limit that the little cube does not fit in, as if the process itself took nothing."""
    for name in ("BASE", "NETWORK", "RESERVE", "SAMPLE_BYTES", "MILD_COPIES"):
        monkeypatch.setattr(tiles, name, 0)
    return "-m", "nn", "-w", "precision", "--memory", "150K"


HEAD = """ENVI
samples = 24
lines = 20
bands = 6
data type = {kind}
interleave = bil
byte order = 0
wavelength units = Nanometers
wavelength = {{400, 450, 500, 550, 600, 650}}
data ignore value = -9999
map info = {{UTM, 1, 1, 500000, 4600000, 30, 30, 32, North, WGS-84, units=Meters}}
"""


@pytest.fixture
def line(tmp_path: Path, clean: np.ndarray) -> Path:
    """A flight line: reflectance times 10000 in int16, a nodata border."""
    rng = np.random.default_rng(4)
    data = np.int16(10000 * np.clip(clean + 0.05 * rng.standard_normal(clean.shape), 0, 1))
    data[:2] = -9999
    data.transpose(0, 2, 1).tofile(tmp_path / "line.img")
    (tmp_path / "line.hdr").write_text(HEAD.format(kind=2))
    return tmp_path / "line.hdr"


@pytest.mark.parametrize("target", ["clean.hdr", "clean.tif"])
def test_gdal_sees_the_output_as_the_input(hyperdlw, tmp_path, line, small, target):
    if shutil.which("gdalinfo") is None:
        pytest.skip("gdalinfo is not installed (Debian: gdal-bin)")
    ran = hyperdlw("denoise", line, tmp_path / target, *small)
    assert ran.code == 0, ran.err
    assert "plan: " in ran.err

    def told(path: Path) -> dict[str, object]:
        text = subprocess.run(
            ["gdalinfo", "-mdd", "all", str(path)], capture_output=True, text=True, check=True
        ).stdout
        return {
            "crs": "UTM zone 32N" in text,
            "origin": next(s for s in text.splitlines() if s.startswith("Origin")),
            "nodata": text.count("NoData Value=-9999"),
            "type": text.count("Type=Int16"),
            "wavelengths": [str(w) in text for w in (400, 450, 500, 550, 600, 650)],
        }

    made = tmp_path / target.replace(".hdr", ".img")
    assert told(made) == told(tmp_path / "line.img")
    assert told(made)["crs"]
    assert all(told(made)["wavelengths"])


FAULTS = {
    "truncated data": ("bands = 6", "bands = 7", 2, "line.img"),
    "6e8 bands": ("bands = 6", "bands = 600000000", 2, "GB"),
    "negative sizes": ("lines = 20", "lines = -20", 2, "-20"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_lying_headers(hyperdlw, tmp_path, line, small, name):
    old, new, code, words = FAULTS[name]
    line.write_text(line.read_text().replace(old, new))
    before = sorted(tmp_path.iterdir())
    ran = hyperdlw("denoise", line, tmp_path / "clean.hdr", *small)
    assert (ran.code, ran.err.count("\n")) == (code, 1), ran.err
    assert words in ran.err
    assert sorted(tmp_path.iterdir()) == before


def test_missing_byte_order_is_a_note_or_a_sentence(hyperdlw, tmp_path, line, small):
    line.write_text(line.read_text().replace("byte order = 0\n", ""))
    ran = hyperdlw("denoise", line, tmp_path / "clean.hdr", *small)
    assert ran.code in (0, 2)
    assert "byte order" in ran.err


def test_output_is_input(hyperdlw, tmp_path, line, small):
    """Refused; with --overwrite the whole result takes the place of the input at once."""
    before = (tmp_path / "line.img").read_bytes()
    ran = hyperdlw("denoise", line, line, *small)
    assert ran.code == 2, ran.err
    assert (tmp_path / "line.img").read_bytes() == before
    assert hyperdlw("denoise", line, tmp_path / "clean.hdr", *small).code == 0
    assert hyperdlw("denoise", line, line, *small, "--overwrite").code == 0
    assert (tmp_path / "line.img").read_bytes() == (tmp_path / "clean.img").read_bytes() != before


def test_two_processes_on_one_output(hyperdlw, tmp_path, noisy, small):
    target = tmp_path / "clean.npy"
    with open_journal(folder_of(target), "other", 0):
        ran = hyperdlw("denoise", noisy, target, *small)
        assert ran.code == 2
        assert "another process is working on this output" in ran.err
    assert not target.exists()


def test_too_little_memory_and_disk(hyperdlw, tmp_path, noisy, small, monkeypatch):
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", *small[:-1], "1K")
    assert ran.code == 4
    assert "raise --memory" in ran.err
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda p: usage(10**6, 10**6, 10))
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", *small)
    assert (ran.code, ran.err.count("\n") > 0) == (4, True), ran.err
    assert not (tmp_path / "a.npy").exists()


def test_a_full_disk_leaves_the_old_file(hyperdlw, tmp_path, noisy, small, monkeypatch):
    target = tmp_path / "a.npy"
    target.write_bytes(b"old")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hyperdlw.solver.disk.reserve_space", full)
    ran = hyperdlw("denoise", noisy, target, *small, "--overwrite")
    assert ran.code == 4, ran.err
    assert "Traceback" not in ran.err
    assert target.read_bytes() == b"old"


def test_ctrl_c_says_how_to_go_on(hyperdlw, tmp_path, noisy, small, monkeypatch):
    from hyperdlw.pipeline.in_strips import InStrips

    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(InStrips, "restore", stop)
    ran = hyperdlw("denoise", noisy, tmp_path / "a.npy", *small)
    assert ran.code == 130, ran.err
    assert "interrupted; finished tiles are kept" in ran.err
    assert "hyperdlw clean" in ran.err
    assert sorted(p.name for p in tmp_path.iterdir()) == [".a.npy.hyperdlw", "noisy.npy"]
