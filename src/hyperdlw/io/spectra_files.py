"""Spectra of files: ENVI spectral libraries (.sli with .hdr) and tables of text (CSV)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cube import to_nanometres
from ..errors import BadFile, BadOption
from .checks import explain_errors
from .envi.header import TYPES, load_header, read_integer, split_list

F64 = NDArray[np.float64]
TEXT = (".csv", ".txt", ".tsv", ".dat", ".asc")
"""Endings of tables of text."""
LIBRARY = "envi spectral library"
MOST = 10**6
"""Numbers of a believable file of spectra."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A spectrum as a file has it: values, at wavelengths in nm, or at the bands of a cube if None."""

    name: str
    values: F64
    wavelengths: F64 | None = None

    def resample(self, wavelengths: ArrayLike | None, bands: int) -> F64:
        """The means over the bands of a cube; a value for each of its bands where nothing else is known.

        Bands reach half way to their neighbours. The curve is linear between its points.

        >>> Curve("a", np.array([0.0, 2.0]), np.array([400.0, 600.0])).resample([450, 500, 550], 3)
        array([0.5, 1. , 1.5])
        """
        if self.wavelengths is None or wavelengths is None:
            if len(self.values) != bands:
                how = (
                    "wavelengths in both" if self.wavelengths is None else "wavelengths of the cube"
                )
                raise BadOption(
                    f"the spectrum '{self.name}' has {len(self.values)} values and the cube {bands} "
                    f"bands; give one for every band, or {how}"
                )
            return self.values
        nm = np.ravel(np.asarray(wavelengths, np.float64))
        low, high = self.wavelengths[0], self.wavelengths[-1]
        if nm.min() < low - 1e-6 or nm.max() > high + 1e-6:
            raise BadOption(
                f"the spectrum '{self.name}' covers {low:g} to {high:g} nm and the cube {nm.min():g} to "
                f"{nm.max():g} nm; give one that covers all bands (0 where it has no feature), in nm or um"
            )
        order = np.argsort(nm, kind="stable")
        middles = (nm[order][1:] + nm[order][:-1]) / 2
        edges = np.clip(np.r_[2 * nm[order][0] - middles[:1], middles], low, high)
        ends = np.clip(np.r_[middles, 2 * nm[order][-1] - middles[-1:]], low, high)
        # Where a band is at the end of the curve it keeps to it on both sides.
        half = np.minimum(nm[order] - edges, ends - nm[order])
        total = np.r_[
            0, np.cumsum(np.diff(self.wavelengths) * (self.values[1:] + self.values[:-1]) / 2)
        ]
        out = np.empty(len(nm))
        for place, centre, h in zip(order, nm[order], half, strict=True):
            if h < 1e-9:
                out[place] = np.interp(centre, self.wavelengths, self.values)
            else:
                ends_of = [self._integrate(total, v) for v in (centre - h, centre + h)]
                out[place] = (ends_of[1] - ends_of[0]) / (2 * h)
        return out

    def _integrate(self, total: F64, nm: float) -> float:
        """The integral of the curve up to a wavelength."""
        assert self.wavelengths is not None
        k = int(np.clip(np.searchsorted(self.wavelengths, nm) - 1, 0, len(total) - 2))
        value = float(np.interp(nm, self.wavelengths, self.values))
        step = nm - self.wavelengths[k]
        return float(total[k] + step * (self.values[k] + value) / 2)


def make_curve(name: str, values: ArrayLike, wavelengths: ArrayLike | None = None) -> Curve:
    """A checked spectrum, sorted by wavelength."""
    v = np.ravel(np.asarray(values, np.float64))
    if not np.isfinite(v).all() or not v.any():
        raise BadOption(f"the spectrum '{name}' needs finite numbers that are not all 0")
    if wavelengths is None:
        return Curve(name, v)
    nm = np.ravel(np.asarray(wavelengths, np.float64))
    if len(nm) != len(v) or len(v) < 2:
        raise BadOption(f"the spectrum '{name}' has {len(nm)} wavelengths and {len(v)} values")
    order = np.argsort(nm, kind="stable")
    if not np.isfinite(nm).all() or (np.diff(nm[order]) <= 0).any():
        raise BadOption(
            f"the wavelengths of the spectrum '{name}' must be finite and all different"
        )
    return Curve(name, v[order], nm[order])


def is_spectra(path: Path) -> bool:
    """Whether a file is one of spectra."""
    if path.suffix.lower() in TEXT:
        return True
    head = path if path.suffix.lower() == ".hdr" else find_library_header(path)
    if head is None or not head.is_file():
        return False
    with open(head, "rb") as file:
        start = file.read(4096)
    return re.search(rb"(?i)file type\s*=\s*\{?\s*envi spectral library", start) is not None


def find_library_header(path: Path) -> Path | None:
    """The header beside the numbers of a library."""
    places = (path.with_suffix(".hdr"), path.with_name(path.name + ".hdr"))
    return next((p for p in places if p.is_file()), None)


def read_spectra(path: str | Path) -> list[Curve]:
    """The spectra of an ENVI library (.sli or .hdr), or of a table: a wavelength and values in a line.

    A table with one number in a line has a value for every band. Wavelengths below 100 are in um.
    """
    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file")
    return read_table(path) if path.suffix.lower() in TEXT else read_library(path)


def read_table(path: Path) -> list[Curve]:
    """Columns of text, with commas, semicolons, tabs or blanks between them."""
    with explain_errors(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    rows: list[list[str]] = []
    titles: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [w for w in re.split(r"[,;\t ]+", line.strip()) if w]
        if not words or words[0].startswith("#"):
            continue
        try:
            values = [float(w) for w in words]
        except ValueError:
            if rows:
                raise BadFile(
                    f"line {number} of {path} holds words where numbers should be"
                ) from None
            titles = [w for w in re.split(r"[,;\t]+", line.strip()) if w]
            continue
        if rows and len(values) != len(rows[0]):
            raise BadFile(
                f"line {number} of {path} has {len(values)} columns, others {len(rows[0])}"
            )
        rows.append(words)
        if len(rows) * len(words) > MOST:
            raise BadFile(f"{path} has over {MOST} numbers, so it is no file of spectra")
    if not rows:
        raise BadFile(f"{path} holds no numbers; write a wavelength and a value in every line")
    columns = list(zip(*rows, strict=True))
    if len(columns) == 1:
        return [make_curve(path.stem, [float(w) for w in columns[0]])]
    unit = re.search(r"\b(nm|um|µm|micromet\w*|nanomet\w*)\b", titles[0] if titles else "", re.I)
    nm = to_nanometres(columns[0], unit[1].lower() if unit else None, [])
    if nm is None:
        raise BadFile(f"the first column of {path} holds no wavelengths in nm or um")
    names = titles[1:] if len(titles) == len(columns) else []
    several = len(columns) > 2
    return [
        make_curve(
            names[k] if several and names else f"{path.stem} {k + 1}" if several else path.stem,
            [float(w) for w in column],
            nm,
        )
        for k, column in enumerate(columns[1:])
    ]


def read_library(path: Path) -> list[Curve]:
    """Every spectrum of an ENVI library: a line is a spectrum, a sample is a wavelength."""
    head = path if path.suffix.lower() == ".hdr" else find_library_header(path)
    if head is None:
        raise BadFile(f"{path} has no header beside it; a library is a .sli with a .hdr")
    keys, notes = load_header(head)
    if LIBRARY not in keys.get("file type", "").lower():
        raise BadFile(f"{head} is no ENVI spectral library: its file type is another one")
    data = path
    if path == head:
        places = (head.with_suffix(".sli"), head.with_suffix(""), head.with_suffix(".lib"))
        data = next((p for p in places if p.is_file()), head.with_suffix(".sli"))
    most = (1, MOST)
    count = read_integer(head, keys, "lines", None, *most)
    length = read_integer(head, keys, "samples", None, *most)
    kind = TYPES.get(read_integer(head, keys, "data type", None, 1, 15))
    if kind is None or count * length > MOST:
        raise BadFile(
            f"{head} describes no library that could be read: {count} spectra of {length}"
        )
    big = keys.get("byte order", "0").strip() == "1"
    dtype = np.dtype(kind).newbyteorder(">" if big else "<")
    start = read_integer(head, keys, "header offset", 0, 0, 2**31)
    with explain_errors(data), open(data, "rb") as file:
        file.seek(start)
        raw = file.read(count * length * dtype.itemsize)
    if len(raw) < count * length * dtype.itemsize:
        raise BadFile(f"{data} is cut short: {count} spectra of {length} values do not fit into it")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = np.frombuffer(raw, dtype).reshape(count, length).astype(np.float64)
    names = split_list(keys["spectra names"]) if "spectra names" in keys else []
    centres = split_list(keys["wavelength"]) if "wavelength" in keys else []
    with explain_errors(head):
        nm = to_nanometres(centres, keys.get("wavelength units"), notes) if centres else None
    if nm is not None and len(nm) != length:
        raise BadFile(f"{head} has {len(nm)} wavelengths for spectra of {length} values")
    named = names if len(names) == count else [f"{head.stem} {k + 1}" for k in range(count)]
    return [make_curve(n, v, nm) for n, v in zip(named, values, strict=True)]
