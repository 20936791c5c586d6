"""Voxels that are not signal plus noise: set aside before anything is computed from them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FAR = 3.0
"""Distance from the limits of a band, in ranges, from which a value is wild."""
BRIGHT = 1.0
"""Distance above the upper limit, in ranges, from which a pixel is bright, if it is so in many bands."""
SHARED = 0.3
"""Share of the bands in which a bright pixel is far; a wild voxel is far in fewer."""
LEAST = 4
"""Bands at least in which a bright pixel is far: in fewer, impulses could meet."""
FILLS = (-9999.0, -32768.0, -32767.0, -999.0, -1.0e34, 65535.0, 32767.0, 9999.0, 1e20, 9.96921e36)
"""Numbers that stand for "nothing was measured" in files of other programs."""


def find_wild(y: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
    """Wild voxels (band, row, col) and bright pixels (row, col) of rows on the unit scale, NaN unmeasured.

    ``raw`` are the same rows as they were stored.

    Wild: beyond [-3, 4] in a few bands only (a spike, an undeclared fill value), or infinite. They are
    treated as not measured. Bright: above 2 in 30 % of the bands (a glint, a flare, a lamp). They are
    measured well, and no model of the others describes them: they get no weight, so that nothing of
    them spreads, and keep their own values in the result.
    """
    known = ~y.isnan()
    far = known & ((y > 1 + FAR) | (y < -FAR))
    up = (y > 1 + BRIGHT).sum(0)
    bright = (up > SHARED * known.sum(0).clamp_min(1)) & (up >= min(LEAST, len(y)))
    # A fill value in all bands is no light: the same number again and again, before it is scaled.
    least, most = raw.nan_to_num(torch.inf).amin(0), raw.nan_to_num(-torch.inf).amax(0)
    same = least == most if len(y) > 1 else torch.zeros_like(bright)
    bright = bright & ~same & (y.nan_to_num(0.0).abs() < 1e6).all(0)
    return far & ~bright, bright


def find_dead_columns(raw: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Columns of a band (row, col), NaN unmeasured, that hold one value from top to bottom.

    A band where most columns are so is flat, and none of them is dead.

    >>> find_dead_columns(np.array([[1, 5, 2, 0], [3, 5, 4, 1], [2, 5, 7, 3]], np.float32)).tolist()
    [False, True, False, False]
    """
    known = ~np.isnan(raw)
    low = np.where(known, raw, np.inf).min(0)
    same = (low == np.where(known, raw, -np.inf).max(0)) & (known.sum(0) > 2)
    return np.asarray(same if 2 * same.sum() <= raw.shape[1] else np.zeros_like(same))


def keep_detector_faults(dead: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of dead columns (band, col) those of detector elements: dead in at most half of the bands.

    A column that is the same in most bands is the margin of a scene, not a fault.
    """
    return np.asarray(dead & (2 * dead.sum(0) <= max(1, len(dead))))


def guess_fill(values: NDArray[np.float32]) -> float | None:
    """The number among wild values of a cube that is likely an undeclared fill value, or None.

    >>> guess_fill(np.array([-9999, 7, -9999], np.float32))
    -9999.0
    """
    for fill in FILLS:
        if np.any(values == np.float32(fill)):
            return fill
    return None
