"""Training of the Gaussian denoiser: white noise of known level on grey patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile, BadOption
from ..io import open_cube
from ..models import EigenDenoiser
from ..networks import FFDNet
from ..testbed import psnr
from .grey_patches import GreyPatches, eigenimages
from .loop import How, Material, Training, conduct
from .recipe import Plan

F32 = NDArray[np.float32]
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
LEAST = 0.5 / 255
"""Noise below this counts as much as this."""
LEVELS = (25, 50, 75)
"""Noise levels of the validation, of 255."""


@dataclass(frozen=True)
class DenoiserRecipe(Plan):
    """One training run of a Gaussian denoiser.

    The loss is the mean absolute error as a share of the noise level: the eigenimages of a cube all
    have the noise of the cube before each is scaled to its own range, so that an error counts by what
    it leaves of the noise.

    Attributes:
        sigma: largest noise level of photographs and bands, of 255; levels are uniform from 0.
        shares: how often a patch is cut from photographs, bands and eigenimages of cubes.
        components: eigenimages per cube.
    """

    _: KW_ONLY
    architecture: str = "ffdnet"
    filters: int = 48
    patch: int = 48
    batch: int = 16
    steps: int = 12000
    optimiser: Literal["adam", "soap"] = "soap"
    rate: float = 3e-3
    warmup: int = 300
    average: float = 0.999
    validate: int = 1000
    sigma: float = 75.0
    shares: tuple[float, float, float] = (0.3, 0.15, 0.55)
    components: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sigma > 0:
            raise BadOption(f"sigma in the recipe must be positive, not {self.sigma}")


@dataclass
class DenoiserTraining(Training):
    """Everything a run of the denoiser needs to go on."""

    kind: ClassVar[type[Plan]] = DenoiserRecipe
    architectures: ClassVar[Mapping[str, Any]] = {"ffdnet": FFDNet}

    @property
    def figures(self) -> list[str]:
        return []

    def gradients(self, patches: GreyPatches, indices: Sequence[int], batch: int) -> Tensor:
        clean, noisy, sigma = patches.batch(self.step, indices)
        left = (self.net(noisy, sigma) - clean).abs().mean((1, 2)) / sigma.clamp_min(LEAST)
        loss: Tensor = left.sum() / batch
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach().view(1)

    @torch.no_grad()
    def validate(self, pairs: list[tuple[F32, F32]]) -> dict[str, float]:
        """PSNR of cubes through their eigenimages; the noise in ``pairs`` has level one."""
        denoise = EigenDenoiser(self.averaged())
        found = {}
        for level in LEVELS:
            sigma = level / 255
            total = 0.0
            for clean, unit in pairs:
                x = denoise(torch.from_numpy(clean + np.float32(sigma) * unit), sigma)
                total += psnr(clean, x.numpy())
            found[str(level)] = total / len(pairs)
        return found


def load_photographs(folder: str | Path) -> list[F32]:
    """The luminance of every picture of a folder, in [0, 1]."""
    folder = Path(folder)
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder} with photographs")
    found = []
    for path in sorted(
        p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png")
    ):
        cube = open_cube(path)
        unit = cube.data / np.float32(np.iinfo(cube.encoding.dtype).max)
        found.append(np.tensordot(LUMINANCE, unit, 1) if len(unit) == 3 else unit[0])
    if not found:
        raise BadFile(f"there is no picture (.jpg, .png) in {folder}")
    return found


def train_denoiser(
    recipe: DenoiserRecipe,
    cubes: Mapping[str, F32],
    out: str | Path,
    *,
    photographs: Sequence[F32],
    held_out: Mapping[str, F32] | None = None,
    **how: Unpack[How],
) -> Path:
    """Train a Gaussian denoiser and write ``out/<name>.safetensors``; returns its path.

    Args:
        cubes, held_out: clean cubes (band, row, col) in [0, 1] to train and to validate on.
        photographs: grey images in [0, 1].
        how: see :class:`hyperdlw.train.loop.How`.
    """

    def material(r: DenoiserRecipe) -> Material:
        images = {
            "photographs": photographs,
            "bands": [band for cube in cubes.values() for band in cube],
            "eigenimages": [e for cube in cubes.values() for e in eigenimages(cube, r.components)],
        }
        shares = dict(zip(images, r.shares, strict=True))
        facts = {
            "kind": "denoiser",
            "data": [f"{len(photographs)} photographs", *sorted(cubes)],
            "validation": sorted(held_out or {}),
            "noise": f"white, level uniform from 0 to {r.sigma:g}/255; eigenimages as they are scaled",
        }
        patches = GreyPatches(images, shares, r.patch, r.sigma / 255, r.seed)
        return Material(patches, validation_pairs(held_out or {}), facts)

    return conduct(DenoiserTraining, recipe, material, out, **how)


def validation_pairs(scenes: Mapping[str, F32], side: int = 128) -> list[tuple[F32, F32]]:
    """Central crops of the held-out cubes, with white noise of level one."""
    pairs = []
    for i, scene in enumerate(scenes.values()):
        _, rows, cols = scene.shape
        top, left = max(0, (rows - side) // 2), max(0, (cols - side) // 2)
        clean = np.ascontiguousarray(scene[:, top : top + side, left : left + side])
        rng = np.random.default_rng([20260101, i])
        pairs.append((clean, rng.standard_normal(clean.shape, np.float32)))
    return pairs
