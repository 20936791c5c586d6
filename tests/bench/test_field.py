"""The field table: every method as a user runs it, and the bars it is judged by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw.bench import field, field_report
from hyperdlw.bench.catalogue import BenchOptions
from hyperdlw.bench.experiment import Record, Scene
from hyperdlw.errors import BadOption
from hyperdlw.io import save_cube
from hyperdlw.testbed import find_noise, scenes


def write_scene(folder: Path, name: str, bands: int) -> None:
    folder.mkdir(exist_ok=True)
    cube = scenes.synthetic(bands, 16, 16, rng=np.random.default_rng(0))
    save_cube(cube, folder / f"{name}.npz")


def names(groups: dict[str, list[Scene]]) -> dict[str, list[str]]:
    return {group: [s.name for s in found] for group, found in groups.items()}


def test_scenes_come_from_code_and_folders(tmp_path: Path) -> None:
    write_scene(tmp_path / "cave", "toys", 31)
    for name in ("jasper", "abu-beach-1"):
        write_scene(tmp_path / "air", name, 40)
    asked = BenchOptions(tmp_path, tmp_path / "cave", tmp_path / "air", crop=16)
    found = field.load_groups(asked)
    assert names(found) == {
        "made": list(field.OWN_SCENES),
        "CAVE": ["toys"],
        "airborne": ["jasper[31]", "jasper"],  # a network was trained with the other one
    }
    assert [len(s.data) for s in found["airborne"]] == [31, 40]
    some = BenchOptions(tmp_path, asked.data, asked.remote, crop=16, bands=4)
    only = BenchOptions(**{**vars(some), "only": ("toys", "made:5")})
    assert names(field.load_groups(only)) == {"made": ["made:5[4]"], "CAVE": ["toys[4]"]}
    with pytest.raises(BadOption, match="no scene tyos"):
        field.load_groups(BenchOptions(**{**vars(some), "only": ("tyos", "made:5")}))


def test_methods_see_the_noisy_cube_alone(tmp_path: Path, monkeypatch) -> None:
    """Gains and offsets of bands are on, no limits are told, and a second run measures nothing."""
    seen: list[tuple[np.ndarray, dict[str, object]]] = []
    real = field.denoise

    def spy(cube, **options):
        seen.append((cube, options))
        return real(cube, **options)

    monkeypatch.setattr(field, "denoise", spy)
    made = {
        "made": [Scene("made:1", scenes.synthetic(4, 16, 16, rng=np.random.default_rng(0)).data)]
    }
    chosen = {"names": ("plain", "mnf", "known"), "noise": ("case1", "gaps"), "seeds": 1}
    said: list[str] = []
    paths = field.run(made, tmp_path, **chosen, tell=said.append)
    assert len(said) == 4 + 3  # known limits are for the cases
    assert [options.get("range") for _, options in seen] == [None, None, (0, 1), None, None]
    gain, offset = field.draw_scales(4, 0)
    noisy = field.make_noisy(made["made"][0], "case1", 0)
    assert np.array_equal(seen[0][0], noisy.y * gain + offset)
    assert seen[0][1] == {}
    text = paths[0].read_text()
    assert "| case 1 |" in text
    assert "known limits (knows more)" in text
    assert len(paths[1].read_text().splitlines()) == 1 + 7
    field.run(made, tmp_path, **chosen, tell=said.append)
    assert len(said) == 7
    with pytest.raises(BadOption, match="did you mean 'plain'"):
        field.run(made, tmp_path, names=("plan",))


def test_what_the_bars_need_is_measured() -> None:
    clean = scenes.synthetic(6, 24, 32, rng=np.random.default_rng(0)).data
    scene = Scene("roads:1", clean)
    dead = find_noise("dead-elements").apply(clean, np.random.default_rng(0))
    found = field.judge(scene, dead, dead.y, "dead-elements")
    assert found["psnr_beside"] > found["psnr_dead"] + 5
    columns = find_noise("column-offsets").apply(clean, np.random.default_rng(0))
    found = field.judge(scene, columns, columns.y, "column-offsets")
    assert found["profile"] == pytest.approx(0.08, rel=0.15)
    bright = find_noise("bright20").apply(clean, np.random.default_rng(0))
    found = field.judge(scene, bright, np.float32(1.1) * bright.y, "bright20")
    assert found["bright_change"] == pytest.approx(0.1, rel=1e-3)
    none = find_noise("none").apply(clean, np.random.default_rng(0))
    assert field.judge(scene, none, clean, "none")["psnr"] == field.ALIKE
    assert field.judge(scene, none, clean + 0.01, "none")["road_change"] == pytest.approx(0.01)
    one_band = clean.copy()
    one_band[0] += 0.1
    assert field.judge(scene, none, one_band, "none")["psnr"] == pytest.approx((20 + 5 * 200) / 6)


def record(noise: str, method: str, psnr: float, group: str = "CAVE", **figures: float) -> Record:
    facts = {"group": group, "scene": "a", "noise": noise, "seed": 0, "method": method}
    return {**facts, "psnr": psnr, "psnr_cut": psnr, "ssim": 0.5, "sam": 1.0, **figures}


def bars(*records: Record) -> dict[str, field_report.Bar]:
    return {b.what: b for b in field_report.list_bars(records)}


def test_bars_are_met_or_not() -> None:
    spent = {"seconds": 1.0, "processor": 1.0}
    found = bars(
        record("mild", "noisy", 30),
        record("mild", "plain", 29.9, **spent),
        record("mild", "mnf", 30.1),
        record("snr20", "noisy", 30),
        record("snr20", "plain", 34, **spent),
        record("snr20", "mnf", 33),
        record("snr20", "auto", 33.95),
        record("none", "noisy", 200),
        record("none", "plain", 61),
        record("case1", "known", 33.2, processor=1.0),
        record("case1", "plain", 32.0, processor=1.2),
        record("case1", "first", 32.0, processor=1.0),
        record("case2", "plain", 30.0, "airborne"),
        record("case2", "fasthymix", 29.0, "airborne"),
    )
    worse = found["cubes made worse by more than 0.05 dB"]
    assert (worse.measured, worse.met) == ("1 of 2", False)
    assert found["a clean cube: PSNR of the least alike"].met
    cell = found["SNR 20 to 1000 and mild: below the best in any cell"]
    assert (cell.measured, cell.met) == ("+0.20 dB (a, mild)", True)
    mean = found["SNR 20 to 1000 and mild: in the mean above each"]
    assert (mean.measured, mean.met) == ("+0.40 dB (mnf)", True)
    assert not found["cases, below known limits, CAVE"].met
    assert not found["cases, known limits, CAVE: mean"].met
    assert found["case 2, airborne: above FastHyMix"].met
    assert found["`--auto`: below the plain command"].met
    assert found["column offsets: gained"].met is None
    assert [b.met for what, b in found.items() if what.startswith("time")] == [True]
    # Nothing measured: no bar is met, none is missed.
    assert {b.met for b in bars().values()} == {None}


def test_bright_pixels_are_compared_with_the_same_noise_without_them() -> None:
    found = bars(record("bright20", "plain", 30.0), record("even15", "plain", 31.0))
    bar = found["bright pixels, 20 times: lost off them"]
    assert (bar.measured, bar.met) == ("+1.00 dB", False)
