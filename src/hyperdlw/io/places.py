"""Where outputs go: looked at before any work, so that nothing is overwritten and no work is in vain."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import BadFile, BadOption
from .atomic import check_output
from .checks import check_disk, count_bytes
from .formats import check_fits, choose_format, find_by_ending, find_format
from .reader import Described, ReadOptions


def check_places(
    paths: Sequence[str | None],
    overwrite: bool,
    source: str = "",
    plain: Sequence[str | None] = (),
    given: Sequence[str] = (),
) -> None:
    """Refuse outputs (None: not wanted) that could not be written, or would overwrite each other.

    Args:
        paths: cubes if there is a ``source``, else plain files.
        source: the input; only the first output may take its place, if it may overwrite.
        plain: more outputs, which are plain files.
        given: more inputs.
    """
    cubes = [p for p in paths if p is not None] if source else []
    files = [p for p in (*plain, *(() if source else paths)) if p is not None]
    # Compared first: with a clash it matters little whether the files exist.
    outputs = [(path, _list_files(path)) for path in cubes] + [(p, _locate([p])) for p in files]
    inputs = [(source, _list_files(source, reading=True))] if source else []
    inputs += [(path, _locate([path])) for path in given]
    for (one, a), (other, b) in itertools.combinations(outputs, 2):
        if _clash(a, b):
            raise BadOption(f"the outputs {one} and {other} share a file; choose other names")
    for (one, a), (other, b) in itertools.product(outputs, inputs):
        in_place = one == outputs[0][0] and other == source and a == b
        if _clash(a, b) and not in_place:
            raise BadOption(f"{one} would overwrite the input {other}; choose another name")
    for path in cubes:
        form = find_by_ending(path)
        if form is not None:
            form.check_place(Path(path), overwrite)
            continue
        # An input that is a folder of bands is written as one, unless the ending says otherwise.
        folder = path.endswith("/") or (not Path(path).suffix and Path(source).is_dir())
        check_output(path, overwrite=overwrite, directory=folder)
    for path in files:
        check_output(path, overwrite=overwrite)


def _list_files(path: str, reading: bool = False) -> frozenset[Path]:
    """All files of a cube."""
    try:
        form = find_format(path, ReadOptions())[1] if reading else find_by_ending(path)
    except BadFile:
        if not os.path.isfile(path):
            raise
        form = None  # bare numbers, whose shape is given; or it is refused when it is read
    return _locate([path] if form is None else [path, *form.list_files(Path(path))])


def _locate(paths: Iterable[str | Path]) -> frozenset[Path]:
    return frozenset(Path(os.path.realpath(path)) for path in paths)


def _clash(some: frozenset[Path], others: frozenset[Path]) -> bool:
    """Whether two outputs share a file, by name, by hard link, or as part of a folder."""
    return any(
        a == b
        or a in b.parents
        or b in a.parents
        or (os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b))
        for a, b in itertools.product(some, others)
    )


def check_save(path: str | os.PathLike[str], like: Described) -> None:
    """Refuse an output whose format cannot hold the cube, before any work is done."""
    if not is_copy(path, like):
        check_fits(path, choose_format(path, like.encoding), like.encoding, like.bands)


def is_copy(path: str | os.PathLike[str], like: Described) -> bool:
    """Whether an output is a copy of the input in which only the cube is replaced."""
    return choose_format(path, like.encoding).copies(like.encoding)


def check_room(wanted: Mapping[str, Described]) -> None:
    """Refuse cubes (by path) that their disks have no room for together."""
    folders = {path: Path(os.path.realpath(path)).parent for path in wanted}
    disks = {path: folder.stat().st_dev for path, folder in folders.items()}
    for disk in sorted(set(disks.values())):
        here = [path for path in wanted if disks[path] == disk]
        likes = [wanted[path] for path in here]
        needed = sum(count_bytes(like.shape, like.encoding.dtype) for like in likes)
        check_disk(folders[here[0]], " and ".join(here), needed)


SAMPLE = 16 * 2**20
"""Bytes of an input that are hashed; of larger files blocks that are spread over them."""

Identity = list[tuple[str, int, int, int, str]]
"""Name, size, times and a hash of every file of a cube."""


def identify_files(path: str | os.PathLike[str]) -> Identity:
    """What tells the files of a cube from others, and from themselves after a change.

    The time of the last change of an inode (ctime) cannot be set back, unlike that of the data.
    """
    files: set[Path] = set()
    for place in _list_files(os.fspath(path), reading=True):
        files |= set(place.rglob("*")) if place.is_dir() else {place}
    plain = sorted(file for file in files if file.is_file())
    share = max(4096, SAMPLE // max(1, len(plain)))
    found: Identity = []
    for file in plain:
        about = file.stat()
        block = max(4096, share // 16)
        # Sixteen blocks, the first and the last byte among them.
        step = max(block, -((block - about.st_size) // 15) if about.st_size > share else block)
        digest = hashlib.sha256()
        with open(file, "rb") as held:
            for at in range(0, about.st_size, step):
                held.seek(at)
                digest.update(held.read(block))
        times = about.st_mtime_ns, about.st_ctime_ns
        found.append((os.fspath(file), about.st_size, *times, digest.hexdigest()))
    return found


def hash_files(path: str | os.PathLike[str]) -> dict[str, str]:
    """SHA-256 of every file of a cube, by its name."""
    files: set[Path] = set()
    for place in _list_files(os.fspath(path), reading=True):
        files |= set(place.rglob("*")) if place.is_dir() else {place}
    found = {}
    for file in sorted(file for file in files if file.is_file()):
        with open(file, "rb") as held:
            found[file.name] = hashlib.file_digest(held, "sha256").hexdigest()
    return found


def check_unchanged(path: str | os.PathLike[str], known: Identity) -> None:
    """Refuse an input whose files are not what they were."""
    if identify_files(path) != known:
        raise BadFile(
            f"{os.fspath(path)} changed while it was read; nothing was written: run the command again"
        )
