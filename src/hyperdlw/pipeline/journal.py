"""What a large run keeps on disk: arrays that are read by windows, and a journal of finished work.

Everything lies in one hidden folder beside the output, ``.<name>.hyperdlw``: raw arrays, one file per
finished tile, and ``journal``. A killed run that is started again with the same input and options
finds there what is done already; another input or other options start anew. The folder goes when
the output is complete. A run survives the end of its process, Ctrl-C included, not that of the machine
(the data are not synced): after a restart it starts anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..errors import BadFile, OutOfResources
from ..io import check_disk, format_size, list_partials
from ..solver import DiskArray, damaged_scratch
from .workers import Executor, Serial, Task

Watch = Callable[[str, int, int], None]
"""(stage, finished items, items)."""

SUFFIX = ".hyperdlw"
"""The ending of scratch folders."""


@dataclass
class Journal:
    """Does work and remembers it: results of finished items, one line of JSON each, with a checksum.

    The first line is the key of the run. A line that was cut off when the process died is not there.

    Attributes:
        folder: where the arrays are.
        done: results of finished items, by stage; ``resumed``: how many an earlier run had done.
        fresh: whether this run did any itself.
        watch: told of every finished item.
        round: put behind the names of stages, from the second one on.
    """

    folder: Path
    file: IO[bytes]
    done: dict[str, dict[int, Any]]
    fresh: bool = False
    executor: Executor = field(default_factory=Serial)
    watch: Watch | None = None
    round: int = 0

    def __post_init__(self) -> None:
        self.resumed = sum(len(d) for d in self.done.values())

    def map(
        self,
        stage: str,
        function: Task,
        items: Sequence[int],
        makes: Sequence[DiskArray] = (),
        here: bool = False,
    ) -> list[Any]:
        """[function(i) for i in items], where finished items are not computed again.

        Results must be what JSON holds.

        Args:
            makes: arrays that the function writes.
            here: in this process.
        """
        name = f"{stage} (round {self.round + 1})" if self.round else stage
        found = self.done.setdefault(name, {})
        missing = [i for i in items if i not in found]
        self.fresh |= bool(missing)
        for array in makes if missing else ():
            if found and not array.path.exists():
                raise damaged_scratch(self.folder)
            array.make()
        for item, result in (Serial() if here else self.executor).run(function, missing):
            line = journal_line({"stage": name, "item": item, "result": result})
            self.file.write(line)
            self.file.flush()
            # As the next run would read it: numbers and lists, not NumPy's or tuples.
            found[item] = json.loads(line[9:])["result"]
            if self.watch is not None:
                self.watch(name, len(found), len(items))
        return [found[i] for i in items]

    def resuming(self) -> bool:
        """Whether everything so far was done by an earlier run."""
        return not self.fresh


def journal_line(entry: dict[str, Any]) -> bytes:
    """
    >>> journal_line({"key": "a"})
    b'8a3bca2d {"key": "a"}\\n'
    """
    body = json.dumps(entry).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_journal(raw: bytes) -> tuple[str | None, dict[str, dict[int, Any]], int]:
    """Key, finished items by stage, and how many bytes of the journal are whole lines.

    There is no key, and nothing is finished, if any line but an unfinished last one is damaged.

    >>> raw = journal_line({"key": "a"}) + journal_line({"stage": "s", "item": 0, "result": 1})
    >>> read_journal(raw + b'12345678 {"sta')[:2]
    ('a', {'s': {0: 1}})
    """
    done: dict[str, dict[int, Any]] = {}
    key, whole = None, 0
    for line in raw.split(b"\n")[:-1]:
        try:
            if int(line[:8], 16) != zlib.crc32(line[9:]):
                return None, {}, 0
            entry = json.loads(line[9:])
            if key is None:
                key = str(entry["key"])
            else:
                done.setdefault(str(entry["stage"]), {})[int(entry["item"])] = entry["result"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, {}, 0
        whole += len(line) + 1
    return key, done, whole


def key_of(facts: Any) -> str:
    """A hash of everything that decides the numbers."""
    text = json.dumps(facts, sort_keys=True, default=str)
    with suppress(OSError):  # which start of the machine this is
        text += Path("/proc/sys/kernel/random/boot_id").read_text()
    return hashlib.sha256(text.encode()).hexdigest()


def folder_of(target: str | os.PathLike[str]) -> Path:
    """Where the run for an output keeps its files."""
    path = Path(os.path.realpath(target))
    return path.with_name(f".{path.name}{SUFFIX}")


@contextmanager
def open_journal(folder: Path, key: str, needed: int) -> Iterator[Journal]:
    """The folder of a run and its journal; removed at the end, kept if the run is cut short.

    What an earlier run with another key left is thrown away; ``needed`` are bytes on disk.
    """
    _make_own(folder)
    with _open_locked(folder) as file:
        found, done, whole = read_journal(file.read())
        if found == key and not any(entry.is_symlink() for entry in folder.rglob("*")):
            file.truncate(whole)
        else:
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry.name != "journal":
                    entry.unlink()
            file.truncate(0)
            done = {}
            check_disk(folder, f"the scratch folder {folder}", needed)
            file.write(journal_line({"key": key}))
        try:
            yield Journal(folder, file, done)
        except KeyboardInterrupt as stop:
            if folder.name.endswith(SUFFIX):
                target = folder.with_name(folder.name[1 : -len(SUFFIX)])
                stop.add_note(
                    f"finished tiles are kept: the same command goes on, 'hyperdlw clean {target}' "
                    "removes them"
                )
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise OutOfResources(
                    f"the disk is full ({folder}, about {format_size(needed)} needed); make room, and the "
                    "same command goes on"
                ) from error
            missing = isinstance(error, FileNotFoundError) and error.filename
            if missing and Path(os.fspath(missing)).is_relative_to(folder):
                raise damaged_scratch(folder) from error
            raise
    shutil.rmtree(folder, ignore_errors=True)


def _make_own(folder: Path) -> None:
    """Make a folder, or take one of an earlier run: nobody else may have planted files or links there."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or (os.name == "posix" and about.st_uid != os.geteuid()):
        raise BadFile(
            f"{folder} is in the way: scratch files go there, and it is a link, a file or somebody "
            "else's folder; remove it or choose another output"
        )
    folder.chmod(0o700)


def _open_locked(folder: Path) -> IO[bytes]:
    """The journal of a folder; one process per output, until it ends, however it ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(folder / "journal", flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise damaged_scratch(folder) from error
        raise
    file = os.fdopen(handle, "ab+", buffering=0)
    file.seek(0)
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return file
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise BadFile(
            f"another process is working on this output ({folder}); wait for it to end"
        ) from error
    return file


def clean_scratch(path: str | os.PathLike[str]) -> tuple[list[Path], list[Path]]:
    """Remove what runs that are over left beside an output, or in a folder for all outputs in it.

    Returns what was removed and what is still at work or not ours.
    """
    given, own = Path(path), folder_of(path)
    everything = given.is_dir() and not own.exists()
    where, name = (given, None) if everything else (own.parent, Path(os.path.realpath(path)).name)
    if not where.is_dir():
        raise BadFile(f"there is no folder {where}; give an output or a folder with outputs")
    removed, kept = list_partials(where, name), []
    for entry in removed:
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for folder in where.glob(f".*{SUFFIX}") if everything else [own]:
        if not os.path.lexists(folder):
            continue
        try:
            _make_own(folder)
            with _open_locked(folder):
                shutil.rmtree(folder)
            removed.append(folder)
        except (BadFile, OSError):
            kept.append(folder)
    return removed, kept
