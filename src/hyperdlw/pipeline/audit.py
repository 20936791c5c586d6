"""The audit: is what denoising took away only noise?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube
from ..errors import BadInput
from ..io import atomic
from ..weights import FLOOR
from .pictures import encode_png, heat
from .prepare import Range, prepare

STRUCTURED = 0.1
"""Correlation of neighbours in both directions from which a residual is taken for structure."""


def audit(
    noisy: Cube, restored: Cube, weights: NDArray[np.float32], range: Range = "auto"
) -> Audit:
    """What denoising took away: is it noise?

    Args:
        noisy, restored: before and after, of the same shape.
        weights: of the noisy cube (:func:`hyperdlw.predict_weights`).
        range: how bands are scaled to [0, 1].
    """
    if noisy.shape != restored.shape:
        raise BadInput(
            f"the cubes have different (band, row, col) shapes: {noisy.shape} and {restored.shape}"
        )
    ready = prepare(noisy, range)
    use = np.flatnonzero(ready.use)
    x = ready.limits.to_unit(np.where(restored.valid, restored.data, np.float32(0)))[use]
    ok = ready.valid.numpy() & restored.valid[use]
    w = np.where(ok, weights[use], np.float32(0))
    z = whitened(ready.y.numpy(), x, w)
    found = []
    for b, plane, known in zip(use, z, w > FLOOR, strict=True):
        values = plane[known]
        if not values.size:
            continue
        near = min(neighbours(plane, known, axis) for axis in (0, 1))
        found.append(
            BandAudit(
                int(b), float(values.mean()), float(values.var()), near, bool(near > STRUCTURED)
            )
        )
    change = np.where(ok, ready.y.numpy() - x, 0.0)
    size = np.sqrt(np.square(change).sum(axis=0) / np.maximum(ok.sum(axis=0), 1))
    return Audit(tuple(found), size.astype(np.float32))


@dataclass(frozen=True)
class BandAudit:
    """The whitened residual of a band: about mean 0, variance 1 and no correlation if only noise went.

    Attributes:
        autocorrelation: between neighbours, the smaller one of rows and columns (stripes are
            correlated along one of them only).
        structured: whether it looks like removed signal.
    """

    band: int
    mean: float
    variance: float
    autocorrelation: float
    structured: bool


@dataclass(frozen=True, eq=False)
class Audit:
    """Bands and the change map: root mean square over bands of y - x, in units of the range."""

    bands: tuple[BandAudit, ...]
    change: NDArray[np.float32]

    @property
    def structured(self) -> tuple[int, ...]:
        return tuple(b.band for b in self.bands if b.structured)

    def as_dict(self) -> dict[str, Any]:
        return {"bands": [asdict(b) for b in self.bands], "structured": list(self.structured)}

    def save_map(self, path: str, *, overwrite: bool = False) -> None:
        """The change map as a PNG, dark for small changes."""
        middle = max(float(np.median(self.change)), 1e-6)
        with atomic(path, overwrite=overwrite) as tmp:
            Path(tmp).write_bytes(encode_png(heat(self.change, (middle / 5, middle * 5))))


def whitened(
    noisy: NDArray[np.float32], restored: NDArray[np.float32], w: NDArray[np.float32]
) -> NDArray[np.float64]:
    """sqrt(w) (y - x) / sqrt(c), 0 where w is; c from the median of w (y - x)^2.

    w is the inverse variance up to the factor c, and the median of a squared normal variable is
    0.4549: half of the voxels may be anything.
    """
    known = w > FLOOR
    if not known.any():
        raise BadInput("no voxel has any weight, so there is nothing to look at")
    z = np.where(known, np.sqrt(w, dtype=np.float64) * (noisy - restored), 0.0)
    c = float(np.median(np.square(z[known]))) / 0.4549
    out: NDArray[np.float64] = z / np.sqrt(max(c, 1e-30))
    return out


def neighbours(z: NDArray[np.float64], known: NDArray[np.bool_], axis: int) -> float:
    """Correlation of neighbours along an axis of a plane; far values are cut to four deviations."""
    z = np.clip(z, -4, 4)
    n = z.shape[axis]
    a, b = (np.take(z, range(i, n - 1 + i), axis) for i in (0, 1))
    both = np.take(known, range(n - 1), axis) & np.take(known, range(1, n), axis)
    a, b = a[both], b[both]
    if a.size < 16:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).mean() / max(float(np.sqrt((a * a).mean() * (b * b).mean())), 1e-30))
