"""Commands about files: ``hyperdlw info`` and ``hyperdlw convert``."""

from __future__ import annotations

from typing import Any

from . import console
from .options import (
    AxesOption,
    In,
    JsonOption,
    KeyOption,
    NodataOption,
    Out,
    OverwriteOption,
    QuietOption,
    check_places,
)


def info(
    source: In,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what a file holds, from its headers."""
    from ... import io

    facts = io.describe(source, key=key, axes=axes, nodata=nodata)
    if as_json:
        console.print_json(facts)
        return
    shape, wavelengths = facts["shape"], facts["wavelengths"]
    console.summary(
        {
            "file": facts["path"],
            "format": facts["format"],
            "bands x rows x columns": " x ".join(map(str, shape)) if shape else "choose with --key",
            "type": facts["dtype"],
            "stored axes": facts["axes"],
            "variable": facts["key"],
            "wavelengths": "{:g} to {:g} nm".format(*wavelengths) if wavelengths else None,
            "bad bands": facts["bad_bands"] or None,
            "nodata": _nodata(facts) if shape else None,
            "coordinate system": _first_name(facts["crs"]),
            "scale, offset": f"{facts['scale']:g}, {facts['offset']:g}" if shape else None,
            "variables": ", ".join(f"{k}: {v}" for k, v in facts["variables"].items()),
            "notes": "; ".join(facts["notes"]),
        },
        line=False,
    )


def _nodata(facts: dict[str, Any]) -> str:
    """Which values count as not measured, and who said so."""
    if facts["nodata"] is None:
        return "NaN and Inf only (no value given)"
    return f"{facts['nodata']:g} ({facts['nodata_from']}), NaN and Inf"


def _first_name(wkt: str | None) -> str | None:
    """The name of a coordinate system: the first text of its WKT."""
    parts = (wkt or "").split('"')
    return parts[1] if len(parts) > 1 else None


def convert(
    source: In,
    target: Out,
    key: KeyOption = None,
    axes: AxesOption = None,
    nodata: NodataOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a cube in another format.

    The same numbers bit by bit, and all the target can hold beside them; what it cannot is named.
    """
    from ...io import convert as run_convert

    check_places([target], overwrite, source)
    done = run_convert(source, target, key=key, axes=axes, nodata=nodata, overwrite=overwrite)
    if as_json:
        facts = {"input": source, "output": target, "shape": done.shape, "dtype": done.dtype}
        console.print_json({**facts, "not_kept": done.lost, "notes": done.notes})
        return
    if quiet:
        return
    for note in done.notes:
        console.err.print(f"hyperdlw: note: {note}", markup=False)
    for item in done.lost:
        console.out.print(f"not kept: {item}", markup=False)
    size = " x ".join(map(str, done.shape))
    console.summary({"bands x rows x columns": size, "type": done.dtype, "output": target})
