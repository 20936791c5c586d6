"""From options to work: model, weights, strength and rank are checked, and the progress is shown."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from ...errors import BadOption, unknown_name
from . import console
from .options import ScheduleChoice, parse_rank

if TYPE_CHECKING:
    from ...cube import Cube
    from ...pipeline import Range, Result, Strength
    from ...weights import Source


def chosen_source(
    model: str, weights: str, strength: float, rank: str | None, denoiser: str | None = None
) -> Source | None:
    """The weight source, after model, strength, rank and denoiser have been checked as well.

    None for a rival, which takes no weights.
    """
    from ...models import denoisers, find, registry
    from ...models import published as rivals
    from ...weights import resolve

    if rivals.is_rival(model):
        rivals.check_options(
            model, weights=weights, strength=strength, rank=parse_rank(rank), denoiser=denoiser
        )
        return None
    if model not in registry():
        raise unknown_name("model", model, [*registry(), *rivals.registry()])
    find(model, rank=parse_rank(rank), denoiser=denoiser)
    if denoiser is not None:
        denoisers.resolve_denoiser(denoiser)
    if not (strength > 0 and math.isfinite(strength)):
        raise BadOption(f"--strength must be positive (1 is the published setting), not {strength}")
    source = resolve(weights)
    find(model, original=source.wants_original)
    return source


def no_weights(model: str) -> BadOption:
    """What to say of weights that are asked of a rival."""
    return BadOption(f"the model '{model}' uses no weights, so there are none to write")


def solve_cube(
    cube: Cube,
    model: str,
    source: Source | None,
    strength: Strength,
    rank: str | None,
    schedule: ScheduleChoice,
    limits: Range,
    seed: int | None,
    silent: bool,
    denoiser: str | None = None,
    fill: bool = False,
) -> Result:
    """Denoise a cube in memory."""
    from ... import models as registered
    from ...pipeline import denoise as run_denoise

    run = partial(
        run_denoise,
        cube,
        model=model,
        rank=parse_rank(rank),
        denoiser=denoiser,
        schedule=schedule.value,
        range=limits,
        seed=seed,
    )
    if source is None:
        return run()
    steps = None
    if schedule is ScheduleChoice.paper:
        known = 1.0 if strength == "auto" else strength
        built = registered.build(model, cube.shape, known, original=source.wants_original)
        steps = built.schedule.steps * source.rounds
    with console.progress(steps, silent) as watch:
        return run(weights=source, strength=strength, watch=watch, fill=fill)
