"""Voxels of a result that no measurement stands behind: their values were invented by the model.

A restored voxel is invented if its own value had no part in it, or hardly any: nothing was measured there
(and gaps are filled), its detector element is dead, its value was wild (and is filled), it was an outlier,
or, where the weighted model makes the whole result, its weight is below a twentieth of the middle one of
its band. Statistics (the audit, standard deviations) leave these voxels out unless they are asked for.

The flags (:func:`hyperdlw.pipeline.products.flag_voxels`) say what the input holds; these codes say what
became of it. A voxel that was not measured and is not filled is no invention, and has the code 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..weights import find_medians
from .mild import Blend
from .prepare import Scaling, UnitRows
from .sample import LEAST_TRUST, Sample

GAP, DEAD_ELEMENT, FAR_OFF, REPLACED, FAINT = 1, 2, 3, 4, 5
REASONS = {
    GAP: "not measured, filled",
    DEAD_ELEMENT: "dead detector element",
    FAR_OFF: "wild value, filled",
    REPLACED: "outlier, replaced",
    FAINT: "hardly any weight",
}
"""Why a voxel is invented, by its code; 0 is every other voxel."""


@dataclass(frozen=True, eq=False)
class Belief:
    """What tells invented voxels on some rows.

    Attributes:
        scaling: knows the dead detector elements.
        fill: whether gaps are filled.
        blend: knows the outliers; None where there is none.
        least: (band,) the weight below which a voxel has no say; None where weights do not decide.
        untouched: whether the cube goes back as it is, but for gaps that are filled.
    """

    scaling: Scaling
    fill: bool
    blend: Blend | None = None
    least: Tensor | None = None
    untouched: bool = False

    def find(
        self, unit: UnitRows, valid: NDArray[np.bool_], model: Tensor, w: Tensor
    ) -> NDArray[np.uint8]:
        """Codes (band, row, col) of rows of the bands in use.

        Args:
            unit: the rows on the unit scale; ``valid``: where they were measured.
            model: the image before it was blended; ``w``: the weights.
        """
        code = np.zeros(valid.shape, np.uint8)
        faint, lost = self._find_lost(unit.y, model, w)
        code[faint.numpy()] = FAINT
        code[lost.numpy()] = REPLACED
        code[unit.wild.numpy()] = FAR_OFF
        code[np.broadcast_to(self.scaling.dead[:, None], code.shape)] = DEAD_ELEMENT
        code[~valid] = GAP
        code[~unit.touched(valid, self.fill, self.untouched)] = 0
        return code

    def find_known(self, y: Tensor, model: Tensor, w: Tensor, include: bool = False) -> Tensor:
        """Voxels of rows (NaN: no value is believed) that statistics are made of.

        They are measured, not set aside, and not invented, unless these are to be included.
        """
        if include or self.untouched:
            return ~y.isnan()
        faint, lost = self._find_lost(y, model, w)
        return ~(faint | lost)

    def _find_lost(self, y: Tensor, model: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """Voxels with hardly any weight, and those that are outliers or of which no value is believed."""
        lost = y.isnan() if self.blend is None else self.blend.find_lost(y, model)
        if self.least is None:
            return torch.zeros_like(lost), lost
        return w < self.least.view(-1, 1, 1), lost


def find_least(sample: Sample, w: Tensor) -> Tensor:
    """A twentieth of the middle weight (band,), from the blocks of the weights."""
    middle: Tensor = find_medians(w.flatten(1), sample.ok.flatten(1))
    return LEAST_TRUST * middle


def count_codes(code: NDArray[np.uint8]) -> list[int]:
    """How many voxels have each code, from 0 on.

    >>> count_codes(np.array([0, 0, 4, 2], np.uint8))
    [2, 0, 1, 0, 1, 0]
    """
    found: list[int] = np.bincount(code.ravel(), minlength=len(REASONS) + 1).tolist()
    return found
