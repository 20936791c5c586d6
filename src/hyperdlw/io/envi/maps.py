"""Map coordinates of ENVI headers, through GDAL: ``map info`` to a coordinate system and back."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import header


def georeference(keys: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    """``crs`` and ``transform`` of ``map info`` and ``coordinate system string``."""
    said = {k: keys[k] for k in ("map info", "coordinate system string") if k in keys}
    if not said:
        return {}
    import rasterio

    from ..picture import quiet

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

    from ..picture import quiet

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
