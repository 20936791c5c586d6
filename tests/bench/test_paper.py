"""The numbers of the paper: what is in the file, and how they stand beside ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperdlw.bench import paper, report, runner
from hyperdlw.bench.experiment import Scene
from hyperdlw.bench.tables import NETWORKS, RIVALS, SIMPLE, TABLES, Row
from hyperdlw.models import list_models
from hyperdlw.testbed import CASES, scenes


def test_every_table_of_the_paper_is_there() -> None:
    rows = Counter(row.table for row in paper.read_paper())
    for data in ("all", "cave", "pavia", "dc"):
        assert rows[f"tab-three-{data}"] == 2 * (
            1 + 3 * 8
        )  # noisy; three targets, seven networks, none
        assert rows[f"tab-tran-{data}"] == 2 * (1 + 3 * 9)  # and the original
    for ending in ("", "-cave", "-pavia", "-dc"):
        assert rows[f"tab-exist-com{ending}"] == 2 * 13
    assert rows["tab-sert-cave"] == rows["tab-sert-icvl"] == 2 * 9
    assert rows["tab-three-com"] == 2 * 49
    others = ("tab-tran-svtv", "tab-S2DIP", "tab-numparams", "tab-time", "fig-classification")
    assert [rows[name] for name in others] == [6, 24, 6, 26, 7]


def test_rows_are_named_as_ours() -> None:
    known = {*list_models(), "noisy", "sert", "dlwnet", "dlwnet-colour", "as it is"}
    for row in paper.read_paper():
        assert set(row.model.split("+")) <= known, row
        assert row.weights in ("", "original", "uniform", "colour-T", *NETWORKS), row
        assert set(row.values) in ({*CASES}, {paper.MEAN}), row


@pytest.mark.parametrize("figure", ["psnr", "ssim_paper"])
def test_the_means_of_the_paper_are_those_of_its_cases(figure: str) -> None:
    """The printed means of tab-three-com and tab-tran-com are rounded; nothing was mistyped."""
    cells = paper.find_printed("tab-three-all", "icvl", figure)
    square = paper.measure_square(cells, CASES)
    printed = [r for r in paper.read_paper() if (r.table, r.figure) == ("tab-three-com", figure)]
    assert len(printed) == len(square) == 49
    rounding = 0.11 if figure == "psnr" else 0.0011
    for row in printed:
        ours = square[row.weights, tuple(row.model.split("+"))]
        assert ours == pytest.approx(row.values[paper.MEAN], abs=rounding), row
    cells = paper.find_printed("tab-tran-all", "icvl", figure)
    for row in paper.read_paper():
        if (row.table, row.figure) == ("tab-tran-com", figure):
            mean = cells[row.weights, row.model, paper.MEAN]
            assert mean == pytest.approx(row.values[paper.MEAN], abs=rounding), row


def test_ours_stand_beside_theirs(tmp_path: Path) -> None:
    scene = Scene("made", scenes.synthetic(6, 20, 20, rng=np.random.default_rng(0)).data)
    table = replace(
        SIMPLE, noise=("case1", "case5"), rows=(Row("N"), Row("uniform"), Row("robust"))
    )
    records = runner.run_table(table, [scene], tmp_path)
    text = report.write_markdown(table, records).partition("## Beside the paper")[2]
    one, five = (
        next(r for r in records if (r["model"], r["weights"], r["noise"]) == ("tv", "N", noise))
        for noise in table.noise
    )
    pairs = [paper.write_pair(one["psnr"], 31.59), paper.write_pair(five["psnr"], 29.67)]
    assert f"| tv, N | {' | '.join(pairs)} |" in text
    assert paper.write_pair(one["ssim_paper"], 0.8472, 4) in text
    assert "robust" not in text  # the paper has no such row
    assert "the data differ" in text
    same = report.write_markdown(replace(table, data="icvl"), records, same_data=True)
    assert paper.write_pair(one["psnr"], 29.27) in same
    assert "The same data set" in same


def test_the_square_of_sources_and_targets() -> None:
    printed = paper.find_printed("tab-three", "cave")
    ours = {c: v + 1 for c, v in printed.items()}
    text = "\n".join(paper.write_beside(SIMPLE, {"psnr": ours}, False))
    assert "| N | 32.07 / 31.07 (+1.00) | 32.26 / 31.26 (+1.00) |" in text
    assert "nn+tv+tvs" in text
    assert paper.write_beside(replace(RIVALS, label=""), {"psnr": ours}, False) == []


def test_every_table_with_a_label_has_rows_in_the_paper() -> None:
    for table in TABLES.values():
        if table.label:
            cells = paper.find_printed(table.label, table.data)
            shared = {(r.label, m) for r, m in table.cells(table.rows)} & {c[:2] for c in cells}
            assert len(shared) >= 2, table.name
