"""MATLAB .mat version 7.3: HDF5 with the axes in reverse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Encoding
from ..errors import BadFile
from .checks import check_promise, reading
from .named_arrays import Load, Variable, open_named, to_write
from .reader import CubeFile, Described

NAME = "mat73"
SUFFIXES: tuple[str, ...] = ()
HAS_KEYS = True
FREE_AXES = True
BANDS: frozenset[int] | None = None
CLASSES = {"float64": "double", "float32": "single", "bool": "logical"}
DTYPES: frozenset[str] | None = frozenset(
    [*CLASSES, *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
)
FOLDER = False
HDF5 = b"\x89HDF\r\n\x1a\n"


def sniff(path: Path, head: bytes) -> bool:
    """Whether this is HDF5 behind a MATLAB header, or HDF5 that calls itself .mat."""
    if head[512:520] == HDF5 and head.startswith(b"MATLAB"):
        return True
    return head.startswith(HDF5) and path.suffix.lower() == ".mat"


def listed(path: Path) -> dict[str, Variable]:
    """The top variables, with the shapes MATLAB shows."""
    import h5py

    variables = {}
    with reading(path), h5py.File(path, "r") as file:
        for name in file:
            # Links may lead to other files; MATLAB itself writes none.
            if name.startswith("#") or not isinstance(file.get(name, getlink=True), h5py.HardLink):
                continue
            item = file[name]
            if not isinstance(item, h5py.Dataset) or item.shape is None:
                variables[name] = Variable((), "struct")
                continue
            kind = _matlab_class(item)
            dtype = {"char": "str", "cell": "cell"}.get(kind, _type_name(item.dtype))
            shape = (0,) if "MATLAB_empty" in item.attrs else item.shape[::-1]
            variables[name] = Variable(shape, dtype)
    return variables


def loader(path: Path) -> Load:
    """A function that reads one variable."""
    import h5py

    def load(name: str) -> NDArray[Any]:
        with reading(path), h5py.File(path, "r") as file:
            item = file[name]
            if item.is_virtual or item.external:
                raise BadFile(f"{name} in {path} lies in another file; save it in one file")
            check_promise(f"{name} in {path}", item.nbytes, item.id.get_storage_size())
            array: NDArray[Any] = item[()]
            if _matlab_class(item) == "char":
                return np.array("".join(map(chr, array.reshape(-1))))
            return np.asarray(array).T

    return load


def _matlab_class(item: Any) -> str:
    kind = item.attrs.get("MATLAB_class", b"")
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)


def _type_name(dtype: np.dtype[Any]) -> str:
    """MATLAB writes complex numbers as pairs; references (cells) are objects to h5py."""
    if dtype.names == ("real", "imag"):
        return "complex"
    return "reference" if dtype.kind == "O" else dtype.name


def variables(path: Path) -> dict[str, Variable]:
    """The top variables, with the shapes MATLAB shows."""
    return listed(path)


def source(path: Path, *, key: str | None, axes: str | None, nodata: float | None) -> CubeFile:
    """Open a cube; ``axes`` is the order that MATLAB shows.

    Args:
        path, key, axes, nodata: as for :func:`hyperdlw.io.open_cube`.
    """
    load = loader(path)
    return open_named(path, listed(path), load, format=NAME, key=key, axes=axes, nodata=nodata)


def write(cube: Described, path: Path, stored: NDArray[Any], encoding: Encoding) -> None:
    """Write the cube and its neighbours."""
    write_variables(path, to_write(cube, stored, encoding, encoding.key or "cube"))


def write_variables(path: Path, variables: dict[str, Any]) -> None:
    """Write variables as MATLAB would with ``save -v7.3``.

    Args:
        path: the file to make.
        variables: arrays by name, with the shapes MATLAB is to show.
    """
    import h5py

    # Through a Python file, because HDF5's own output crashes the interpreter on a full disk.
    with open(path, "wb+") as raw, h5py.File(raw, "w", userblock_size=512) as file:
        for name, value in variables.items():
            array = np.asarray(value)
            if array.dtype.kind == "U":
                codes = np.array([[ord(c)] for c in str(array)], np.uint16)
                item = file.create_dataset(name, data=codes)
                item.attrs["MATLAB_class"] = np.bytes_("char")
                item.attrs["MATLAB_int_decode"] = np.int32(2)
                continue
            kind = CLASSES.get(array.dtype.name, array.dtype.name)
            matrix = np.atleast_2d(array)  # MATLAB has no fewer than two axes
            data = matrix.view(np.uint8) if kind == "logical" else matrix
            item = file.create_dataset(name, data=data.T)
            item.attrs["MATLAB_class"] = np.bytes_(kind)
            if kind == "logical":
                item.attrs["MATLAB_int_decode"] = np.int32(1)
    with open(path, "rb+") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, written by hyperdlw".ljust(116) + bytes(8) + b"\x00\x02IM")
