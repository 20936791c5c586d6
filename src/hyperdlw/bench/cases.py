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
