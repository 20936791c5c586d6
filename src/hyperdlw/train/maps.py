"""Training of the denoiser of eigenimages: cubes with noise of a known law, as the pipeline hands them over.

A crop of a clean cube gets noise that is constant, of photons, or proportional to the signal, with a level
of its own for every band. Its bands are divided by their noise and rotated (:mod:`hyperdlw.models`), and the
network sees the eigenimages in units of their noise. The loss is the mean over the bands of the logarithm
of the error, which is what a mean PSNR measures.

Photographs become cubes, too: their channels are mixed by smooth random spectra. They have more texture than
the few clean cubes there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor

from ..models import find_eigenimages
from ..networks import MapNet
from ..testbed import make_textured_scene
from .denoiser import DenoiserPlan, TrainingImages, draw_image, score_levels
from .loop import F32, Pair, RunSettings, Training, TrainingData, resume_run, run_training
from .recipe import TrainingPlan

MOST = 16
"""Eigenimages of a patch that are looked at; of more, the strongest eight and some of the others."""
LEVELS = {"even30": 30 / 255, "even10": 10 / 255, "even3": 3 / 255}
"""Noise levels of the validation."""
FLOORS = {"cubes": 3.0, "photographs": 1.0, "made": 0.1}
"""The weakest noise, of 255, that images of every kind can judge: they carry some of their own."""
LEAST = 1e-3


@dataclass(frozen=True)
class MapRecipe(DenoiserPlan):
    """One training run of a denoiser of eigenimages.

    Its kinds are cubes, photographs and scenes made by code; levels of bands are uniform in the logarithm.

    Attributes:
        around: side of the crop whose second moments give the components; the patch lies in it.
        doubt: standard deviation of the logarithm of a level's error.
    """

    _: KW_ONLY
    architecture: str = "mapnet"
    patch: int = 64
    batch: int = 1
    steps: int = 16000
    rate: float = 2e-3
    warmup: int = 200
    average: float = 0.998
    around: int = 112
    sigma: float = 70.0
    shares: tuple[float, float, float] = (0.45, 0.4, 0.15)
    doubt: float = 0.07


class MapPatch(NamedTuple):
    """Eigenimages (image, row, col) in units of their noise.

    Attributes:
        noisy, clean: as the network sees them, and as they should be.
        spread: noise level of every pixel of them.
        basis: (band, image) their part in the bands.
    """

    noisy: Tensor
    clean: Tensor
    spread: Tensor
    basis: Tensor


@dataclass(frozen=True)
class MapPatches:
    """A source of patches; the stream is keyed by (seed, step, index)."""

    kinds: Mapping[str, Sequence[F32]]
    recipe: MapRecipe

    def cut_batch(self, step: int, indices: Sequence[int]) -> list[MapPatch]:
        """The patches of a step."""
        return [
            self._cut_patch(np.random.default_rng([self.recipe.seed, step, i])) for i in indices
        ]

    def draw_crop(self, rng: np.random.Generator) -> tuple[F32, str]:
        """A crop of some image, and its kind."""
        shares = dict(zip(FLOORS, self.recipe.shares, strict=True))
        kind, image = draw_image(self.kinds, shares, rng)
        return self._cut_crop(image, kind, rng), kind

    def _cut_patch(self, rng: np.random.Generator) -> MapPatch:
        r = self.recipe
        crop, kind = self.draw_crop(rng)
        x = torch.from_numpy(crop)
        variance = draw_variance(x, rng, FLOORS[kind] / 255, r.sigma / 255)
        y = x + variance.sqrt() * torch.from_numpy(rng.standard_normal(x.shape, np.float32))
        level = variance.mean((1, 2)).sqrt()
        wrong = np.exp(r.doubt * rng.standard_normal()) * np.exp(
            0.5 * r.doubt * rng.standard_normal((len(x), 1, 1))
        )
        told = variance * torch.from_numpy(np.square(wrong).astype(np.float32))
        flat = y.flatten(1).double()
        images = find_eigenimages(flat @ flat.T, flat.shape[1], level)
        basis = images.basis
        if basis.shape[1] > MOST:
            rest = MOST // 2 + rng.permutation(basis.shape[1] - MOST // 2)[: MOST // 2]
            basis = basis[:, [*range(MOST // 2), *sorted(int(k) for k in rest)]]
        top, left = (int(rng.integers(max(1, n - r.patch + 1))) for n in y.shape[1:])
        cut = np.s_[:, top : top + r.patch, left : left + r.patch]
        scale = level[:, None, None]
        noisy, clean = (torch.tensordot(basis.T, v[cut] / scale, 1) for v in (y, x))
        spread = torch.tensordot(basis.T.square(), told[cut] / scale.square(), 1).sqrt()
        return MapPatch(noisy / spread, clean / spread, spread, basis)

    def _cut_crop(self, image: F32, kind: str, rng: np.random.Generator) -> F32:
        """Some bands of a crop of a cube, turned and mirrored; photographs become a cube."""
        side = min(self.recipe.around, *image.shape[1:])
        stride = 2 if min(image.shape[1:]) >= 2 * side and rng.random() < 0.3 else 1
        top, left = (int(rng.integers(n - stride * side + 1)) for n in image.shape[1:])
        rows, cols = (slice(t, t + stride * side, stride) for t in (top, left))
        x = image[:, rows, cols]
        x = mix_channels(x, rng) if kind == "photographs" else x[draw_bands(len(x), rng)]
        x = np.rot90(x, int(rng.integers(4)), axes=(1, 2))
        return np.ascontiguousarray(x[:, :, :: rng.choice((-1, 1))], np.float32)


def draw_bands(total: int, rng: np.random.Generator) -> slice:
    """10 to 48 bands, evenly spread."""
    count = int(rng.integers(10, 49))
    count = min(count, total)
    step = int(rng.integers(1, (total - 1) // max(1, count - 1) + 1)) if count > 1 else 1
    low = int(rng.integers(total - (count - 1) * step))
    return slice(low, low + (count - 1) * step + 1, step)


def mix_channels(x: F32, rng: np.random.Generator) -> F32:
    """A cube from a colour picture: channels and their squares, times smooth random spectra."""
    bands = int(rng.integers(12, 40))
    own = [*x, *(x**2), x[0] * x[-1]][: int(rng.integers(3, 8))]
    where = np.linspace(0, 1, bands)[:, None]
    centre, width = rng.uniform(-0.2, 1.2, len(own)), rng.uniform(0.08, 0.6, len(own))
    spectra = np.exp(-0.5 * ((where - centre) / width) ** 2) * rng.uniform(0.05, 1, len(own))
    mixed = np.tensordot(spectra, np.stack(own), 1)
    low, high = mixed.min((1, 2), keepdims=True), mixed.max((1, 2), keepdims=True)
    unit: F32 = ((mixed - low) / np.maximum(high - low, 1e-6)).astype(np.float32)
    return unit


def draw_variance(x: Tensor, rng: np.random.Generator, least: float, most: float) -> Tensor:
    """The variance of the noise of every voxel: alike, of photons, or proportional to the signal."""
    top = np.exp(rng.uniform(np.log(least), np.log(most)))
    levels = np.full(len(x), top)
    if rng.random() < 0.6:
        levels = np.exp(rng.uniform(np.log(top / rng.uniform(1.2, 8)), np.log(top), len(x)))
    signal = (x + 0.02).clamp_min(0.02)
    kind = rng.choice(["alike", "photons", "proportional"], p=[0.5, 0.25, 0.25])
    shape = {"alike": torch.ones_like(x), "photons": signal, "proportional": signal.square()}[kind]
    shape = shape / shape.mean((1, 2), keepdim=True)
    floor = rng.uniform(0, 0.2)
    level = torch.from_numpy(levels.astype(np.float32))[:, None, None]
    return level.square() * (floor + (1 - floor) * shape)


@dataclass
class MapTraining(Training[MapRecipe, MapNet, list[MapPatch]]):
    """A run of a denoiser of eigenimages."""

    plan_type: ClassVar[type[TrainingPlan]] = MapRecipe

    @staticmethod
    def build_network(recipe: MapRecipe) -> MapNet:
        return MapNet(recipe.filters)

    def add_gradients(self, patches: list[MapPatch], batch: int) -> Tensor:
        total = torch.zeros(())
        for noisy, clean, spread, basis in patches:
            error = ((self.net(noisy) - clean) * spread).square().mean((1, 2))
            # The errors of the components are taken for uncorrelated.
            loss = torch.log(basis.square() @ error + LEAST).mean() / batch
            torch.autograd.backward(loss)
            total += loss.detach()
        return total.view(1)

    @torch.no_grad()
    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """PSNR of cubes through their eigenimages (dB)."""
        net = self.averaged()

        def denoise(y: Tensor, sigma: float) -> Tensor:
            flat = y.flatten(1).double()
            level = torch.full((len(y),), sigma)
            images = find_eigenimages(flat @ flat.T, flat.shape[1], level)
            u = torch.tensordot(images.basis.T, y / sigma, 1)
            x: Tensor = sigma * torch.tensordot(images.basis, net(u), 1)
            return x

        return score_levels(denoise, LEVELS, pairs)


def train_maps(
    recipe: MapRecipe, images: TrainingImages, out: Path, **settings: Unpack[RunSettings]
) -> Path:
    """Train a denoiser of eigenimages, with photographs in colour; returns the path of the network."""
    run = resume_run(MapTraining, recipe, out, settings) or MapTraining.begin(recipe)
    streams = (np.random.default_rng([20260200, k]) for k in range(8))
    made = [make_textured_scene(31, 160, 160, rng=rng) for rng in streams]
    cubes = list(images.cubes.values())
    kinds = {"cubes": cubes, "photographs": images.photographs, "made": made}
    noise = f"constant, photons, proportional; levels up to {recipe.sigma:g}/255"
    facts = images.describe(noise, "8 scenes made by code")
    data = TrainingData(MapPatches(kinds, run.recipe), images.make_pairs(96), facts)
    return run_training(run, data, out, **settings)
