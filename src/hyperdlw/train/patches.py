"""Training patches: every patch of every step has its own random stream.

The stream is keyed by (seed, step, index), so the data of a step depend on nothing that happened
before: a resumed run, and a run split over several processes, see the same patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile
from ..testbed import find_noise

F32 = NDArray[np.float32]


class Draw(Protocol):
    """What decides the patches of a run; the attributes are those of :class:`Recipe`."""

    @property
    def seed(self) -> int: ...
    @property
    def noise(self) -> tuple[int | str, ...]: ...
    @property
    def affected(self) -> tuple[float, float] | None: ...
    @property
    def bands(self) -> tuple[int, int] | None: ...
    @property
    def pick(self) -> Literal["area", "side"]: ...
    @property
    def subsample(self) -> int: ...
    def size_at(self, step: int) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Patches:
    """A source of (clean, noisy) batches."""

    scenes: Sequence[F32]
    recipe: Draw

    def batch(self, step: int, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The patches ``indices`` of a step, as (patch, band, row, col) tensors."""
        pairs = [self.patch(step, i) for i in indices]
        clean = torch.from_numpy(np.stack([p[0] for p in pairs]))
        noisy = torch.from_numpy(np.stack([p[1] for p in pairs]))
        return clean, noisy

    def patch(self, step: int, index: int) -> tuple[F32, F32]:
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
