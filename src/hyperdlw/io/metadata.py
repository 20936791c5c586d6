"""What a header says beside the numbers: units, plain values, and what a format cannot hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..cube import Encoding
from .reader import Described

TRANSIENT = frozenset(
    {"notes", "nodata_from", "stored_ndim", "compressed", "files"}
    | {"data_array", "data_file", "tiff_layout", "hdf5_layout", "original", "siblings", "joined"}
    | {"matrix", "picture"}
)
"""About one file, not about the cube: not carried to another file."""

ENVI_KEYS = frozenset(
    {"samples", "lines", "bands", "header offset", "file type", "data type", "interleave"}
    | {"byte order", "data ignore value", "reflectance scale factor", "data gain values"}
    | {"data offset values", "wavelength units", "wavelength", "fwhm", "bbl", "band names"}
    | {"map info", "coordinate system string", "description"}
)
"""Keys of an ENVI header that are understood; all others are carried as they are."""


def simplify_value(value: object) -> object:
    """A value as text, number, bool, None, tuple or dict, or ``...`` where that cannot be.

    >>> simplify_value({"a": np.arange(2), "b": [b"x", np.float32(0.5)]})
    {'a': (0, 1), 'b': ('x', 0.5)}
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        items = {str(k): simplify_value(v) for k, v in value.items()}
        return {k: v for k, v in items.items() if v is not ...}
    if isinstance(value, list | tuple):
        parts = tuple(simplify_value(v) for v in value)
        return ... if any(p is ... for p in parts) else parts
    return ...


def carry_metadata(header: Described) -> dict[str, Any]:
    """The metadata that another file should hold, as plain values."""
    found = {k: simplify_value(v) for k, v in header.metadata.items() if k not in TRANSIENT}
    return {str(k): v for k, v in found.items() if v is not ... and v not in ((), {}, None)}


def list_neighbours(header: Described) -> dict[str, Any]:
    """Arrays and text for a file to hold beside the cube, where they say something.

    ``wavelengths`` and ``fwhm`` in nm, ``good_bands``, and ``metadata`` as JSON (infinity and NaN
    are written as Python does and read back by :func:`parse_metadata`).
    """
    carried = carry_metadata(header)
    found: dict[str, Any] = {}
    if header.wavelengths is not None:
        found["wavelengths"] = header.wavelengths
    if "fwhm" in carried:
        found["fwhm"] = np.asarray(carried["fwhm"], np.float64)
    if not header.good_bands.all():
        found["good_bands"] = header.good_bands
    if carried:
        found["metadata"] = json.dumps(carried, sort_keys=True, ensure_ascii=False)
    return found


def list_scale(encoding: Encoding) -> dict[str, float]:
    """Attributes of an array for its scale and offset, in CF's words."""
    if encoding.scale == 1.0 and encoding.offset == 0.0:
        return {}
    return {"scale_factor": encoding.scale, "add_offset": encoding.offset}


def parse_metadata(text: str, bands: int, notes: list[str]) -> dict[str, Any]:
    """Metadata from JSON; what does not fit the cube becomes a note."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        notes.append("the stored metadata are damaged and were not used")
        return {}
    return fit_metadata(found, bands, notes) if isinstance(found, dict) else {}


def fit_metadata(found: Mapping[str, object], bands: int, notes: list[str]) -> dict[str, Any]:
    """The entries that have the form the rest of the package relies on."""
    out = {k: simplify_value(v) for k, v in found.items() if k not in TRANSIENT}
    out = {k: v for k, v in out.items() if v is not ...}
    for key in [k for k, v in out.items() if k in _FORMS and not _FORMS[k](v, bands)]:
        notes.append(f"the stored {key} do not fit the cube and were not used")
        del out[key]
    return out


def _are_numbers(value: object, count: int) -> bool:
    if not isinstance(value, tuple) or len(value) != count:
        return False
    return all(type(v) in (int, float) and math.isfinite(v) for v in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _are_domains(value: object) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


_FORMS: dict[str, Callable[[object, int], bool]] = {
    **dict.fromkeys(("fwhm", "band_scales", "band_offsets"), _are_numbers),
    **dict.fromkeys(("crs", "gcps_crs"), lambda v, n: isinstance(v, str)),
    "band_names": lambda v, n: isinstance(v, tuple) and [type(x) for x in v] == [str] * n,
    "transform": lambda v, n: _are_numbers(v, 6),
    "gcps": lambda v, n: isinstance(v, tuple) and all(_are_numbers(p, 5) for p in v),
    "tags": lambda v, n: _are_domains(v),
    "band_tags": lambda v, n: isinstance(v, tuple) and len(v) == n and all(map(_are_domains, v)),
    "envi": lambda v, n: _are_texts(v),
    "nodata_is_nan": lambda v, n: isinstance(v, bool),
}


def list_items(header: Described) -> dict[str, str]:
    """What a header says: words as in ``Format.holds``, each with a phrase for people."""
    enc, meta, w = header.encoding, carry_metadata(header), header.wavelengths
    found: dict[str, str] = {}
    if w is not None:
        found["wavelengths"] = f"wavelengths ({w[0]:g} to {w[-1]:g} nm)"
    if not header.good_bands.all():
        found["good_bands"] = f"bad bands ({int((~header.good_bands).sum())} of {header.bands})"
    if enc.scale != 1.0 or enc.offset != 0.0:
        found["scale"] = f"scale and offset ({enc.scale:g}, {enc.offset:g})"
    if enc.nodata is not None:
        found["nodata"] = f"nodata value ({enc.nodata:g})"
    elif meta.get("nodata_is_nan"):
        found["nodata"] = "nodata value (nan)"
    names = {
        "fwhm": "full widths at half maximum (fwhm)",
        "band_names": "band names",
        "crs": "coordinate system",
        "transform": "map coordinates",
        "gcps": "ground control points",
        "band_scales": "scale and offset per band",
        "description": "description",
        "tags": "GDAL tags",
        "attributes": "file attributes",
    }
    found |= {key: words for key, words in names.items() if key in meta}
    if beside := header.metadata.get("siblings"):
        found["siblings"] = f"other variables ({_name_few(beside)})"
    others = [key for key in meta.get("envi", {}) if key not in ENVI_KEYS]
    if others:
        found["envi"] = f"other header keys ({_name_few(others)})"
    if any(meta.get("band_tags", ())):
        found["band_tags"] = "GDAL tags of the bands"
    known = {*names, "envi", "band_tags", "nodata_is_nan", "band_offsets", "gcps_crs"}
    return found | {key: f"metadata '{key}'" for key in meta.keys() - known}


def _name_few(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def to_json(value: object) -> object:
    """Only what JSON knows: infinity and NaN become null."""
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if hasattr(value, "item"):  # a number of NumPy or torch
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
