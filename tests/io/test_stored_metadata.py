"""Metadata from files: what has the form that the package relies on stays, the rest is a note."""

from __future__ import annotations

import math

import pytest

from hyperdlw.io.metadata import fit_metadata, parse_metadata, simplify_value

TAGS = {"": {"a": "b"}}
GOOD = {
    "fwhm": (5.0, 5, 6.5),
    "band_scales": (1.0, 2.0, 3.0),
    "band_offsets": (0.0, 0.0, -1.0),
    "crs": "EPSG:32632",
    "gcps_crs": "EPSG:4326",
    "band_names": ("r", "g", "b"),
    "transform": (1.0, 0.0, 5.0, 0.0, -1.0, 7.0),
    "gcps": ((1.0, 2.0, 3.0, 4.0, 5.0),),
    "tags": TAGS,
    "band_tags": (TAGS, TAGS, {}),
    "envi": {"sensor type": "x"},
    "nodata_is_nan": True,
}
BAD = [
    ("fwhm", (5.0, 5.0)),
    ("fwhm", (5.0, math.nan, 5.0)),
    ("fwhm", (5.0, "6", 5.0)),
    ("fwhm", (5.0, True, 5.0)),
    ("fwhm", 5.0),
    ("band_scales", (1.0, math.inf, 1.0)),
    ("crs", 4326),
    ("band_names", ("r", "g")),
    ("band_names", ("r", "g", 3)),
    ("transform", (1.0, 0.0, 5.0)),
    ("gcps", ((1.0, 2.0),)),
    ("gcps", 7),
    ("tags", {"": {"a": 1}}),
    ("tags", {"a": "b"}),
    ("band_tags", (TAGS, TAGS)),
    ("band_tags", (TAGS, TAGS, "x")),
    ("envi", {"bands": 3}),
    ("nodata_is_nan", "yes"),
]


def test_what_fits_stays():
    notes: list[str] = []
    assert fit_metadata({**GOOD, "mine": [1, "x"]}, 3, notes) == {**GOOD, "mine": (1, "x")}
    assert notes == []


@pytest.mark.parametrize(("key", "value"), BAD)
def test_what_does_not_fit_is_a_note(key, value):
    notes: list[str] = []
    kept = {k: v for k, v in GOOD.items() if k != key}
    assert fit_metadata({**GOOD, key: value}, 3, notes) == kept
    assert notes == [f"the stored {key} do not fit the cube and were not used"]


@pytest.mark.parametrize("text", ["{", "[" * 100000, ""])
def test_text_that_is_no_json_is_a_note(text):
    notes: list[str] = []
    assert parse_metadata(text, 3, notes) == {}
    assert notes == ["the stored metadata are damaged and were not used"]


def test_json_that_is_no_table_is_nothing():
    assert parse_metadata("[1, 2]", 3, []) == {}


def test_objects_of_other_programs_are_left_out():
    assert simplify_value(object()) is ...
    assert simplify_value([1, object()]) is ...
    assert simplify_value({"a": 1, "b": object()}) == {"a": 1}
