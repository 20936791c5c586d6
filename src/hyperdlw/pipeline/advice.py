"""What to do with a noisy cube: how noisy it is, where it is broken, and which model to take.

Everything is read from the noisy cube alone. The reasons are sentences, the numbers are in
:class:`Advice`; ``hyperdlw denoise --auto`` follows the recommendation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import models
from ..cube import Cube
from ..errors import DlwError
from ..networks import files as store
from ..solver import Model, Problem, solve
from ..weights import DEFAULT, estimate_noise_level, resolve
from . import theory
from .choose import Choice, choose_strength
from .mild import count_components, is_quiet, strength_factor
from .options import DEFAULT_MODEL, PICTURE, Settings
from .prepare import Prepared, Range, prepare_cube
from .sample import Sample

LINE = 5.0
"""Robust standard deviations a column has to stick out by."""

IMPULSES = 0.05
"""Share of far-off voxels from which a band counts as one with impulses; image detail makes up to 0.02."""

INSPECT = "nn"
"""The model whose residual is searched for stripes: low rank leaves them there, smoothness in space does
not always."""

HIDDEN = 0.03
"""Share of the voxels that are hidden to compare models."""

MARGIN = 0.1
"""By how much the error on hidden voxels has to fall for a model other than the default. On one
of two training cubes a difference of 0.04 pointed the wrong way."""


@dataclass(frozen=True)
class BandAdvice:
    """What is known of one band (numbered from 0 in the cube).

    Attributes:
        sigma: robust standard deviation of its noise, in units of its signal range.
        impulses: share of voxels far off the restored image, 0..1.
        dead: columns that hold one value; ``dead_rows`` likewise.
        striped: columns shifted against the restored image; ``striped_rows`` likewise.
        bad: why the band should not be trusted, or "".
    """

    band: int
    sigma: float
    impulses: float
    dead: tuple[int, ...]
    striped: tuple[int, ...]
    dead_rows: tuple[int, ...]
    striped_rows: tuple[int, ...]
    bad: str


@dataclass(frozen=True)
class Advice:
    """The recommendation, a sentence of reason for each part, and the evidence."""

    network: str
    model: str
    rank: int
    strength: float
    reasons: dict[str, str]
    bands: tuple[BandAdvice, ...]
    skipped: dict[int, str]
    divergence: dict[str, dict[str, float]]
    held_out: dict[str, float]
    choice: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def settings(self) -> Settings:
        """The keywords of :func:`hyperdlw.denoise` that follow the advice."""
        rank = self.rank if "rank" in models.find_model(self.model).takes else None
        if self.model == DEFAULT_MODEL:
            rank = None
        return {
            "model": self.model,
            "weights": self.network,
            "strength": self.strength,
            "rank": rank,
        }

    @property
    def impulse_bands(self) -> dict[int, float]:
        """Bands with impulses, and the share of them."""
        return {b.band: b.impulses for b in self.bands if b.impulses > IMPULSES}

    @property
    def bad_bands(self) -> dict[int, str]:
        """Bands not to be trusted, with the reason."""
        return self.skipped | {b.band: b.bad for b in self.bands if b.bad}


# --- where the cube is broken


def dead_lines(
    y: NDArray[np.floating], valid: NDArray[np.bool_], axis: int = 2
) -> NDArray[np.bool_]:
    """(band, line) of lines that hold one value: columns for axis 2, rows for axis 1.

    More than nine tenths of the steps along the line are 0, which noise never does. Lines of
    which less than half was measured are left out, and so are bands that are flat anyhow.
    """
    y, valid = np.moveaxis(y, 3 - axis, 2), np.moveaxis(valid, 3 - axis, 2)
    known = valid[..., 1:] & valid[..., :-1]
    count = known.sum(2)
    still = ((np.diff(y) == 0) & known).sum(2) / np.maximum(count, 1)
    found = (still > 0.9) & (2 * count >= known.shape[2])
    flat = found.mean(1, keepdims=True) > 0.5
    return np.asarray(found & ~flat)


def striped_lines(
    residual: NDArray[np.floating], dead: NDArray[np.bool_], axis: int = 2
) -> NDArray[np.bool_]:
    """(band, line) of lines whose median residual sticks out of its band by LINE robust deviations."""
    offset = np.median(residual, axis=3 - axis)
    offset = offset - np.median(offset, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(offset), axis=1, keepdims=True)
    return np.asarray((np.abs(offset) > LINE * np.maximum(spread, 1e-6)) & ~dead)


def far_off(residual: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Where (band, row, col) the residual is larger than four deviations and a fifth of the range.

    The deviation comes from the lower quartile of |residual|, which up to seven tenths of impulses
    leave alone.
    """
    size = np.abs(residual)
    scale = np.quantile(size, 0.25, axis=(1, 2), keepdims=True) / 0.3186
    return np.asarray(size > np.maximum(4 * scale, 0.2))


def impulse_share(residual: NDArray[np.floating], lines: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Share of the voxels of every band that are far off the restored image, broken columns left out."""
    far = far_off(residual) & ~lines[:, None, :]
    kept = np.maximum((~lines).sum(1) * residual.shape[1], 1)
    return np.asarray(far.sum((1, 2)) / kept)


def inspect(
    ready: Prepared, restored: Tensor, measured: NDArray[np.bool_]
) -> tuple[BandAdvice, ...]:
    """Noise, impulses, dead and striped lines of the bands in use."""
    y, valid = ready.y.numpy(), measured
    residual = np.where(ready.valid.numpy(), y - restored.numpy(), 0.0)
    sigma = estimate_noise_level(ready.y, ready.valid).numpy()
    lines = {"dead_rows": dead_lines(y, valid, 1), "dead": dead_lines(y, valid, 2)}
    lines["striped_rows"] = striped_lines(residual, lines["dead_rows"], 1)
    lines["striped"] = striped_lines(residual, lines["dead"], 2)
    share = impulse_share(residual, lines["dead"] | lines["striped"])
    usual = float(np.median(sigma))
    found = []
    for i, band in enumerate(np.flatnonzero(ready.use)):
        at = {k: tuple(int(c) for c in np.flatnonzero(v[i])) for k, v in lines.items()}
        broken = len(at["dead"]) / y.shape[2]
        faults = {
            "no signal above the noise": sigma[i] > 0.5,
            f"{sigma[i] / usual:.1f} times the usual noise": sigma[i] > 2.5 * usual,
            f"{100 * share[i]:.0f} % impulses": share[i] > 0.25,
            f"{100 * broken:.0f} % dead columns": broken > 0.25,
        }
        bad = ", ".join(text for text, holds in faults.items() if holds)
        level, impulses = float(sigma[i]), float(share[i])
        found.append(BandAdvice(int(band), level, impulses, bad=bad, **at))
    return tuple(found)


# --- which network for which model


def networks() -> dict[str, tuple[str, ...]]:
    """Shipped networks for any number of bands, with the models they were trained through.

    U tells models apart, not scenes: of networks with the same models the general one is taken.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(store.list_networks(), key=len):
        stored = store.load_network(name)
        sources = tuple(str(s) for s in stored.card.get("sources", ()))
        known = all(s in models.list_models("model") for s in sources)
        if stored.net.channels is None and sources and known and sources not in found.values():
            found[name] = sources
    return found


def divergences(x: Tensor) -> dict[str, dict[str, float]]:
    """U(source models of a network, model) for every registered model with a value."""
    slope = {m: theory.subgradient(m, x) for m in theory.convex_models(x.shape)}
    return {
        m: {
            n: theory.lemma3([slope[s] for s in sources], [g], theory.EPS) / x.numel()
            for n, sources in networks().items()
        }
        for m, g in slope.items()
    }


def held_out(built: Model, y: Tensor, w: Tensor, yardstick: Tensor, hide: Tensor) -> float:
    """Mean of yardstick * (y - x)^2 over hidden voxels, x solved without them.

    A hidden voxel's noise has no part in x, so this is the weighted error plus a constant that is
    the same for every model: it compares models where Stein's formula, with weights that follow the noise,
    does not.
    """
    x = solve(Problem(built, y, torch.where(hide, torch.zeros_like(w), w))).x
    error = yardstick * (y - x) ** 2
    return float(error[hide].mean(dtype=torch.float64))


def advise(
    cube: Cube | NDArray[Any],
    *,
    range: Range = "auto",
    among: Sequence[str] | None = None,
    seed: int = 0,
) -> Advice:
    """Look at a noisy cube and recommend network, model, rank and strength.

    Args:
        cube: a :class:`Cube`, or an array (band, row, col).
        range: how bands are scaled to [0, 1].
        among: models to choose from; all registered ones that fit the cube when None.
        seed: of the hidden voxels and of the probe.
    """
    if not isinstance(cube, Cube):
        cube = Cube.from_array(cube)
    ready = prepare_cube(cube, range)
    y, valid = ready.y, ready.valid
    weights = {DEFAULT: resolve(DEFAULT)(y, valid)}
    yardstick = weights[DEFAULT]
    restored = solve(Problem(models.build_model(INSPECT, y.shape), y, yardstick)).x
    apart = divergences(torch.where(valid, y, restored))
    generator = torch.Generator().manual_seed(seed)
    hide = (torch.rand(y.shape, generator=generator) < HIDDEN) & valid
    errors: dict[str, float] = {}
    partner: dict[str, str] = {}
    sample = Sample.gather(ready.read, y.shape)
    law = sample.trusting(sample.blocks_of(yardstick)).law

    def build(name: str, strength: float = 1.0) -> Model:
        degree = models.build_model(name, y.shape).degree
        return models.build_model(name, y.shape, strength * strength_factor(law, degree))

    # The default is built on lrtfdfr, and where the noise is mild it needs no comparison.
    every = [n for n in models.list_models("model") if n not in ("lrtfdfr", PICTURE)]
    if cube.metadata.get("picture"):
        every = [PICTURE]
    elif is_quiet(sample, law):
        every = [DEFAULT_MODEL]
    for name in every if among is None else among:
        # The jointly trained network serves the default model and those that U says nothing of.
        near = apart.get(name, {})
        partner[name] = (
            DEFAULT if name == DEFAULT_MODEL or not near else min(near, key=near.__getitem__)
        )
        if name == PICTURE:
            partner[name] = models.picture.NETWORK
        if partner[name] not in weights:
            weights[partner[name]] = resolve(partner[name])(y, valid)
        try:
            built = build(name)
            if built.method is not None:
                continue  # a fit of its own for every hidden set would take too long
            errors[name] = held_out(built, y, weights[partner[name]], yardstick, hide)
        except DlwError:
            continue  # made for other cubes, such as colour images
    model = preferred(errors)
    network = partner[model]
    if model in (DEFAULT_MODEL, PICTURE):
        choice = Choice(1.0, "none", "right for the noise level", float("nan"), ())
    else:
        choice = choose_strength(partial(build, model), y, weights[network], seed=seed)
    rank = count_components(sample, law)
    net = "trained with several models at once, it serves this one as well as any"
    if model == PICTURE:
        net = "trained on photographs"
    elif network != DEFAULT:
        u = apart[model][network]
        net = f"the smallest divergence U = {u:.2g} from {model} of all networks"
    return Advice(
        network=network,
        model=model,
        rank=rank,
        strength=choice.strength,
        reasons={
            "model": explain_model(model, errors),
            "network": net,
            "rank": f"{rank} spectral components are stronger than the noise",
            "strength": choice.reason + (f" ({choice.rule})" if choice.curve else ""),
        },
        bands=inspect(ready, restored, cube.valid[ready.use]),
        skipped=ready.skipped,
        divergence=apart,
        held_out=errors,
        choice=asdict(choice),
    )


def preferred(errors: dict[str, float]) -> str:
    """The default model, unless another one's error on hidden voxels is clearly smaller.

    >>> preferred({"plain": 1.0, "tv": 0.99}), preferred({"plain": 1.0, "tv": 0.8})
    ('plain', 'tv')
    """
    if not errors:
        return DEFAULT_MODEL
    best = min(errors, key=errors.__getitem__)
    if DEFAULT_MODEL in errors and errors[best] > (1 - MARGIN) * errors[DEFAULT_MODEL]:
        return DEFAULT_MODEL
    return best


def explain_model(model: str, errors: dict[str, float]) -> str:
    """Why a model is recommended, in a sentence."""
    if model == DEFAULT_MODEL:
        return "the default; no other model predicts hidden voxels clearly better"
    if model == PICTURE:
        return "a colour picture: svtv where the noise is loud, eigenimages where it is mild"
    if DEFAULT_MODEL not in errors:
        return "it predicts hidden voxels best among the models asked for"
    gain = 100 * (1 - errors[model] / errors[DEFAULT_MODEL])
    return f"it predicts hidden voxels {gain:.0f} % better than the default {DEFAULT_MODEL}"
