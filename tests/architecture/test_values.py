"""Data that are handed around are values: nobody changes them, and comparing them works."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import hyperdlw

HOUSE = Path(hyperdlw.__file__).parent
ROOMS = (
    "cube",
    "io",
    "solver",
    "weights",
    "models",
    "networks",
    "testbed",
    "pipeline",
    "train",
    "bench",
)
CHANGING = {
    "FileFacts",  # filled in while a header is read
    "CubeReader",
    "Journal",
    "Facts",
    "ImageRounds",
    "_Curve",
    "Training",
    "WeightTraining",
    "DenoiserTraining",
    "MapTraining",
    "RefineTraining",
    "RivalTraining",
}
"""What collects something, or is a run."""
ARRAY = re.compile(r"^(Tensor|NDArray\[.*\]|F64|F32|Mask)( \| None)?$")
COMPARED = {"BandRange", "Problem", "Whole", "Window", "_Noise"}
"""With arrays, and compared by nobody."""


def list_dataclasses() -> Iterator[type]:
    for room in ROOMS:
        for file in sorted((HOUSE / room).rglob("*.py")):
            parts = file.relative_to(HOUSE.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            for found in vars(importlib.import_module(name)).values():
                if (
                    inspect.isclass(found)
                    and dataclasses.is_dataclass(found)
                    and found.__module__ == name
                ):
                    yield found


def test_values():
    """Nothing of a value can be changed, and what holds arrays is compared by identity.

    The truth of ``array == array`` is no truth: a generated comparison would raise.
    """
    found = list(list_dataclasses())
    loose = {c.__name__ for c in found if not c.__dataclass_params__.frozen}  # type: ignore[attr-defined]
    assert loose == CHANGING
    arrays = [c for c in found if any(ARRAY.match(str(f.type)) for f in dataclasses.fields(c))]
    compared = {c.__name__ for c in arrays if c.__eq__ is not object.__eq__}
    assert compared - CHANGING == COMPARED
