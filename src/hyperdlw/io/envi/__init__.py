"""ENVI: a text header (.hdr) beside a file of bare numbers.

The header is read by hand and the numbers are mapped: GDAL's driver drops keys it does not know on
writing, ignores the reflectance scale factor and makes an object per band before it looks at the
file's size. GDAL does what it is good at: ``map info`` to a coordinate system and back.
"""

from __future__ import annotations

from pathlib import Path

from . import header
from .files import DATA, check_place, header_of, is_header, placed
from .reading import source
from .writing import cannot, stored_axes, write, writer

__all__ = [
    "BANDS",
    "DTYPES",
    "FOLDER",
    "FREE_AXES",
    "HAS_KEYS",
    "HOLDS",
    "NAME",
    "SUFFIXES",
    "cannot",
    "check_place",
    "header",
    "header_of",
    "placed",
    "sniff",
    "source",
    "stored_axes",
    "write",
    "writer",
]

NAME = header.NAME
SUFFIXES: tuple[str, ...] = (".hdr", *DATA)
HAS_KEYS = False
FREE_AXES = False
FOLDER = False
BANDS: frozenset[int] | None = None
DTYPES: frozenset[str] | None = frozenset(header.CODES)
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


def sniff(path: Path, head: bytes) -> bool:
    """Whether this is an ENVI header, or a file with a usual ending beside one."""
    if path.is_dir():
        return False
    if is_header(head) and path.suffix.lower() not in DATA:
        return True
    return path.suffix.lower() in ("", *DATA) and header_of(path) is not None
