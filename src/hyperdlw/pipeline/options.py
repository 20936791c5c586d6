"""What is to be done with a cube: the options of ``denoise`` and ``denoise_file``, checked once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, get_args

from .. import models
from ..cube import Metadata
from ..errors import BadOption, unknown_name
from ..models import DenoiserSpec, defaults
from ..networks import find_device, solver_device
from ..solver import Model, Schedule
from ..testbed import Truth
from ..weights import DEFAULT, Source, Spec, Uniform, resolve
from .mild import LEAST_BANDS
from .prepare import Range, check_range
from .protect import Protect, Protection, parse_protection

DEFAULT_MODEL = defaults.MODEL
PICTURE = "picture"

Strength = float | Literal["auto"]
Rank = int | Literal["auto"] | None
ScheduleName = Literal["paper", "converged"]
Memory = str | int | None


class Settings(TypedDict, total=False):
    """The keywords of :func:`hyperdlw.denoise`, which explains them."""

    model: str
    weights: Spec
    strength: Strength
    rank: Rank
    schedule: ScheduleName | Schedule
    range: Range
    denoiser: DenoiserSpec | None
    truth: Truth | None
    seed: int | None
    fill: bool
    columns: bool
    paper: bool
    memory: Memory
    tile: int | None
    workers: int | None
    scheduler: str | None
    uncertainty: bool
    include_invented: bool
    protect: Protect
    device: str
    quality: str


@dataclass(frozen=True)
class Options:
    """Checked options; made by :func:`check_options`.

    Attributes:
        source: where the weights come from; w = 1 for a published method.
        columns: whether offsets and gains of columns are looked for and removed.
        paper: the constants of the model as they are, and nothing but the model.
        memory: a limit in bytes, or None: three quarters of the machine's.
        tile: rows of a strip; None: as many as the limit allows.
        workers, scheduler: who works on the strips, as for :func:`open_executor`.
        uncertainty: whether every voxel gets a standard deviation, by a second restoration.
        notes: what was chosen for the user, in sentences.
        include_invented: whether statistics include voxels that the model invented.
        protect: spectra and pixels that must not be smoothed away.
        device: where networks work: "cpu", "cuda" or "mps".
        quality: a name of :data:`hyperdlw.models.defaults.QUALITIES`.
        refine: whether a learned step may follow the model.
    """

    model: str
    source: Source
    strength: Strength = 1.0
    rank: Rank = None
    schedule: ScheduleName | Schedule = "paper"
    range: Range = "auto"
    denoiser: DenoiserSpec | None = None
    seed: int | None = None
    fill: bool = False
    columns: bool = True
    paper: bool = False
    memory: int | None = None
    tile: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    uncertainty: bool = False
    notes: tuple[str, ...] = ()
    include_invented: bool = False
    protect: Protection | None = None
    device: str = "cpu"
    quality: str = defaults.NORMAL
    refine: bool = True

    @property
    def solver_device(self) -> str:
        """Where the solver works; published methods work on the processor."""
        return "cpu" if self.published else solver_device(self.device)

    @property
    def original(self) -> bool:
        """Whether the published version of the model is asked for."""
        return self.source.wants_original

    @property
    def published(self) -> bool:
        """Whether the model is a published method, which takes no weights."""
        return self._entry.kind == "published"

    @property
    def removes_columns(self) -> bool:
        """Whether columns are looked for. A published method gets the cube as it is."""
        return self.columns and not (self.paper or self.published or self.original)

    @property
    def follows_level(self) -> bool:
        """Whether strength 1 means right for the noise of the cube, not the constants of the model."""
        return not (self.paper or self.published or self.original)

    @property
    def mild(self) -> bool:
        """Whether eigenimages take the place of the model where the noise is mild."""
        return self._entry.mild and self.follows_level

    def refines(self, bands: int) -> bool:
        """Whether a step with a learned prior follows the model.

        It was trained on many bands, and believes weights as networks give them.
        """
        learned = self.refine and self.mild and bool(self.source.networks)
        return learned and not self.in_colour and bands >= LEAST_BANDS

    @property
    def in_colour(self) -> bool:
        """Whether impulses are looked for as colour pictures show them."""
        return self.mild and self.model == PICTURE

    @property
    def effort(self) -> defaults.Quality:
        """What is spent on the cube."""
        return defaults.QUALITIES[self.quality]

    @property
    def in_strips(self) -> bool:
        """Whether strips are asked for, even if the cube fits in memory."""
        return bool(self.tile or self.workers or self.scheduler)

    @property
    def networks(self) -> dict[str, str]:
        """SHA-256 of every network at work, by name."""
        return self.source.networks | self._entry.list_networks(self.denoiser)

    def suit(self, metadata: Metadata) -> Options:
        """The same; of a colour picture with its model and network, if neither was chosen."""
        chosen = (self.model, self.source.name) != self.effort[:2]
        if chosen or self.rank is not None or self.paper or not metadata.get("picture"):
            return self
        network = models.picture.NETWORK
        note = f"a colour picture: model '{PICTURE}' (svtv, eigenimages), network '{network}'"
        source = resolve(network)
        return replace(self, model=PICTURE, source=source, columns=False, notes=(note,))

    def build(self, shape: Sequence[int], strength: float = 1.0, rank: int | None = None) -> Model:
        """The model for an image (band, row, col), with the schedule that is asked for."""
        known = self.quality != defaults.NORMAL and "quality" in self._entry.takes
        made = models.build_model(
            self.model,
            shape,
            strength,
            original=self.original,
            rank=rank,
            denoiser=self.denoiser,
            quality=self.quality if known else None,
        )
        if self.schedule == "paper":
            return made
        given = self.schedule if isinstance(self.schedule, Schedule) else None
        return replace(made, schedule=given or made.schedule.converged())

    def build_sketch(self, shape: Sequence[int]) -> Model:
        """The model as far as it is known before the cube is read: for plans."""
        bands = self._entry.bands or shape[0]
        strength = 1.0 if self.strength == "auto" else self.strength
        rank = self.rank if isinstance(self.rank, int) else None
        return self.build((bands, *shape[1:]), strength, rank)

    def count_steps(self, shape: Sequence[int]) -> int | None:
        """The steps of all rounds, where they are known beforehand."""
        schedule = self.build_sketch(shape).schedule
        if self.strength == "auto" or schedule.tolerance is not None:
            return None
        return schedule.steps * self.source.rounds

    @property
    def _entry(self) -> models.ModelEntry:
        return models.find_model(self.model)


def check_options(
    *,
    model: str = DEFAULT_MODEL,
    weights: Spec = DEFAULT,
    truth: Truth | None = None,
    memory: Memory = None,
    strength: Strength = 1.0,
    protect: Protect = None,
    device: str = "cpu",
    quality: str = defaults.NORMAL,
    **others: object,
) -> Options:
    """Options from the keywords of :func:`hyperdlw.denoise` (:class:`Settings`); or one sentence."""
    changed = {
        "weights": not isinstance(weights, str) or weights != DEFAULT,
        "strength": strength != 1.0,
        "schedule": others.get("schedule", "paper") != "paper",
        "quality": quality != defaults.NORMAL,
    }
    entry = models.find_model(model, given=[name for name, is_so in changed.items() if is_so])
    if quality not in defaults.QUALITIES:
        raise unknown_name("quality", quality, defaults.QUALITIES)
    effort = defaults.QUALITIES[quality]
    if model == DEFAULT_MODEL:
        model = effort.model
    if not changed["weights"]:
        weights = effort.weights
    published = entry.kind == "published"
    source = Uniform(name="none") if published else resolve(weights, truth)
    kept = parse_protection(protect)
    where = {"memory": parse_memory(memory), "device": find_device(device), "quality": quality}
    options = Options(model, source, strength, protect=kept, **where, **others)  # type: ignore[arg-type]
    models.find_model(
        model, original=options.original, rank=options.rank, denoiser=options.denoiser
    )
    if changed["quality"] and not options.follows_level:
        raise BadOption("--paper and weights 'original' are as published, so they have no quality")
    if isinstance(strength, str):
        if strength != "auto":
            raise BadOption(f"strength must be a number or 'auto', not '{strength}'")
    elif not 0 < strength <= 1e6:
        raise BadOption(
            f"strength must be positive (1 is right for the noise) and at most 1e6, not {strength:.3g}"
        )
    names = get_args(ScheduleName)
    if not isinstance(options.schedule, Schedule) and options.schedule not in names:
        raise BadOption(f"schedule must be 'paper' or 'converged', not '{options.schedule}'")
    check_range(options.range)
    if options.workers is not None and options.workers < 1:
        raise BadOption(f"there must be at least one worker, not {options.workers}")
    if published and options.fill:
        raise BadOption(f"the model '{model}' sees every voxel as measured, so it fills no gaps")
    if published and options.uncertainty:
        raise BadOption(
            f"the model '{model}' tells no uncertainty; leave it out, or take a model of 'hyperdlw models'"
        )
    if published and options.in_strips:
        raise BadOption(
            f"the model '{model}' works on the whole cube, not on tiles, so it has no use for workers"
        )
    return options


def parse_memory(text: Memory) -> int | None:
    """Bytes from a number with a unit of 1024: '2G', '512M', '1.5GB'.

    >>> parse_memory("1.5G"), parse_memory(None)
    (1610612736, None)
    """
    if text is None or isinstance(text, int):
        if text is not None and text <= 0:
            raise BadOption(f"memory must be positive, not {text}")
        return text
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(word[-1:], 1)
    try:
        value = float(word[:-1] if unit > 1 else word) * unit
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 1):
        raise BadOption(f"memory is a size such as 2G or 512M, not '{text}'")
    return int(value)
