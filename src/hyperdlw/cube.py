"""The cube: one place that fixes the axis order, the units and what counts as valid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadInput

AXES = "brc"
"""Axis order inside hyperdlw: band, row, column."""
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


@dataclass(frozen=True)
class Encoding:
    """How the numbers were stored: ``value = stored * scale + offset``.

    ``axes`` is the stored order of band, row and column (``"rcb"`` is the habit of MATLAB and NumPy
    users), ``nodata`` the stored fill value.
    """

    dtype: str = "float32"
    axes: str = "rcb"
    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    format: str = "npy"
    key: str | None = None

    def __post_init__(self) -> None:
        if sorted(self.axes) != sorted(AXES):
            words = "an arrangement of b (band), r (row) and c (column)"
            raise BadInput(f"axes must be {words}, not '{self.axes}'")


def decode(
    stored: NDArray[np.generic], encoding: Encoding
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Values ``stored * scale + offset`` as float32, and where they are measurements.

    NaN, Inf and nodata are no measurements, nor is what float32 cannot hold; there the value stays
    as it was stored, so that :func:`encode` puts it back.

    >>> values, valid = decode(np.array([[[20, -1]]]), Encoding(scale=0.5, nodata=-1.0))
    >>> values.tolist(), valid.tolist()
    ([[[10.0, -1.0]]], [[[True, False]]])
    """
    ok = np.isfinite(stored)
    with np.errstate(over="ignore", invalid="ignore"):
        if encoding.nodata is not None:
            ok &= stored != encoding.nodata
        values = stored.astype(np.float32)
        ok &= np.isfinite(values)
        if encoding.scale != 1.0 or encoding.offset != 0.0:
            scaled = values * np.float32(encoding.scale) + np.float32(encoding.offset)
            values = np.where(ok, scaled, values)
    return values, ok


def encode(
    values: NDArray[np.generic], valid: NDArray[np.bool_], encoding: Encoding
) -> tuple[NDArray[np.generic], int]:
    """The stored form ``(value - offset) / scale`` of values, and how many had to be clipped.

    Integer types round, and are clipped to what they can hold; where ``valid`` is False the value
    is stored as it is (integer types that cannot hold it get nodata or 0).
    """
    dtype = np.dtype(encoding.dtype)
    stored = (values.astype(np.float64) - encoding.offset) / encoding.scale
    stored = np.where(valid, stored, values)
    clipped = 0
    if dtype.kind == "b":
        stored = (stored > 0.5).astype(np.float64)
    elif dtype.kind in "ui":
        info = np.iinfo(dtype)
        stored = np.where(np.isfinite(stored), np.rint(stored), encoding.nodata or 0.0)
        outside = (stored < float(info.min)) | (stored > float(info.max))
        clipped = int(np.count_nonzero(outside & valid))
        # The float64 nearest to a 64-bit maximum lies above it: step down before casting.
        top = float(info.max)
        below = top if int(top) <= info.max else float(np.nextafter(top, 0.0))
        stored = np.clip(stored, float(info.min), below)
    elif dtype.itemsize < 4:
        limit = float(np.finfo(dtype).max)
        clipped = int(np.count_nonzero((np.abs(stored) > limit) & valid))
        stored = np.where(valid, np.clip(stored, -limit, limit), stored)
    return stored.astype(dtype), clipped


def _check_axes(array: NDArray[np.generic]) -> None:
    if array.ndim != 3:
        shape = f"this array has shape {array.shape}"
        raise BadInput(f"a cube has three axes (band, row, col); {shape}")


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
    """

    data: NDArray[np.float32]
    valid: NDArray[np.bool_]
    wavelengths: NDArray[np.float64] | None = None
    good_bands: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, bool))
    encoding: Encoding = field(default_factory=Encoding)
    metadata: Metadata = field(default_factory=dict)

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
            array: three axes in the order ``axes``; two axes are read as one band.
            axes: arrangement of "b", "r", "c".
            valid: extra mask in the order ``axes`` (True = measured).

        >>> Cube.from_array([[[1.0, 2.0]]]).shape
        (1, 1, 2)
        """
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
        )

    def to_array(self, encoding: Encoding | None = None) -> tuple[NDArray[np.generic], int]:
        """The stored form of the cube, and how many voxels were clipped (see :func:`encode`)."""
        enc = encoding or self.encoding
        out, clipped = encode(self.data, self.valid, enc)
        back = tuple(AXES.index(a) for a in enc.axes)
        return np.ascontiguousarray(out.transpose(back)), clipped

    @classmethod
    def from_xarray(cls, array: NamedArray) -> Cube:
        """A cube from an array with named axes: three, or two and no band axis.

        The band axis is one of ``SPECTRAL``; the other two are row and column in their order.
        Wavelengths come from a coordinate along it that is called so too (attribute ``units``; nm or
        um by size if there is none), nodata from the attributes ``FILL``.
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


def make_cube(given: Cube | NamedArray | ArrayLike) -> Cube:
    """A cube from what a user has: a cube, an array with named axes, or (band, row, col)."""
    if isinstance(given, Cube):
        return given
    return Cube.from_xarray(given) if isinstance(given, NamedArray) else Cube.from_array(given)


@dataclass(frozen=True)
class BandRange:
    """Per-band limits ``lo``, ``hi`` (shape (band,)) that map a cube to the unit interval and back."""

    lo: NDArray[np.float32]
    hi: NDArray[np.float32]

    @property
    def span(self) -> NDArray[np.float32]:
        return np.where(self.hi > self.lo, self.hi - self.lo, 1.0).astype(np.float32)[:, None, None]

    def to_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        return (data - self.lo[:, None, None]) / self.span

    def from_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        return data * self.span + self.lo[:, None, None]


def minmax_range(data: NDArray[np.float32], valid: NDArray[np.bool_]) -> BandRange:
    """Smallest and largest valid value of every band: the scaling of the paper (for clean scenes)."""
    held = [band[ok] if ok.any() else np.zeros(1) for band, ok in zip(data, valid, strict=True)]
    lo, hi = ([pick(values) for values in held] for pick in (np.min, np.max))
    return BandRange(np.array(lo, np.float32), np.array(hi, np.float32))


ENOUGH = 2**18
"""Pixels of a band from which its range is read."""
GROUP = 16
"""Rows that are read together."""


def _smoothed(band: NDArray[np.float32], ok: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Valid values of the 5x5 median of a band, or of evenly spread rows of a large one."""
    from scipy.ndimage import median_filter

    rows = len(band)
    size = tuple(min(5, n) for n in band.shape)
    every = -(-band.size // ENOUGH)
    group = GROUP if every > 1 else rows
    parts = []
    for top in range(0, rows, group * every):
        low, bottom = max(0, top - 2), min(top + group, rows)
        smooth = median_filter(band[low : bottom + 2], size=size, mode="nearest")
        parts.append(smooth[top - low : bottom - low][ok[top:bottom]])
    return np.concatenate(parts)


def robust_range(data: NDArray[np.float32], valid: NDArray[np.bool_]) -> BandRange:
    """Range of the *signal* of every band, for cubes that are noisy already.

    Minimum and maximum of a noisy band measure the noise. A 5x5 median removes impulses and most of
    the Gaussian part; the 0.1 % and 99.9 % quantiles of what is left are close to the limits of the
    clean band. Invalid voxels are filled with the band median and do not enter the quantiles.
    """
    lo, hi = np.zeros((2, len(data)), np.float32)
    for b, (band, ok) in enumerate(zip(data, valid, strict=True)):
        if not ok.any():
            continue
        smooth = _smoothed(np.where(ok, band, np.median(band[ok])), ok)
        if smooth.size:
            lo[b], hi[b] = np.quantile(smooth, [0.001, 0.999])
        if hi[b] <= lo[b]:
            lo[b], hi[b] = band[ok].min(), band[ok].max()
    return BandRange(lo, hi)


POWERS = {"nanometers": 0, "nanometres": 0, "nanometer": 0, "nanometre": 0, "nm": 0}
POWERS |= dict.fromkeys(("micrometers", "micrometres", "micrometer", "micrometre"), 3)
POWERS |= dict.fromkeys(("um", "µm", "μm", "microns", "micron"), 3)
POWERS |= {"millimeters": 6, "mm": 6, "meters": 9, "metres": 9, "m": 9}
POWERS |= {"angstroms": -1, "angstrom": -1}
"""Units of length as powers of ten of a nanometre."""


def scale_decimal(text: str, power: int) -> float:
    """A decimal number times a power of ten, rounded once: 0.4005 um is 400.5 nm and back.

    >>> scale_decimal("0.4005", 3), scale_decimal("400.5", -3)
    (400.5, 0.4005)
    """
    if len(text) > 40:
        raise ValueError(f"a number of {len(text)} characters")
    return float(Decimal(text.strip()).scaleb(power))


def to_nanometres(
    texts: Sequence[str], units: str | None, notes: list[str], what: str = "wavelengths"
) -> NDArray[np.float64] | None:
    """Wavelengths in nanometres from numbers as a file writes them.

    ``units`` is the file's word; without one, numbers below 100 are taken for micrometres. ``notes``
    gets what was assumed or could not be used, with ``what`` as the word for the numbers.
    """
    plain = [float(t) if len(t) <= 40 else math.nan for t in texts]
    if not texts or not np.isfinite(plain).all():
        notes.append(f"{what} are not finite and were not used")
        return None
    word = (units or "").strip().lower()
    if word in ("", "unknown"):
        word = "um" if max(plain) < 100 else "nm"
        if not any(plain):
            notes.append(f"{what} are all 0 and were not used")
            return None
        notes.append(f"{what} have no unit and were taken to be in {word}")
    if word in ("wavenumber", "wavenumbers", "cm-1", "1/cm") and all(plain):
        return np.array([1e7 / v for v in plain])
    if word not in POWERS:
        notes.append(f"{what} are in '{word[:20]}', not in a unit of length, and were not used")
        return None
    return np.array([scale_decimal(t, POWERS[word]) for t in texts])
