"""ENVI: a text header (.hdr) beside a file of bare numbers.

The header is read by hand and the numbers are mapped: GDAL's driver drops keys it does not know on
writing, ignores the reflectance scale factor and makes an object per band before it looks at the
file's size. GDAL does what it is good at: ``map info`` to a coordinate system and back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import numpy as np

from ...cube import AXES, Encoding
from ...errors import BadFile, OutputExists
from ..atomic import atomic, check_output
from ..checks import count_bytes, explain_errors, format_size
from ..formats import Format
from ..reader import CubeReader, Described, ReadOptions, build_reader, map_windows
from ..writer import WriteWindow, write_mapped
from . import facts, header
from .facts import DATA

LARGEST = 2**31 - 1
"""Lines, samples or bands: what GDAL and ENVI count with."""


class Envi(Format):
    """A header and a data file; either names the pair."""

    name = "envi"
    suffixes = (".hdr", *DATA)
    optional_ending = True
    dtypes = frozenset(header.CODES)
    holds = frozenset(
        {"wavelengths", "good_bands", "scale", "nodata", "fwhm", "band_names", "band_scales"}
        | {"crs", "transform", "envi", "description"}
    )

    def recognise(self, path: Path, head: bytes) -> bool:
        """Whether this is an ENVI header, or a file with a usual ending beside one."""
        if path.is_dir():
            return False
        if is_header(head) and path.suffix.lower() not in DATA:
            return True
        return path.suffix.lower() in ("", *DATA) and find_header(path) is not None

    def recognise_beside(self, path: Path) -> bool:
        """Data files may have any ending, if there is scene.ext.hdr."""
        return path.is_file() and find_header(path) is not None

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        head = path if starts_as_envi(path) else find_header(path)
        if head is None:
            raise BadFile(
                f"{path} has no ENVI header beside it ({path.with_suffix('.hdr').name}); "
                "put the header there, or say what it holds with --shape, such as "
                "--shape 224x512x614:uint16"
            )
        keys, notes = header.load_header(head)
        if "library" in keys.get("file type", "").lower():
            raise BadFile(f"{path} is a spectral library, which holds spectra and no image")
        with explain_errors(head):
            dtype, order = facts.read_type(head, keys, notes)
            bands, rows, cols = (
                header.read_integer(head, keys, k, None, 1, LARGEST)
                for k in ("bands", "lines", "samples")
            )
            shape = (bands, rows, cols)
            offset = header.read_integer(head, keys, "header offset", 0, 0, 2**62)
            needed = offset + count_bytes(shape, dtype.str)
            data = facts.find_data(path, head, needed, notes)
            held = data.stat().st_size
            if held < needed:
                raise BadFile(
                    f"{data} has {format_size(held)}, the header needs {format_size(needed)} "
                    f"({rows} x {cols} x {bands} x {dtype.name} + offset {offset}); get a fresh copy"
                )
            said = facts.read_facts(keys, bands, notes)
        said.metadata["data_file"] = str(data)
        encoding = Encoding(dtype.name, order, format=self.name)
        laid = tuple(shape[AXES.index(a)] for a in order)
        window = map_windows(data, offset, laid, dtype, order)
        made = build_reader(path, shape, encoding, window, said, options)
        made.plain = True
        return made

    def choose_axes(self, path: Path, asked: Encoding) -> str:
        """The interleave that the ending names, or the input's if that was ENVI, or bsq."""
        ending = path.suffix.lower().removeprefix(".")
        if ending in header.INTERLEAVE:
            return header.INTERLEAVE[ending]
        kept = asked.format == self.name and asked.axes in header.INTERLEAVE.values()
        return asked.axes if kept else AXES

    def find_losses(self, like: Described) -> set[str]:
        return facts.find_losses(like)

    def list_files(self, path: Path) -> tuple[Path, ...]:
        data, head = name_pair(path)
        return data, head, *facts.list_data(head)

    def check_place(self, path: Path, overwrite: bool) -> None:
        """Both files of the pair must be free, or be a pair that may be replaced."""
        data, head = name_pair(path)
        for place in (data, head):
            check_output(place, overwrite=overwrite)
        if head.exists():
            if not starts_as_envi(head):
                raise OutputExists(f"{head} is no ENVI header; choose another output name")
            held = facts.list_data(head)
        else:
            held = [data] if data.exists() else []
        if held and not (head.exists() and self._belongs(data, head)):
            raise OutputExists(
                f"{held[0]} is not the data file of {head}, or not one of hyperdlw's making; "
                "choose another output name, or remove it"
            )

    def _belongs(self, data: Path, head: Path) -> bool:
        """Whether a header is readable and says that its numbers are in this file."""
        with suppress(BadFile):
            found = self.open_reader(head, ReadOptions()).metadata["data_file"]
            return data.exists() and os.path.samefile(found, data)
        return False

    def place_output(self, path: Path, overwrite: bool) -> AbstractContextManager[Path]:
        self.check_place(path, overwrite)
        return place_pair(*name_pair(path), overwrite)

    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> AbstractContextManager[WriteWindow]:
        keys = facts.make_keys(like, encoding)
        dtype = np.dtype(encoding.dtype).newbyteorder(">" if keys["byte order"] == "1" else "<")
        name_header(path).write_bytes(header.format_header(keys))
        return write_mapped(path, b"", like.shape, dtype, encoding.axes)


def find_header(data: Path) -> Path | None:
    """The header that belongs to a data file: ``scene.hdr`` or ``scene.img.hdr``."""
    beside = [data.with_suffix(".hdr"), data.with_suffix(".HDR")] if data.name else []
    for place in (*beside, data.with_name(data.name + ".hdr"), data.with_name(data.name + ".HDR")):
        if place != data and starts_as_envi(place):
            return place
    return None


def starts_as_envi(path: Path) -> bool:
    """Whether this is a file that starts as an ENVI header does."""
    with suppress(OSError):
        if path.is_file():
            with open(path, "rb") as file:
                return is_header(file.read(16))
    return False


def is_header(head: bytes) -> bool:
    """Whether a file starts as an ENVI header does."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:4].upper() == b"ENVI"


def name_pair(path: Path) -> tuple[Path, Path]:
    """Data file and header of an output named by either of them."""
    if path.suffix.lower() != ".hdr":
        appended = path.with_name(path.name + ".hdr")
        plain = path.with_suffix(".hdr") if path.suffix.lower() in DATA else appended
        return path, appended if os.path.exists(appended) else plain
    found = facts.list_data(path)
    return found[0] if found else path.with_suffix(".img"), path


@contextmanager
def place_pair(data: Path, head: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary data file, with its header beside it, moved into place as a pair.

    Two files cannot be replaced at once. If the header changes it is taken away first, so that at
    no moment new numbers are read with an old header; if it is the same the move is atomic.
    """
    old = head.read_bytes() if head.is_file() else None
    with atomic(head, overwrite=overwrite) as tmp_head:
        taken = False
        try:
            with atomic(data, overwrite=overwrite) as tmp:
                try:
                    yield tmp
                    os.replace(name_header(tmp), tmp_head)
                finally:
                    name_header(tmp).unlink(missing_ok=True)
                if old is not None and tmp_head.read_bytes() != old:
                    head.unlink(missing_ok=True)
                    taken = True
        except BaseException:
            if taken and old is not None:
                head.write_bytes(old)
            raise


def name_header(tmp: Path) -> Path:
    """The header of a temporary data file."""
    return tmp.with_name(tmp.name + ".hdr")
