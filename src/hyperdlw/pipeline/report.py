"""What came out of a run: the report and, for a cube in memory, the result."""

from __future__ import annotations

import hashlib
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
from ..weights import NoiseLaw
from .choose import Chosen
from .guard import NOTHING
from .invented import REASONS
from .mild import Blend
from .noise_file import fit_band
from .options import Options
from .pictures import data_url, side_by_side
from .plan import Plan
from .prepare import Scaling
from .whiteness import Audit

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
        balance: the factor on the constants of the model that the noise level asks for.
        noise: level of the noise in ranges (root mean square over the bands) and of every band in use in
            the units of the cube; a, b, c and rmse for isofit (:mod:`hyperdlw.pipeline.noise_file`);
            part of the model in the result, the rest is from the eigenimages; share of outliers; smallest
            part of a band's change that the guard kept.
        set_aside: wild voxels, bright pixels, dead columns (of single bands), columns removed.
        invented: voxels of the result that no measurement stands behind, by reason.
        audit: what was removed from every band, and the bands where it is not only noise, numbered from 0
            (:mod:`hyperdlw.pipeline.whiteness`).
        protected: pixels that came back as measured, and by name of a protected spectrum the root mean square
            over the pixels of the amplitude that was handed back.
        notes: what a user should know, in sentences.
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
    device: str = "cpu"
    quality: str = "normal"
    balance: float = 1.0
    noise: Json | None = None
    set_aside: Json = field(default_factory=dict)
    invented: Json = field(default_factory=dict)
    audit: Audit | None = None
    protected: Json | None = None
    notes: tuple[str, ...] = ()
    choice: Json | None = None
    chosen_on_rows: tuple[int, int] | None = None
    tiling: Json | None = None
    clipped_voxels: int | None = None

    def as_dict(self) -> Json:
        return asdict(self) | {"audit": None if self.audit is None else self.audit.as_dict()}

    def describe_noise(self) -> str:
        """The noise level and what it meant, in words; "" where it was not measured."""
        if self.noise is None:
            return ""
        text = f"{100 * _number(self.noise['level']):.2g} % of the range"
        part = _number(self.noise["model_part"])
        return text + (f", {100 * (1 - part):.0f} % eigenimages" if part < 1 else "")

    @property
    def title(self) -> str:
        """The model with its rank and strength."""
        words = [f"original {self.model}" if self.original else self.model]
        words += [f"rank {self.rank}"] if self.rank else []
        how = "" if self.choice is None else f" (auto, {self.choice['rule']})"
        return ", ".join([*words, f"strength {self.strength:.4g}{how}"])


def _number(value: object) -> float:
    assert isinstance(value, float | int)
    return float(value)


MANY = 0.9
"""Share of down-weighted voxels from which a user is warned."""
FAINT = (
    "signals fainter than the noise of their pixels may have gone with it, which no audit can see; "
    "--protect SPECTRUM keeps one that you know"
)


@dataclass
class Facts:
    """What the verbs found out about a cube.

    Attributes:
        skipped: why bands are left out, by number.
        dead: dead columns, counted in every band; ``columns``: what was removed from columns, in a word.
        wild, bright: voxels and pixels that were set aside.
        fill: a number among the wild ones that is likely an undeclared fill value.
        law: of the noise on the unit scale; ``low`` and ``span`` (band,) of the bands in use take it to
            their units.
        clean: whether there is no noise worth removing.
        kept: (band,) part of the change that the guard kept.
        invented: voxels with every code of :mod:`hyperdlw.pipeline.invented`.
        audit: whether what was removed is noise.
        protected: what was protected, for the report.
    """

    skipped: dict[int, str] = field(default_factory=dict)
    dead: int = 0
    columns: str = ""
    wild: int = 0
    bright: int = 0
    fill: float | None = None
    law: NoiseLaw | None = None
    low: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    span: NDArray[np.float32] = field(default_factory=lambda: np.ones(0, np.float32))
    part: float = 1.0
    lost: float = 0.0
    clean: bool = False
    kept: torch.Tensor | None = None
    invented: list[int] = field(default_factory=list)
    audit: Audit | None = None
    protected: Json | None = None

    def note_scaling(self, scaling: Scaling, skipped: dict[int, str]) -> None:
        self.skipped, self.dead = skipped, int(scaling.dead.sum())
        self.columns, limits = scaling.columns.kind, scaling.limits
        self.low, self.span = limits.lo, limits.span.ravel()

    def note_blend(self, blend: Blend) -> None:
        self.law, self.part, self.lost = blend.law, blend.part, blend.lost
        self.clean = float(blend.spared.level.max()) < NOTHING

    @property
    def nothing_to_do(self) -> bool:
        """Whether the cube goes back as it is."""
        return self.clean and self.part == 0 and not (self.columns or self.dead)

    @property
    def _protected_names(self) -> list[str]:
        found = (self.protected or {}).get("spectra")
        return list(found) if isinstance(found, dict) else []

    @property
    def _protected_pixels(self) -> int:
        return int(_number((self.protected or {}).get("pixels", 0)))

    def describe_noise(self) -> Json | None:
        """For the report."""
        if self.law is None:
            return None
        level = self.law.level.double()
        law = torch.stack([self.law.a, self.law.b, self.law.c], 1).tolist()
        bands = zip(law, self.low.tolist(), self.span.tolist(), strict=True)
        return {
            "level": float(level.square().mean().sqrt()),
            "bands": [float(v) for v in level.numpy() * self.span],
            "isofit": [fit_band(*band) for band in bands],
            "model_part": self.part,
            "outliers": self.lost,
            "kept": 1.0 if self.kept is None else float(self.kept.min()),
        }

    def describe_aside(self) -> Json:
        """For the report."""
        names = {"wild_voxels": "wild", "bright_pixels": "bright", "dead_columns": "dead"}
        return {k: getattr(self, v) for k, v in names.items()} | {"columns_removed": self.columns}

    def describe_invented(self) -> Json:
        """For the report: voxels by reason."""
        counts = zip(REASONS.values(), self.invented[1:], strict=False)
        return {"voxels": sum(self.invented[1:]), **dict(counts)}

    def write_notes(self, counts: Counts, fill: bool) -> tuple[str, ...]:
        """What a user should know."""
        kept = "were filled" if fill else "keep their values (--fill fills them)"
        low = counts.low / max(1, counts.measured)
        weak = 0 if self.kept is None else int((self.kept < 0.9).sum())
        spectra, pixels = ", ".join(self._protected_names), self._protected_pixels
        said = {
            "nothing to do: no noise above what clean images have; the cube is as it was": self.nothing_to_do,
            f"{self.wild} voxels far beyond the range of their band were set aside and {kept}": self.wild,
            f"{self.fill} looks like a fill value that the file does not declare; --nodata {self.fill} "
            "declares it": self.fill is not None,
            f"{self.bright} pixels much brighter than the rest keep their values": self.bright,
            f"{self.columns} of columns were found and removed; --keep-columns leaves them": self.columns,
            f"{weak} bands were changed less than the estimate, which removed more than their noise": weak,
            f"protected, with the amplitude that a matched filter finds in the input: {spectra}": spectra,
            f"{pixels} protected pixels came back as they were measured": pixels,
            FAINT: self.audit is not None and self.audit.deep and not spectra,
            f"warning: {100 * low:.0f} % of the voxels have hardly any weight": low > MANY,
        }
        return tuple(sentence for sentence, holds in said.items() if holds)


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
    facts: Facts,
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
        bands_used=plan.shape[0] - len(facts.skipped),
        bands_skipped=facts.skipped,
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
        device=options.device,
        quality=options.quality,
        balance=chosen.factor,
        noise=facts.describe_noise(),
        set_aside=facts.describe_aside(),
        notes=options.notes + facts.write_notes(counts, options.fill),
        invented=facts.describe_invented(),
        audit=facts.audit,
        protected=facts.protected,
        choice=chosen.choice,
        chosen_on_rows=chosen.rows,
        tiling=None if resumed is None else plan.as_dict() | {"resumed": resumed},
        clipped_voxels=counts.clipped,
    )


def hash_array(data: NDArray[np.float32]) -> str:
    """SHA-256 of the numbers of an array."""
    return hashlib.sha256(np.ascontiguousarray(data).data).hexdigest()


@dataclass(frozen=True, eq=False)
class Result:
    """The restored cube, the weights that were used (0 where nothing was) and the report.

    Attributes:
        uncertainty: on request, a standard deviation for every restored voxel in the units of the cube, NaN
            for others, and for invented ones unless they are to be included.
        invented: for every voxel 0, or why its value was invented (:mod:`hyperdlw.pipeline.invented`).
    """

    cube: Cube
    weights: NDArray[np.float32]
    report: Report
    noisy: Cube = field(repr=False)
    uncertainty: NDArray[np.float32] | None = field(default=None, repr=False)
    invented: NDArray[np.uint8] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<Result {self.report.title}, weights {self.report.weights}: {self.cube!r}>"

    def save(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write the restored cube in the form the noisy one had; returns the clipped voxels."""
        return save_cube(self.cube, path, overwrite=overwrite)

    def save_audit(
        self, path: str | Path, *, title: str = "a cube", overwrite: bool = False
    ) -> None:
        """The audit as one page in HTML (:mod:`hyperdlw.pipeline.audit_page`).

        It tells what is left of the noise where ``uncertainty=True`` was asked for.
        """
        from .audit_page import Dossier, write_page
        from .look import shrink_result

        files = {
            role: {f"{'x'.join(map(str, cube.shape))} {cube.data.dtype}": hash_array(cube.data)}
            for role, cube in (("input array", self.noisy), ("output array", self.cube))
        }
        look = shrink_result(self, for_page=True)
        dossier = Dossier(title, look, self.audit, self.report, files)
        write_page(dossier, str(path), overwrite=overwrite)

    @property
    def audit(self) -> Audit:
        """Whether what was removed is noise."""
        assert self.report.audit is not None
        return self.report.audit

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
