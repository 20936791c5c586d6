"""Adaptation to the noise of one's own sensor, from noisy cubes alone: ``hyperdlw adapt``.

Of the noise-whitened eigenimages of a cube the first hold the image, the last nothing but the noise of the
sensor, with its grain, its lines and its lag. They tell how strong it is, where differences of neighbours
do not show all of it; and they are draws of it, n. An image u with noise of its own gives (u + n) / sqrt 2
and (u - n) / sqrt 2, with the same image and, if Gaussian of the same kind, independent noises: to learn the
one from the other is to learn the image (Noise2Noise, recorrupted by Pang, Zheng, Quan and Ji, CVPR 2021).

Two judges stand before a network is handed over. Squares of single bands are hidden, restored with the
default and with what was learned, and compared with what was measured there. And further draws tell whether
it removes more noise than the network it started from.
"""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cube import Cube, Given
from ..errors import BadInput, BadOption, OutputExists
from ..io import take_cube
from ..models import Eigenimages, Sensor, load_maps
from ..networks import MapNet
from ..networks import files as store
from ..pipeline import InMemory, check_options, denoise, spare_model
from ..weights import DEFAULT, Net
from .card import describe_run
from .loop import RunSettings, TrainingData, TrainingStopped, resume_run, run_training
from .maps import MOST, MapPatch, MapRecipe, MapTraining

PURE = 1.25
"""Eigenimages with up to this variance, the weakest third having one, are noise; the weakest third is."""
LEAST_BANDS, LEAST_EXCESS = 20, 1.15
"""With fewer bands no eigenimage is noise alone; with less excess it is white, which the default knows."""
HIDDEN, SQUARE, MARGIN = 0.1, 24, 4
"""Share of hidden voxels, the side of their squares, and a margin that shares noise with voxels outside."""


@dataclass(frozen=True, eq=False)
class NoisyScene:
    """Eigenimages u (image, row, col) in units of their noise, their basis (band, image), draws of noise."""

    u: Tensor
    basis: Tensor
    noise: Tensor
    excess: float

    @classmethod
    def learn(cls, cube: Cube, name: str) -> NoisyScene:
        """From a cube; ``name`` is for errors."""
        way = InMemory(cube, check_options())
        way.prepare()
        ready, sample = way.ready, replace(way.sample, sensor=Sensor(load_maps()))
        law, bands = sample.law, len(ready.y)
        blend = spare_model(sample, law, float(ready.scaling.dead.mean()), quiet=False)
        if bands < LEAST_BANDS or blend is None or not float(law.level.max()) > 0:
            raise BadInput(
                f"nothing can be learned from {name}: it has less than {LEAST_BANDS} good bands, less than "
                "four pixels per band, no noise, or impulses in one voxel of a hundred; take other scenes"
            )
        y = blend.fill(ready.rows.y, ready.y)[0]
        flat = y.flatten(1).double()
        # A band without noise must not get an endless weight.
        level = law.level.double().clamp_min(1e-4 * float(law.level.max()))
        moments = flat @ flat.T / flat.shape[1]
        values, vectors = torch.linalg.eigh(moments / (level[:, None] * level))
        excess = float(values[: bands // 3].mean())
        values, basis = values.flip(0) / excess, vectors.flip(1).float()
        strong, count, pure = (max(1, int((values > limit).sum())) for limit in (2, 1.1, PURE))
        images = Eigenimages((level * math.sqrt(excess)).float(), basis, strong)
        z, spread = images.rotate(y, law.scale(excess).variance)
        u = z / spread.clamp_min(1e-12)
        noise = u[min(pure, bands - bands // 3) :]
        return cls(u[:count], basis[:, :count], noise / noise.std((1, 2), keepdim=True), excess)


@dataclass(frozen=True, eq=False)
class SensorPatches:
    """Images with further noise, and the same with the opposite noise; keyed by (seed, step, index)."""

    scenes: Sequence[NoisyScene]
    recipe: MapRecipe

    def cut_batch(self, step: int, indices: Sequence[int]) -> list[MapPatch]:
        """The patches of a step."""
        return [self.cut_patch([self.recipe.seed, step, i]) for i in indices]

    def cut_patch(self, key: Sequence[int]) -> MapPatch:
        """A patch from its stream."""
        rng = np.random.default_rng(key)
        scene = self.scenes[int(rng.integers(len(self.scenes)))]
        first = min(len(scene.u), MOST // 2)
        rest = first + rng.permutation(len(scene.u) - first)[: MOST - first]
        chosen = [*range(first), *sorted(int(k) for k in rest)]
        u = self._cut_square(scene.u[chosen], rng)
        draws = rng.integers(len(scene.noise), size=len(u))
        n = torch.cat([self._cut_square(scene.noise[[int(k)]], rng) for k in draws])
        noisy, other = (u + n) / math.sqrt(2), (u - n) / math.sqrt(2)
        return MapPatch(noisy, other, torch.ones_like(u), scene.basis[:, chosen])

    def _cut_square(self, u: Tensor, rng: np.random.Generator) -> Tensor:
        """A square of images, mirrored, with any sign: rows stay rows, since noise may lie along them."""
        side = self.recipe.patch
        top, left = (int(rng.integers(n - side + 1)) for n in u.shape[1:])
        axes = [a for a in (1, 2) if rng.random() < 0.5]
        return u[:, top : top + side, left : left + side].flip(axes) * float(rng.choice((-1, 1)))


def adapt(
    scenes: Sequence[Given | str | PathLike[str]],
    out: str | Path,
    *,
    steps: int = 600,
    overwrite: bool = False,
    **settings: Unpack[RunSettings],
) -> Path:
    """Adapt the default to the noise of a sensor, from noisy cubes alone; returns the file that was written.

    Nothing is written if what was learned is no better than the default.

    Args:
        scenes: noisy cubes of one sensor, or their files; a few of 100 x 100 pixels and more.
        out: the file (.safetensors), for ``hyperdlw.denoise(cube, weights=out)``. While it runs, a folder
            beside it holds a checkpoint, from which ``resume=True`` goes on.
        steps: of the optimiser; the default takes a few minutes, whatever the size of the scenes.
        settings: see :class:`hyperdlw.train.loop.RunSettings`.
    """
    target = Path(out)
    if target.suffix != ".safetensors" or not scenes:
        raise BadOption(f"give scenes, and a file that ends with .safetensors, not {target}")
    if target.exists() and not overwrite:
        raise OutputExists(f"{target} exists; choose another name, or overwrite it")
    names = [Path(s).name if isinstance(s, str | PathLike) else "an array" for s in scenes]
    cubes = [take_cube(s) for s in scenes]
    learned = [NoisyScene.learn(c, name) for c, name in zip(cubes, names, strict=True)]
    excess = math.exp(float(np.mean([math.log(s.excess) for s in learned])))
    if excess < LEAST_EXCESS:
        raise TrainingStopped("the noise of these scenes is white, which the default knows; use it")
    folder, start = target.with_name(f"{target.stem}.run"), load_maps()
    side = min(48, *(n for s in learned for n in s.u.shape[1:]))
    recipe = MapRecipe("sensor", steps=steps, patch=side, rate=5e-4, warmup=20)
    recipe = replace(recipe, optimiser="adam", average=0.99)
    patches = SensorPatches(learned, recipe)
    run = resume_run(MapTraining, recipe, folder, settings)
    run = run or MapTraining.begin(recipe, copy.deepcopy(start).requires_grad_(True))
    run_training(run, TrainingData(patches, [], {"kind": "denoiser"}), folder, **settings)
    if run.step < recipe.last_step:
        return folder / "checkpoint.pt"
    coarse = 16 * float(
        np.mean([torch.nn.functional.avg_pool2d(s.noise, 4).var() for s in learned])
    )
    sensor = Sensor(store.freeze(run.averaged()), excess, coarse)
    hidden = measure_hidden(cubes, sensor)
    drawn = measure_error(patches, sensor.net) / measure_error(patches, start)
    if not (hidden < 1 and drawn < 1):
        raise TrainingStopped(
            f"the adapted network has {hidden:.4f} of the error of the default on hidden voxels and "
            f"{drawn:.4f} on further draws of noise, so it is not handed over; give it more scenes"
        )
    facts = {"sensor": {"excess": excess, "coarse": coarse}, "hidden": hidden, "drawn": drawn}
    card = {**describe_run(run), **facts, "kind": "sensor", "data": names, "name": target.stem}
    store.save_network(target, sensor.net, card, overwrite=overwrite)
    shutil.rmtree(folder)
    return target


@torch.no_grad()
def measure_error(patches: SensorPatches, net: MapNet) -> float:
    """Error of a network on images with further noise that no step has seen, noise being one."""
    cut = [patches.cut_patch([20261102, k]) for k in range(24)]
    left = [(net(p.noisy) - p.clean).square().mean((1, 2)) - 1 for p in cut]
    return max(
        1e-6, float(sum((p.basis.square() @ e).mean() for p, e in zip(cut, left, strict=True)))
    )


def measure_hidden(cubes: Sequence[Cube], sensor: Sensor) -> float:
    """Error of an adapted network on hidden voxels over that of the default: mean over bands of the logs."""
    default, found = store.load_network(DEFAULT), []
    for k, cube in enumerate(cubes):
        gone, judged = draw_squares(cube.shape, np.random.default_rng([20261101, k]))
        errors = []
        for known in (None, sensor):
            weights = Net(default.net, DEFAULT, default.sha256, sensor=known)
            holed = replace(cube, valid=cube.valid & ~gone)
            x = denoise(holed, weights=weights, fill=True).cube.data.astype(np.float64)
            errors.append(np.square(np.where(judged & cube.valid, x - cube.data, 0)).sum((1, 2)))
        before, after = (e[errors[0] > 0] for e in errors)
        found.append(np.log(np.maximum(after, 1e-300) / before).mean())
    return math.exp(float(np.mean(found)))


def draw_squares(shape: Sequence[int], rng: np.random.Generator) -> tuple[NDArray[np.bool_], ...]:
    """Squares of one band each that cover some of an image (band, row, col), and their inner parts."""
    cells = rng.random((shape[0], -(-shape[1] // SQUARE), -(-shape[2] // SQUARE))) < HIDDEN
    gone = cells.repeat(SQUARE, 1).repeat(SQUARE, 2)[:, : shape[1], : shape[2]]
    inner = [np.minimum(i := np.arange(n) % SQUARE, SQUARE - 1 - i) >= MARGIN for n in shape[1:]]
    return gone, gone & inner[0][:, None] & inner[1]
