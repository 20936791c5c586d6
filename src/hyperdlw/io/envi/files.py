"""The two files of an ENVI cube: which belong together, and how a pair is replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..atomic import atomic, check_output

DATA = (".img", ".dat", ".raw", ".bsq", ".bil", ".bip")


def header_of(data: Path) -> Path | None:
    """The header that belongs to a data file: ``scene.hdr`` or ``scene.img.hdr``."""
    beside = [data.with_suffix(".hdr"), data.with_suffix(".HDR")] if data.name else []
    for place in (*beside, data.with_name(data.name + ".hdr"), data.with_name(data.name + ".HDR")):
        if place != data and starts_as_envi(place):
            return place
    return None


def starts_as_envi(path: Path) -> bool:
    """Whether this is a file that starts as an ENVI header does."""
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
                    os.replace(beside(tmp), tmp_head)
                finally:
                    beside(tmp).unlink(missing_ok=True)
                if old is not None and tmp_head.read_bytes() != old:
                    head.unlink(missing_ok=True)
                    taken = True
        except BaseException:
            if taken and old is not None:
                head.write_bytes(old)
            raise


def beside(tmp: Path) -> Path:
    """The header of a temporary data file."""
    return tmp.with_name(tmp.name + ".hdr")
