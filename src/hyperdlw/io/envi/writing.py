"""Writing ENVI: a header that keeps what the input's said, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cube import Encoding
from ..metadata import ENVI_KEYS, carried
from ..reader import Described
from ..writer import Put, mapped_writer
from . import header
from .files import beside
from .maps import map_keys
from .reading import facts

SPECTRAL = ("wavelength units", "wavelength", "fwhm", "bbl")


def stored_axes(path: Path, asked: Encoding) -> str:
    """The interleave that the ending names, or the input's if that was ENVI, or bsq."""
    ending = path.suffix.lower().removeprefix(".")
    if ending in header.INTERLEAVE:
        return header.INTERLEAVE[ending]
    return (
        asked.axes
        if asked.format == header.NAME and asked.axes in header.INTERLEAVE.values()
        else "brc"
    )


@contextmanager
def writer(tmp: Path, like: Described, encoding: Encoding) -> Iterator[Put]:
    """Write the header beside ``tmp``, and the numbers into it window by window."""
    keys = header_keys(like, encoding)
    dtype = header.number_type(encoding.dtype, int(keys["byte order"]))
    beside(tmp).write_bytes(header.text(keys))
    with mapped_writer(tmp, b"", like.shape, dtype, encoding.axes) as put:
        yield put


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write a whole cube, ``stored`` in the order of ``encoding.axes``."""
    keys = header_keys(cube, encoding)
    dtype = header.number_type(encoding.dtype, int(keys["byte order"]))
    beside(path).write_bytes(header.text(keys))
    with open(path, "wb") as file:
        file.write(np.ascontiguousarray(stored, dtype).data)


def header_keys(like: Described, encoding: Encoding) -> dict[str, str]:
    """The keys of the header of an output: what is understood made new, the rest carried over."""
    meta = carried(like)
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
        keys["data ignore value"] = _written(kept, "data ignore value", nodata)
    elif meta.get("nodata_is_nan") and np.dtype(encoding.dtype).kind == "f":
        keys["data ignore value"] = "nan"
    keys |= _scale_keys(kept, encoding, bands, meta) | _spectral_keys(kept, like, meta)
    if "band_names" in meta:
        # Commas and braces would end an entry.
        clean = [
            n.translate({44: 59, 123: 40, 125: 41, 10: 32, 13: 32}) for n in meta["band_names"]
        ]
        keys["band names"] = _same_list(kept, "band names", clean) or header.braces(clean)
    if "map info" in kept or "coordinate system string" in kept:
        place = {k: v for k, v in kept.items() if k in ("map info", "coordinate system string")}
    else:
        place = map_keys(meta)
    rest = {k: v for k, v in kept.items() if k not in ENVI_KEYS and k not in place}
    return keys | place | rest


def _written(kept: Mapping[str, str], key: str, value: float) -> str:
    """A number as it was written if it is still the same, else in the shortest exact form."""
    if key in kept and header.number(kept[key]) == value:
        return kept[key]
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _same_list(kept: Mapping[str, str], key: str, values: list[str]) -> str | None:
    return kept[key] if key in kept and header.items(kept[key]) == values else None


def _scale_keys(
    kept: Mapping[str, str], encoding: Encoding, bands: int, meta: Mapping[str, Any]
) -> dict[str, str]:
    scale, offset = encoding.scale, encoding.offset
    if "band_scales" in meta:
        return {
            "data gain values": header.braces([repr(v) for v in meta["band_scales"]]),
            "data offset values": header.braces(
                [repr(v) for v in meta.get("band_offsets", (0.0,) * bands)]
            ),
        }
    if scale == 1.0 and offset == 0.0:
        return {}
    gains = "data gain values" in kept or "data offset values" in kept
    factor = 1 / scale
    if offset == 0.0 and not gains:
        if "reflectance scale factor" in kept:
            said = header.number(kept["reflectance scale factor"])
            factor = said if said and 1 / said == scale else factor
        if factor > 0 and 1 / factor == scale:
            text = _written(kept, "reflectance scale factor", factor)
            return {"reflectance scale factor": text}
    return {
        "data gain values": header.braces([repr(scale)] * bands),
        "data offset values": header.braces([repr(offset)] * bands),
    }


def _spectral_keys(
    kept: Mapping[str, str], like: Described, meta: Mapping[str, Any]
) -> dict[str, str]:
    """Wavelengths and widths, as they were written if they are the same, else in nanometres."""
    keys: dict[str, str] = {}
    centres = None if like.wavelengths is None else like.wavelengths.tolist()
    widths = list(meta["fwhm"]) if "fwhm" in meta else None
    old = facts({k: v for k, v in kept.items() if k in SPECTRAL}, like.bands, [])
    old_centres = None if old["wavelengths"] is None else old["wavelengths"].tolist()
    old_widths = list(old["metadata"]["fwhm"]) if "fwhm" in old["metadata"] else None
    if (centres, widths) == (old_centres, old_widths):
        keys |= {k: kept[k] for k in SPECTRAL if k in kept and k != "bbl"}
    else:
        keys["wavelength units"] = "Nanometers"
        if centres is not None:
            keys["wavelength"] = header.braces([repr(v) for v in centres])
        if widths is not None:
            keys["fwhm"] = header.braces([repr(v) for v in widths])
    if not like.good_bands.all() or "bbl" in kept:
        keys["bbl"] = header.braces([str(int(g)) for g in like.good_bands])
    return keys


def cannot(like: Described) -> set[str]:
    """What this cube says that ENVI's words cannot."""
    meta = carried(like)
    kept = meta.get("envi", {})
    said = set() if "map info" in kept else {"crs", "transform"} & set(meta)
    keys = map_keys(meta) if said else {}
    found = {
        "transform": "map info",
        "crs": "coordinate system string",
    }
    refused = {name for name in said if found[name] not in keys}
    if any(set(name) & set(",{}\n\r") for name in meta.get("band_names", ())):
        refused.add("band_names")
    return refused
