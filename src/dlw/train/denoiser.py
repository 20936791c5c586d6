"""Training of the Gaussian denoiser: white noise of known level on grey patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import __version__, store
from ..denoisers import eigen
from ..errors import BadFile, BadOption
from ..io import open_cube
from ..metrics import psnr
from ..nets.ffdnet import FFDNet
from .grey import GreyPatches, eigenimages
from .loop import Training, advance
from .recipe import Plan

F32 = NDArray[np.float32]
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
LEVELS = (25, 50, 75)
"""Noise levels of the validation, of 255."""


@dataclass(frozen=True)
class DenoiserRecipe(Plan):
    """One training run of a Gaussian denoiser (mean absolute error).

    Attributes:
        sigma: largest noise level, of 255; levels are uniform from 0.
        shares: how often a patch is cut from photographs, bands and eigenimages of cubes.
        components: eigenimages per cube.
    """

    _: KW_ONLY
    architecture: str = "ffdnet"
    filters: int = 48
    patch: int = 48
    batch: int = 16
    steps: int = 9000
    rate: float = 3e-3
    warmup: int = 300
    average: float = 0.999
    validate: int = 1000
    sigma: float = 75.0
    shares: tuple[float, float, float] = (0.4, 0.25, 0.35)
    components: int = 8

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
        loss: Tensor = (self.net(noisy, sigma) - clean).abs().mean() * (len(clean) / batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach().view(1)

    @torch.no_grad()
    def validate(self, pairs: list[tuple[F32, F32]]) -> dict[str, float]:
        """PSNR of cubes through their eigenimages; the noise in ``pairs`` has level one."""
        denoise = eigen(self.averaged())
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
    photographs: Sequence[F32],
    cubes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    resume: bool = False,
    checkpoint_minutes: float = 3.0,
    minutes: float | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train a Gaussian denoiser and write ``out/<name>.safetensors``; returns its path.

    Args:
        photographs: grey images in [0, 1].
        cubes, held_out: clean cubes (band, row, col) in [0, 1] to train and to validate on.
        resume, checkpoint_minutes, minutes, report: as for :func:`dlw.train.loop.train`.
    """
    out = Path(out)
    where = out / "checkpoint.pt"
    going_on = resume and where.exists()
    run = DenoiserTraining.resume(where) if going_on else DenoiserTraining.begin(recipe)
    r: DenoiserRecipe = run.recipe
    patches = GreyPatches(
        {
            "photographs": photographs,
            "bands": [band for cube in cubes.values() for band in cube],
            "eigenimages": [e for cube in cubes.values() for e in eigenimages(cube, r.components)],
        },
        dict(zip(("photographs", "bands", "eigenimages"), r.shares, strict=True)),
        r.patch,
        r.sigma / 255,
        r.seed,
    )
    pairs = validation_pairs(held_out or {})
    advance(
        run,
        patches,
        pairs,
        out,
        checkpoint_minutes=checkpoint_minutes,
        minutes=minutes,
        report=report,
    )
    target = out / f"{r.name}.safetensors"
    facts = card(run, len(photographs), cubes, held_out)
    store.save(target, run.averaged(), facts, overwrite=True)
    return target


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


def card(
    run: DenoiserTraining,
    photographs: int,
    cubes: Mapping[str, F32],
    held_out: Mapping[str, F32] | None,
) -> dict[str, Any]:
    """What a user should know about the denoiser."""
    r = run.recipe
    return {
        "name": r.name,
        "kind": "denoiser",
        "data": [f"{photographs} photographs", *sorted(cubes)],
        "validation": sorted(held_out or {}),
        "noise": f"white, level uniform from 0 to {r.sigma:g}/255",
        "seed": r.seed,
        "steps": run.step,
        "skipped_steps": run.skipped,
        "training_seconds": round(run.seconds),
        "validation_psnr": {k: round(v, 2) for k, v in run.scores.items()},
        "version": __version__,
        "torch": torch.__version__,
        "recipe": r.to_dict(),
    }
