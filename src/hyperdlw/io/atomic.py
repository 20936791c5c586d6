"""Atomic outputs: readers see the old file or the complete new one, never a part of it."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BadFile, DlwError, OutOfResources, OutputExists


@contextmanager
def atomic(
    path: str | os.PathLike[str], *, overwrite: bool = False, directory: bool = False
) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to, and move it into place at the end.

    The temporary ``.<name>.<machine>-<pid>-<random>.partial`` is synced to the disk before the move and
    removed if anything fails, so an existing output stays as it was. Those of processes of this
    machine that are gone are removed, too. A link is followed, not replaced.

    Args:
        path: the output; its folder must exist.
        overwrite: replace an existing output (a folder is replaced with all it holds).
        directory: make a folder; ``tmp`` is then an empty folder to fill.

    Raises:
        OutputExists: the output is there and ``overwrite`` is False.
        BadFile: the folder is missing, or the system refuses to write (rights, disk full).

    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic(out) as tmp:
    ...     _ = tmp.write_text("done")
    >>> out.read_text(), len(list(out.parent.iterdir()))
    ('done', 1)
    """
    check_output(path, overwrite=overwrite, directory=directory)
    target = Path(os.path.realpath(path))
    own = f"{_name_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    tmp = target.with_name(f".{target.name}.{own}.partial")
    try:
        for left in list_partials(target.parent, target.name):
            _remove(left)
        if directory:
            tmp.mkdir()
        yield tmp
        _sync(tmp)
        # Another process may have finished the same output in the meantime.
        check_output(path, overwrite=overwrite, directory=directory)
        _move(tmp, target)
        _sync_entry(target.parent)
    except OSError as error:
        raise _explain(path, error) from error
    finally:
        # After a successful move there is nothing left to remove.
        _remove(tmp)


def _name_machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def list_partials(folder: Path, name: str | None = None) -> list[Path]:
    """Temporary outputs in a folder (of one output) whose process, of this machine, is gone."""
    found: list[Path] = []
    for path in folder.iterdir() if os.name == "posix" else ():
        parts = re.fullmatch(r"\.(.+)\.(\w{6})-(\d+)-\w{8}\.partial(\.hdr)?", path.name)
        if parts and parts[2] == _name_machine() and name in (None, parts[1]):
            try:
                os.kill(int(parts[3]), 0)
            except ProcessLookupError:
                found.append(path)
            except OSError:
                continue
    return found


def check_output(
    path: str | os.PathLike[str], *, overwrite: bool = False, directory: bool = False
) -> None:
    """Raise at once if ``path`` could not be written later: cheap to call before long work."""
    if "\0" in os.fspath(path):
        raise BadFile(f"{os.fspath(path)!r} cannot be a file name; choose another output")
    given = Path(path)
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        words = f"there is no folder {given.parent} to write {given.name} in"
        raise BadFile(f"{words}; create it first")
    try:  # with the longest name that is needed on the way
        handle, trial = tempfile.mkstemp(
            "-" * 16 + ".partial.hdr", f".{target.name}.", target.parent
        )
    except OSError as error:
        raise _explain(path, error) from error
    os.close(handle)
    os.unlink(trial)
    if not os.path.lexists(target):
        return
    if target.is_dir() != directory:
        kind = "a folder" if target.is_dir() else "a file"
        raise BadFile(f"{path} is {kind} already; choose another output name")
    if not overwrite:
        raise OutputExists(f"{path} exists; choose another name or pass --overwrite")


def _explain(path: str | os.PathLike[str], error: OSError) -> DlwError:
    shown = os.fspath(path)
    shown = shown if len(shown) < 200 else f"{shown[:100]}...{shown[-40:]}"
    why = f"{error.strerror or error}; check the free space and the rights of its folder"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return (OutOfResources if full else BadFile)(f"cannot write {shown}: {why}")


def _move(tmp: Path, target: Path) -> None:
    if not target.is_dir():
        os.replace(tmp, target)
        return
    # A full folder cannot be replaced in one step: put the old one aside, and back on failure.
    old = tmp.with_suffix(".old")
    _remove(old)
    os.rename(target, old)
    try:
        os.rename(tmp, target)
    except BaseException:
        os.rename(old, target)
        raise
    _remove(old)


def _sync(tmp: Path) -> None:
    if tmp.is_dir():
        for entry in tmp.iterdir():
            _sync(entry)
        _sync_entry(tmp)
        return
    with open(tmp, "rb+") as file:
        os.fsync(file.fileno())


def _sync_entry(folder: Path) -> None:
    """Make a rename inside ``folder`` durable (a folder can be opened for that on POSIX only)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the data itself is synced
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
