"""What came out of a run: the report and, for a cube in memory, the result."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from .. import __version__
from ..cube import Cube
from ..io import save_cube
from ..solver import Model
from .choose import Chosen
from .options import Options
from .pictures import data_url, side_by_side
from .plan import Plan

if TYPE_CHECKING:
    from ..cube import NamedArray

Json = dict[str, object]


@dataclass(frozen=True)
class Report:
    """What was done, with what, and how it went; ``as_dict`` is ready for JSON.

    Attributes:
        residuals: of the last step, where the schedule measures them.
        down_weighted: share of the measured voxels with a weight below 0.1.
        seconds: spent on preparing, weights, choosing, solving and writing, and in total.
        choice: the curve from which an automatic strength was read.
        chosen_on_rows: first row and row after the last one on which strength or rank was chosen.
        tiling: the plan, where the cube was worked on in strips.
        clipped_voxels: values that the format of the output cannot hold; None without a file.
    """

    model: str
    original: bool
    rank: int | None
    strength: float
    weights: str
    networks: dict[str, str]
    schedule: Json
    shape: tuple[int, int, int]
    bands_used: int
    bands_skipped: dict[int, str]
    invalid_voxels: int
    range: str
    steps: int
    residuals: dict[str, float]
    converged: bool
    down_weighted: float
    seconds: dict[str, float]
    seed: int | None
    versions: dict[str, str]
    threads: int
    choice: Json | None = None
    chosen_on_rows: tuple[int, int] | None = None
    tiling: Json | None = None
    clipped_voxels: int | None = None

    def as_dict(self) -> Json:
        return asdict(self)

    @property
    def title(self) -> str:
        """The model with its rank and strength."""
        words = [f"original {self.model}" if self.original else self.model]
        words += [f"rank {self.rank}"] if self.rank else []
        how = "" if self.choice is None else f" (auto, {self.choice['rule']})"
        return ", ".join([*words, f"strength {self.strength:.4g}{how}"])


@dataclass(frozen=True)
class Outcome:
    """How a solve ended."""

    model: Model
    steps: int
    residuals: dict[str, float]
    converged: bool


@dataclass(frozen=True)
class Counts:
    """Voxels that were not measured, that have hardly any weight, that are in use, that were clipped."""

    invalid: int = 0
    low: int = 0
    measured: int = 0
    clipped: int | None = None


def make_report(
    options: Options,
    plan: Plan,
    skipped: dict[int, str],
    chosen: Chosen,
    outcome: Outcome,
    counts: Counts,
    seconds: Mapping[str, float],
    resumed: int | None = None,
) -> Report:
    """The report of a run; ``resumed`` are the items that an earlier run had done, for strips."""
    span = options.range
    return Report(
        model=options.model,
        original=options.original,
        rank=outcome.model.rank,
        strength=chosen.strength,
        weights=options.source.name,
        networks=options.networks,
        schedule=asdict(outcome.model.schedule),
        shape=plan.shape,
        bands_used=plan.shape[0] - len(skipped),
        bands_skipped=skipped,
        invalid_voxels=counts.invalid,
        range=span if isinstance(span, str) else f"{span[0]:g} to {span[1]:g}",
        steps=outcome.steps,
        residuals=outcome.residuals,
        converged=outcome.converged,
        down_weighted=counts.low / max(1, counts.measured),
        seconds={k: round(v, 4) for k, v in seconds.items()},
        seed=options.seed,
        versions={"hyperdlw": __version__, "torch": torch.__version__, "numpy": np.__version__},
        threads=torch.get_num_threads(),
        choice=chosen.choice,
        chosen_on_rows=chosen.rows,
        tiling=None if resumed is None else plan.as_dict() | {"resumed": resumed},
        clipped_voxels=counts.clipped,
    )


@dataclass(frozen=True, eq=False)
class Result:
    """The restored cube, the weights that were used (0 where nothing was) and the report."""

    cube: Cube
    weights: NDArray[np.float32]
    report: Report
    noisy: Cube = field(repr=False)

    def __repr__(self) -> str:
        return f"<Result {self.report.title}, weights {self.report.weights}: {self.cube!r}>"

    def save(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write the restored cube in the form the noisy one had; returns the clipped voxels."""
        return save_cube(self.cube, path, overwrite=overwrite)

    @property
    def restored(self) -> object:
        """The restored cube in the form the noisy one was given in: an array like it, a masked array,
        a tensor on its device, a DataArray, a Dataset; or a :class:`Cube`."""
        return self.cube.to_given() if "given" in self.cube.metadata else self.cube

    @property
    def data_array(self) -> NamedArray:
        """The restored cube as an array with named axes, if the noisy one was (xarray)."""
        return self.cube.to_xarray()

    def _repr_html_(self) -> str:
        r = self.report
        rows = {
            "model": r.title,
            "weights": r.weights,
            "shape (band, row, col)": " x ".join(map(str, r.shape)),
            "bands used": f"{r.bands_used} of {r.shape[0]}",
            "strongly down-weighted": f"{100 * r.down_weighted:.1f} % of the voxels",
            "steps": f"{r.steps}" + ("" if r.converged else " (not converged)"),
            "seconds": f"{r.seconds['total']:.2f}",
        }
        table = "".join(
            f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>"
            for k, v in rows.items()
        )
        image = data_url(side_by_side(self.noisy, self.cube, self.weights))
        return f"<img src='{image}' alt='noisy, restored, mean weight'><table>{table}</table>"
