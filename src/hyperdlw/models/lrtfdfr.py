"""Low-rank tensor factorisation with double factor regularisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from ..solver import FactorPenalty, Model, Problem, Schedule, product, reweighted_l1

LOST = 0.1
"""Share of the structure of the cube below which the published method has wiped out the image."""
TRIES = 5
PUBLISHED = Schedule(steps=50, mu=1.0, multipliers=False, proximal=0.1, stopping="change")


def build(
    shape: Sequence[int],
    strength: float = 1.0,
    *,
    rank: int | None = None,
    steps: int = 20,
    passes: int = 10,
) -> Model:
    """Few spectra A, few maps B, X = A B: tau sum log |D B| + lam ||D A||^2 (DLW-LRTFDFR).

    The data term of A grows with the number of pixels, and lam with it. Twenty steps from the
    leading spectra of the cube; the result is the product. The penalty starts high enough that no
    map is smoothed to nothing: one that comes back from nothing grows out of rounding errors. However
    many steps there are, it ends at the same value.
    """
    rank = rank or min(shape[0], 8)
    smooth = 4e-4 * shape[1] * shape[2] * strength
    penalty = FactorPenalty(0.05 * strength, smooth, coupling=10.0, passes=passes)
    return Model(
        terms=(product(rank, penalty),),
        schedule=Schedule(steps=steps, mu=0.1, growth=1.15 ** (20 / steps)),
        central="data",
        output=0,
        rank=rank,
        degree=2,
        selects=True,
    )


def original(
    shape: Sequence[int],
    strength: float = 1.0,
    *,
    rank: int | None = None,
    coupling: float | None = None,
) -> Model:
    """X = A B: tau sum log |D B| + lam ||D A||^2 and sparse noise (Zheng et al. 2020).

    ``coupling`` is the penalty of the inner ADMM. Their 15000 is for 224 bands of one scene; on 31
    bands it smooths everything away. 16 per band is the most that never did on the training scenes.
    """
    rank = rank or min(shape[0], 5 if shape[0] <= 150 else 6)
    beta = coupling or 16.0 * shape[0]
    penalty = FactorPenalty(edges=0.2 * strength, smooth=0.01 * strength, coupling=beta)
    return Model(
        terms=(product(rank, penalty, "arbitrary"),),
        fidelity=reweighted_l1(0.04),
        schedule=PUBLISHED,
        central="data",
        output=0,
        rank=rank,
        again=None if coupling else BackOff(penalty),
    )


@dataclass(frozen=True)
class BackOff:
    """Where the published method wipes the image out: a quarter of the inner penalty, and again.

    The penalty is a number of the algorithm, which its authors set by hand. The first inner pass smooths
    the maps by penalty / A'A. Where few bright pixels press a dark scene into a corner, no difference
    is then above the threshold of the logarithm: every map becomes flat, and the logarithm has no slope
    that leads back. The new start is the leading spectra of the cube. A schedule that was chosen is run
    once, as it is.
    """

    penalty: FactorPenalty
    left: int = TRIES - 1

    def __call__(self, problem: Problem, x: Tensor) -> Model | None:
        if not self.left or problem.model.schedule != PUBLISHED:
            return None
        if find_structure(x) >= LOST * find_structure(problem.measured):
            return None
        model = problem.model
        assert model.rank is not None
        weaker = replace(self.penalty, coupling=self.penalty.coupling / 4)
        again = BackOff(weaker, self.left - 1)
        return replace(model, terms=(product(model.rank, weaker, "leading"),), again=again)


def find_structure(y: Tensor, side: int = 8) -> float:
    """Standard deviation over an image of the medians of its blocks, mean over the bands."""
    rows, cols = (n // side * side for n in y.shape[-2:])
    if y.dim() != 3 or rows < 2 * side or cols < 2 * side:
        return 0.0
    blocks = y[:, :rows, :cols].reshape(len(y), rows // side, side, cols // side, side)
    medians = blocks.transpose(2, 3).flatten(3).median(-1).values
    return float(medians.flatten(1).std(1).mean())
