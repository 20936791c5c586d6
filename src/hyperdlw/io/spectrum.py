"""Wavelengths wherever they are: names of variables, tags and names of bands, XML beside the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

CENTRES = re.compile(r"wavelength|(^|_)wl(s)?($|_)|band_?cent|centre?r?s?$|lambda|^list_cw_[a-z]+$")
NO_CENTRES = re.compile(r"good|bad|fwhm|flag|uncert|unit|error|index|width")
WIDTHS = re.compile(r"fwhm|^list_fwhm_[a-z]+$|full_?width")
GOOD = re.compile(r"^good_?(wavelength|band)s?$|^bbl$|bad_?bands?_?list")
IN_NAME = re.compile(
    r"([0-9]+(?:\.[0-9]+)?)\s*\(?(nm|nanomet\w*|um|µm|μm|micromet\w*|microns?)\b", re.I
)
LARGEST = 2**26
"""Bytes of a believable XML file."""


def speaks_of(name: str, wanted: re.Pattern[str]) -> bool:
    """Whether the name of a variable is that of a list of a kind: CENTRES, WIDTHS or GOOD."""
    low = name.lower()
    excluded = wanted is CENTRES and NO_CENTRES.search(low)
    return not excluded and wanted.search(low) is not None


@dataclass(frozen=True)
class Spectrum:
    """Numbers of every band as a file writes them."""

    centres: list[str]
    units: str | None
    widths: list[str] = field(default_factory=list)
    where: str = ""


def read_band_tags(bands: Sequence[Mapping[str, str]]) -> Spectrum | None:
    """The tags ``wavelength``, ``wavelength_units`` and ``fwhm`` of all bands."""
    low = [{k.lower(): v.strip() for k, v in tags.items()} for tags in bands]

    def gather(*names: str) -> list[str]:
        for name in names:
            found = [tags[name] for tags in low if _is_number(tags.get(name, ""))]
            if len(found) == len(low):
                return found
        return []

    centres = gather("wavelength", "center_wavelength", "central_wavelength")
    if not centres:
        return None
    units = low[0].get("wavelength_units", low[0].get("wavelength_unit"))
    return Spectrum(centres, units, gather("fwhm"), where="the tags of the bands")


def read_band_names(names: Sequence[str | None]) -> Spectrum | None:
    """Band names such as '418.4 nm', 'Band 1 (0.4184 Micrometers)', or rising bare wavelengths."""
    found = [IN_NAME.search(name or "") for name in names]
    units = {match[2].lower() for match in found if match}
    if all(found) and len(units) == 1:
        word = units.pop()
        unit = "nm" if word.startswith("n") else "um"
        return Spectrum([m[1] for m in found if m], unit, where="the names of the bands")
    texts = [(name or "").strip() for name in names]
    if len(texts) > 1 and all(map(_is_number, texts)):
        values = [float(text) for text in texts]
        rising = all(a < b for a, b in pairwise(values))
        if rising and values[0] >= 200 and values[-1] <= 20_000:
            return Spectrum(texts, "nm", where="the names of the bands")
    return None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\s*", text) is not None


def read_xml_beside(path: Path, bands: int) -> Spectrum | None:
    """Wavelengths of EnMAP and DESIS, whose metadata are an XML file beside the image."""
    stem, _, part = path.stem.upper().rpartition("SPECTRAL_IMAGE")
    if not stem:
        return None
    wanted = {f"{stem}METADATA.XML", f"{stem}METADATA"}
    beside = [p for p in path.parent.iterdir() if p.suffix and p.name.upper() in wanted]
    for file in beside[:1]:
        if file.stat().st_size > LARGEST:
            return None
        try:
            root = ElementTree.parse(file).getroot()
        except (OSError, ElementTree.ParseError):
            return None
        about = next(_iterate(root, "bandCharacterisation"), None)
        lists: dict[str, list[str]] = {"centre": [], "width": []}
        for band in () if about is None else about:
            said = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in band}
            lists["centre"].append(said.get("wavelengthCenterOfBand", ""))
            lists["width"].append(said.get("FWHMOfBand", said.get("wavelengthWidthOfBand", "")))
        # EnMAP L1B has a file for each detector and one list for both.
        cut = slice(-bands, None) if "SWIR" in part else slice(0, bands if "VNIR" in part else None)
        centres, widths = (
            texts if len(texts := found[cut]) == bands and all(map(_is_number, texts)) else []
            for found in lists.values()
        )
        if centres:
            return Spectrum(centres, "nm", widths, where=file.name)
    return None


def _iterate(root: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    return (e for e in root.iter() if e.tag.rpartition("}")[2] == tag)
