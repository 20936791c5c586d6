"""denoise(): the one function users call."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import __version__, models
from ..cube import Cube, make_cube
from ..errors import BadOption
from ..io import save_cube
from ..models import defaults, denoisers
from ..models import published as rivals
from ..solver import Model, Problem, Schedule, Solution, State, solve
from ..testbed import Truth
from ..weights import DEFAULT, Source, Spec, resolve
from .prepare import Prepared, Range, prepare, put_back
from .rank import estimate_rank
from .strength import Choice, choose

DEFAULT_MODEL = defaults.MODEL

ScheduleName = Literal["paper", "converged"]
Strength = float | Literal["auto"]


@dataclass(frozen=True)
class Report:
    """What was done, with what, and how it went; ``as_dict`` is ready for JSON."""

    model: str
    original: bool
    rank: int | None
    strength: float
    weights: str
    networks: dict[str, str]
    schedule: dict[str, Any]
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
    choice: dict[str, Any] | None = None
    tiling: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def title(self) -> str:
        """The model with its rank and strength."""
        words = [f"original {self.model}" if self.original else self.model]
        words += [f"rank {self.rank}"] if self.rank else []
        how = "" if self.choice is None else f" (auto, {self.choice['rule']})"
        return ", ".join([*words, f"strength {self.strength:.4g}{how}"])


@dataclass(frozen=True, eq=False)
class Result:
    """The restored cube, the weights that were used (0 where nothing was) and the report."""

    cube: Cube
    weights: NDArray[np.float32]
    report: Report
    noisy: Cube = field(repr=False)

    def save(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write the restored cube in the form the noisy one had; returns the clipped voxels."""
        return save_cube(self.cube, path, overwrite=overwrite)

    @property
    def data_array(self) -> Any:
        """The restored cube as an array with named axes, if the noisy one was (xarray)."""
        return self.cube.to_xarray()

    def _repr_html_(self) -> str:
        from .pictures import data_url, side_by_side

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


def denoise(
    cube: Cube | NDArray[Any],
    *,
    model: str = DEFAULT_MODEL,
    weights: Spec = DEFAULT,
    strength: Strength = 1.0,
    rank: int | Literal["auto"] | None = None,
    schedule: ScheduleName | Schedule = "paper",
    range: Range = "auto",
    denoiser: denoisers.DenoiserSpec | None = None,
    truth: Truth | None = None,
    seed: int | None = None,
    watch: Callable[[State[Tensor]], None] | None = None,
    memory: str | int | None = None,
    fill: bool = False,
) -> Result:
    """Restore a noisy cube.

    Minimises  1/2 sum w (y - x)^2 + strength * R(x)  with the regulariser R of ``model`` and the
    weights w of ``weights``, on bands scaled to the unit interval; the scaling is undone.

    Args:
        cube: a :class:`Cube`, an array (band, row, col), or an array with named axes such as an
            xarray.DataArray (then ``result.data_array`` is one too).
        model: name of a registered model (``hyperdlw models``), or of a rival, which takes no weights,
            strength or schedule.
        weights: where the weights come from: a network ("N+T+TS"), "uniform", "precision",
            "robust", "mixture", a file, an array, or a product of these (see
            :func:`hyperdlw.weights.resolve`); or "original": no weights, and the published version
            of the model with its own data term.
        strength: 1 is the published setting; larger is smoother. "auto" takes the one with the
            smallest estimated risk (see :mod:`hyperdlw.pipeline.strength`); the report holds the curve.
        rank: of models that have one; None is the published value, "auto" estimates it from the
            cube and the weights (:func:`hyperdlw.pipeline.rank.estimate_rank`).
        schedule: "paper" runs the steps the networks are trained with, "converged" runs to a
            tolerance of 1e-5.
        range: how bands are scaled to [0, 1] (see :func:`unit_range`).
        denoiser: of models that use one: of cubes for "pnp" and "pnp-hqs" ("eigen"), of grey
            images for "fasthymix" ("framelet", "gauss"); or a file with a trained one, or a
            callable (see :mod:`hyperdlw.models.denoisers.catalogue`).
        truth: the true noise, for ``weights="oracle"``.
        seed: recorded in the report; of the models only the deep image prior draws random numbers,
            and some rivals do.
        watch: called with the solver's state after every step (of a cube that is solved whole).
        memory: a limit such as "2G"; a cube that needs more is worked on in tiles
            (:mod:`hyperdlw.pipeline.plan`), with scratch files in the folder for temporary files.
            Three quarters of the machine's memory when None.
        fill: give voxels that were not measured the values of the model; they count as valid then.

    >>> rng = np.random.default_rng(0)
    >>> noisy = 0.5 + 0.1 * rng.standard_normal((4, 16, 16))
    >>> result = denoise(noisy, model="tv", weights="uniform", range=(0, 1))
    >>> float(result.cube.data.std()) < 0.05
    True
    """
    begin = time.perf_counter()
    cube = make_cube(cube)
    if isinstance(strength, str) and strength != "auto":
        raise BadOption(f"strength must be a number or 'auto', not '{strength}'")
    if strength != "auto" and not np.isfinite(strength):
        raise BadOption(f"strength must be a finite number, not {strength}")
    if rivals.is_rival(model):
        from .published_call import denoise_with_rival

        rivals.check_options(
            model,
            weights=weights,
            strength=strength,
            schedule=schedule,
            rank=rank,
            denoiser=denoiser,
        )
        known = rank if isinstance(rank, int) else None
        return denoise_with_rival(
            cube, model, range=range, rank=known, seed=seed, denoiser=denoiser
        )
    source = resolve(weights, truth)
    if memory is not None or cube.data.nbytes > 2**28:
        from . import in_strips as large

        options = large.Options(
            model, source, strength, rank, schedule, range, seed, fill, denoiser
        )
        cut = large.plan_for(cube.shape, options, memory)
        if cut.tiled:
            return large.denoise_cube(cube, options, cut)
    ready = prepare(cube, range)
    source = source.on_bands(ready.use)
    original = source.wants_original
    entry = models.find(model, original=original, rank=rank, denoiser=denoiser)
    t0 = time.perf_counter()
    w = source(ready.y, ready.valid)
    known = estimate_rank(ready.y, w) if rank == "auto" else rank

    def build(strength: float) -> Model:
        return models.build(
            model, ready.y.shape, strength, original=original, rank=known, denoiser=denoiser
        )

    spent = {"weights": time.perf_counter() - t0, "solve": 0.0}
    choice: Choice | None = None
    if strength == "auto":
        t0 = time.perf_counter()
        choice = _choose(source, ready, w, build, schedule)
        strength = choice.strength
        spent["strength"] = time.perf_counter() - t0
    built = build(strength)
    plan = chosen_schedule(schedule, built.schedule)
    x: Tensor | None = None
    solution: Solution | None = None
    for _ in _range(source.rounds):
        t0 = time.perf_counter()
        if x is not None:
            w = source(ready.y, ready.valid, x)
        t1 = time.perf_counter()
        solution = solve(Problem(built, ready.y, w, seed or 0), plan, watch=watch)
        x = solution.x
        spent["weights"] += t1 - t0
        spent["solve"] += time.perf_counter() - t1
    assert solution is not None
    assert x is not None
    restored = put_back(cube, ready, x, fill)
    full = np.zeros(cube.shape, np.float32)
    full[ready.use] = w.numpy()
    spent["total"] = time.perf_counter() - begin
    last = solution.residuals[-1] if solution.residuals else None
    report = Report(
        model=model,
        original=original,
        rank=built.rank,
        strength=strength,
        weights=source.name,
        networks=source.networks
        | denoiser_network(denoiser or ("eigen" if entry.takes_denoiser else None)),
        schedule=asdict(plan),
        shape=cube.shape,
        bands_used=int(ready.use.sum()),
        bands_skipped=ready.skipped,
        invalid_voxels=int(np.count_nonzero(~cube.valid)),
        range=range if isinstance(range, str) else f"{range[0]:g} to {range[1]:g}",
        steps=solution.state.k,
        residuals={} if last is None else {"primal": last.primal, "dual": last.dual},
        converged=solution.converged,
        down_weighted=int(((w < 0.1) & ready.valid).sum()) / max(1, int(ready.valid.sum())),
        seconds={k: round(v, 4) for k, v in spent.items()},
        seed=seed,
        versions={"hyperdlw": __version__, "torch": torch.__version__, "numpy": np.__version__},
        threads=torch.get_num_threads(),
        choice=None if choice is None else choice.as_dict(),
    )
    return Result(restored, full, report, cube)


_range = range


def _choose(
    source: Source,
    ready: Prepared,
    w: Tensor,
    build: Callable[[float], Model],
    schedule: ScheduleName | Schedule,
) -> Choice:
    """The strength for an image. Weights that follow the restored image are taken at strength 1."""
    for _ in _range(source.rounds - 1):
        built = build(1.0)
        x = solve(Problem(built, ready.y, w), chosen_schedule(schedule, built.schedule)).x
        w = source(ready.y, ready.valid, x)
    return choose(
        build,
        ready.y,
        w,
        lambda m: chosen_schedule(schedule, m.schedule),
        follows_noise=source.follows_noise,
    )


def predict_weights(
    cube: Cube | NDArray[Any],
    weights: Spec = DEFAULT,
    *,
    range: Range = "auto",
    truth: Truth | None = None,
) -> NDArray[np.float32]:
    """The weight map of a cube alone (0 on invalid voxels and unused bands), shape of the cube."""
    cube = make_cube(cube)
    ready = prepare(cube, range)
    source = resolve(weights, truth).on_bands(ready.use)
    if source.rounds > 1:
        raise BadOption(
            f"the weights '{source.name}' need a restored image; use denoise and take result.weights"
        )
    full = np.zeros(cube.shape, np.float32)
    full[ready.use] = source(ready.y, ready.valid).numpy()
    return full


def chosen_schedule(wanted: ScheduleName | Schedule, paper: Schedule) -> Schedule:
    """The schedule a user means."""
    if isinstance(wanted, Schedule):
        return wanted
    if wanted == "paper":
        return paper
    if wanted == "converged":
        return paper.converged()
    raise BadOption(f"schedule must be 'paper' or 'converged', not '{wanted}'")


def denoiser_network(denoiser: denoisers.DenoiserSpec | None) -> dict[str, str]:
    """Name and SHA-256 of the network behind a denoiser, if there is one."""
    stored = denoisers.find_network(denoiser)
    return {} if stored is None else {str(denoiser): stored.sha256}
