"""A recipe says everything about the training of a network; the card of the network keeps it.

A recipe file (TOML) holds one recipe, or several stages that follow each other (:func:`read_recipe`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from ..errors import BadFile, BadOption, unknown_name
from ..solver import Backward
from ..testbed import find_noise
from ..weights import resolve

Values = dict[str, Any]
"""Plain values of TOML and JSON by key."""
OLD_KEYS = {"stages": "growth"}
"""Keys in the cards of older networks, and what they are called now."""
MOST = 10**8
"""The largest count in a recipe."""
FILTERS = 64
"""Filters of a network where nothing else is said, the paper's."""


def check_words(recipe: object, name: str, *words: str) -> None:
    """Refuse a recipe in which a key is none of some words."""
    if getattr(recipe, name) not in words:
        known = " or ".join(f"'{word}'" for word in words)
        raise BadOption(f"{name} in the recipe must be {known}, not {getattr(recipe, name)!r}")


@dataclass(frozen=True)
class TrainingPlan:
    """How any network here is trained: its size, and the optimiser's steps.

    Attributes:
        name: name of the network, for example "N+T+TS".
        stage: name of the stage, where a recipe file has several.
        architecture, filters: the network; without a number of filters it is that of the network
            it starts from, or 64.
        patch: side of a training patch in pixels.
        batch: patches per step, over all processes.
        growth: later (first step, patch, batch): small patches first, because many cheap steps learn
            fastest, larger ones later, because the models see further than a small patch.
        steps: number of optimiser steps, over which the rate is scheduled.
        stop: end the run after this step, before its schedule ends; None: all steps.
        optimiser: "adam" (the paper) or "soap" (Adam in the eigenbasis of the gradients).
        rate: learning rate; ``schedule`` "cosine" (linear warm-up, decay to 0) or "epochs"
            (the paper's factor ``decay`` after every ``epoch`` steps).
        clip: largest norm of the gradient.
        average: decay of the running mean of the parameters that is shipped; 0: none.
        seed: of the first weights, patches and noise.
        validate: steps between two validations.
        scenes: names of the scenes to learn from; empty, or a folder without any of them: all.
        held_out: scenes that are not trained on but validated on.
    """

    name: str
    _: KW_ONLY
    stage: str = ""
    architecture: str = "dlwnet3d"
    filters: int | None = None
    patch: int = 20
    batch: int = 3
    growth: tuple[tuple[int, int, int], ...] = ()
    steps: int = 4000
    stop: int | None = None
    optimiser: Literal["adam", "soap"] = "adam"
    rate: float = 1e-3
    schedule: Literal["cosine", "epochs"] = "cosine"
    warmup: int = 100
    decay: float = 0.8
    epoch: int = 2000
    clip: float = 1.0
    average: float = 0.995
    seed: int = 0
    validate: int = 250
    scenes: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.name, self.stage or "x"):  # of files and folders
            if not re.fullmatch(r"[^\W_][\w+. =-]{0,99}", str(name)):
                raise BadOption(
                    f"the recipe cannot be named {name!r}; take letters, digits and + - _ . only"
                )
        self._check_counts("patch", "batch", "steps", "validate", "epoch", "filters", "stop")
        self._check_numbers(1e-12, 100.0, "rate", "decay")
        self._check_numbers(1e-12, math.inf, "clip")
        self._check_numbers(0.0, 1.0, "average")
        self._check_numbers(0, 2**32 - 1, "warmup", "seed")
        for size in self.growth:
            if len(size) != 3 or min(size) < 1:
                raise BadOption(
                    f"growth in the recipe is made of [first step, patch, batch], not {list(size)}"
                )
        check_words(self, "optimiser", "adam", "soap")
        check_words(self, "schedule", "cosine", "epochs")

    @property
    def sizes(self) -> dict[str, int]:
        """What the architecture is built with."""
        return {"filters": self.filters or FILTERS}

    @property
    def last_step(self) -> int:
        """The number of steps after which the run ends."""
        return self.steps if self.stop is None else min(self.stop, self.steps)

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and 1 <= value <= MOST):
                raise BadOption(
                    f"{name} in the recipe must be a whole number from 1 to {MOST}, not {value!r}"
                )

    def _check_numbers(self, least: float, most: float, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and least <= value <= most):
                raise BadOption(
                    f"{name} in the recipe must be a number from {least:g} to {most:g}, not {value!r}"
                )

    @classmethod
    def from_dict(cls, values: Values) -> Self:
        """A recipe from plain values; an unknown key is an error with the nearest known one."""
        known = {f.name for f in fields(cls)}
        named = {OLD_KEYS.get(k, k): _as_tuples(v) for k, v in values.items()}
        for key in named:
            if key not in known:
                raise unknown_name("recipe key", key, known)
        try:
            return cls(**named)
        except TypeError as error:
            raise BadOption(f"the recipe is not complete: {error}") from error

    def to_dict(self) -> Values:
        """Plain values, ready for JSON."""
        return asdict(self)

    def check_same(self, before: TrainingPlan, where: Path) -> None:
        """Refuse to go on with what is in ``where`` if that was made with other settings than these."""
        own, other = self.to_dict(), before.to_dict()
        if self.filters is None:  # then they are those of the network it started from
            other["filters"] = None
        changed = [f"{k} = {other.get(k)}, not {v}" for k, v in own.items() if other.get(k) != v]
        if changed:
            raise BadFile(
                f"{where} is of another recipe ({'; '.join(changed)}); repeat its options, or choose "
                "another folder"
            )

    def size_at(self, step: int) -> tuple[int, int]:
        """Patch side and batch of step 0, 1, ..."""
        size = (self.patch, self.batch)
        for first, patch, batch in sorted(self.growth):
            if step >= first:
                size = (patch, batch)
        return size

    def rate_at(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        if self.schedule == "epochs":
            return self.rate * self.decay ** (step // self.epoch)
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))


@dataclass(frozen=True)
class ScenePlan(TrainingPlan):
    """A run that learns from patches of clean scenes with made noise.

    Attributes:
        noise: noises to draw from, one per patch: numbers of the paper's cases, or names.
        affected: limits of the share of bands that carry impulses, stripes or dead columns;
            None: the paper's 10 of 31.
        bands: limits of the number of bands of a patch: a random sub-range of the scene's, every
            s-th band of it with a random s where the scene has that many; None: all.
        pick: a scene is drawn in proportion to its "area" or to its "side", the root of it, which
            gives small scenes a larger share.
        subsample: largest stride with which patches are cut (2: half of them at half resolution).
    """

    _: KW_ONLY
    noise: tuple[int | str, ...] = (1,)
    affected: tuple[float, float] | None = None
    bands: tuple[int, int] | None = None
    pick: Literal["area", "side"] = "area"
    subsample: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("subsample")
        for noise in map(find_noise, self.noise):
            if not noise.leaves_scene():
                raise BadOption(
                    f"the noise '{noise.name}' makes gaps or bright pixels, and a training patch can "
                    "have none; leave it out of the recipe"
                )
        check_words(self, "pick", "area", "side")


@dataclass(frozen=True)
class Objective:
    """The upper level of equation (3): which images the weights are judged by, and how.

    Attributes:
        sources: models the loss looks through, by registered name.
        loss: "mse" is the mean over patches and sources (the paper); "log" the mean of its
            logarithm, which is what a mean PSNR measures.
        times: a weight source whose weights multiply those of the network, by registered name, as in
            ``--weights "NETWORK*SOURCE"``; None: the network alone.
        backward: how the gradient passes through the solvers.
        depth: factor on the number of steps of the solvers, in training and validation; whoever runs a
            network is to take as many steps as it was trained with.
    """

    sources: Sequence[str]
    _: KW_ONLY
    loss: Literal["mse", "log"] = "mse"
    times: str | None = None
    backward: Backward = "unroll"
    depth: float = 1.0

    def __post_init__(self) -> None:
        if not self.sources:
            raise BadOption(
                "the recipe names no sources; for example sources = ['nn', 'tv', 'tvs']"
            )
        check_words(self, "loss", "mse", "log")
        if self.times is not None and resolve(self.times).rounds > 1:
            raise BadOption(f"times in the recipe: '{self.times}' needs a restored image")
        if not 0 < self.depth <= 100:
            raise BadOption(
                f"depth in the recipe must be above 0 and at most 100, not {self.depth!r}"
            )


@dataclass(frozen=True)
class Recipe(Objective, ScenePlan):
    """One training run of a weight network, through the models it serves.

    Attributes:
        start: network to start from: a name, a file, or "FILE.toml#STAGE", which is what that stage
            of another recipe file writes; a wider one is pruned to the recipe's filters.
    """

    _: KW_ONLY
    start: str | None = None

    def __post_init__(self) -> None:
        ScenePlan.__post_init__(self)
        Objective.__post_init__(self)


@dataclass(frozen=True)
class RecipeFile:
    """The stages of a recipe file in their order.

    Attributes:
        parent: the recipe whose last stage writes the network that the first stage starts from.
    """

    stages: tuple[Recipe, ...]
    parent: RecipeFile | None = None

    @property
    def name(self) -> str:
        return self.stages[-1].name

    @property
    def architecture(self) -> str:
        return self.stages[-1].architecture

    def list_chain(self) -> list[Recipe]:
        """Every stage from scratch to the last one, those of other recipe files first."""
        before = [] if self.parent is None else self.parent.list_chain()
        return [*before, *self.stages]

    def hold_out(self, names: tuple[str, ...]) -> RecipeFile:
        """The same recipe with other held-out scenes in every stage, also in those before it."""
        stages = tuple(replace(r, held_out=names) for r in self.stages)
        return RecipeFile(stages, None if self.parent is None else self.parent.hold_out(names))


def read_recipe(path: str | Path, *, start: str | None = None) -> RecipeFile:
    """Read a recipe file.

    The keys at its top hold for every stage; a ``[[stage]]`` table changes some of them and has a name
    (``stage = "..."``). The second stage starts from the network of the first, and so on; the first
    starts from ``start``, or from scratch.

    Args:
        start: network to start from instead of the file's.
    """
    return _read_stages(Path(path), start, None, ())


def _read_stages(
    path: Path, start: str | None, last: str | None, readers: tuple[Path, ...]
) -> RecipeFile:
    """The stages of a file, up to the one named ``last``; ``readers`` are the files that start from it."""
    if path.resolve() in readers:
        raise BadFile(f"the recipe {path} starts from itself")
    shared = _read_toml(path) | ({} if start is None else {"start": start})
    tables = shared.pop("stage", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadOption(f"stages of the recipe {path} are tables: write [[stage]] above each")
    names = [table.get("stage", "") for table in tables]
    if len(tables) > 1 and (not all(names) or len(set(names)) < len(names)):
        raise BadOption(f'every stage in {path} needs a name of its own, such as stage = "wide"')
    stages: list[Recipe] = []
    for table in tables:
        before = {"start": f"{path.name}#{stages[-1].stage}"} if stages else {}
        stages.append(Recipe.from_dict({**shared, **table, **before}))
    if last is not None:
        if last not in names:
            raise unknown_name(f"stage in {path}", last, names)
        stages = stages[: names.index(last) + 1]
    other, mark, stage = (stages[0].start or "").partition("#")
    parent = None
    if mark:
        parent = _read_stages(path.parent / other, None, stage, (*readers, path.resolve()))
    return RecipeFile(tuple(stages), parent)


def _read_toml(path: Path) -> Values:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadFile(f"there is no recipe {path}") from error
    except (OSError, ValueError) as error:
        raise BadFile(f"cannot read the recipe {path}: {error}") from error


def _as_tuples(value: Any) -> Any:
    """Lists of TOML and JSON as tuples, so that equal recipes are equal."""
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list) else value
