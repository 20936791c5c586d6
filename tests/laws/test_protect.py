"""What must not be smoothed away: the matched filter finds the same before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import hyperdlw
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import make_curve, read_spectra, save_cube
from hyperdlw.pipeline.protect import Keeper, find_covariance, parse_protection
from hyperdlw.pipeline.sample import Sample
from hyperdlw.testbed import find_noise, scenes, signals

SHAPE = (16, 40, 44)
NM = np.linspace(400, 1000, SHAPE[0])


def make_noisy(
    noise: str = "snr50",
) -> tuple[np.ndarray, dict[str, signals.Signal], np.ndarray]:
    rng = np.random.default_rng(5)
    clean = signals.make_room(scenes.synthetic(*SHAPE, rng=rng, wavelengths=NM).data)
    drawn = signals.draw_signals(SHAPE, rng)
    data = signals.implant_signals(clean, drawn, 0.04)
    return find_noise(noise).apply(data, rng).y, drawn, data


@pytest.fixture(scope="module")
def noisy() -> tuple[np.ndarray, dict[str, signals.Signal]]:
    return make_noisy()[:2]


@pytest.mark.parametrize("noise", ["snr50", "even30", "case1"])
def test_a_matched_filter_finds_the_same_amplitude(noise: str) -> None:
    """With the statistics of the input; other models and gains of bands do not matter."""
    y, drawn, clean = make_noisy(noise)
    gain = np.linspace(0.5, 2, len(y), dtype=np.float32)[:, None, None]
    y = y * gain
    spectra = [drawn[k].spectrum * gain[:, 0, 0] for k in ("gas", "target")]
    plain, kept = (hyperdlw.denoise(y, protect=p) for p in (None, spectra))
    for s in spectra:
        detector = signals.Detector.learn(y, s)
        before = detector.match(y)
        spread = before.std()
        after, without = (detector.match(r.cube.data) for r in (kept, plain))
        # A few voxels are taken for outliers, which do not come back.
        assert np.quantile(np.abs(after - before), 0.95) < 0.05 * spread
        assert np.quantile(np.abs(without - before), 0.95) > 0.2 * spread
    # Only two directions for a spectrum differ from the plain result, and they are no louder than the noise.
    flat = (kept.cube.data - plain.cube.data).reshape(len(y), -1)
    sizes = np.linalg.svd(flat / np.abs(y).max(), compute_uv=False)
    assert sizes[4] < 1e-4 * sizes[0]
    assert np.square(kept.cube.data - clean * gain).mean() < np.square(y - clean * gain).mean()
    report = kept.report.protected
    assert report is not None
    assert set(report["spectra"]) == {"spectrum 1", "spectrum 2"}
    assert all(v > 0 for v in report["spectra"].values())
    assert any("matched filter" in note for note in kept.report.notes)


def test_the_law_of_the_keeper() -> None:
    """S C^-1 x' = S C^-1 y where nothing is lost; lost voxels do not come back."""
    stream = torch.Generator().manual_seed(0)
    y, x = (torch.rand(6, 16, 24, generator=stream) for _ in range(2))
    sample = Sample.gather(lambda rows: y[:, rows], y.shape)
    s = np.random.default_rng(0).standard_normal((2, 6))
    s[:, 2] = 0
    asked = parse_protection([*s])
    assert asked is not None
    fitted = asked.fit(y.shape, None)
    keeper = Keeper.learn(asked, fitted, np.ones(6, bool), np.ones((6, 1, 1), np.float32), sample)
    none = torch.zeros_like(y, dtype=torch.bool)
    kept, total = keeper.keep(y, x, none)
    pull = (torch.from_numpy(s) @ torch.linalg.inv(find_covariance(sample))).float()
    found, wanted = (torch.tensordot(pull, v, 1) for v in (kept, y))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert (total > 0).all()
    hit = none.clone()
    hit[2, 3, 4] = True
    spike = torch.where(hit, torch.full_like(y, 5.0), x)
    same, nothing = keeper.keep(spike, x, hit)
    torch.testing.assert_close(same, x)
    assert not nothing.any()
    line = torch.tensordot(keeper.spectra.T, torch.full((2, 16, 24), 0.3), 1)
    back, _ = keeper.keep(x + line, x, ~none)
    torch.testing.assert_close(back, x + line)


def test_pixels_come_back_as_measured(noisy: tuple[np.ndarray, dict[str, signals.Signal]]) -> None:
    y, drawn = noisy
    mask = drawn["target"].target
    plain = hyperdlw.denoise(y).cube.data
    found = hyperdlw.denoise(y, protect=[mask, "3:9,5:12"])
    inside = mask.copy()
    inside[3:9, 5:12] = True
    assert np.array_equal(found.cube.data[:, inside], y[:, inside])
    assert np.array_equal(found.cube.data[:, ~inside], plain[:, ~inside])
    assert found.report.protected == {"pixels": int(inside.sum()), "spectra": {}}


@pytest.mark.parametrize("noise", ["snr50", "case5"])
def test_strips_protect_the_same(noise: str) -> None:
    y, drawn, _ = make_noisy(noise)
    asked = [drawn["gas"].spectrum, "30:36,2:9"]
    whole = hyperdlw.denoise(y, protect=asked)
    strips = hyperdlw.denoise(y, protect=asked, tile=13)
    np.testing.assert_allclose(strips.cube.data, whole.cube.data, atol=2e-5)
    assert np.array_equal(strips.cube.data[:, 30:36, 2:9], y[:, 30:36, 2:9])
    one, two = (r.report.protected["spectra"]["spectrum 1"] for r in (whole, strips))
    assert one == pytest.approx(two, rel=1e-3)


def write_library(folder: Path, values: np.ndarray, nm: np.ndarray, order: str = "<") -> Path:
    values.astype(f"{order}f4").tofile(folder / "lib.sli")
    waves = ", ".join(f"{v / 1000:.6f}" for v in nm)
    text = f"""ENVI
file type = ENVI Spectral Library
samples = {values.shape[1]}
lines = {values.shape[0]}
bands = 1
data type = 4
byte order = {int(order == ">")}
header offset = 0
wavelength units = Micrometers
spectra names = {{kaolinite, methane}}
wavelength = {{{waves}}}
"""
    (folder / "lib.hdr").write_text(text)
    return folder / "lib.sli"


@pytest.mark.parametrize("order", ["<", ">"])
def test_libraries_and_tables_are_read(tmp_path: Path, order: str) -> None:
    nm = np.linspace(350, 1100, 76)
    values = np.stack([np.sin(nm / 90), np.exp(-(((nm - 700) / 50) ** 2))])
    path = write_library(tmp_path, values, nm, order)
    for given in (path, path.with_suffix(".hdr")):
        found = read_spectra(given)
        assert [c.name for c in found] == ["kaolinite", "methane"]
        assert np.allclose(found[1].values, values[1], atol=1e-6)
        assert np.allclose(found[1].wavelengths, nm)
    table = tmp_path / "gas.csv"
    rows = "\n".join(f"{w / 1000:.5f},{v:.6f}" for w, v in zip(nm, values[1], strict=True))
    table.write_text(f"wavelength,depth\n{rows}\n")
    (curve,) = read_spectra(table)
    assert curve.name == "gas"
    assert np.allclose(curve.wavelengths, nm, atol=0.01)
    # A straight line has the mean of every band in its middle.
    line = make_curve("line", 2 * nm, nm)
    assert np.allclose(line.resample(NM, len(NM)), 2 * NM)
    assert np.allclose(line.resample(NM[::-1], len(NM)), 2 * NM[::-1])
    assert np.allclose(line.resample([350.0, 1100.0], 2), [700, 2200])


def test_faults_are_one_sentence(
    tmp_path: Path, noisy: tuple[np.ndarray, dict[str, signals.Signal]]
) -> None:
    y, drawn = noisy
    short = tmp_path / "short.csv"
    short.write_text("500 1\n600 2\n")
    cube = hyperdlw.Cube.from_array(y, wavelengths=NM)
    with pytest.raises(BadOption, match=r"covers 500 to 600 nm and the cube 400 to 1000 nm"):
        hyperdlw.denoise(cube, protect=str(short))
    with pytest.raises(BadOption, match="has 5 values and the cube 16 bands"):
        hyperdlw.denoise(y, protect=np.ones(5))
    with pytest.raises(BadOption, match="has 4x4 pixels and the cube 40x44"):
        hyperdlw.denoise(y, protect=np.ones((4, 4), bool))
    with pytest.raises(BadOption, match="reaches beyond the cube of 40x44"):
        hyperdlw.denoise(y, protect="0:50,0:3")
    with pytest.raises(BadOption, match="is empty"):
        hyperdlw.denoise(y, protect="5:5,0:3")
    with pytest.raises(BadOption, match="neither a file nor a region"):
        hyperdlw.denoise(y, protect="gas.sli")
    with pytest.raises(BadOption, match="must differ"):
        hyperdlw.denoise(y, protect=[drawn["gas"].spectrum, 2 * drawn["gas"].spectrum])
    with pytest.raises(BadOption, match="not all 0"):
        hyperdlw.denoise(y, protect=np.zeros(16))
    (tmp_path / "words.csv").write_text("500 1\nsix 2\n")
    with pytest.raises(BadFile, match=r"line 2 .* holds words"):
        hyperdlw.denoise(y, protect=tmp_path / "words.csv")
    save_cube(cube, tmp_path / "cube.npz")
    with pytest.raises(BadOption, match="bands; a mask has one"):
        hyperdlw.denoise(y, protect=tmp_path / "cube.npz")


def test_a_mask_of_a_file(
    tmp_path: Path, noisy: tuple[np.ndarray, dict[str, signals.Signal]]
) -> None:
    y, drawn = noisy
    mask = drawn["mineral"].target
    save_cube(hyperdlw.Cube.from_array(mask[None].astype(np.uint8)), tmp_path / "mask.hdr")
    found = hyperdlw.denoise(y, protect=str(tmp_path / "mask.hdr"))
    assert np.array_equal(found.cube.data[:, mask], y[:, mask])
