"""Training of the networks that restore an image by themselves: HSID-CNN and HSI-DeNet.

Scenes, noise and keyed patches are those of the weight networks, so that all learn from the same data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadOption, unknown_name
from ..networks import RIVALS
from ..testbed import psnr
from .card import from_scenes
from .loop import How, Material, Training, conduct, validation_set
from .patches import Patches
from .recipe import Plan, ScenePlan

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class RivalPlan(ScenePlan):
    """One training run of a rival network (Adam, mean squared error).

    Attributes:
        architecture: a key of ``store.RIVALS``; the name unless given.
        targets: bands of each patch that HSID-CNN restores in a step.
        channels: bands of the images of HSI-DeNet, which is for one number of them.
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
        self._at_least_one("targets")

    @property
    def sizes(self) -> dict[str, int]:
        return {"channels": self.channels} if self.architecture == "hsi-denet" else {}


PLANS = {
    "hsid-cnn": RivalPlan("hsid-cnn"),
    "hsi-denet": RivalPlan("hsi-denet", patch=32, batch=8, steps=3000),
}
"""The planned budget of each network; ``minutes`` may end a run earlier."""


@dataclass
class RivalTraining(Training):
    """Everything a run of a rival network needs to go on."""

    kind: ClassVar[type[Plan]] = RivalPlan
    architectures: ClassVar[Mapping[str, Any]] = RIVALS

    @property
    def figures(self) -> list[str]:
        return []

    def gradients(self, patches: Patches, indices: Sequence[int], batch: int) -> Tensor:
        r = self.recipe
        clean, noisy = patches.batch(self.step, indices)
        rng = np.random.default_rng([r.seed, self.step, indices[0], 1])
        restored, target = self.net.sample(noisy, clean, rng, r.targets)
        loss: Tensor = ((restored - target) ** 2).mean() * (len(clean) / batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach().view(1)

    @torch.no_grad()
    def validate(self, pairs: list[tuple[F32, F32]]) -> dict[str, float]:
        """Mean PSNR on the validation crops."""
        net = self.averaged()
        total = sum(psnr(clean, net(torch.from_numpy(noisy)).numpy()) for clean, noisy in pairs)
        return {self.recipe.name: total / len(pairs)}


def train_rival(
    plan: RivalPlan,
    scenes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    **how: Unpack[How],
) -> Path:
    """Train a rival network and write ``out/<name>.safetensors``; returns its path.

    Args:
        scenes, held_out: clean cubes (band, row, col) in [0, 1] to train and to validate on.
        how: see :class:`hyperdlw.train.loop.How`.
    """
    counts = sorted({s.shape[0] for s in scenes.values()})
    if len(counts) > 1:
        raise BadOption(f"the training scenes must have the same number of bands, not {counts}")

    def material(r: RivalPlan) -> Material:
        facts = {"kind": "rival", **from_scenes(scenes, held_out, r)}
        pairs = validation_set(held_out, r) if held_out else []
        return Material(Patches(list(scenes.values()), r), pairs, facts)

    return conduct(RivalTraining, replace(plan, channels=counts[0]), material, out, **how)
