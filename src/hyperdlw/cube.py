"""The cube: one place that fixes the axis order, the units and what counts as valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadInput

AXES = "brc"
"""Axis order inside hyperdlw: band, row, column."""


@dataclass(frozen=True)
class Encoding:
    """How the numbers were stored, so that an output can be stored the same way.

    ``value = stored * scale + offset``; ``axes`` is the stored order of band, row and column
    (``"rcb"`` is the habit of MATLAB and NumPy users), ``nodata`` the stored fill value.
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
            raise BadInput(
                f"axes must be an arrangement of b (band), r (row) and c (column), not '{self.axes}'"
            )


def decode(
    stored: NDArray[Any], encoding: Encoding
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Values ``stored * scale + offset`` as float32, and where they are measurements.

    NaN, Inf and nodata are no measurements, nor is what float32 cannot hold; there the value stays
    as it was stored, so that :func:`encode` puts it back.

    >>> values, valid = decode(np.array([[[20, -1]]]), Encoding(scale=0.5, nodata=-1.0))
    >>> values.tolist(), valid.tolist()
    ([[[10.0, -1.0]]], [[[True, False]]])
    """
    ok = np.isfinite(stored)
    if encoding.nodata is not None:
        ok &= stored != encoding.nodata
    values = _as_float32(stored)
    ok &= np.isfinite(values)
    if encoding.scale != 1.0 or encoding.offset != 0.0:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = values * np.float32(encoding.scale) + np.float32(encoding.offset)
        values = np.where(ok, scaled, values)
    return values, ok


def encode(
    values: NDArray[Any], valid: NDArray[np.bool_], encoding: Encoding
) -> tuple[NDArray[Any], int]:
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
        top = top if int(top) <= info.max else float(np.nextafter(top, 0.0))
        stored = np.clip(stored, float(info.min), top)
    elif dtype.itemsize < 4:
        limit = float(np.finfo(dtype).max)
        clipped = int(np.count_nonzero((np.abs(stored) > limit) & valid))
        stored = np.where(valid, np.clip(stored, -limit, limit), stored)
    return stored.astype(dtype), clipped


def _as_float32(stored: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return stored.astype(np.float32)


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
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data.ndim != 3:
            raise BadInput(
                f"a cube has three axes (band, row, col); this array has shape {self.data.shape}"
            )
        if 0 in self.data.shape:
            raise BadInput(f"the cube is empty: its (band, row, col) shape is {self.data.shape}")
        if self.valid.shape != self.data.shape:
            raise BadInput(
                f"the valid mask has shape {self.valid.shape}, the cube {self.data.shape}"
            )
        if self.good_bands.size == 0:
            object.__setattr__(self, "good_bands", np.ones(self.bands, bool))
        if self.good_bands.shape != (self.bands,):
            raise BadInput(
                f"good_bands names {self.good_bands.size} bands, the cube has {self.bands}"
            )
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
        metadata: Mapping[str, Any] | None = None,
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
        if stored.ndim != 3:
            raise BadInput(
                f"a cube has three axes (band, row, col); this array has shape {stored.shape}"
            )
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
            values = np.where(ok, values, _as_float32(ordered))
        return cls(
            np.ascontiguousarray(values, dtype=np.float32),
            np.ascontiguousarray(ok),
            None if wavelengths is None else np.asarray(wavelengths, np.float64).reshape(-1),
            np.ones(0, bool) if good_bands is None else np.asarray(good_bands, bool).reshape(-1),
            encoding,
            dict(metadata or {}),
        )

    def to_array(self, encoding: Encoding | None = None) -> tuple[NDArray[Any], int]:
        """The stored form of the cube, and how many voxels had to be clipped to its type.

        Valid values are put back through ``(value - offset) / scale``, rounded for integer types and
        clipped to what the type can hold; invalid voxels keep the value they came with (integer
        types that cannot hold it get ``nodata`` or 0).
        """
        enc = encoding or self.encoding
        out, clipped = encode(self.data, self.valid, enc)
        back = tuple(AXES.index(a) for a in enc.axes)
        return np.ascontiguousarray(out.transpose(back)), clipped

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bands, rows, columns)."""
        b, r, c = self.data.shape
        return b, r, c

    @property
    def bands(self) -> int:
        return int(self.data.shape[0])

    def with_data(self, data: NDArray[Any]) -> Cube:
        """The same cube with other values (mask, wavelengths and encoding kept)."""
        if data.shape != self.data.shape:
            raise BadInput(f"new data has shape {data.shape}, the cube {self.data.shape}")
        return replace(self, data=np.ascontiguousarray(data, dtype=np.float32))


@dataclass(frozen=True)
class BandRange:
    """Per-band limits ``lo``, ``hi`` (shape (band,)) that map a cube to the unit interval and back."""

    lo: NDArray[np.float32]
    hi: NDArray[np.float32]

    def to_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        span = np.where(self.hi > self.lo, self.hi - self.lo, 1.0).astype(np.float32)
        return (data - self.lo[:, None, None]) / span[:, None, None]

    def from_unit(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        span = np.where(self.hi > self.lo, self.hi - self.lo, 1.0).astype(np.float32)
        return data * span[:, None, None] + self.lo[:, None, None]


def minmax_range(data: NDArray[np.float32], valid: NDArray[np.bool_]) -> BandRange:
    """Smallest and largest valid value of every band: the scaling of the paper (for clean scenes)."""
    lo = np.array([b[v].min() if v.any() else 0.0 for b, v in zip(data, valid, strict=True)])
    hi = np.array([b[v].max() if v.any() else 0.0 for b, v in zip(data, valid, strict=True)])
    return BandRange(lo.astype(np.float32), hi.astype(np.float32))


ENOUGH = 2**18
"""Pixels of a band from which its range is read."""
GROUP = 16
"""Rows that are read together."""


def _smoothed(band: NDArray[np.float32], ok: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Valid values of the 5x5 median of a band, or of evenly spread rows of it."""
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
    clean band. Invalid voxels are filled with the band median and do not enter the quantiles. Of large
    bands evenly spread groups of rows are enough.
    """

    lo = np.zeros(len(data), np.float32)
    hi = np.zeros(len(data), np.float32)
    for b, (band, ok) in enumerate(zip(data, valid, strict=True)):
        if not ok.any():
            continue
        smooth = _smoothed(np.where(ok, band, np.median(band[ok])), ok)
        if smooth.size:
            lo[b], hi[b] = np.quantile(smooth, [0.001, 0.999])
        if hi[b] <= lo[b]:
            lo[b], hi[b] = band[ok].min(), band[ok].max()
    return BandRange(lo, hi)
