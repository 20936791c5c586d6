"""Reading ENVI: what the header says of the numbers, and of the cube beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...cube import Encoding
from ...errors import BadFile
from ..checks import nbytes, reading, size
from ..metadata import nanometres
from ..reader import CubeFile, mapped, with_nodata
from . import header
from .files import DATA, data_files, header_of, starts_as_envi
from .maps import georeference

LARGEST = 2**31 - 1
"""Lines, samples or bands: what GDAL and ENVI count with."""


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube by its header or by its data file.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    head = path if starts_as_envi(path) else header_of(path)
    if head is None:
        raise BadFile(
            f"{path} has no ENVI header beside it ({path.with_suffix('.hdr').name}); "
            "put the header there"
        )
    keys, notes = header.load(head)
    with reading(head):
        dtype, order = _numbers(head, keys, notes)
        bands, rows, cols = (
            header.whole_number(head, keys, k, None, 1, LARGEST)
            for k in ("bands", "lines", "samples")
        )
        shape = (bands, rows, cols)
        offset = header.whole_number(head, keys, "header offset", 0, 0, 2**62)
        data = _data_file(path, head, offset + nbytes(shape, dtype.str), notes)
        _check_size(data, offset, shape, dtype)
        said = facts(keys, shape[0], notes)
    stored_shape = tuple(shape["brc".index(a)] for a in order)
    metadata = said["metadata"] | {"notes": tuple(notes), "data_file": str(data)}
    encoding = with_nodata(
        Encoding(
            dtype.name, order, said["scale"], said["offset"], said["nodata"], format=header.NAME
        ),
        metadata,
        nodata,
    )
    return CubeFile(
        path,
        shape,
        encoding,
        mapped(data, offset, stored_shape, dtype, order),
        said["wavelengths"],
        said["good_bands"],
        metadata,
        plain=True,
    )


def _numbers(head: Path, keys: Mapping[str, str], notes: list[str]) -> tuple[np.dtype[Any], str]:
    """Type and order of the stored numbers."""
    if keys.get("file compression", "0").strip() not in ("0", ""):
        raise BadFile(f"{head} says the data are compressed; save them uncompressed in ENVI")
    code = header.whole_number(head, keys, "data type", None, 0, 99)
    if code in header.COMPLEX:
        raise BadFile(f"{head} says the data are {header.COMPLEX[code]}; a cube holds real numbers")
    if code not in header.TYPES:
        known = ", ".join(f"{k} {v}" for k, v in header.TYPES.items())
        raise BadFile(f"{head} says 'data type = {code}', which is none of {known}")
    if "byte order" not in keys:
        notes.append("the header has no 'byte order'; little-endian was assumed")
    big = header.whole_number(head, keys, "byte order", 0, 0, 1)
    word = keys.get("interleave", "").strip().lower()
    if not word:
        notes.append("the header has no 'interleave'; bsq was assumed")
    if word and word not in header.INTERLEAVE:
        raise BadFile(f"{head} has an 'interleave' that is not bsq, bil or bip; correct the header")
    return header.number_type(header.TYPES[code], big), header.INTERLEAVE[word or "bsq"]


def _data_file(path: Path, head: Path, needed: int, notes: list[str]) -> Path:
    if path != head:
        return path
    found = data_files(head)
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


def _check_size(data: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    held, needed = data.stat().st_size, offset + nbytes(shape, dtype.str)
    if held >= needed:
        return
    bands, rows, cols = shape
    raise BadFile(
        f"{data} has {size(held)}, the header needs {size(needed)} "
        f"({rows} x {cols} x {bands} x {dtype.name} + offset {offset}); get a fresh copy"
    )


def facts(keys: Mapping[str, str], bands: int, notes: list[str]) -> dict[str, Any]:
    """Everything the header says beside shape and type; what does not fit becomes a note."""

    def listed(key: str) -> list[str] | None:
        if key not in keys:
            return None
        parts = header.items(keys[key])
        if len(parts) != bands:
            notes.append(f"'{key}' has {len(parts)} entries for {bands} bands and was not used")
            return None
        return parts

    def numbers(key: str) -> list[float] | None:
        parts = listed(key)
        values = None if parts is None else [header.number(part) for part in parts]
        if values is not None and not all(map(math.isfinite, values)):
            notes.append(f"'{key}' holds what is no number and was not used")
            return None
        return values

    units = keys.get("wavelength units")
    unitless = (units or "").strip().lower() == "index"
    centres = None if numbers("wavelength") is None or unitless else listed("wavelength")
    widths = None if numbers("fwhm") is None or unitless else listed("fwhm")
    wavelengths = None if centres is None else nanometres(centres, units, notes)
    if widths is not None and units is None and wavelengths is not None and centres is not None:
        # Without a unit the widths are in that of the wavelengths, however small they are.
        units = "um" if float(centres[0]) != wavelengths[0] else "nm"
    fwhm = None if widths is None else nanometres(widths, units, notes, "fwhm")
    good = numbers("bbl")
    metadata: dict[str, Any] = {}
    if fwhm is not None:
        metadata["fwhm"] = tuple(fwhm.tolist())
    names = listed("band names")
    if names is not None:
        metadata["band_names"] = tuple(names)
    if "description" in keys:
        metadata["description"] = _unbraced(keys["description"])
    scale, offset = _scale(keys, numbers, bands, metadata, notes)
    metadata |= georeference(keys, notes)
    metadata["envi"] = {k: v for k, v in keys.items() if k not in ("samples", "lines", "bands")}
    nodata = None
    if "data ignore value" in keys:
        nodata = header.number(keys["data ignore value"])
        metadata["nodata_from"] = "'data ignore value' in the header"
        if math.isnan(nodata) and keys["data ignore value"].strip().lower() != "nan":
            notes.append("'data ignore value' is no number and was not used")
            metadata.pop("nodata_from")
        elif math.isnan(nodata):
            metadata["nodata_is_nan"] = True
        nodata = None if math.isnan(nodata) else nodata
    return {
        "wavelengths": wavelengths,
        "good_bands": np.ones(0, bool) if good is None else np.array(good) != 0,
        "scale": scale,
        "offset": offset,
        "nodata": nodata,
        "metadata": metadata,
    }


def _scale(
    keys: Mapping[str, str], numbers: Any, bands: int, metadata: dict[str, Any], notes: list[str]
) -> tuple[float, float]:
    """value = stored / reflectance scale factor, or stored * gain + offset."""
    if "reflectance scale factor" in keys:
        factor = header.number(keys["reflectance scale factor"])
        if math.isfinite(factor) and factor > 0 and math.isfinite(1 / factor):
            return 1 / factor, 0.0
        notes.append("'reflectance scale factor' is no positive number and was not used")
        return 1.0, 0.0
    gains, offsets = numbers("data gain values"), numbers("data offset values")
    if gains is None and offsets is None:
        return 1.0, 0.0
    gains, offsets = gains or [1.0] * bands, offsets or [0.0] * bands
    if len(set(gains)) == 1 and len(set(offsets)) == 1 and gains[0] != 0:
        return gains[0], offsets[0]
    metadata["band_scales"], metadata["band_offsets"] = tuple(gains), tuple(offsets)
    notes.append("scale and offset differ between bands and were not used")
    return 1.0, 0.0


def _unbraced(text: str) -> str:
    return text.strip().removeprefix("{").removesuffix("}").strip()
