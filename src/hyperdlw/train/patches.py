"""Training patches: every patch of every step has its own random stream.

The stream is keyed by (seed, step, index), so the data of a step depend on nothing that happened
before: a resumed run, and a run split over several processes, see the same patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile, BadOption
from ..testbed import SceneChoice, find_noise
from .recipe import ScenePlan, TrainingPlan

F32 = NDArray[np.float32]


def split_scenes(
    scenes: Mapping[str, F32], plan: TrainingPlan
) -> tuple[dict[str, F32], dict[str, F32]]:
    """The scenes that a plan trains on, and those it validates on, in the order given.

    Scenes made by code that the plan names join them, with as many bands as the others.
    """
    bands = {len(scene) for scene in scenes.values()}
    choice = SceneChoice(
        (*plan.scenes, *plan.held_out), bands=min(bands) if len(bands) == 1 else None
    )
    scenes = {**scenes, **choice.make_scenes()}
    apart = {name: scene for name, scene in scenes.items() if name in plan.held_out}
    rest = {name: scene for name, scene in scenes.items() if name not in apart}
    if not rest:
        raise BadOption("every scene is held out, so there is nothing to train on")
    named = {name: scene for name, scene in rest.items() if name in plan.scenes}
    return named or rest, apart


def crop_middle(scene: F32, side: int) -> F32:
    """The central square of a scene (band, row, col), or all of a smaller one."""
    _, rows, cols = scene.shape
    top, left = max(0, (rows - side) // 2), max(0, (cols - side) // 2)
    return np.ascontiguousarray(scene[:, top : top + side, left : left + side])


@dataclass(frozen=True)
class Patches:
    """A source of (clean, noisy) batches."""

    scenes: Sequence[F32]
    recipe: ScenePlan

    def cut_batch(self, step: int, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The patches ``indices`` of a step, as (patch, band, row, col) tensors."""
        pairs = [self.cut_patch(step, i) for i in indices]
        clean = torch.from_numpy(np.stack([p[0] for p in pairs]))
        noisy = torch.from_numpy(np.stack([p[1] for p in pairs]))
        return clean, noisy

    def cut_patch(self, step: int, index: int) -> tuple[F32, F32]:
        """One patch: a scene, a crop, a symmetry of the square, and fresh noise."""
        r = self.recipe
        # The number of bands is shared by the patches of a step, because they form one tensor.
        together = np.random.default_rng([r.seed, step])
        rng = np.random.default_rng([r.seed, step, index + 1])
        clean = self._crop(r.size_at(step)[0], rng, together)
        clean = np.rot90(clean, int(rng.integers(4)), axes=(1, 2))
        if rng.integers(2):
            clean = clean[:, :, ::-1]
        clean = np.ascontiguousarray(clean, np.float32)
        affected = None
        if r.affected is not None:
            affected = round(rng.uniform(*r.affected) * len(clean))
        drawn = find_noise(str(rng.choice(r.noise)))
        affected = affected if "affected" in drawn.takes else None
        return clean, drawn.apply(clean, rng, affected=affected).y

    def _crop(self, patch: int, rng: np.random.Generator, together: np.random.Generator) -> F32:
        r = self.recipe
        sizes = np.array([s.shape[1] * s.shape[2] for s in self.scenes], float)
        if r.pick == "side":
            sizes = np.sqrt(sizes)
        scene = self.scenes[rng.choice(len(sizes), p=sizes / sizes.sum())]
        stride = int(rng.integers(1, r.subsample + 1))
        if min(scene.shape[1:]) < patch * stride:
            stride = 1
        side = patch * stride
        if min(scene.shape[1:]) < side:
            raise BadFile(
                f"a training scene of {scene.shape[1]}x{scene.shape[2]} pixels is smaller than the "
                f"patches of {patch}; leave it out or set a smaller patch"
            )
        top = int(rng.integers(scene.shape[1] - side + 1))
        left = int(rng.integers(scene.shape[2] - side + 1))
        rows, cols = slice(top, top + side, stride), slice(left, left + side, stride)
        return scene[self._bands(len(scene), rng, together), rows, cols]

    def _bands(self, bands: int, rng: np.random.Generator, together: np.random.Generator) -> slice:
        """All bands, or a random sub-range of them with a random stride."""
        limits = self.recipe.bands
        if limits is None:
            return slice(None)
        count = min(int(together.integers(limits[0], limits[1] + 1)), bands)
        step = int(rng.integers(1, bands // count + 1))
        low = int(rng.integers(bands - (count - 1) * step))
        return slice(low, low + (count - 1) * step + 1, step)
