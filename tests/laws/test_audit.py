"""The audit: white noise is not flagged, removed image is; the same in strips; invented voxels told apart."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hyperdlw import Cube, audit, denoise, open_cube, save_cube
from hyperdlw.errors import BadInput, BadOption
from hyperdlw.pipeline import FAINT, Outputs, Report, denoise_file
from hyperdlw.pipeline.invented import DEAD_ELEMENT, FAR_OFF, GAP, REPLACED
from hyperdlw.pipeline.whiteness import (
    AuditRows,
    AuditSums,
    cut_pieces,
    find_correlations,
    sum_piece,
)
from hyperdlw.testbed import find_noise, make_textured_scene
from hyperdlw.weights import NoiseLaw


def make_scene(seed: int, side: int = 48, bands: int = 12) -> np.ndarray:
    return make_textured_scene(bands, side, side, rng=np.random.default_rng(seed))


def make_noisy(noise: str, seed: int = 21) -> np.ndarray:
    clean = make_scene(seed, 40, 16)
    return find_noise(noise).apply(clean, np.random.default_rng(3)).y.astype(np.float32)


def add_white(clean: np.ndarray, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed).standard_normal(clean.shape)
    return np.float32(clean + 0.05 * draw)


@pytest.mark.parametrize("seed", range(4))
def test_white_noise_is_white(seed: int) -> None:
    """The residual is exactly the noise that was added."""
    clean = make_scene(seed)
    found = audit(Cube.from_array(add_white(clean, seed)), Cube.from_array(clean))
    assert found.structured == ()
    assert found.removed
    assert np.median([b.removed for b in found.bands]) == pytest.approx(1, abs=0.15)
    assert max(abs(b.neighbours) for b in found.bands) < 0.1


@pytest.mark.parametrize("seed", range(4))
def test_removed_image_is_structure(seed: int) -> None:
    """A tenth of the contrast is gone, half a standard deviation of the noise or so."""
    clean = make_scene(seed)
    middle = clean.mean((1, 2), keepdims=True)
    part = 0.5 * 0.05 / np.sqrt(((clean - middle) ** 2).mean((1, 2), keepdims=True))
    flat = np.float32(clean - part * (clean - middle))
    found = audit(Cube.from_array(add_white(clean, seed)), Cube.from_array(flat))
    assert len(found.structured) > 6


@pytest.mark.parametrize("noise", ["even15", "mild", "snr50"])
def test_plain_command_takes_noise_only(noise: str) -> None:
    assert denoise(make_noisy(noise)).audit.structured == ()


def test_heavy_hand_is_told() -> None:
    found = denoise(make_noisy("mild"), model="lrtv", paper=True).audit
    assert len(found.structured) > 12
    assert "structured in" in found.describe()


def test_a_missing_object_is_structure() -> None:
    clean = make_scene(3)
    harmed = clean.copy()
    harmed[1, 10:25, 10:30] -= 0.1
    found = audit(Cube.from_array(add_white(clean, 1)), Cube.from_array(harmed))
    assert found.structured == (1,)
    assert found.describe(np.linspace(400, 500, 12)).endswith("1 of 12 bands: 2 (409 nm)")


def test_a_removed_stripe_is_not() -> None:
    clean = make_scene(4)
    noisy = add_white(clean, 2)
    noisy[1, :, 20] += 0.2
    assert audit(Cube.from_array(noisy), Cube.from_array(clean)).structured == ()


def test_nothing_removed() -> None:
    cube = Cube.from_array(make_scene(5))
    found = audit(cube, cube)
    assert not found.removed
    assert found.describe() == "nothing was removed"


def test_a_report_warns_of_faint_signals_where_noise_went() -> None:
    clean = make_scene(6)
    noisy = add_white(clean, 6)
    found = denoise(noisy)
    assert found.audit.deep
    assert FAINT in found.report.notes
    assert FAINT not in denoise(noisy, protect=np.linspace(0, 1, len(noisy))).report.notes
    assert not audit(Cube.from_array(noisy), Cube.from_array(noisy)).deep


def test_shapes_must_agree() -> None:
    clean = make_scene(6)
    with pytest.raises(BadInput, match="different"):
        audit(Cube.from_array(clean), Cube.from_array(clean[:2]))


def test_bands_that_take_no_part_are_not_judged() -> None:
    noisy = add_white(make_scene(7), 7)
    noisy[4] = 1.0
    found = denoise(noisy)
    assert [b.band for b in found.audit.bands] == [0, 1, 2, 3, *range(5, 12)]
    assert audit(Cube.from_array(noisy), found.cube).structured == ()


@pytest.mark.parametrize("height", [4, 7, 33])
def test_pieces_sum_to_the_whole(height: int) -> None:
    """An oracle: correlations of the whole plane by numpy, and the same sums however it is cut."""
    gen = torch.Generator().manual_seed(0)
    x, n = torch.rand(5, 33, 20, generator=gen), torch.randn(5, 33, 20, generator=gen)
    y, ok = x + 0.1 * n, torch.rand(5, 33, 20, generator=gen) > 0.2
    ones = torch.ones(5)
    law = NoiseLaw(0.1 * ones, 0.01 * ones, 0 * ones, 0 * ones)
    sums = AuditSums.start(5)
    for first in range(0, 33, height):
        rows = slice(first, min(first + height, 33))
        for own, wide in cut_pieces(rows, 5, 20, 33):
            ends = own.start - wide.start, wide.stop - own.stop
            piece = AuditRows(y[:, wide], x[:, wide], ok[:, wide], *ends)
            sums = sums + sum_piece(piece, law)
    found = find_correlations(sums.pairs)
    z = np.clip(10 * (y - x).numpy(), -4, 4)
    seen = ok.numpy()
    both = seen[2, :-1] & seen[2, 1:]
    expected = np.corrcoef(z[2, :-1][both], z[2, 1:][both])[0, 1]
    assert float(found[0, 2]) == pytest.approx(expected, abs=1e-6)
    both = seen[2, :, :-1] & seen[2, :, 1:]
    expected = np.corrcoef(z[2, :, :-1][both], z[2, :, 1:][both])[0, 1]
    assert float(found[1, 2]) == pytest.approx(expected, abs=1e-6)
    around = (x[2, :-2, 1:-1] + x[2, 2:, 1:-1] + x[2, 1:-1, :-2] + x[2, 1:-1, 2:]).numpy() / 4
    inner = seen[2, 1:-1, 1:-1]
    expected = np.corrcoef(z[2, 1:-1, 1:-1][inner], around[inner])[0, 1]
    assert float(found[4, 2]) == pytest.approx(expected, abs=1e-6)
    others = x[[0, 1, 3, 4]].sum(0).numpy()
    inner = seen[2, 2:-2, 2:-2]
    detail = np.zeros(inner.shape)
    for d, sign in ((1, 1), (2, -1)):
        for i, j in ((-d, -d), (-d, 0), (-d, d), (0, -d), (0, d), (d, -d), (d, 0), (d, d)):
            detail += sign * others[2 + i : 31 + i, 2 + j : 18 + j]
    expected = np.corrcoef(z[2, 2:-2, 2:-2][inner], detail[inner])[0, 1]
    assert float(found[6, 2]) == pytest.approx(expected, abs=1e-6)
    assert int(sums.energy[2, 0]) == int(seen[2].sum())


@pytest.mark.parametrize("noise", ["case5", "mild", "gaps"])
def test_strips_tell_the_same(noise: str) -> None:
    y = make_noisy(noise)
    for fill in (False, True):
        whole, strips = denoise(y, fill=fill), denoise(y, fill=fill, tile=13)
        assert (whole.invented != strips.invented).mean() < 1e-3
        for a, b in zip(whole.audit.bands, strips.audit.bands, strict=True):
            assert a.neighbours == pytest.approx(b.neighbours, abs=2e-3)
            assert a.pooled == pytest.approx(b.pooled, abs=2e-3)
            assert a.edges == pytest.approx(b.edges, abs=2e-3)
            assert a.voxels == pytest.approx(b.voxels, rel=1e-3)


def spoil(y: np.ndarray) -> np.ndarray:
    """A cube with a gap, a dead column, a wild voxel and an impulse."""
    y[3, 5:8, 7] = np.nan
    y[5, :, 11] = 0.25
    y[6, 20, 20] = 40.0
    y[2, 30, 30] += 0.8
    return y


@pytest.mark.parametrize("tile", [None, 13])
def test_invented_voxels_have_a_reason(tile: int | None) -> None:
    y = spoil(make_noisy("even15"))
    filled = denoise(y, fill=True, tile=tile, uncertainty=True)
    assert (filled.invented[3, 5:8, 7] == GAP).all()
    assert (filled.invented[5, :, 11] == DEAD_ELEMENT).all()
    assert filled.invented[6, 20, 20] == FAR_OFF
    assert filled.invented[2, 30, 30] == REPLACED
    assert np.isnan(filled.uncertainty[filled.invented > 0]).all()
    # A bright pixel keeps its values.
    bright = 16 * filled.report.set_aside["bright_pixels"]
    assert np.count_nonzero(np.isnan(filled.uncertainty[filled.invented == 0])) == bright
    assert filled.report.invented["voxels"] == np.count_nonzero(filled.invented)
    kept = denoise(y, tile=tile)
    # Not filled: what was not measured stays as it was, so nothing was invented there.
    assert not kept.invented[3, 5:8, 7].any()
    assert not kept.invented[6, 20, 20]
    assert (kept.invented[5, :, 11] == DEAD_ELEMENT).all()


@pytest.mark.parametrize("tile", [None, 13])
def test_gaps_of_a_clean_cube_are_filled_and_nothing_else_changes(tile: int | None) -> None:
    y = make_scene(8, 40, 16)
    y[3, 5:8, 7] = np.nan
    kept, filled = denoise(y, tile=tile), denoise(y, fill=True, tile=tile)
    assert not kept.audit.removed
    assert not kept.invented.any()
    gap = np.isnan(y)
    np.testing.assert_array_equal(filled.cube.data[~gap], y[~gap])
    assert np.isfinite(filled.cube.data[gap]).all()
    assert filled.cube.valid.all()
    np.testing.assert_array_equal(filled.invented == GAP, gap)
    assert not (filled.invented[~gap]).any()


def test_invented_voxels_take_no_part_unless_asked_for() -> None:
    y = spoil(make_noisy("even15"))
    without, asked = denoise(y), denoise(y, include_invented=True, uncertainty=True)
    assert without.audit.bands[2].voxels == asked.audit.bands[2].voxels - np.count_nonzero(
        without.invented[2]
    )
    assert np.isfinite(asked.uncertainty[5, :, 11]).all()
    np.testing.assert_array_equal(without.cube.data, asked.cube.data)


@pytest.mark.parametrize("tile", [None, 16])
def test_product_is_a_cube_of_codes(tmp_path, tile: int | None) -> None:
    y = spoil(make_noisy("even15"))
    save_cube(Cube(y, np.isfinite(y), np.linspace(400, 900, len(y))), tmp_path / "in.hdr")
    outputs = Outputs(invented=str(tmp_path / "made up.hdr"))
    denoise_file(tmp_path / "in.hdr", tmp_path / "out.hdr", outputs=outputs, tile=tile, fill=True)
    held = open_cube(tmp_path / "made up.hdr")
    assert held.encoding.dtype == "uint8"
    np.testing.assert_allclose(held.wavelengths, np.linspace(400, 900, len(y)))
    np.testing.assert_array_equal(held.data[3, 5:8, 7], GAP)
    np.testing.assert_array_equal(held.data[5, :, 11], DEAD_ELEMENT)


# --- the noise of every band, as isofit reads it


def read_nedl(path, wavelengths: np.ndarray, radiance: np.ndarray) -> np.ndarray:
    """Noise-equivalent radiance by isofit's documented model: |a sqrt(b + L) + c|.

    Its instrument model reads the columns with one blank between them, interpolates every coefficient
    linearly over the wavelength, and puts 1e-5 where b + L is not positive.
    """
    table = np.loadtxt(path, delimiter=" ", comments="#")
    a, b, c = (np.interp(wavelengths, table[:, 0], table[:, k])[:, None] for k in (1, 2, 3))
    under = b + radiance
    return np.abs(a * np.sqrt(np.where(under <= 0, 1e-5, under)) + c)


@pytest.mark.parametrize(
    ("noise", "tile"),
    [("even15", None), ("even15", 16), ("photons200", None), ("snr50", None)],
)
def test_isofit_reads_the_noise(tmp_path, noise: str, tile: int | None) -> None:
    clean = 1000 * make_scene(21, 64, 16)
    waves = np.linspace(400, 900, 16)
    y = 1000 * find_noise(noise).apply(clean / 1000, np.random.default_rng(3)).y
    save_cube(Cube(np.float32(y), np.ones(y.shape, bool), waves), tmp_path / "in.hdr")
    outputs = Outputs(noise=str(tmp_path / "noise.txt"))
    denoise_file(tmp_path / "in.hdr", tmp_path / "out.hdr", outputs=outputs, tile=tile)
    assert (tmp_path / "noise.txt").read_text().startswith("# wavelength a b c rmse\n")
    flat = clean.reshape(16, -1)
    told = read_nedl(tmp_path / "noise.txt", waves, flat)
    level = np.sqrt(np.mean(told**2, 1))
    true = np.sqrt(np.mean((y.reshape(16, -1) - flat) ** 2, 1))
    np.testing.assert_allclose(np.median(level / true), 1, atol=0.15)
    # Photon noise grows with the signal, even noise does not.
    low, high = (np.quantile(told, q, axis=1) for q in (0.1, 0.9))
    growth = float(np.median(high / low))
    assert growth < 1.3 if noise == "even15" else growth > 1.3


def test_noise_file_needs_what_it_holds(tmp_path) -> None:
    y = make_noisy("mild")
    np.save(tmp_path / "in.npy", y.transpose(1, 2, 0))
    outputs = Outputs(noise=str(tmp_path / "noise.txt"))
    with pytest.raises(BadOption, match="wavelengths"):
        denoise_file(tmp_path / "in.npy", tmp_path / "out.npy", outputs=outputs)
    with pytest.raises(BadOption, match="measure"):
        denoise_file(tmp_path / "in.npy", tmp_path / "out.npy", outputs=outputs, paper=True)
    assert not (tmp_path / "out.npy").exists()


# --- cut short and resumed


class Crash(Exception):
    """Ends a run."""


def test_resumed_run_tells_the_same(tmp_path) -> None:
    """Killed in the middle of the audit, the second run takes its sums up and writes the same products."""
    y = spoil(make_noisy("even15"))
    save_cube(Cube(y, np.isfinite(y), np.linspace(400, 900, len(y))), tmp_path / "in.hdr")
    seen: list[str] = []

    def run(name: str, deadly: str = "") -> Report:
        def item_done(stage: str, done: int, count: int) -> None:
            seen.append(stage)
            if deadly and deadly in stage and done == 2:
                raise Crash

        outputs = Outputs(
            invented=str(tmp_path / f"{name}-invented.hdr"),
            noise=str(tmp_path / f"{name}.txt"),
            audit=str(tmp_path / f"{name}.html"),
            command="the command",
        )
        tell = SimpleNamespace(plan_made=lambda *_: None, item_done=item_done)
        target = tmp_path / f"{name}.hdr"
        source = tmp_path / "in.hdr"
        return denoise_file(source, target, outputs=outputs, progress=tell, tile=9, fill=True)

    with pytest.raises(Crash):
        run("cut", "audit")
    assert not list(tmp_path.glob("cut*"))
    first = sum("audit" in stage for stage in seen)
    resumed = run("cut")
    assert sum("audit" in stage for stage in seen) > first
    whole = run("whole")
    assert resumed.tiling is not None
    assert resumed.tiling["resumed"] > 0
    assert resumed.audit == whole.audit
    for end in (".img", "-invented.img", ".txt"):
        assert (tmp_path / f"cut{end}").read_bytes() == (tmp_path / f"whole{end}").read_bytes()
    pages = [
        (tmp_path / f"{name}.html").read_text().replace(f"{name}.", ".")
        for name in ("cut", "whole")
    ]
    assert pages[0] == pages[1]
