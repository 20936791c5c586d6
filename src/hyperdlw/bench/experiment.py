"""The frame of every experiment: what names a measurement, records in a file, resuming, reports.

A record is found again by its key, a hash of its facts (scene, noise, method, seed), of the constants
of everything that made it (the built model, the weights, the noise), and of the source code. A changed
constant or formula therefore makes new rows, and never an old figure under a new method's name.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..errors import BadFile
from ..io import atomic
from ..networks import RIVALS
from ..testbed import Noise, find_noise, synthetic
from .tables import REFERENCE, wrap_prose

F32 = NDArray[np.float32]
Record = dict[str, Any]
"""One measurement as it stands in the file of records: plain values by name."""
Tell = Callable[[str], None]
"""Where progress goes."""
Spent = dict[str, float]
"""Seconds on the clock, and of the processor, which other programs on the machine do not lengthen."""

ROOMS = ("solver", "models", "weights", "networks", "pipeline", "testbed")
"""The rooms whose source decides a figure."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A clean image (band, row, col) in [0, 1] with a name and the hash of its values.

    ``affected`` bands get impulses, stripes or dead columns; None: 10 of 31, in proportion. The hash
    knows it, so that every record of the scene does.
    """

    name: str
    data: F32
    affected: int | None = None

    @functools.cached_property
    def sha256(self) -> str:
        found = hash_array(np.ascontiguousarray(self.data))
        return found if self.affected is None else _hash_plain([found, self.affected])[:16]


@dataclass(frozen=True)
class Files:
    """What a user brings to a benchmark.

    Attributes:
        reference: checkpoints released with the paper, by the names of their rows.
        networks: trained networks of published methods that are not shipped, by the methods' names.
        denoiser: name or file of the denoiser of plug and play; None: the shipped one.
    """

    reference: Mapping[str, Path] = field(default_factory=dict)
    networks: Mapping[str, Path] = field(default_factory=dict)
    denoiser: str | None = None


NO_FILES = Files()


def find_reference_networks(folder: str | Path) -> dict[str, Path]:
    """Checkpoints released with the paper, by the names of our networks.

    The files are called DLWnet_<sources>_Complex_10.pth with NUCLR, TV and TVS for N, T and TS.
    """
    short = {"NUCLR": "N", "TV": "T", "TVS": "TS"}
    found = {}
    for path in sorted(Path(folder).glob("DLWnet_*_Complex_*.pth")):
        parts = path.stem.removeprefix("DLWnet_").split("_Complex")[0].split("_")
        if all(p in short for p in parts):
            found[REFERENCE + "+".join(short[p] for p in parts)] = path
    if not found:
        raise BadFile(f"there is no checkpoint DLWnet_*_Complex_*.pth in {folder}")
    return found


def find_published_networks(folder: str | Path) -> dict[str, Path]:
    """Files <architecture>.safetensors with networks of published methods, by architecture."""
    found = {n: Path(folder) / f"{n}.safetensors" for n in RIVALS}
    found = {n: path for n, path in found.items() if path.is_file()}
    if not found:
        wanted = " or ".join(f"{n}.safetensors" for n in RIVALS)
        raise BadFile(f"there is no network {wanted} in {folder}")
    return found


# What names a measurement.


@functools.cache
def hash_source() -> str:
    """A hash of the program that makes the figures; comments and docstrings have no part in it."""
    home = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(p for room in ROOMS for p in (home / room).rglob("*.py")):
        total.update(path.relative_to(home).as_posix().encode())
        total.update(strip_source(path.read_text(encoding="utf-8")).encode())
    return total.hexdigest()[:16]


def strip_source(text: str) -> str:
    """The program of a source text, without comments, docstrings and layout.

    >>> strip_source('x = 1  # why') == strip_source('"What."\\nx = (1)')
    True
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [s for s in node.body if not _is_text(s)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def hash_array(values: NDArray[np.generic]) -> str:
    """A short hash of the values of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def describe_constants(value: object, inside: tuple[int, ...] = ()) -> object:
    """What decides how an object works, as plain values: fields, closures, arrays by their hash.

    A function is its name with what it has closed over; one of another package comes with the hash of
    its file, because :func:`hash_source` does not see it.

    >>> describe_constants({"steps": 3, "mu": (0.1, None)})
    {'steps': 3, 'mu': [0.1, None]}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if id(value) in inside:  # an object that holds itself
        return "..."
    deeper = functools.partial(describe_constants, inside=(*inside, id(value)))
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hash_array(value)}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): deeper(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [deeper(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, functools.partial):
        return [deeper(value.func), deeper(value.args), deeper(value.keywords)]
    if isinstance(value, MethodType):
        return [value.__func__.__qualname__, deeper(value.__self__)]
    if isinstance(value, FunctionType):
        cells = [_cell_content(c) for c in value.__closure__ or ()]
        defaults = [value.__defaults__, value.__kwdefaults__]
        return [_name_of(value), *map(deeper, cells), *[deeper(d) for d in defaults if d]]
    held: Mapping[str, object] = {}
    if isinstance(value, torch.nn.Module):
        held = value.state_dict()
    elif is_dataclass(value):
        held = {f.name: getattr(value, f.name) for f in fields(value)}
    elif not isinstance(value, type):
        held = getattr(value, "__dict__", {})
    return [_name_of(value if isinstance(value, type) else type(value)), deeper(held)]


def _cell_content(cell: CellType) -> object:
    try:
        content: object = cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None
    return content


def _name_of(what: type | FunctionType) -> str:
    name = f"{what.__module__}.{what.__qualname__}"
    if what.__module__.partition(".")[0] in (__name__.partition(".")[0], "torch", "builtins"):
        return name
    try:
        text = Path(inspect.getsourcefile(what) or "").read_bytes()
    except (OSError, TypeError):  # made in a session, or not written in Python
        return f"{name} "
    return f"{name} {hashlib.sha256(text).hexdigest()[:16]}"


def hash_constants(*values: object) -> str:
    """A short hash of :func:`describe_constants`."""
    return _hash_plain([describe_constants(v) for v in values])[:16]


def make_key(facts: Mapping[str, object]) -> str:
    """A hash that names a measurement for ever."""
    return _hash_plain(facts)[:20]


def _hash_plain(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Trial:
    """One measurement.

    Attributes:
        facts: what it is called: scene, noise, seed, method. They stand in the record.
        settings: what the figure depends on beside its facts: models, weights, noise.
        measure: makes the figures.
    """

    facts: Mapping[str, object]
    settings: object
    measure: Callable[[], Record]

    @functools.cached_property
    def named(self) -> Record:
        """The facts with the hashes of settings and source, and the key of them all."""
        hashes = {"settings_hash": hash_constants(self.settings), "code": hash_source()}
        facts = {**self.facts, **hashes}
        return {"key": make_key(facts), **facts, "version": __version__}


# Records in a file.


class Experiment:
    """The records of one experiment and its reports, in a folder.

    Records are appended to ``<name>.jsonl`` as they are made; what is there is not measured again.
    """

    def __init__(self, name: str, folder: Path, tell: Tell | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.folder, self._tell = name, folder, tell
        self.path = folder / f"{name}.jsonl"
        self.known = read_records(self.path)

    def tell(self, text: str) -> None:
        """Report progress, where anybody listens."""
        if self._tell is not None:
            self._tell(text)

    def run(
        self, trials: Iterable[Trial], say: Callable[[Record], str] | None = None
    ) -> list[Record]:
        """Measure what is not known yet and tell what ``say`` says of it; the records of all trials."""
        found = []
        for trial in trials:
            key = trial.named["key"]
            if key not in self.known:
                self.add([{**trial.named, **trial.measure()}])
                if say is not None:
                    self.tell(say(self.known[key]))
            found.append(self.known[key])
        return found

    def add(self, records: Sequence[Record]) -> None:
        """Keep new records, and append them to the file.

        What was skipped is not written: the next run tries it again.
        """
        path = self.path
        # A line left without its end by a crash must not swallow the next record.
        broken = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        lines = [json.dumps(r) + "\n" for r in records if "skipped" not in r]
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" * broken + "".join(lines))
        self.known |= {record["key"]: record for record in records}

    def write(self, contents: Mapping[str, str | bytes]) -> list[Path]:
        """Write reports and pictures by file name; returns their paths."""
        return write_files(self.folder, contents)


def read_records(path: Path) -> dict[str, Record]:
    """Finished records by key; a line cut off by a crash is dropped."""
    records: dict[str, Record] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                records[record["key"]] = record
            except (ValueError, KeyError, TypeError):
                continue
    return records


def loop_images(
    scenes: Iterable[Scene], noise: Iterable[str | int], seeds: int
) -> Iterator[tuple[Scene, Noise, int]]:
    """Every noisy image of an experiment: a scene, a noise, and the seed of its draw."""
    return itertools.product(scenes, map(find_noise, noise), range(seeds))


def make_scene(seed: int, bands: int, side: int) -> Scene:
    """A scene made by code, for what needs no data."""
    made = synthetic(bands, side, side, rng=np.random.default_rng(seed))
    return Scene(f"synthetic {seed}", made.data)


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files into a folder, each wholly or not at all; returns their paths."""
    for name, content in contents.items():
        if isinstance(content, str) and name.endswith(".md"):
            content = wrap_prose(f"{content.rstrip()}\n\n{describe_origin()}\n")
        with atomic(folder / name, overwrite=True) as tmp:
            Path(tmp).write_bytes(content.encode() if isinstance(content, str) else content)
    return [folder / name for name in contents]


@functools.cache
def describe_origin() -> str:
    """What made a report: version, commit where there is one, and the hash of the source."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = "unknown"
    return f"Made by hyperdlw {__version__}, commit {found}, source {hash_source()}."


class Clock:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def spent(self, ending: str = "") -> Spent:
        """Seconds since then, under names with an ending."""
        wall, processor = self.begin
        return {
            f"seconds{ending}": round(time.perf_counter() - wall, 3),
            f"processor{ending}": round(time.process_time() - processor, 3),
        }
