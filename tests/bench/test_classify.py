"""The classification experiment on a small labelled scene."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyperdlw import Cube, denoise
from hyperdlw.bench import classify
from hyperdlw.bench.classify import RankedRow
from hyperdlw.bench.experiment import Files, find_reference_networks

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def scene() -> tuple[Cube, np.ndarray]:
    """Four fields with spectra that differ by less than the noise."""
    rng = np.random.default_rng(0)
    labels = np.kron(np.array([[1, 2], [3, 4]]), np.ones((12, 12), int))
    spectra = 0.5 + 0.15 * rng.standard_normal((5, 8))
    clean = spectra[labels].transpose(2, 0, 1)
    noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    labels[:, 11:13] = 0
    return Cube.from_array(noisy), labels


def test_denoising_helps_the_classifier(scene: tuple[Cube, np.ndarray], tmp_path: Path) -> None:
    methods = (
        RankedRow(""),
        RankedRow("uniform", model="tv"),
        RankedRow("no-such-source", model="tv"),
    )
    records = classify.run(*scene, tmp_path, methods=methods, repeats=3)
    assert records[1]["mean"] > records[0]["mean"] + 0.1
    assert "no-such-source" in records[2]["skipped"]
    text = (tmp_path / "classify.md").read_text()
    assert f"{100 * records[1]['mean']:.2f}" in text
    assert (tmp_path / "classify.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "classify.jsonl").read_text().splitlines()
    again = classify.run(*scene, tmp_path, methods=methods, repeats=3)
    assert [r.get("accuracy") for r in again] == [r.get("accuracy") for r in records]
    assert (tmp_path / "classify.jsonl").read_text().splitlines() == lines


def test_the_released_network_is_a_row(
    scene: tuple[Cube, np.ndarray], tmp_path: Path, shared: Path
) -> None:
    files = Files(find_reference_networks(shared / "reference/dlwnet-release"))
    methods = (RankedRow("authors' N+T+TS", model="lrtv"),)
    assert classify.run(*scene, tmp_path, methods=methods, repeats=1) == []
    records = classify.run(*scene, tmp_path, methods=methods, repeats=1, files=files)
    assert [r["method"] for r in records] == ["lrtv, authors' N+T+TS"]
    assert "| lrtv | authors' N+T+TS |" in (tmp_path / "classify.md").read_text()


def test_both_ranks_are_compared() -> None:
    def record(method: str, mean: float) -> dict[str, object]:
        return {"method": method, "mean": mean}

    text = classify.write_headlines(
        [
            record("lrtv, original", 0.7),
            record("lrtv, original, rank auto", 0.68),
            record("lrtv, original, 3.0 strength", 0.75),
            record("lrtv, original, 10.0 strength", 0.71),
        ]
    )
    assert "| lrtv | original | 70.00 | 68.00 | 75.00 |" in text
    assert any(m.rank == "auto" and m.weights == "N+T+TS" for m in classify.list_methods())


def test_the_plain_command_stands_beside_published_methods(
    scene: tuple[Cube, np.ndarray], tmp_path: Path
) -> None:
    methods = (classify.PLAIN, *classify.PUBLISHED[:1])
    records = classify.run(*scene, tmp_path, methods=methods, repeats=2)
    assert [r["method"] for r in records] == ["hyperdlw denoise", "HyRes"]
    plain = classify.classify_image(denoise(scene[0]).cube, scene[1], 2)
    assert records[0]["accuracy"] == plain["accuracy"]
    told = f"The plain command has {100 * plain['mean']:.2f} %"
    assert told in (tmp_path / "classify.md").read_text()
    assert classify.PLAIN in classify.list_methods()


def test_training_pixels_do_not_count(scene: tuple[Cube, np.ndarray]) -> None:
    labels = scene[1].ravel()
    train = classify.split_pixels(labels, np.random.default_rng(0))
    found = np.where(train, labels, 0)
    assert classify.measure_accuracy(found, labels, train) == 0.0
    assert classify.measure_accuracy(labels, labels, train) == 1.0
