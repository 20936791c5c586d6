"""A recipe says everything about a training run; it is read from a TOML file and kept in the card."""

from __future__ import annotations

import math
import tomllib
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from ..errors import BadFile, BadOption, unknown_name
from ..testbed import find_noise

Loss = Literal["mse", "log"]
Rate = Literal["cosine", "epochs"]
FILTERS = 64
"""Filters of a network where nothing else is said, the paper's."""


@dataclass(frozen=True)
class Plan:
    """How any network here is trained: its size, and the optimiser's steps.

    Attributes:
        name: name of the network, for example "N+T+TS".
        architecture, filters: the network; without a number of filters it is that of the network
            it starts from, or 64.
        patch: side of a training patch in pixels.
        batch: patches per step, over all processes.
        stages: later (first step, patch, batch): small patches first, because many cheap steps learn
            fastest, larger ones later, because the models see further than a small patch.
        steps: number of optimiser steps.
        optimiser: "adam" (the paper) or "soap" (Adam in the eigenbasis of the gradients).
        rate: learning rate; ``schedule`` "cosine" (linear warm-up, decay to 0) or "epochs"
            (the paper's factor ``decay`` after every ``epoch`` steps).
        clip: largest norm of the gradient.
        average: decay of the running mean of the parameters that is shipped; 0: none.
        seed: of the first weights, patches and noise.
        start: network to start from (a name or file), for fine-tuning.
        validate: steps between two validations.
        held_out: scenes that are not trained on but validated on.
    """

    name: str
    _: KW_ONLY
    architecture: str = "dlwnet3d"
    filters: int | None = None
    patch: int = 20
    batch: int = 3
    stages: tuple[tuple[int, int, int], ...] = ()
    steps: int = 4000
    optimiser: Literal["adam", "soap"] = "adam"
    rate: float = 1e-3
    schedule: Rate = "cosine"
    warmup: int = 100
    decay: float = 0.8
    epoch: int = 2000
    clip: float = 1.0
    average: float = 0.995
    seed: int = 0
    start: str | None = None
    validate: int = 250
    held_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("patch", "batch", "steps", "validate", "epoch"):
            self._at_least_one(name)
        if self.filters is not None:
            self._at_least_one("filters")
        for stage in self.stages:
            if len(stage) != 3 or min(stage) < 1:
                raise BadOption(
                    f"a stage in the recipe is [first step, patch, batch], not {list(stage)}"
                )
        if self.optimiser not in ("adam", "soap"):
            raise BadOption(f"optimiser must be 'adam' or 'soap', not '{self.optimiser}'")
        if self.schedule not in ("cosine", "epochs"):
            raise BadOption(f"schedule must be 'cosine' or 'epochs', not '{self.schedule}'")

    @property
    def sizes(self) -> dict[str, int]:
        """What the architecture is built with."""
        return {"filters": self.filters or FILTERS}

    def _at_least_one(self, name: str) -> None:
        if getattr(self, name) < 1:
            raise BadOption(f"{name} in the recipe must be at least 1, not {getattr(self, name)}")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """A recipe from plain values; an unknown key is an error with the nearest known one."""
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise unknown_name("recipe key", key, known)
        lists: dict[str, Any] = {k: _tuples(v) for k, v in values.items()}
        try:
            return cls(**lists)
        except TypeError as error:
            raise BadOption(f"the recipe is not complete: {error}") from error

    @classmethod
    def read(cls, path: str | Path, **changes: Any) -> Self:
        """A recipe from a TOML file, with some values changed."""
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BadFile(f"there is no recipe {path}") from error
        except (OSError, ValueError) as error:
            raise BadFile(f"cannot read the recipe {path}: {error}") from error
        given = {k: v for k, v in changes.items() if v is not None}
        return replace(cls.from_dict(values), **given)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def size_at(self, step: int) -> tuple[int, int]:
        """Patch side and batch of step 0, 1, ..."""
        size = (self.patch, self.batch)
        for first, patch, batch in sorted(self.stages):
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
class ScenePlan(Plan):
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
        self._at_least_one("subsample")
        for name in self.noise:
            find_noise(name)
        if self.pick not in ("area", "side"):
            raise BadOption(f"pick in the recipe must be 'area' or 'side', not '{self.pick}'")


@dataclass(frozen=True)
class Recipe(ScenePlan):
    """One training run of a weight network, through the models it serves.

    Attributes:
        sources: models the loss looks through, by registered name.
        loss: "mse" is the mean over patches and sources (the paper); "log" the mean of its
            logarithm, which is what a mean PSNR measures.
        backward: how the gradient passes through the solvers.
        depth: factor on the number of steps of the solvers, in training and validation; whoever runs a
            network is to take as many steps as it was trained with.
    """

    sources: tuple[str, ...]
    _: KW_ONLY
    loss: Loss = "mse"
    backward: Literal["unroll", "checkpoint", "implicit"] = "unroll"
    depth: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sources:
            raise BadOption(
                "the recipe names no sources; for example sources = ['nn', 'tv', 'tvs']"
            )
        if self.loss not in ("mse", "log"):
            raise BadOption(f"loss in the recipe must be 'mse' or 'log', not '{self.loss}'")
        if self.depth <= 0:
            raise BadOption(f"depth in the recipe must be larger than 0, not {self.depth}")


def _tuples(value: Any) -> Any:
    """Lists of TOML and JSON as tuples, so that equal recipes are equal."""
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
