"""TIFF and GeoTIFF (COG too): any number of bands, integers or floats, through GDAL.

Wavelengths and widths are the items ``CENTRAL_WAVELENGTH_UM`` and ``FWHM_UM`` of the band domain
``IMAGERY``, where GDAL, QGIS and EnMAP-Box look for them; a bad band has the item ``bbl = 0``.

Nodata: ``pictures._read_facts`` reads the tag, ``reader.build_reader`` lets the user's value win,
``cube.decode`` marks the voxels as not valid and ``cube.encode`` puts them back as they were;
:func:`choose_nodata` says which tag an output gets.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding, scale_decimal
from .formats import FLOATS, INTEGERS, Format
from .metadata import carry_metadata, parse_metadata
from .pages import has_pages, is_tiff
from .pictures import fit_nodata, open_picture, silence_gdal
from .reader import CubeReader, Described, FileFacts, Index, ReadOptions, Stored
from .spectrum import read_band_names, read_band_tags, read_xml_beside
from .writer import WriteWindow

if TYPE_CHECKING:
    from rasterio.io import DatasetReader, DatasetWriter

CENTRE, WIDTH = "CENTRAL_WAVELENGTH_UM", "FWHM_UM"
OWN = "DLW"
NOT_KEPT = ("IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS", "TIFF", "COLOR_PROFILE", OWN)
"""Domains that describe the file and not the image."""
LOSSLESS = ("DEFLATE", "LZW", "ZSTD", "PACKBITS", "LZMA")


class Tiff(Format):
    """Everything is held: what GDAL has no place for is kept as JSON in the domain ``DLW``."""

    name = "tiff"
    suffixes = (".tif", ".tiff")
    dtypes = INTEGERS | FLOATS
    holds = None

    def recognise(self, path: Path, head: bytes) -> bool:
        return is_tiff(head) and not has_pages(path)

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        return open_picture(path, "GTiff", self.name, options, read_description)

    def choose_tile(
        self, like: Described, encoding: Encoding, strip: int | None
    ) -> tuple[int, int]:
        given = _choose_blocks(like)
        return given.get("blockysize", 1), given.get("blockxsize", like.shape[2])

    @contextmanager
    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> Iterator[WriteWindow]:
        """Write window by window.

        GDAL overlooks a full disk when it closes a file, so the file is looked at again afterwards.
        """
        import rasterio
        from rasterio.errors import RasterioError
        from rasterio.windows import Window as Cut

        count, height, width = like.shape
        profile = {"count": count, "height": height, "width": width, "dtype": encoding.dtype}
        options = _choose_options(like, encoding)
        lock = threading.Lock()
        with silence_gdal():
            picture = rasterio.open(path, "w", driver="GTiff", **profile, **options)
        try:
            with silence_gdal():
                write_description(picture, like, encoding)

            def put(bands: Index, rows: slice, cols: slice, stored: Stored) -> None:
                numbers = range(1, count + 1)
                chosen = numbers[bands] if isinstance(bands, slice) else [b + 1 for b in bands]
                cut = Cut(cols.start, rows.start, cols.stop - cols.start, rows.stop - rows.start)
                if stored.size:
                    with lock, silence_gdal():
                        picture.write(stored, list(chosen), window=cut)

            yield put
            with silence_gdal():
                picture.close()
                _check_complete(path)
        except RasterioError as error:
            raise OSError(f"{error}") from error
        finally:
            if not picture.closed:
                with silence_gdal():
                    picture.close()


def read_description(picture: DatasetReader, bands: list[int], facts: FileFacts) -> None:
    """Add what a GeoTIFF says beside the numbers."""
    metadata, notes = facts.metadata, facts.notes
    tags = _read_domains(picture, None)
    if tags.get("") == {"AREA_OR_POINT": "Area"}:  # what GDAL says when nobody said anything
        del tags[""]
    each = [_read_domains(picture, b) for b in bands]
    imagery = [tags.pop("IMAGERY", {}) for tags in each]
    facts.wavelengths = _read_micrometres(imagery, CENTRE, notes)
    widths = _read_micrometres(imagery, WIDTH, notes)
    if widths is not None:
        metadata["fwhm"] = tuple(widths.tolist())
    if facts.wavelengths is None:
        plain = [domains.get("", {}) for domains in each]
        names = [picture.descriptions[b - 1] for b in bands]
        said = read_band_tags(plain) or read_xml_beside(Path(picture.name), len(bands))
        said = said or read_band_names(names)
        if said is not None:
            facts.set_spectrum(said.centres, said.units, said.widths)
            notes.append(f"wavelengths are from {said.where}")
    good = [domains.get("", {}).pop("bbl", "1").strip() != "0" for domains in each]
    facts.good_bands = np.array(good)
    for domains, rest in zip(each, imagery, strict=True):
        domains["IMAGERY"] = {k: v for k, v in rest.items() if k not in (CENTRE, WIDTH)}
    each = [{k: tags for k, tags in domains.items() if tags} for domains in each]
    if any(each):
        metadata["band_tags"] = tuple(each)
    if tags:
        metadata["tags"] = tags
    names = [picture.descriptions[b - 1] for b in bands]
    if any(names):
        metadata["band_names"] = tuple(name or "" for name in names)
    metadata |= _read_place(picture)
    if own := picture.tags(ns=OWN).get("metadata"):  # what hyperdlw put there for other formats
        metadata |= parse_metadata(own, picture.count, notes)
    metadata["tiff_layout"] = _read_layout(picture)


def _read_domains(picture: DatasetReader, band: int | None) -> dict[str, dict[str, str]]:
    """GDAL's tags of the image (None) or of a band, by domain."""
    where = () if band is None else (band,)
    found = {"": dict(picture.tags(*where))}
    for domain in picture.tag_namespaces(*where):
        if domain and domain not in NOT_KEPT and not domain.startswith("xml:"):
            found[domain] = dict(picture.tags(*where, ns=domain))
    # Statistics are those of the numbers before they were restored.
    found[""] = {k: v for k, v in found[""].items() if not k.startswith("STATISTICS_")}
    return {domain: tags for domain, tags in found.items() if tags}


def _read_micrometres(
    imagery: list[dict[str, str]], key: str, notes: list[str]
) -> NDArray[np.float64] | None:
    texts = [tags[key] for tags in imagery if key in tags]
    if not texts:
        return None
    try:
        values = np.array([scale_decimal(text, 3) for text in texts])
    except (ValueError, ArithmeticError):
        values = np.array([np.nan])
    if len(values) == len(imagery) and np.isfinite(values).all():
        return values
    notes.append(f"{key} is not a number for every band and was not used")
    return None


def _read_place(picture: DatasetReader) -> dict[str, object]:
    found: dict[str, object] = {}
    if picture.crs:
        found["crs"] = picture.crs.to_wkt()
    if not picture.transform.is_identity:
        found["transform"] = tuple(map(float, picture.transform[:6]))
    points, crs = picture.gcps
    if points:
        found["gcps"] = tuple(
            (float(p.row), float(p.col), float(p.x), float(p.y), float(p.z or 0)) for p in points
        )
        if crs:
            found["gcps_crs"] = crs.to_wkt()
    return found


def _read_layout(picture: DatasetReader) -> dict[str, object]:
    """Compression, tiles and whether bands are colours, to be used again."""
    from rasterio.enums import PhotometricInterp

    facts: dict[str, object] = {"rgb": picture.photometric == PhotometricInterp.rgb}
    packing = picture.tags(ns="IMAGE_STRUCTURE").get("COMPRESSION", "")
    if packing in LOSSLESS:
        facts["compress"] = packing
    height, width = picture.block_shapes[0]
    if width != picture.width and height % 16 == 0 and width % 16 == 0:
        facts |= {"tiled": True, "blockxsize": width, "blockysize": height}
    return facts


def _choose_blocks(like: Described) -> dict[str, Any]:
    """Tiles, where an image is large enough to be cut into windows."""
    given = dict(like.metadata.get("tiff_layout", {}))
    given.pop("rgb", None)
    if min(like.shape[1:]) > 512 and "blockxsize" not in given:
        given |= {"tiled": True, "blockxsize": 256, "blockysize": 256}
    return given


def _check_complete(path: Path) -> None:
    """Every block has a place inside the file: GDAL fills what was not written, if it can."""
    import rasterio

    held = path.stat().st_size
    with rasterio.open(path, driver="GTiff") as picture:
        height, width = picture.block_shapes[0]
        down, across = -(-picture.height // height), -(-picture.width // width)
        blocks = itertools.product(picture.indexes, range(down), range(across))
        for band, row, column in blocks:
            names = (f"BLOCK_{word}_{column}_{row}" for word in ("OFFSET", "SIZE"))
            said = [picture.get_tag_item(name, "TIFF", bidx=band) for name in names]
            start, length = (int(value or 0) for value in said)
            if not start or not length or start + length > held:
                raise OSError("the file is incomplete")


def choose_nodata(like: Described, encoding: Encoding) -> float | None:
    """The nodata tag of an output: the input's, if its type can hold it; GDAL has one per file."""
    is_nan = like.metadata.get("nodata_is_nan") and np.dtype(encoding.dtype).kind == "f"
    return math.nan if encoding.nodata is None and is_nan else fit_nodata(encoding)


def _choose_options(like: Described, encoding: Encoding) -> dict[str, Any]:
    """GDAL's creation options."""
    import rasterio

    meta = carry_metadata(like)
    layout = like.metadata.get("tiff_layout", {})
    colour = like.bands == 3 and layout.get("rgb", np.dtype(encoding.dtype).kind == "u")
    options: dict[str, Any] = {
        # Left to itself GDAL calls the fourth of four byte bands transparency.
        "photometric": "RGB" if colour else "MINISBLACK",
        "alpha": "NO",
        "interleave": "BAND",
        "BIGTIFF": "IF_SAFER",
        "nodata": choose_nodata(like, encoding),
    }
    if "transform" in meta:
        options["transform"] = rasterio.Affine(*meta["transform"])
    if "crs" in meta:
        options["crs"] = rasterio.CRS.from_wkt(meta["crs"])
    return options | _choose_blocks(like)


def write_description(picture: DatasetWriter, like: Described, encoding: Encoding) -> None:
    """Write everything that is known about the image beside the numbers."""
    meta = carry_metadata(like)
    count = like.bands
    if "band_scales" in meta:
        picture.scales = meta["band_scales"]
        picture.offsets = meta.get("band_offsets", (0.0,) * count)
    elif encoding.scale != 1.0 or encoding.offset != 0.0:
        picture.scales, picture.offsets = (encoding.scale,) * count, (encoding.offset,) * count
    for domain, tags in meta.get("tags", {}).items():
        if "gcps" in meta:  # GDAL 3.10 moves control points by a pixel with AREA_OR_POINT=Point
            tags = {k: v for k, v in tags.items() if k != "AREA_OR_POINT"}
        picture.update_tags(**({"ns": domain} if domain else {}), **tags)
    if "gcps" in meta:
        from rasterio.control import GroundControlPoint

        points = [GroundControlPoint(*point) for point in meta["gcps"]]
        picture.gcps = (points, meta.get("gcps_crs") or meta.get("crs"))
    each: Mapping[int, Mapping[str, Mapping[str, str]]] = dict(enumerate(meta.get("band_tags", ())))
    for band in range(count):
        domains = {domain: dict(tags) for domain, tags in each.get(band, {}).items()}
        for key, values in ((CENTRE, like.wavelengths), (WIDTH, meta.get("fwhm"))):
            if values is not None:  # 400.5 nm is 0.4005 um exactly
                text = format(Decimal(repr(float(values[band]))).scaleb(-3), "f")
                domains.setdefault("IMAGERY", {})[key] = text
        if not like.good_bands.all():
            domains.setdefault("", {})["bbl"] = str(int(like.good_bands[band]))
        for domain, tags in domains.items():
            picture.update_tags(band + 1, **({"ns": domain} if domain else {}), **tags)
        if "band_names" in meta and meta["band_names"][band]:
            picture.set_band_description(band + 1, meta["band_names"][band])
    known = {"tags", "band_tags", "band_names", "fwhm", "crs", "transform", "gcps", "gcps_crs"}
    known |= {"band_scales", "band_offsets", "nodata_is_nan"}
    rest = {k: v for k, v in meta.items() if k not in known}
    if rest:
        picture.update_tags(ns=OWN, metadata=json.dumps(rest, sort_keys=True))
