"""Arrays with named axes (xarray) in and out, known by what they offer and not by their class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cube import Cube, Encoding
from ..errors import BadInput
from .metadata import nanometres

SPECTRAL = ("band", "bands", "wavelength", "wavelengths", "wl", "spectral", "lambda")
"""Names of the axis that holds the bands."""
FILL = ("_FillValue", "nodata", "missing_value")


def is_labelled(array: Any) -> bool:
    """Whether this is an array with named axes, such as an xarray.DataArray."""
    return all(hasattr(array, name) for name in ("dims", "values", "coords", "copy"))


def from_labelled(array: Any) -> Cube:
    """A cube from an array with named axes.

    The band axis is the one called band, wavelength or the like; the other two are row and column
    in their order. Wavelengths come from a coordinate along it with ``wavelength`` or ``wl`` in its
    name (attribute ``units``; nm or um by size if there is none), nodata from the attribute
    ``_FillValue``, ``nodata`` or ``missing_value``.

    Args:
        array: with three axes, or two and no band axis.
    """
    dims = [str(d) for d in array.dims]
    named = [i for i, d in enumerate(dims) if d.lower() in SPECTRAL]
    if len(dims) not in (2, 3) or (len(dims) == 3 and len(named) != 1):
        raise BadInput(
            f"the axes are {', '.join(dims) or 'none'}, and one of three must be called "
            f"{', '.join(SPECTRAL[:-1])} or {SPECTRAL[-1]}; rename the band axis"
        )
    if len(dims) == 2 and named:
        raise BadInput(f"the axes are {', '.join(dims)}; a cube has two more beside the bands")
    at = named[0] if named else 0
    order = "rc"[:at] + "b" + "rc"[at:]
    notes: list[str] = []
    values = np.asarray(array.values)
    wavelengths = None
    if named:
        for name, coordinate in array.coords.items():
            word = str(name).lower()
            if tuple(coordinate.dims) != (array.dims[at],) or word not in (*SPECTRAL[2:], "lam"):
                continue
            numbers = np.asarray(coordinate.values)
            if numbers.dtype.kind in "iuf":
                texts = [str(v) for v in numbers]
                wavelengths = nanometres(texts, coordinate.attrs.get("units"), notes)
    attributes = getattr(array, "attrs", {})
    said = next((name for name in FILL if name in attributes), None)
    nodata = None if said is None else float(np.asarray(attributes[said]).reshape(-1)[0])
    metadata: dict[str, Any] = {"data_array": array, "notes": tuple(notes)}
    if said is not None:
        metadata["nodata_from"] = f"the attribute '{said}'"
    return Cube.from_array(
        values,
        axes=order,
        wavelengths=wavelengths,
        encoding=Encoding(
            values.dtype.name, order, nodata=None if nodata is None or np.isnan(nodata) else nodata
        ),
        metadata=metadata,
    )


def to_labelled(cube: Cube) -> Any:
    """The cube as the array it came from: the same axes, coordinates, attributes and type."""
    array = cube.metadata.get("data_array")
    if array is None:
        raise BadInput("this cube was not made from an array with named axes; use its data")
    stored, _ = cube.to_array()
    return array.copy(data=stored.reshape(array.shape))


def as_cube(array: Any) -> Cube:
    """A cube from what a user has: a cube, an array with named axes, or (band, row, col)."""
    if isinstance(array, Cube):
        return array
    return from_labelled(array) if is_labelled(array) else Cube.from_array(array)
