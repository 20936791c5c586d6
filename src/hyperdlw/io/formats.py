"""The formats: what a format offers, which there are, and which one a file has or an output gets.

The walk of a file, from disk to cube and back::

    open_cube     find_format -> Format.open_reader -> CubeReader -> decode -> Cube
    save_cube     choose_format -> Format.place_output -> encode -> Format.write

A format is one subclass of :class:`Format`. A package outside registers its own under the entry
points ``hyperdlw.formats``; nothing else is needed to read it, write it and use it from the command
line, whole or in strips.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from ..cube import AXES, Encoding
from ..errors import BadFile, BadOption
from .atomic import atomic, check_output
from .checks import explain_errors
from .named_arrays import DEFAULT_AXES, Variable
from .reader import CubeReader, Described, ReadOptions, Stored
from .registry import Entry, Registry
from .writer import WriteWindow

HEAD = 520
"""Bytes shown to ``recognise``: enough for HDF5 behind a MATLAB header."""
ARRAYS = ("npy", "npz", "mat73", "mat5")
"""Formats that hand the order of their axes on to each other: it is a habit of their users."""
INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = frozenset(["float32", "float64"])


class Format:
    """One file format.

    A subclass says its ``name`` and overrides ``open_reader``, usually ``recognise``, and one of
    ``write`` (whole cubes) and ``open_writer`` (windows); everything else has a default.
    """

    name: str
    """Kept in the encoding, so that an output can be like its input."""
    suffixes: tuple[str, ...] = ()
    """Endings that choose this format for an output, or for an input that nothing recognises."""
    optional_ending: bool = False
    """Whether an output without a known ending gets this format if the input had it."""
    has_keys: bool = False
    """Whether a file holds named variables."""
    free_axes: bool = False
    """Whether the order of the axes is up to the user (it is fixed for pictures)."""
    is_folder: bool = False
    """Whether an output is a folder."""
    read_only: bool = False
    """Whether outputs are refused that are no copies of an input."""
    copies_input: bool = False
    """Whether an output like its input is a copy of that file (see :meth:`open_copy`)."""
    shares_strips: bool = False
    """Whether several processes may write strips of one output."""
    band_counts: frozenset[int] | None = None
    """Numbers of bands it can hold; None for any."""
    dtypes: frozenset[str] | None = None
    """NumPy names of the types it can hold; None for any."""
    holds: frozenset[str] | None = frozenset()
    """What it can hold beside the numbers (names of ``metadata.list_items``); None for all."""

    def recognise(self, path: Path, head: bytes) -> bool:
        """Whether a file that starts with ``head``, or a folder, is of this format."""
        return False

    def recognise_beside(self, path: Path) -> bool:
        """Whether other files beside an unknown one show that it is of this format."""
        return False

    def open_reader(self, path: Path, options: ReadOptions) -> CubeReader:
        """Read the header and give a reader of windows."""
        raise BadOption(f"{path}: hyperdlw cannot read {self.name} files")

    def list_variables(self, path: Path) -> Mapping[str, Variable]:
        """The named variables of a file."""
        return {}

    def choose_axes(self, path: Path, asked: Encoding) -> str:
        """The order in which an output stores its axes."""
        if not self.free_axes:
            return AXES
        return asked.axes if asked.format in (self.name, *ARRAYS) else DEFAULT_AXES

    def find_losses(self, like: Described) -> set[str]:
        """What this cube says that the format could hold in general but not here."""
        return set()

    def list_files(self, path: Path) -> tuple[Path, ...]:
        """The files of a cube at ``path``, there or not."""
        return (path,)

    def check_place(self, path: Path, overwrite: bool) -> None:
        """Refuse an output that could not be written later, by its place alone."""
        check_output(path, overwrite=overwrite, directory=self.is_folder)

    def place_output(self, path: Path, overwrite: bool) -> AbstractContextManager[Path]:
        """A temporary file or folder that becomes the output at the end."""
        return atomic(path, overwrite=overwrite, directory=self.is_folder)

    def write(self, cube: Described, path: Path, stored: Stored, encoding: Encoding) -> None:
        """Write a whole cube; the default goes through :meth:`open_writer`.

        Args:
            cube: its shape, wavelengths and metadata.
            path: the temporary file to make, or the empty folder to fill.
            stored: the numbers in the order of ``encoding.axes``.
        """
        if type(self).open_writer is Format.open_writer:  # each default needs the other method
            raise BadOption(f"{path} cannot be written: the format {self.name} does not say how")
        if stored.ndim == 2:
            stored = np.expand_dims(stored, encoding.axes.index("b"))
        order = tuple(encoding.axes.index(a) for a in AXES)
        bands, rows, cols = (slice(0, n) for n in cube.shape)
        with self.open_writer(path, cube, encoding, None) as put:
            put(bands, rows, cols, stored.transpose(order))

    def choose_tile(
        self, like: Described, encoding: Encoding, strip: int | None
    ) -> tuple[int, int]:
        """Rows and columns that a file holds together."""
        return 1, like.shape[2]

    def open_writer(
        self, path: Path, like: Described, encoding: Encoding, strip: int | None
    ) -> AbstractContextManager[WriteWindow]:
        """A function that writes windows, until its context ends.

        The default collects them in memory and then calls :meth:`write`.

        Args:
            path, like, encoding: as ``path``, ``cube`` and ``encoding`` of :meth:`write`.
            strip: rows that will be written together, from the top, or None.
        """

        def finish(stored: Stored) -> None:
            self.write(like, path, stored, encoding)

        return collect_windows(like.shape, encoding, finish)

    def open_copy(
        self, path: Path, original: Path, like: Described, encoding: Encoding
    ) -> AbstractContextManager[WriteWindow]:
        """As :meth:`open_writer`, into a copy of ``original`` in which only the cube is replaced.

        The default collects the windows and then calls :meth:`write_copy`.
        """

        def finish(stored: Stored) -> None:
            with explain_errors(original):
                self.write_copy(path, original, stored, encoding)

        return collect_windows(like.shape, encoding, finish)

    def copies(self, encoding: Encoding) -> bool:
        """Whether an output is a copy of an input that is stored so."""
        return self.copies_input and encoding.format == self.name

    def write_copy(self, path: Path, original: Path, stored: Stored, encoding: Encoding) -> None:
        """Copy a file, but for the numbers of the cube."""
        raise BadOption(f"{path} cannot be written: the format {self.name} copies no files")


@contextmanager
def collect_windows(
    shape: tuple[int, int, int], encoding: Encoding, finish: Callable[[Stored], None]
) -> Iterator[WriteWindow]:
    """Windows collected in memory; ``finish`` gets the whole in the order of ``encoding.axes``."""
    held = np.zeros(shape, encoding.dtype)
    yield lambda bands, rows, cols, stored: held.__setitem__((bands, rows, cols), stored)
    back = tuple(AXES.index(a) for a in encoding.axes)
    finish(np.ascontiguousarray(held.transpose(back)))


class KeyedFormat(Format):
    """A format of named arrays, which can hold everything beside the numbers."""

    has_keys = True
    free_axes = True
    holds = None
    copies_input = True


@dataclass(frozen=True, kw_only=True)
class FormatEntry(Entry):
    """A known format."""

    form: Format


def _make_entry(name: str, given: object) -> FormatEntry:
    if isinstance(given, str):
        module, _, word = given.partition(":")
        given = getattr(import_module(module, __package__), word)
    form = given() if isinstance(given, type) else given
    if not isinstance(form, Format) or form.name != name:
        raise BadOption(
            f"the format '{name}' of another package is no hyperdlw.io.Format of that name; "
            "mend or remove that package"
        )
    return FormatEntry(name=name, build=type(form), kind="format", form=form)


BUILT_IN = {
    "envi": ".envi:Envi",
    "npy": ".numpy_files:Npy",
    "npz": ".numpy_files:Npz",
    "mat5": ".matlab:Mat5",
    "mat73": ".matlab:Mat73",
    "hdf5": ".hdf5:Hdf5",
    "hdf4": ".hdf4:Hdf4",
    "png": ".pictures:Png",
    "tiff": ".tiff:Tiff",
    "tiff-pages": ".pages:TiffPages",
    "jpeg": ".pictures:Jpeg",
    "zarr": ".zarr3:Zarr",
    "png-folder": ".pictures:PngFolder",
    "fits": ".fits:Fits",
    "raw": ".numpy_files:Raw",
}
"""In the order in which they are asked whether a file is theirs."""
FORMATS: Registry[FormatEntry] = Registry("format", "hyperdlw.formats", BUILT_IN, _make_entry)


def list_formats() -> list[Format]:
    """All formats. Those of other packages come first: they may know a special kind of HDF5."""
    names = [name for name in FORMATS if name not in BUILT_IN] + [*BUILT_IN]
    return [FORMATS[name].form for name in names]


def find_format(path: str | os.PathLike[str], options: ReadOptions) -> tuple[Path, Format]:
    """The format of an existing file or folder: by content, then by its neighbours and its ending."""
    place = Path(path)
    if not os.path.exists(place):  # pathlib raises for names that are too long
        name = os.fspath(path)[:200]
        raise BadFile(f"there is no file {name!r}; check the name and the folder")
    if not (place.is_file() or place.is_dir()):
        raise BadFile(f"{path} is neither a file nor a folder; give one that holds a cube")
    head = b""
    if place.is_file():
        with explain_errors(place), open(place, "rb") as file:
            head = file.read(HEAD)
        if not head:
            raise BadFile(f"{path} is empty; get a fresh copy")
    known = list_formats() if options.shape is None else [FORMATS["raw"].form]
    form = next((f for f in known if f.recognise(place, head)), None)
    form = form or next((f for f in known if f.recognise_beside(place)), None)
    form = form or (find_by_ending(place) if options.shape is None else known[0])
    if form is None:
        known_endings = f"{_list_endings()}, folder of PNG bands"
        raise BadFile(f"{path} is of no format hyperdlw can read ({known_endings})")
    if options.key is not None and not form.has_keys:
        raise BadOption(f"{path} holds one image, no variables; leave out --key")
    if options.axes is not None and not form.free_axes:
        raise BadOption(f"{path} is of a format whose axes are known; leave out --axes")
    if options.axes is not None:
        Encoding(axes=options.axes)  # raises for nonsense
    return place, form


def find_by_ending(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of a path names, if it names one; '/' is a folder of PNG bands."""
    suffix = Path(path).suffix.lower()
    if os.fspath(path).endswith(tuple(s for s in (os.sep, os.altsep) if s)):
        return FORMATS["png-folder"].form
    return next((form for form in list_formats() if suffix in form.suffixes), None)


def choose_format(path: str | os.PathLike[str], encoding: Encoding) -> Format:
    """The format of an output: its ending's, or the input's where files often have no ending."""
    form = find_by_ending(path)
    kept = FORMATS[encoding.format].form if encoding.format in FORMATS else None
    if kept is not None and (
        kept.optional_ending if form is None else Path(path).suffix.lower() in kept.suffixes
    ):
        form = kept
    if form is None:
        hint = f"use {_list_endings()}, or end it in '/' for a folder of PNG bands"
        raise BadOption(f"the ending of {path} names no format; {hint}")
    return form


def check_fits(path: str | os.PathLike[str], form: Format, encoding: Encoding, bands: int) -> None:
    """Refuse an output whose format cannot hold such numbers or so many bands."""
    if form.read_only:
        raise BadOption(
            f"{path} cannot be written: hyperdlw makes no new {form.name} files; write .npy"
        )
    dtype = np.dtype(encoding.dtype).name
    if form.dtypes is not None and dtype not in form.dtypes:
        raise BadOption(
            f"{path} cannot hold {dtype} numbers ({form.name} has "
            f"{', '.join(sorted(form.dtypes))}); choose one of these types or write .npy"
        )
    if form.band_counts is not None and bands not in form.band_counts:
        held = " or ".join(map(str, sorted(form.band_counts)))
        raise BadOption(
            f"{path} can hold {held} bands, the cube has {bands}; write .tif, .npz or a folder of "
            "PNG bands (a path ending in '/')"
        )


def _list_endings() -> str:
    return ", ".join(dict.fromkeys(s for form in list_formats() for s in form.suffixes))
