"""ENVI: a text header (.hdr) beside a file of bare numbers.

The header is read by hand and the numbers are mapped: GDAL's driver drops keys it does not know on
writing, ignores the reflectance scale factor and makes an object per band before it looks at the
file's size. GDAL does what it is good at: ``map info`` to a coordinate system and back.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from . import envi_header as header
from .atomic import atomic, check_output
from .guard import nbytes, reading, size
from .meta import ENVI_KEYS, carried, nanometres, scaled
from .sink import Put, mapped_writer
from .source import CubeFile, Described, mapped, with_nodata

NAME = "envi"
DATA = (".img", ".dat", ".raw", ".bsq", ".bil", ".bip")
SUFFIXES: tuple[str, ...] = (".hdr", *DATA)
HAS_KEYS = False
FREE_AXES = False
FOLDER = False
BANDS: frozenset[int] | None = None
TYPES = {1: "uint8", 2: "int16", 3: "int32", 4: "float32", 5: "float64"}
TYPES |= {12: "uint16", 13: "uint32", 14: "int64", 15: "uint64"}
CODES = {name: code for code, name in TYPES.items()}
COMPLEX = {6: "complex64", 9: "complex128"}
DTYPES: frozenset[str] | None = frozenset(CODES)
HOLDS: frozenset[str] | None = frozenset(
    [
        "wavelengths",
        "good_bands",
        "scale",
        "nodata",
        "fwhm",
        "band_names",
        "crs",
        "transform",
        "envi",
        "description",
        "band_scales",
    ]
)
INTERLEAVE = {"bsq": "brc", "bil": "rbc", "bip": "rcb"}
LARGEST = 2**31 - 1
"""Lines, samples or bands: what GDAL and ENVI count with."""


# --- finding the two files


def header_of(data: Path) -> Path | None:
    """The header that belongs to a data file: ``scene.hdr`` or ``scene.img.hdr``."""
    beside = [data.with_suffix(".hdr"), data.with_suffix(".HDR")] if data.name else []
    for place in (*beside, data.with_name(data.name + ".hdr"), data.with_name(data.name + ".HDR")):
        if place != data and _starts_as_envi(place):
            return place
    return None


def _starts_as_envi(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            return is_header(file.read(16))
    except OSError:
        return False


def is_header(head: bytes) -> bool:
    """Whether a file starts as an ENVI header does."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:4].upper() == b"ENVI"


def data_files(head: Path) -> list[Path]:
    """Files beside a header that can hold its numbers, the likeliest first."""
    bare = head.with_suffix("")
    endings = ["", *DATA, *(ending.upper() for ending in DATA)]
    return [p for p in (bare.with_name(bare.name + e) for e in endings) if p.is_file()]


def sniff(path: Path, head: bytes) -> bool:
    """Whether this is an ENVI header, or a file with a usual ending beside one."""
    if path.is_dir():
        return False
    if is_header(head) and path.suffix.lower() not in DATA:
        return True
    return path.suffix.lower() in ("", *DATA) and header_of(path) is not None


# --- reading


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube by its header or by its data file.

    Args:
        path, key, axes, nodata: as for :func:`dlw.io.open_cube`.
    """
    head = path if _starts_as_envi(path) else header_of(path)
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
        facts = _facts(keys, shape[0], notes)
    stored_shape = tuple(shape["brc".index(a)] for a in order)
    metadata = facts["metadata"] | {"notes": tuple(notes), "data_file": str(data)}
    encoding = with_nodata(
        Encoding(dtype.name, order, facts["scale"], facts["offset"], facts["nodata"], format=NAME),
        metadata,
        nodata,
    )
    return CubeFile(
        path,
        shape,
        encoding,
        mapped(data, offset, stored_shape, dtype, order),
        facts["wavelengths"],
        facts["good_bands"],
        metadata,
    )


def _numbers(head: Path, keys: Mapping[str, str], notes: list[str]) -> tuple[np.dtype[Any], str]:
    """Type and order of the stored numbers."""
    if keys.get("file compression", "0").strip() not in ("0", ""):
        raise BadFile(f"{head} says the data are compressed; save them uncompressed in ENVI")
    code = header.whole_number(head, keys, "data type", None, 0, 99)
    if code in COMPLEX:
        raise BadFile(f"{head} says the data are {COMPLEX[code]}; a cube holds real numbers")
    if code not in TYPES:
        known = ", ".join(f"{k} {v}" for k, v in TYPES.items())
        raise BadFile(f"{head} says 'data type = {code}', which is none of {known}")
    if "byte order" not in keys:
        notes.append("the header has no 'byte order'; little-endian was assumed")
    big = header.whole_number(head, keys, "byte order", 0, 0, 1)
    word = keys.get("interleave", "").strip().lower()
    if not word:
        notes.append("the header has no 'interleave'; bsq was assumed")
    if word and word not in INTERLEAVE:
        raise BadFile(f"{head} has an 'interleave' that is not bsq, bil or bip; correct the header")
    return _ordered(TYPES[code], big), INTERLEAVE[word or "bsq"]


def _ordered(name: str, big: int) -> np.dtype[Any]:
    return np.dtype(name).newbyteorder(">" if big else "<")


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


def _facts(keys: Mapping[str, str], bands: int, notes: list[str]) -> dict[str, Any]:
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
        values = None if parts is None else [_float(part) for part in parts]
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
        nodata = _float(keys["data ignore value"])
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
        factor = _float(keys["reflectance scale factor"])
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


def _float(text: str) -> float:
    try:
        return scaled(text.strip().strip("{}"), 0)
    except (ValueError, ArithmeticError):
        return math.nan


def _unbraced(text: str) -> str:
    return text.strip().removeprefix("{").removesuffix("}").strip()


# --- map coordinates, through GDAL


def georeference(keys: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    """``crs`` and ``transform`` of ``map info`` and ``coordinate system string``."""
    said = {k: keys[k] for k in ("map info", "coordinate system string") if k in keys}
    if not said:
        return {}
    import rasterio

    from .picture import quiet

    tiny = {"samples": "8", "lines": "8", "bands": "1", "header offset": "0", "data type": "1"}
    tiny |= {"interleave": "bsq", "byte order": "0", "file type": "ENVI Standard"}
    found: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory() as folder, quiet():
            Path(folder, "x.img").write_bytes(bytes(64))  # GDAL looks at no smaller file
            Path(folder, "x.hdr").write_bytes(header.text(tiny | said))
            with rasterio.open(Path(folder, "x.img"), driver="ENVI") as picture:
                if not picture.transform.is_identity:
                    found["transform"] = tuple(v + 0.0 for v in picture.transform[:6])  # no -0
                if picture.crs:
                    found["crs"] = picture.crs.to_wkt()
    except Exception:  # GDAL raises several kinds; the cube can be used without a map
        found = {}
    if not found:
        notes.append("'map info' could not be understood; it is kept as it is")
    return found


def map_keys(metadata: Mapping[str, Any]) -> dict[str, str]:
    """``map info`` and ``coordinate system string`` of ``crs`` and ``transform``."""
    if "transform" not in metadata and "crs" not in metadata:
        return {}
    import rasterio

    from .picture import quiet

    place: dict[str, Any] = {}
    if "transform" in metadata:
        place["transform"] = rasterio.Affine(*metadata["transform"])
    if "crs" in metadata:
        place["crs"] = metadata["crs"]
    profile = {"count": 1, "height": 1, "width": 1, "dtype": "uint8"}
    with tempfile.TemporaryDirectory() as folder, quiet():
        file = Path(folder, "x.img")
        try:
            with rasterio.open(file, "w", driver="ENVI", **profile, **place):
                pass
            keys, _ = header.load(file.with_suffix(".hdr"))
        except Exception:  # a coordinate system that ENVI has no words for
            return {}
    return {
        k: keys[k] for k in ("map info", "projection info", "coordinate system string") if k in keys
    }


# --- writing


def stored_axes(path: Path, asked: Encoding) -> str:
    """The interleave that the ending names, or the input's if that was ENVI, or bsq."""
    ending = path.suffix.lower().removeprefix(".")
    if ending in INTERLEAVE:
        return INTERLEAVE[ending]
    return asked.axes if asked.format == NAME and asked.axes in INTERLEAVE.values() else "brc"


def places(path: Path) -> tuple[Path, Path]:
    """Data file and header of an output named by either of them."""
    if path.suffix.lower() != ".hdr":
        appended = path.with_name(path.name + ".hdr")
        plain = path.with_suffix(".hdr") if path.suffix.lower() in DATA else appended
        return path, appended if appended.exists() else plain
    found = data_files(path)
    return found[0] if found else path.with_suffix(".img"), path


def check_place(path: Path, overwrite: bool) -> None:
    """Both files of the pair must be free, or may be replaced."""
    for place in places(path):
        check_output(place, overwrite=overwrite)


@contextmanager
def placed(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary data file, with its header beside it, moved into place as a pair.

    Two files cannot be replaced at once. If the header changes it is taken away first, so that at
    no moment new numbers are read with an old header; if it is the same the move is atomic.
    """
    data, head = places(path)
    check_place(path, overwrite)
    old = head.read_bytes() if head.is_file() else None
    with atomic(head, overwrite=overwrite) as tmp_head:
        taken = False
        try:
            with atomic(data, overwrite=overwrite) as tmp:
                try:
                    yield tmp
                    os.replace(_beside(tmp), tmp_head)
                finally:
                    _beside(tmp).unlink(missing_ok=True)
                if old is not None and tmp_head.read_bytes() != old:
                    head.unlink(missing_ok=True)
                    taken = True
        except BaseException:
            if taken and old is not None:
                head.write_bytes(old)
            raise


def _beside(tmp: Path) -> Path:
    return tmp.with_name(tmp.name + ".hdr")


@contextmanager
def writer(tmp: Path, like: Described, encoding: Encoding) -> Iterator[Put]:
    """Write the header beside ``tmp``, and the numbers into it window by window."""
    keys = header_keys(like, encoding)
    dtype = _ordered(encoding.dtype, int(keys["byte order"]))
    _beside(tmp).write_bytes(header.text(keys))
    with mapped_writer(tmp, b"", like.shape, dtype, encoding.axes) as put:
        yield put


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write a whole cube, ``stored`` in the order of ``encoding.axes``."""
    keys = header_keys(cube, encoding)
    dtype = _ordered(encoding.dtype, int(keys["byte order"]))
    _beside(path).write_bytes(header.text(keys))
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
    words = {axes: word for word, axes in INTERLEAVE.items()}
    order = kept.get("byte order", "0").strip()
    keys = {
        "description": "{" + meta["description"] + "}" if "description" in meta else "",
        "samples": str(cols),
        "lines": str(rows),
        "bands": str(bands),
        "header offset": "0",
        "file type": kept.get("file type", "ENVI Standard"),
        "data type": str(CODES[np.dtype(encoding.dtype).name]),
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
    if key in kept and _float(kept[key]) == value:
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
            said = _float(kept["reflectance scale factor"])
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
    old = _facts({k: v for k, v in kept.items() if k in SPECTRAL}, like.bands, [])
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


SPECTRAL = ("wavelength units", "wavelength", "fwhm", "bbl")


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
