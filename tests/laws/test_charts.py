"""Charts of the audit page: what is drawn is where the numbers say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyperdlw.pipeline.page_parts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    Line,
    draw_chart,
)

X = np.linspace(400.0, 1000.0, 13)


def read_points(svg: str) -> np.ndarray:
    """Corners of the first line, (point, 2), in pixels."""
    path = re.search(r'class="line c0" d="([^"]*)"', svg)
    assert path is not None
    return np.array([p.split() for p in re.split(r" ?[ML]", path[1])[1:]], float)


def read_ticks(svg: str) -> np.ndarray:
    """(value, height) of every number beside the axis of values."""
    found = re.findall(r'class="tick end" x="\d+" y="([\d.]+)">([^<]+)<', svg)
    return np.array([(float(v), float(y) - 3.5) for y, v in found])


@pytest.mark.parametrize("log", [False, True])
def test_heights_and_numbers_beside_them_agree(log):
    """Points and ticks are on one straight line: height against value, or against its logarithm."""
    y = np.random.default_rng(1).uniform(0.3, 40.0, 13)
    svg = draw_chart(Chart(X, [Line(y, "a", "c0")], "nm", "level", log=log))
    points, ticks = read_points(svg), read_ticks(svg)
    scale = np.log10 if log else np.asarray
    values = np.concatenate([scale(y), scale(ticks[:, 0])])
    heights = np.concatenate([points[:, 1], ticks[:, 1]])
    slope, start = np.polyfit(values, heights, 1)
    assert slope < 0
    assert len(ticks) >= 2
    np.testing.assert_allclose(heights, slope * values + start, atol=0.11)


def test_the_frame_is_used():
    """From side to side, and from top to bottom but for a twentieth of the range on either side."""
    svg = draw_chart(Chart(X, [Line(X - 700, "a", "c0")], "nm", "level"))
    points = read_points(svg)
    assert points[:, 0].tolist() == pytest.approx(np.linspace(LEFT, WIDTH - RIGHT, 13), abs=0.06)
    tall = HEIGHT - BOTTOM - TOP
    assert points[-1, 1] == pytest.approx(TOP + 0.05 / 1.1 * tall, abs=0.06)
    assert points[0, 1] == pytest.approx(HEIGHT - BOTTOM - 0.05 / 1.1 * tall, abs=0.06)


def test_given_limits_cut_lines_off():
    svg = draw_chart(Chart(X, [Line(X, "a", "c0")], "nm", "level", bottom=500.0, top=800.0))
    heights = read_points(svg)[:, 1]
    assert (heights[X <= 500] == HEIGHT - BOTTOM).all()
    assert (heights[X >= 800] == TOP).all()
    assert (np.diff(heights[(X >= 500) & (X <= 800)]) < 0).all()


def test_a_gap_lifts_the_pen():
    y = np.ones(13)
    y[[0, 5]] = np.nan
    svg = draw_chart(Chart(X, [Line(y, "a", "c0")], "nm", "level"))
    drawn = re.search(r'd="([^"]*)"', svg)
    assert drawn is not None
    assert re.sub("[^ML]", "", drawn[1]) == "MLLLMLLLLLL"
