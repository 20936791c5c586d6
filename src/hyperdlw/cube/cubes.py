"""The cube: one place that fixes the axis order, the units and what counts as valid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadInput
from .encoding import AXES, Encoding, decode, encode
from .scales import to_nanometres

SPECTRAL = ("band", "bands", "wavelength", "wavelengths", "wl", "spectral", "lambda")
"""Names of the band axis of arrays with named axes."""
FILL = ("_FillValue", "nodata", "missing_value")  # attributes with the nodata value
Metadata: TypeAlias = Mapping[str, Any]
"""What a file says beside the numbers: text, numbers, and tuples and dicts of them, by name."""


@runtime_checkable
class NamedArray(Protocol):
    """An array with named axes: an xarray.DataArray, or what offers the same."""

    dims: tuple[object, ...]
    coords: Mapping[object, NamedArray]
    attrs: Mapping[str, object]
    shape: tuple[int, ...]
    values: NDArray[np.generic]

    def copy(self, *, data: NDArray[np.generic]) -> NamedArray: ...


def _check_axes(array: NDArray[np.generic]) -> None:
    if array.ndim != 3:
        shape = f"this array has shape {array.shape}"
        hint = "; denoise a series cube by cube" if array.ndim == 4 else ""
        raise BadInput(f"a cube has three axes (band, row, col); {shape}{hint}")


@dataclass(frozen=True, eq=False)
class Cube:
    """A hyperspectral image.

    Attributes:
        data: float32 array (band, row, col) in the physical units of the file.
        valid: bool array of the same shape; False where the voxel holds no measurement
            (NaN, Inf, nodata). The value there is kept, and written back unchanged.
        wavelengths: band centres in nanometres, or None.
        good_bands: bool per band; bad bands are copied through unchanged.
        encoding: how the file stored the numbers.
        metadata: everything else a format wants back on writing.
        kept: the stored numbers (band, row, col) where float32 does not hold them exactly, with
            their encoding: what is not changed is written back bit by bit.
    """

    data: NDArray[np.float32]
    valid: NDArray[np.bool_]
    wavelengths: NDArray[np.float64] | None = None
    good_bands: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, bool))
    encoding: Encoding = field(default_factory=Encoding)
    metadata: Metadata = field(default_factory=dict)
    kept: tuple[Encoding, NDArray[np.generic]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_axes(self.data)
        if 0 in self.data.shape:
            raise BadInput(f"the cube is empty: its (band, row, col) shape is {self.data.shape}")
        if self.valid.shape != self.data.shape:
            shapes = f"{self.valid.shape}, the cube {self.data.shape}"
            raise BadInput(f"the valid mask has shape {shapes}")
        if self.good_bands.size == 0:
            object.__setattr__(self, "good_bands", np.ones(self.bands, bool))
        if self.good_bands.shape != (self.bands,):
            count = self.good_bands.size
            raise BadInput(f"good_bands names {count} bands, the cube has {self.bands}")
        if self.wavelengths is not None and self.wavelengths.shape != (self.bands,):
            raise BadInput(f"{self.wavelengths.size} wavelengths for {self.bands} bands")

    def __repr__(self) -> str:
        bands, rows, cols = self.shape
        words = [f"{bands} bands x {rows} x {cols}"]
        if self.wavelengths is not None:
            words.append(f"{self.wavelengths[0]:g} to {self.wavelengths[-1]:g} nm")
        words.append(self.encoding.dtype)
        if gaps := int(np.count_nonzero(~self.valid)):
            words.append(f"{gaps} voxel{'s' * (gaps > 1)} not valid")
        return f"<Cube {', '.join(words)}>"

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        axes: str = "brc",
        valid: ArrayLike | None = None,
        wavelengths: ArrayLike | None = None,
        good_bands: ArrayLike | None = None,
        nodata: float | None = None,
        encoding: Encoding | None = None,
        metadata: Metadata | None = None,
    ) -> Cube:
        """Make a cube from an array; NaN, Inf and ``nodata`` voxels become invalid.

        Args:
            array: three axes in the order ``axes``; two axes are read as one band. What a masked
                array masks is not valid.
            axes: arrangement of "b", "r", "c".
            valid: extra mask in the order ``axes`` (True = measured).

        >>> Cube.from_array([[[1.0, 2.0]]]).shape
        (1, 1, 2)
        """
        if isinstance(array, np.ma.MaskedArray):
            free = ~np.ma.getmaskarray(array)
            valid = free if valid is None else free & np.asarray(valid, bool)
        stored = np.asarray(array)
        if stored.dtype.kind not in "buif":
            raise BadInput(f"a cube holds real numbers; this array is of type {stored.dtype}")
        if stored.ndim == 2:
            stored = np.expand_dims(stored, axes.index("b"))
        _check_axes(stored)
        encoding = encoding or Encoding(dtype=stored.dtype.name, axes=axes, nodata=nodata)
        order = tuple(encoding.axes.index(a) for a in AXES)
        ordered = stored.transpose(order)
        values, ok = decode(ordered, encoding)
        if valid is not None:
            mask = np.asarray(valid, bool)
            if mask.ndim == 2:
                mask = np.expand_dims(mask, encoding.axes.index("b"))
            ok &= np.broadcast_to(mask, stored.shape).transpose(order)
            # What is masked keeps the value it was stored with, as decode() leaves nodata.
            values = np.where(ok, values, decode(ordered, Encoding())[0])
        return cls(
            np.ascontiguousarray(values, dtype=np.float32),
            np.ascontiguousarray(ok),
            None if wavelengths is None else np.asarray(wavelengths, np.float64).reshape(-1),
            np.ones(0, bool) if good_bands is None else np.asarray(good_bands, bool).reshape(-1),
            encoding,
            dict(metadata or {}),
            None if encoding.exact else (encoding, np.array(ordered)),
        )

    def to_array(self, encoding: Encoding | None = None) -> tuple[NDArray[np.generic], int]:
        """The stored form of the cube, and how many voxels were clipped (see :func:`encode`)."""
        enc = encoding or self.encoding
        before = None
        if self.kept is not None and self.kept[0].stores_as(enc):
            before = self.kept[1] if self.kept[1].shape == self.data.shape else None
        out, clipped = encode(self.data, self.valid, enc, before)
        back = tuple(AXES.index(a) for a in enc.axes)
        return np.ascontiguousarray(out.transpose(back)), clipped

    @classmethod
    def from_xarray(cls, array: NamedArray, axes: str | None = None) -> Cube:
        """A cube from an array with named axes: three, or two and no band axis.

        The band axis is one of ``SPECTRAL``; the other two are row and column in their order.
        Wavelengths come from a coordinate along it that is called so too (attribute ``units``; nm or
        um by size if there is none), nodata from the attributes ``FILL``. ``axes`` says the order
        where the names do not.
        """
        dims = [str(d) for d in array.dims]
        named = [i for i, d in enumerate(dims) if d.lower() in SPECTRAL]
        if axes is not None and len(dims) == 3:
            named = [Encoding(axes=axes).axes.index("b")]
        if len(dims) not in (2, 3) or (len(dims) == 3 and len(named) != 1):
            raise BadInput(
                f"the axes are {', '.join(dims) or 'none'}, and one of three must be called "
                f"{', '.join(SPECTRAL[:-1])} or {SPECTRAL[-1]}; rename the band axis, or "
                "give axes='rcb' or another order"
            )
        if len(dims) == 2 and named:
            raise BadInput(f"the axes are {', '.join(dims)}; a cube has two more beside the bands")
        at = named[0] if named else 0
        order = axes or "rc"[:at] + "b" + "rc"[at:]
        notes: list[str] = []
        wavelengths = None
        for name, coordinate in array.coords.items() if named else ():
            along = tuple(coordinate.dims) == (array.dims[at],)
            if not along or str(name).lower() not in (*SPECTRAL[2:], "lam"):
                continue
            numbers = np.asarray(coordinate.values)
            if numbers.dtype.kind in "iuf":
                units = coordinate.attrs.get("units")
                texts = [str(v) for v in numbers]
                wavelengths = to_nanometres(texts, None if units is None else str(units), notes)
        metadata: dict[str, Any] = {"data_array": array, "notes": tuple(notes)}
        nodata = None
        for name in [name for name in FILL if name in array.attrs][:1]:
            fill = float(np.asarray(array.attrs[name], np.float64).reshape(-1)[0])
            nodata = None if math.isnan(fill) else fill
            metadata["nodata_from"] = f"the attribute '{name}'"
        return cls.from_array(
            array.values, axes=order, wavelengths=wavelengths, nodata=nodata, metadata=metadata
        )

    def to_xarray(self) -> NamedArray:
        """The array the cube came from with its values: the same axes, coordinates and type."""
        array: NamedArray | None = self.metadata.get("data_array")
        if array is None:
            raise BadInput("this cube was not made from an array with named axes; use its data")
        stored, _ = self.to_array()
        return array.copy(data=stored.reshape(array.shape))

    def to_given(self) -> object:
        """The cube in the form that :func:`make_cube` got: an array, a tensor, ... of the same type."""
        stored, _ = self.to_array()
        back: Callable[[NDArray[np.generic], NDArray[np.bool_]], object] | None
        back = self.metadata.get("given")
        order = tuple(AXES.index(a) for a in self.encoding.axes)
        return stored if back is None else back(stored, self.valid.transpose(order))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bands, rows, columns)."""
        b, r, c = self.data.shape
        return b, r, c

    @property
    def bands(self) -> int:
        return int(self.data.shape[0])

    def with_data(self, data: NDArray[np.generic]) -> Cube:
        """The same cube with other values (mask, wavelengths and encoding kept)."""
        if data.shape != self.data.shape:
            raise BadInput(f"new data has shape {data.shape}, the cube {self.data.shape}")
        return replace(self, data=np.ascontiguousarray(data, dtype=np.float32))
