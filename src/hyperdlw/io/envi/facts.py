"""What ENVI headers say: from their keys to facts about a cube (reading) and back (writing)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...cube import Encoding, Metadata
from ...errors import BadFile
from ..metadata import ENVI_KEYS, carry_metadata
from ..reader import Described, FileFacts
from . import header

DATA = (".img", ".dat", ".raw", ".bsq", ".bil", ".bip")
SPECTRAL = ("wavelength units", "wavelength", "fwhm", "bbl")


def read_type(
    head: Path, keys: Mapping[str, str], notes: list[str]
) -> tuple[np.dtype[np.generic], str]:
    """Type and order of the stored numbers."""
    if keys.get("file compression", "0").strip() not in ("0", ""):
        raise BadFile(f"{head} says the data are compressed; save them uncompressed in ENVI")
    code = header.read_integer(head, keys, "data type", None, 0, 99)
    if code in header.COMPLEX:
        raise BadFile(f"{head} says the data are {header.COMPLEX[code]}; a cube holds real numbers")
    if code not in header.TYPES:
        known = ", ".join(f"{k} {v}" for k, v in header.TYPES.items())
        raise BadFile(f"{head} says 'data type = {code}', which is none of {known}")
    if "byte order" not in keys:
        notes.append("the header has no 'byte order'; little-endian was assumed")
    big = header.read_integer(head, keys, "byte order", 0, 0, 1)
    word = keys.get("interleave", "").strip().lower()
    if not word:
        notes.append("the header has no 'interleave'; bsq was assumed")
    if word and word not in header.INTERLEAVE:
        raise BadFile(f"{head} has an 'interleave' that is not bsq, bil or bip; correct the header")
    dtype = np.dtype(header.TYPES[code]).newbyteorder(">" if big else "<")
    return dtype, header.INTERLEAVE[word or "bsq"]


def list_data(head: Path) -> list[Path]:
    """Files beside a header that can hold its numbers, the likeliest first."""
    bare = head.with_suffix("")
    endings = ["", *DATA, *(ending.upper() for ending in DATA)]
    return [p for p in (bare.with_name(bare.name + e) for e in endings) if os.path.isfile(p)]


def find_data(path: Path, head: Path, needed: int, notes: list[str]) -> Path:
    """The file of numbers of a header: the one that is named, or the one beside it that fits."""
    if path != head:
        return path
    found = list_data(head)
    if not found:
        bare = head.with_suffix("").name
        raise BadFile(
            f"{head} has no data file beside it ({bare}, {', '.join(bare + e for e in DATA)}); "
            "put it there or give the data file itself"
        )
    enough = [p for p in found if p.stat().st_size >= needed]
    chosen = (enough or found)[0]
    if len(found) > 1:
        notes.append(f"of {', '.join(p.name for p in found)} the data file is {chosen.name}")
    return chosen


def read_facts(keys: Mapping[str, str], bands: int, notes: list[str]) -> FileFacts:
    """Everything the header says beside shape and type; what does not fit becomes a note."""

    def read_list(key: str) -> list[str] | None:
        if key not in keys:
            return None
        parts = header.split_list(keys[key])
        if len(parts) != bands:
            notes.append(f"'{key}' has {len(parts)} entries for {bands} bands and was not used")
            return None
        return parts

    def read_numbers(key: str) -> list[float] | None:
        parts = read_list(key)
        values = None if parts is None else [header.read_number(part) for part in parts]
        if values is not None and not all(map(math.isfinite, values)):
            notes.append(f"'{key}' holds what is no number and was not used")
            return None
        return values

    units = keys.get("wavelength units")
    unitless = (units or "").strip().lower() == "index"
    centres = None if read_numbers("wavelength") is None or unitless else read_list("wavelength")
    widths = None if read_numbers("fwhm") is None or unitless else read_list("fwhm")
    facts = FileFacts(notes=notes)
    facts.set_spectrum(centres, units, widths)
    good = read_numbers("bbl")
    facts.good_bands = None if good is None else np.array(good) != 0
    names = read_list("band names")
    if names is not None:
        facts.metadata["band_names"] = tuple(names)
    if "description" in keys:
        inner = keys["description"].strip().removeprefix("{").removesuffix("}")
        facts.metadata["description"] = inner.strip()
    # value = stored / reflectance scale factor, or stored * gain + offset.
    if "reflectance scale factor" in keys:
        factor = header.read_number(keys["reflectance scale factor"])
        if math.isfinite(factor) and factor > 0 and math.isfinite(1 / factor):
            facts.scale = 1 / factor
        else:
            notes.append("'reflectance scale factor' is no positive number and was not used")
    else:
        gains, offsets = read_numbers("data gain values"), read_numbers("data offset values")
        if gains or offsets:
            facts.set_scales(gains or [1.0] * bands, offsets or [0.0] * bands)
    facts.metadata |= header.read_place(keys, notes)
    kept = {k: v for k, v in keys.items() if k not in ("samples", "lines", "bands")}
    facts.metadata["envi"] = kept
    if "data ignore value" in keys:
        nodata = header.read_number(keys["data ignore value"])
        if math.isnan(nodata) and keys["data ignore value"].strip().lower() != "nan":
            notes.append("'data ignore value' is no number and was not used")
        else:
            facts.nodata, facts.nodata_from = nodata, "'data ignore value' in the header"
    return facts


def make_keys(like: Described, encoding: Encoding) -> dict[str, str]:
    """The keys of the header of an output: what is understood made new, the rest carried over."""
    meta = carry_metadata(like)
    kept: dict[str, str] = dict(meta.get("envi", {}))
    if not kept:  # a GeoTIFF made from an ENVI file holds them in GDAL's domain of that name
        domain = meta.get("tags", {}).get("ENVI", {})
        kept = {k.replace("_", " "): v for k, v in domain.items()}
    bands, rows, cols = like.shape
    words = {axes: word for word, axes in header.INTERLEAVE.items()}
    order = kept.get("byte order", "0").strip()
    keys = {
        "description": "{" + meta["description"] + "}" if "description" in meta else "",
        "samples": str(cols),
        "lines": str(rows),
        "bands": str(bands),
        "header offset": "0",
        "file type": kept.get("file type", "ENVI Standard"),
        "data type": str(header.CODES[np.dtype(encoding.dtype).name]),
        "interleave": words[encoding.axes],
        "byte order": order if order in ("0", "1") else "0",
    }
    keys = {k: v for k, v in keys.items() if v}
    nodata = encoding.nodata
    if nodata is not None:
        keys["data ignore value"] = _format_number(kept, "data ignore value", nodata)
    elif meta.get("nodata_is_nan") and np.dtype(encoding.dtype).kind == "f":
        keys["data ignore value"] = "nan"
    keys |= _make_scale_keys(kept, encoding, bands, meta) | _make_spectral_keys(kept, like, meta)
    if "band_names" in meta:
        # Commas and braces would end an entry.
        clean = [n.translate(str.maketrans(",{}\n\r", ";()  ")) for n in meta["band_names"]]
        text = kept.get("band names", "")
        same = header.split_list(text) == clean
        keys["band names"] = text if text and same else header.format_list(clean)
    place = {k: v for k, v in kept.items() if k in ("map info", "coordinate system string")}
    place = place or header.make_place_keys(meta)
    rest = {k: v for k, v in kept.items() if k not in ENVI_KEYS and k not in place}
    return keys | place | rest


def _format_number(kept: Mapping[str, str], key: str, value: float) -> str:
    """A number as it was written if it is still the same, else in the shortest exact form."""
    if key in kept and header.read_number(kept[key]) == value:
        return kept[key]
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _make_scale_keys(
    kept: Mapping[str, str], encoding: Encoding, bands: int, meta: Metadata
) -> dict[str, str]:
    scale, offset = encoding.scale, encoding.offset
    scales, offsets = meta.get("band_scales"), meta.get("band_offsets", (0.0,) * bands)
    if scales is None and scale == 1.0 and offset == 0.0:
        return {}
    gains = "data gain values" in kept or "data offset values" in kept
    factor = 1 / scale
    if scales is None and offset == 0.0 and not gains:
        if "reflectance scale factor" in kept:
            said = header.read_number(kept["reflectance scale factor"])
            factor = said if said and 1 / said == scale else factor
        if factor > 0 and 1 / factor == scale:
            text = _format_number(kept, "reflectance scale factor", factor)
            return {"reflectance scale factor": text}
    if scales is None:
        scales, offsets = [scale] * bands, [offset] * bands
    lists = {"data gain values": scales, "data offset values": offsets}
    return {key: header.format_list(list(map(repr, values))) for key, values in lists.items()}


def _make_spectral_keys(kept: Mapping[str, str], like: Described, meta: Metadata) -> dict[str, str]:
    """Wavelengths and widths, as they were written if they are the same, else in nanometres."""

    def list_numbers(waves: NDArray[np.float64] | None, meta: Metadata) -> dict[str, list[float]]:
        found = {} if waves is None else {"wavelength": waves.tolist()}
        return found | ({"fwhm": list(meta["fwhm"])} if "fwhm" in meta else {})

    old = read_facts({k: v for k, v in kept.items() if k in SPECTRAL}, like.bands, [])
    numbers = list_numbers(like.wavelengths, meta)
    if numbers == list_numbers(old.wavelengths, old.metadata):
        keys = {k: kept[k] for k in SPECTRAL if k in kept and k != "bbl"}
    else:
        keys = {k: header.format_list(list(map(repr, v))) for k, v in numbers.items()}
        keys = {"wavelength units": "Nanometers"} | keys
    if not like.good_bands.all() or "bbl" in kept:
        keys["bbl"] = header.format_list([str(int(g)) for g in like.good_bands])
    return keys


def find_losses(like: Described) -> set[str]:
    """What this cube says that ENVI's words cannot."""
    meta = carry_metadata(like)
    kept = meta.get("envi", {})
    said = set() if "map info" in kept else {"crs", "transform"} & set(meta)
    keys = header.make_place_keys(meta) if said else {}
    found = {"transform": "map info", "crs": "coordinate system string"}
    refused = {name for name in said if found[name] not in keys}
    if any(set(name) & set(",{}\n\r") for name in meta.get("band_names", ())):
        refused.add("band_names")
    return refused
