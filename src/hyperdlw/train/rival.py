"""Training of networks that restore an image by themselves, such as HSID-CNN and HSI-DeNet.

Scenes, noise and keyed patches are those of the weight networks, so that all learn from the same data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor

from ..errors import BadOption, unknown_name
from ..networks import RIVALS, Rival
from ..testbed import psnr
from .bilevel import make_pairs
from .card import describe_data
from .loop import (
    F32,
    Pair,
    RunSettings,
    Training,
    TrainingData,
    find_place,
    resume_run,
    run_training,
)
from .patches import Patches
from .recipe import ScenePlan, TrainingPlan


@dataclass(frozen=True)
class RivalPlan(ScenePlan):
    """One training run of a network that restores images by itself (mean squared error).

    Attributes:
        architecture: a key of ``networks.RIVALS``; the name unless given.
        targets: bands of each patch that HSID-CNN restores in a step.
        channels: bands of the training images.
    """

    _: KW_ONLY
    architecture: str = ""
    patch: int = 20
    batch: int = 4
    steps: int = 4000
    warmup: int = 200
    average: float = 0.998
    validate: int = 500
    targets: int = 3
    channels: int = 31

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.architecture:
            object.__setattr__(self, "architecture", self.name)
        if self.architecture not in RIVALS:
            raise unknown_name("network to train", self.architecture, RIVALS)
        self._check_counts("targets")


@dataclass
class RivalTraining(Training[RivalPlan, Rival, tuple[Tensor, Tensor]]):
    """A run of a network that restores images by itself."""

    plan_type: ClassVar[type[TrainingPlan]] = RivalPlan

    @staticmethod
    def build_network(recipe: RivalPlan) -> Rival:
        kind = RIVALS[recipe.architecture]
        return kind(**kind.sizes_for(recipe.channels))

    def add_gradients(self, patches: tuple[Tensor, Tensor], batch: int) -> Tensor:
        clean, noisy = patches
        rng = np.random.default_rng([self.recipe.seed, self.step, find_place()[0], 1])
        restored, target = self.net.sample(noisy, clean, rng, self.recipe.targets)
        loss: Tensor = ((restored - target) ** 2).mean() * (len(clean) / batch)
        torch.autograd.backward(loss)
        return loss.detach().view(1)

    @torch.no_grad()
    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Mean PSNR on the validation crops (dB)."""
        net = self.averaged()
        total = sum(psnr(clean, net(torch.from_numpy(noisy)).numpy()) for clean, noisy in pairs)
        return {self.recipe.name: total / len(pairs)}


def plan_rival(name: str) -> RivalPlan:
    """The plan of a network by name, with the sizes that its class gives (``plan``)."""
    if name not in RIVALS:
        raise unknown_name("network to train", name, RIVALS)
    return RivalPlan.from_dict({"name": name, **RIVALS[name].plan})


def train_rival(
    plan: RivalPlan,
    scenes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    **settings: Unpack[RunSettings],
) -> Path:
    """Train a network that restores images by itself, and write it; returns its path.

    Args:
        scenes, held_out: clean cubes (band, row, col) in [0, 1] to train and to validate on.
        settings: see :class:`hyperdlw.train.loop.RunSettings`.
    """
    counts = sorted({s.shape[0] for s in scenes.values()})
    if len(counts) > 1:
        raise BadOption(f"the training scenes must have the same number of bands, not {counts}")
    folder, plan = Path(out), replace(plan, channels=counts[0])
    run = resume_run(RivalTraining, plan, folder, settings) or RivalTraining.begin(plan)
    facts = {"kind": "rival", **describe_data(scenes, held_out, run.recipe)}
    pairs = make_pairs(held_out or {}, run.recipe)
    data = TrainingData(Patches(list(scenes.values()), run.recipe), pairs, facts)
    return run_training(run, data, folder, **settings)
