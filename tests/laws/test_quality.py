"""``quality``: one table, the same in memory and in strips, and one sentence where it has no place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw import denoise, denoise_file
from hyperdlw.cube import Cube
from hyperdlw.errors import BadOption
from hyperdlw.io import save_cube
from hyperdlw.models.defaults import MODEL, NORMAL, QUALITIES, WEIGHTS
from hyperdlw.pipeline import check_options
from hyperdlw.testbed import noise, scenes


@pytest.fixture(scope="module")
def noisy() -> Cube:
    clean = scenes.synthetic(9, 30, 26, rng=np.random.default_rng(3)).data
    return Cube.from_array(noise.case(5, clean, np.random.default_rng(4)).y.astype(np.float32))


def test_normal_is_the_default(noisy: Cube) -> None:
    assert QUALITIES[NORMAL][:2] == (MODEL, WEIGHTS)
    assert list(QUALITIES) == ["fast", "normal", "best"]
    plain, asked = denoise(noisy), denoise(noisy, quality="normal")
    assert plain.report.quality == "normal"
    np.testing.assert_array_equal(plain.cube.data, asked.cube.data)


@pytest.mark.parametrize("quality", ["fast", "best"])
def test_the_report_tells_what_was_used_and_strips_agree(noisy: Cube, quality: str) -> None:
    row = QUALITIES[quality]
    whole, parts = denoise(noisy, quality=quality), denoise(noisy, quality=quality, tile=11)
    for found in (whole.report, parts.report):
        assert (found.quality, found.model, found.weights) == (quality, *row[:2])
        assert found.steps == row.steps
    assert np.abs(parts.cube.data - whole.cube.data).max() <= 1e-5
    assert np.abs(denoise(noisy).cube.data - whole.cube.data).max() > 1e-4


def test_files_get_what_cubes_get(noisy: Cube, tmp_path: Path) -> None:
    save_cube(noisy, tmp_path / "in.npz")
    report = denoise_file(tmp_path / "in.npz", tmp_path / "out.npz", quality="fast")
    assert (report.quality, list(report.networks)) == ("fast", ["N+T+TS-fast"])


def test_weights_of_the_user_are_taken(noisy: Cube) -> None:
    report = denoise(noisy, weights="uniform", quality="fast").report
    assert (report.weights, report.steps) == ("uniform", QUALITIES["fast"].steps)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"quality": "superb"}, "superb"),
        ({"quality": "fast", "model": "tv"}, "has no quality to choose"),
        ({"quality": "fast", "model": "hyres"}, "has no quality to choose"),
        ({"quality": "best", "paper": True}, "as published"),
        ({"quality": "best", "weights": "original"}, "as published"),
    ],
)
def test_quality_has_no_place(given: dict[str, object], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        check_options(**given)  # type: ignore[arg-type]


def test_the_guide_has_the_same_table() -> None:
    page = Path(__file__).parents[2] / "docs/guide/choose.md"
    text = page.read_text(encoding="utf-8")
    for name, row in QUALITIES.items():
        maps = "network" if row.maps else "frame"
        looks = f"{row.looks}, mirrored" if row.mirror else row.looks
        cells = (
            f"`{name}`",
            f"`{row.model}`",
            f"`{row.weights}`",
            row.steps,
            row.passes,
            maps,
            looks,
        )
        assert f"| {' | '.join(map(str, cells))} |" in text
