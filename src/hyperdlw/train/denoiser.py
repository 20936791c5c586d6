"""Training of the Gaussian denoiser: white noise of known level on grey patches.

Three kinds of image: photographs, bands of clean cubes, and eigenimages of clean cubes, which
are what the denoiser meets inside plug-and-play.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from ..errors import BadFile, BadOption
from ..io import open_cube
from ..models import EigenDenoiser
from ..networks import FFDNet
from ..testbed import psnr
from .card import Facts
from .loop import F32, Pair, RunSettings, Training, TrainingData, resume_run, run_training
from .patches import crop_middle
from .recipe import TrainingPlan

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
LEAST = 0.5 / 255
"""Noise below this counts as much as this."""
LEVELS = {str(level): level / 255 for level in (25, 50, 75)}
"""Noise levels of the validation, by 255ths."""
RELATIVE = (0.005, 1.0)
"""Noise levels that eigenimages meet, as shares of the range of the clean one."""


@dataclass(frozen=True)
class DenoiserPlan(TrainingPlan):
    """A run of a denoiser, which learns from images of several kinds.

    Attributes:
        sigma: largest noise level, of 255.
        shares: how often a patch comes from each kind.
    """

    _: KW_ONLY
    filters: int = 48
    optimiser: Literal["adam", "soap"] = "soap"
    validate: int = 1000
    sigma: float = 75.0
    shares: tuple[float, float, float] = (0.3, 0.15, 0.55)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sigma > 0:
            raise BadOption(f"sigma in the recipe must be positive, not {self.sigma}")


@dataclass(frozen=True)
class DenoiserRecipe(DenoiserPlan):
    """One training run of a Gaussian denoiser.

    Its kinds are photographs, bands of cubes and eigenimages of cubes; levels are uniform from 0.

    The loss is the mean absolute error as a share of the noise level: the eigenimages of a cube all
    have the noise of the cube before each is scaled to its own range, so that an error counts by what
    it leaves of the noise.

    Attributes:
        components: eigenimages per cube.
    """

    _: KW_ONLY
    architecture: str = "ffdnet"
    patch: int = 48
    batch: int = 16
    steps: int = 12000
    rate: float = 3e-3
    warmup: int = 300
    average: float = 0.999
    components: int = 6


def draw_image(
    kinds: Mapping[str, Sequence[F32]], shares: Mapping[str, float], rng: np.random.Generator
) -> tuple[str, F32]:
    """An image, and its kind, which is drawn with its share among those that have images."""
    names = [k for k in kinds if kinds[k]]
    p = np.array([shares[k] for k in names])
    kind = names[int(rng.choice(len(names), p=p / p.sum()))]
    return kind, kinds[kind][int(rng.integers(len(kinds[kind])))]


def make_eigenimages(cube: F32, count: int) -> list[F32]:
    """The first principal images of a cube (band, row, col), each scaled to [0, 1]."""
    flat = cube.reshape(len(cube), -1)
    _, vectors = np.linalg.eigh(flat.astype(np.float64) @ flat.T.astype(np.float64))
    images = vectors[:, ::-1][:, :count].T.astype(np.float32) @ flat
    low, high = images.min(1, keepdims=True), images.max(1, keepdims=True)
    unit = (images - low) / np.maximum(high - low, np.float32(1e-12))
    return list(unit.reshape(-1, *cube.shape[1:]))


@dataclass(frozen=True)
class GreyPatches:
    """A source of (clean, noisy, sigma) batches; the stream is keyed by (seed, step, index).

    Attributes:
        kinds: images by kind; a patch draws its kind with the probability in ``shares``.
        sigma: largest noise level of photographs and bands; levels are uniform from 0. Those of
            eigenimages are uniform in the logarithm (:data:`RELATIVE`).
    """

    kinds: Mapping[str, Sequence[F32]]
    shares: Mapping[str, float]
    patch: int
    sigma: float
    seed: int

    def cut_batch(self, step: int, indices: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Patches of a step as (patch, row, col) tensors, and their noise levels."""
        found = [self._cut_patch(step, i) for i in indices]
        clean, noisy = (torch.from_numpy(np.stack([f[k] for f in found])) for k in (0, 1))
        return clean, noisy, torch.tensor([f[2] for f in found])

    def _cut_patch(self, step: int, index: int) -> tuple[F32, F32, float]:
        rng = np.random.default_rng([self.seed, step, index + 1])
        kind, image = draw_image(self.kinds, self.shares, rng)
        stride = 2 if min(image.shape) >= 2 * self.patch and rng.random() < 0.25 else 1
        side = self.patch * stride
        top = int(rng.integers(image.shape[0] - side + 1))
        left = int(rng.integers(image.shape[1] - side + 1))
        clean = image[top : top + side : stride, left : left + side : stride]
        clean = np.rot90(clean, int(rng.integers(4)))
        if rng.integers(2):
            clean = clean[:, ::-1]
        sigma = float(rng.uniform(0.0, self.sigma))
        if kind == "eigenimages":
            # The noise is scaled to [0, 1] with the image: four sigma more at both ends. A strong
            # component is nearly clean then, a weak one has no contrast. Their sign is arbitrary.
            sigma = math.exp(rng.uniform(*np.log(RELATIVE)))
            scale = 1.0 / (1.0 + 8.0 * sigma)
            sigma *= scale
            clean = 0.5 + rng.choice((-1.0, 1.0)) * scale * (clean - 0.5)
        clean = np.ascontiguousarray(clean, np.float32)
        noise = rng.standard_normal(clean.shape, np.float32) * np.float32(sigma)
        return clean, clean + noise, sigma


@dataclass
class DenoiserTraining(Training[DenoiserRecipe, FFDNet, tuple[Tensor, Tensor, Tensor]]):
    """A run of a Gaussian denoiser."""

    plan_type: ClassVar[type[TrainingPlan]] = DenoiserRecipe

    @staticmethod
    def build_network(recipe: DenoiserRecipe) -> FFDNet:
        return FFDNet(**recipe.sizes)

    def add_gradients(self, patches: tuple[Tensor, Tensor, Tensor], batch: int) -> Tensor:
        clean, noisy, sigma = patches
        left = (self.net(noisy, sigma) - clean).abs().mean((1, 2)) / sigma.clamp_min(LEAST)
        loss: Tensor = left.sum() / batch
        torch.autograd.backward(loss)
        return loss.detach().view(1)

    @torch.no_grad()
    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """PSNR of cubes through their eigenimages (dB)."""
        return score_levels(EigenDenoiser(self.averaged()), LEVELS, pairs)


def score_levels(
    denoise: Callable[[Tensor, float], Tensor], levels: Mapping[str, float], pairs: Sequence[Pair]
) -> dict[str, float]:
    """Mean PSNR (dB) of a denoiser at noise levels by name; the noise in ``pairs`` has level one."""
    found = {}
    for name, sigma in levels.items():
        noisy = (torch.from_numpy(clean + np.float32(sigma) * unit) for clean, unit in pairs)
        restored = (denoise(y, sigma).numpy() for y in noisy)
        scores = [psnr(clean, x) for (clean, _), x in zip(pairs, restored, strict=True)]
        found[name] = float(np.mean(scores))
    return found


def load_pictures(folder: str | Path) -> list[F32]:
    """Every picture of a folder, (channel, row, col) in [0, 1]."""
    folder = Path(folder)
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder} with photographs")
    endings = (".jpg", ".jpeg", ".png")
    found = []
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in endings):
        cube = open_cube(path)
        found.append(cube.data / np.float32(np.iinfo(cube.encoding.dtype).max))
    if not found:
        raise BadFile(f"there is no picture (.jpg, .png) in {folder}")
    return found


def load_photographs(folder: str | Path) -> list[F32]:
    """The luminance of every picture of a folder, in [0, 1]."""
    return [
        np.tensordot(LUMINANCE, unit, 1) if len(unit) == 3 else unit[0]
        for unit in load_pictures(folder)
    ]


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """What a denoiser learns from.

    Attributes:
        cubes, held_out: clean cubes (band, row, col) in [0, 1] to train and to validate on, by name.
        photographs: pictures in [0, 1], grey (row, col) or in colour (3, row, col).
    """

    cubes: Mapping[str, F32]
    photographs: Sequence[F32]
    held_out: Mapping[str, F32] = field(default_factory=dict)

    def describe(self, noise: str, *others: str) -> Facts:
        """What the card of a network says of them."""
        return {
            "kind": "denoiser",
            "data": [f"{len(self.photographs)} photographs", *others, *sorted(self.cubes)],
            "validation": sorted(self.held_out),
            "noise": noise,
        }

    def make_pairs(self, side: int) -> list[Pair]:
        """Central crops of the held-out cubes, each with white noise of level one."""
        pairs = []
        for i, scene in enumerate(self.held_out.values()):
            clean = crop_middle(scene, side)
            rng = np.random.default_rng([20260101, i])
            pairs.append((clean, rng.standard_normal(clean.shape, np.float32)))
        return pairs


def train_denoiser(
    recipe: DenoiserRecipe, images: TrainingImages, out: Path, **settings: Unpack[RunSettings]
) -> Path:
    """Train a Gaussian denoiser of grey images, and write ``out/<name>.safetensors``; returns its path."""
    run = resume_run(DenoiserTraining, recipe, out, settings) or DenoiserTraining.begin(recipe)
    r, cubes = run.recipe, images.cubes.values()
    kinds = {
        "photographs": images.photographs,
        "bands": [band for cube in cubes for band in cube],
        "eigenimages": [e for cube in cubes for e in make_eigenimages(cube, r.components)],
    }
    shares = dict(zip(kinds, r.shares, strict=True))
    patches = GreyPatches(kinds, shares, r.patch, r.sigma / 255, r.seed)
    noise = f"white, level uniform from 0 to {r.sigma:g}/255; eigenimages as they are scaled"
    data = TrainingData(patches, images.make_pairs(128), images.describe(noise))
    return run_training(run, data, out, **settings)
