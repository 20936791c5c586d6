"""Training of the network for the learned step that follows the model (:mod:`hyperdlw.pipeline.refine`).

Noisy cubes go through the plain command up to there, once; what they were, their weights and what the model
made of them is kept on disk. The network learns from patches of them. The loss is the mean over the bands
of the logarithm of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor

from ..cube import make_cube
from ..errors import DlwError
from ..io import atomic
from ..models import load_maps, make_hints
from ..networks import FOLD, MapNet
from ..pipeline import InMemory, Refinement, approach, check_options, sum_moments
from ..testbed import find_noise, make_textured_scene, psnr
from .denoiser import TrainingImages
from .loop import F32, Pair, RunSettings, Training, TrainingData, resume_run, run_training
from .maps import MapPatches, MapRecipe
from .patches import crop_middle

LEAST = 1e-5
NOISES = {"case1": 0.2, "case2": 0.12, "case3": 0.14, "case4": 0.18, "case5": 0.24, "bands": 0.12}
"""Noises, and how often they are drawn; "bands": Gaussian noise of a level of its own for every band."""
MADE = 6
"""Scenes made by code."""


@dataclass(frozen=True)
class RefineRecipe(MapRecipe):
    """One training run of the network for the learned step.

    Attributes:
        samples: restored cubes that the patches come from.
        known: how often the limits of the bands are told; else they are found in the noise.
    """

    _: KW_ONLY
    steps: int = 6000
    rate: float = 1e-3
    warmup: int = 100
    validate: int = 500
    around: int = 96
    shares: tuple[float, float, float] = (0.6, 0.3, 0.1)
    samples: int = 800
    known: float = 0.5


class Rough(NamedTuple):
    """What the model made of a noisy cube: clean and noisy on the unit interval, weights, restored."""

    clean: Tensor
    y: Tensor
    w: Tensor
    x: Tensor


def restore_roughly(clean: F32, noisy: F32, known: bool) -> Rough | None:
    """A noisy cube by the plain command, up to the learned step; None if it is not needed there.

    ``known``: the range of the bands is told; else it is found.
    """
    try:
        options = check_options(range=(0.0, 1.0) if known else "auto")
        run = InMemory(make_cube(noisy), replace(options, refine=False))
        run.prepare()
        if run.spared or run.ready.limits.span.shape[0] < len(clean):
            return None
        run.weigh()
        run.choose()
        run.solve()
    except DlwError:
        return None  # a crop without any contrast
    assert run.image.x is not None
    unit = torch.from_numpy(run.ready.limits.to_unit(clean[run.ready.use]))
    return Rough(unit, run.image.y, run.image.weights, run.image.x)


def draw_noise(x: F32, rng: np.random.Generator) -> F32:
    """A noisy version of a cube on the unit interval."""
    name = str(rng.choice(list(NOISES), p=list(NOISES.values())))
    if name != "bands":
        return find_noise(name).apply(x, rng).y
    sigma = np.exp(rng.uniform(np.log(8), np.log(70), (len(x), 1, 1))) / 255
    y: F32 = (x + sigma * rng.standard_normal(x.shape)).astype(np.float32)
    return y


class RefinePatch(NamedTuple):
    """Rotated images of a patch (see :meth:`Refinement.rotate`), its clean image, and the way back."""

    images: Tensor
    hints: Tensor
    clean: Tensor
    level: Tensor
    basis: Tensor


def rotate_rough(
    rough: Rough, side: int | None = None, rng: np.random.Generator | None = None
) -> RefinePatch:
    """What the network sees of a cube, or of a patch of it; components and level are those of the cube."""
    clean, y, w, x = (v.float() for v in rough)
    level = max(0.5 * float((w * (y - x).square()).mean()) ** 0.5, 1e-4)
    v = approach(y, w, x)
    step = Refinement.learn(sum_moments(v), v[0].numel(), level)
    if side is not None and rng is not None:
        top, left = (int(rng.integers(max(0, n - side) // FOLD + 1)) * FOLD for n in y.shape[1:])
        cut = np.s_[:, top : top + side, left : left + side]
        clean, v, w, x = (q[cut] for q in (clean, v, w, x))
        if rng.integers(2):
            clean, v, w, x = (q.flip(2) for q in (clean, v, w, x))
    images, known, trust = step.rotate(v, w, x)
    return RefinePatch(images, make_hints(known, trust), clean, torch.tensor(level), step.basis)


def finish(net: Callable[[Tensor, Tensor], Tensor], p: RefinePatch) -> Tensor:
    """The image that the network makes of a patch."""
    return Refinement(float(p.level), p.basis).rotate_back(net(p.images, p.hints))


@dataclass(frozen=True)
class RefinePatches:
    """A source of patches; samples are keyed by (seed, number), patches by (seed, step, index)."""

    source: MapPatches
    recipe: RefineRecipe
    folder: Path

    @cached_property
    def samples(self) -> list[Rough]:
        """Every sample, made now or read from the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = [self._find_sample(i) for i in range(self.recipe.samples)]
        return [f for f in found if f is not None]

    def _find_sample(self, i: int) -> Rough | None:
        path = self.folder / f"{i:05d}.npz"
        if not path.exists():
            rough = self._make_sample(np.random.default_rng([self.recipe.seed, 1, i]))
            parts = () if rough is None else tuple(v.half().numpy() for v in rough)
            with atomic(path, overwrite=True) as tmp, tmp.open("wb") as file:
                np.savez(file, *parts)
        with np.load(path) as held:
            if not held.files:
                return None
            return Rough(*(torch.from_numpy(held[k]) for k in held.files))

    def _make_sample(self, rng: np.random.Generator) -> Rough | None:
        x = self.source.draw_crop(rng)[0]
        low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
        if float((high - low).min()) < 1e-3:
            return None
        x = (x - low) / (high - low)
        return restore_roughly(x, draw_noise(x, rng), rng.random() < self.recipe.known)

    def cut_batch(self, step: int, indices: Sequence[int]) -> list[RefinePatch]:
        """The patches of a step."""
        found = []
        for i in indices:
            rng = np.random.default_rng([self.recipe.seed, 2, step, i])
            sample = self.samples[int(rng.integers(len(self.samples)))]
            found.append(rotate_rough(sample, self.recipe.patch, rng))
        return found


@dataclass
class RefineTraining(Training[RefineRecipe, MapNet, list[RefinePatch]]):
    """A run of the network for the learned step."""

    plan_type: ClassVar[type[RefineRecipe]] = RefineRecipe

    @staticmethod
    def build_network(recipe: RefineRecipe) -> MapNet:
        """The shipped denoiser of eigenimages, which does not look at the hints yet."""
        net, start = MapNet(recipe.filters, hints=4), load_maps().state_dict()
        held = torch.zeros_like(net.own.weight)
        held[:, : start["own.weight"].shape[1]] = start["own.weight"]
        net.load_state_dict({**start, "own.weight": held})
        return net

    def add_gradients(self, patches: list[RefinePatch], batch: int) -> Tensor:
        total = torch.zeros(())
        for p in patches:
            error = (finish(self.net, p) - p.clean).square().mean((1, 2))
            loss = torch.log(error + LEAST).mean() / batch
            torch.autograd.backward(loss)
            total += loss.detach()
        return total.view(1)

    @torch.no_grad()
    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """PSNR of the model and after the learned step (dB), means over scenes in case 1, 4, 5."""
        net, scores = self.averaged(), []
        for clean, noisy in pairs:
            rough = restore_roughly(clean, noisy, known=True)
            if rough is not None:
                after = finish(net, rotate_rough(rough)).numpy()
                scores.append([psnr(clean, v) for v in (rough.x.numpy(), after)])
        return dict(zip(("model", "refined"), np.mean(scores, 0).tolist(), strict=True))


def train_refine(
    recipe: RefineRecipe, images: TrainingImages, out: Path, **settings: Unpack[RunSettings]
) -> Path:
    """Train the network for the learned step, with photographs in colour; returns its path."""
    run = resume_run(RefineTraining, recipe, out, settings) or RefineTraining.begin(recipe)
    streams = (np.random.default_rng([20261118, k]) for k in range(MADE))
    made = [make_textured_scene(31, 160, 160, rng=rng) for rng in streams]
    kinds = {"cubes": list(images.cubes.values()), "photographs": images.photographs, "made": made}
    noise = "cases 1 to 5, and Gaussian noise of 8 to 70/255, restored by the plain command"
    facts = images.describe(noise, f"{MADE} scenes made by code")
    pairs = []
    for i, scene in enumerate(images.held_out.values()):
        clean = crop_middle(scene, 80)
        rng = np.random.default_rng([20260101, i])
        pairs += [(clean, find_noise(f"case{k}").apply(clean, rng).y) for k in (1, 4, 5)]
    patches = RefinePatches(MapPatches(kinds, run.recipe), run.recipe, out / "samples")
    return run_training(run, TrainingData(patches, pairs, facts), out, **settings)
