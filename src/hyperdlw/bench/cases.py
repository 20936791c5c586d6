"""A benchmark case is data: which scene, which noise, which model with which weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..cube import minmax_range
from ..errors import BadFile, DlwError
from ..io import open_cube

F32 = NDArray[np.float32]
Strength = float | Literal["best"]


@dataclass(frozen=True, eq=False)
class Scene:
    """A clean cube (band, row, col) in [0, 1] with a name and the hash of its values."""

    name: str
    data: F32

    @property
    def sha256(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.data).tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Files:
    """What a user brings to a benchmark.

    Attributes:
        reference: checkpoints released with the paper, by the names of their rows.
        rivals: files of rival networks that are not shipped, by the names of their architectures.
        denoiser: name or file of the denoiser of plug and play; None: the shipped one.
    """

    reference: Mapping[str, Path] = field(default_factory=dict)
    rivals: Mapping[str, Path] = field(default_factory=dict)
    denoiser: str | None = None


@dataclass(frozen=True)
class Case:
    """One number of a table.

    Attributes:
        scene: name of the scene and hash of its values.
        noise: noise case 1 to 5, ``seed`` its random stream.
        model: registered model, or "noisy" for the input itself.
        weights: name of the weight source; ``source`` is the hash of the networks that are used.
        strength: factor on the regulariser, or "best": the best of a grid, found on the clean cube.
    """

    scene: str
    scene_hash: str
    noise: int
    seed: int
    model: str
    weights: str
    source: str = ""
    strength: Strength = 1.0

    @property
    def key(self) -> str:
        """A hash that names this case for ever."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_scenes(
    folder: str | Path,
    *,
    crop: int | None = None,
    bands: int | None = None,
    only: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    colour: bool = False,
) -> tuple[list[Scene], dict[str, str]]:
    """Scenes of a folder, and the files that could not be used with the reason.

    Args:
        crop: side of the central crop in pixels; smaller scenes are taken whole.
        bands: keep the first good bands only.
        only: names to take; all when empty. ``without``: names to leave out.
        colour: take images of three bands only; otherwise leave those out.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder} with scenes")
    scenes: list[Scene] = []
    left_out: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or (only and path.stem not in only):
            continue
        if path.stem in without:
            left_out[path.name] = "a network was trained with it"
            continue
        try:
            cube = open_cube(path)
        except DlwError as error:
            left_out[path.name] = str(error)
            continue
        if (cube.bands == 3) != colour:
            left_out[path.name] = f"{cube.bands} bands"
            continue
        data = minmax_range(cube.data, cube.valid).to_unit(cube.data)[cube.good_bands]
        data = data[:bands] if bands else data
        name = path.stem if bands is None else f"{path.stem}[{bands}]"
        scenes.append(Scene(name, centre(data, crop)))
    if not scenes:
        raise BadFile(f"no scene in {folder} can be used: {left_out or 'the folder is empty'}")
    return scenes, left_out


def centre(data: F32, side: int | None) -> F32:
    """The central square of an image, scaled to [0, 1] band by band again.

    >>> centre(np.zeros((2, 9, 7), np.float32), 4).shape
    (2, 4, 4)
    """
    _, rows, cols = data.shape
    if side is not None:
        top, left = max(0, rows - side) // 2, max(0, cols - side) // 2
        data = data[:, top : top + side, left : left + side]
    data = np.ascontiguousarray(data)
    return minmax_range(data, np.ones(data.shape, bool)).to_unit(data)
