"""Weights w: how much each voxel is trusted.

One convention everywhere: w multiplies the *squared* residual, is 0 on voxels that are not valid and
has mean one over those that are. A source is anything that maps a noisy image to such weights;
sources multiply (:class:`Product`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import BadOption, unknown_name
from ..io import open_cube
from ..models import defaults
from ..networks import GROUP, DLWnet3d, Network
from ..networks import files as store
from ..testbed import Truth
from .formulas import Given, Mixture, Oracle, Original, Precision, Robust, Uniform, noise_level
from .normalise import FLOOR, normalised, softmax_weights

__all__ = [
    "DEFAULT",
    "FLOOR",
    "FORMULAS",
    "Given",
    "Mixture",
    "Net",
    "Oracle",
    "Original",
    "Precision",
    "Product",
    "Robust",
    "Source",
    "Spec",
    "Uniform",
    "follows_noise",
    "noise_level",
    "normalised",
    "predict_logits",
    "resolve",
    "softmax_weights",
    "wants_original",
]

DEFAULT = defaults.WEIGHTS
"""The network used when nothing else is asked for."""


class Source(Protocol):
    """Weights for a noisy image.

    Sources that see one band at a time have ``raw`` as well, the weights before they are scaled to
    mean one: a large image is weighted band by band with it.

    ``rounds`` is the number of times image and weights are computed in turn; a source with more than
    one is called again with the image restored so far.
    """

    @property
    def name(self) -> str: ...

    @property
    def rounds(self) -> int: ...

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor: ...


def wants_original(source: Source) -> bool:
    """Whether a source, or a factor of it, asks for the published version of the model."""
    parts = source.sources if isinstance(source, Product) else (source,)
    return any(isinstance(s, Original) for s in parts)


@dataclass(frozen=True, eq=False)
class Net:
    """w = softmax of the logits of a DLWnet."""

    net: Network
    name: str
    sha256: str = ""
    rounds: int = 1

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return softmax_weights(predict_logits(self.net, y), valid)


@dataclass(frozen=True, eq=False)
class Product:
    """The product of several sources, scaled to mean one again."""

    sources: tuple[Source, ...]

    @property
    def name(self) -> str:
        return "*".join(s.name for s in self.sources)

    @property
    def rounds(self) -> int:
        return max(s.rounds for s in self.sources)

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        w = self.sources[0](y, valid, x)
        for source in self.sources[1:]:
            w = w * source(y, valid, x)
        return normalised(w, valid)


def follows_noise(source: Source) -> bool:
    """Whether the weight of a voxel depends on the noise of that voxel."""
    if isinstance(source, Product):
        return any(follows_noise(s) for s in source.sources)
    return not isinstance(source, Uniform | Precision | Oracle | Given)


TILE_BYTES = 64 * 2**20
"""Memory of one activation of a tile of a colour network."""

STRIP_BYTES = 20 * 2**20
"""Memory of the rows of one activation that a hyperspectral network works on at a time."""


@torch.no_grad()
def predict_logits(net: Network, y: Tensor, tile: int | None = None) -> Tensor:
    """Logits of an image (band, row, col), tile by tile with a halo: exact, in bounded memory.

    Args:
        tile: side of a tile in pixels. When None it is chosen from the number of bands; tiles of a
            hyperspectral network are then as high as the image, which it reads from top to bottom.
    """
    bands, rows, cols = y.shape
    halo = net.radius
    height, width = (tile, tile) if tile else _tile_size(net, bands, rows)
    if rows <= height + 2 * halo and cols <= width + 2 * halo:
        whole: Tensor = net(y)
        return whole
    out = torch.empty_like(y)
    for top in range(0, rows, height):
        for left in range(0, cols, width):
            bottom, right = min(top + height, rows), min(left + width, cols)
            a, b = max(0, top - halo), max(0, left - halo)
            part = net(y[:, a : bottom + halo, b : right + halo])
            out[:, top:bottom, left:right] = part[:, top - a : bottom - a, left - b : right - b]
    return out


def _tile_size(net: Network, bands: int, rows: int) -> tuple[int, int]:
    """Height and width of the tiles of an image, in pixels."""
    voxel = 4 * int(net.config["filters"])
    if isinstance(net, DLWnet3d):
        return rows, max(48, STRIP_BYTES // (voxel * bands * (GROUP + 2)))
    side = max(32, int(math.sqrt(TILE_BYTES / voxel)) - 2 * net.radius)
    return side, side


FORMULAS: dict[str, Source] = {
    "uniform": Uniform(),
    "precision": Precision(),
    "robust": Robust(),
    "mixture": Mixture(),
}
"""Sources that need neither a network nor anything but the noisy image."""

Spec = str | Path | Source | Tensor | np.ndarray | Sequence["Spec"]


def resolve(spec: Spec, truth: Truth | None = None) -> Source:
    """The source a user means.

    Args:
        spec: the name of a formula or of a shipped network, a network file, a file with an array of
            weights or a mask, an array, a source, or several of these (a sequence, or names
            joined by ``*``), which multiply.
        truth: the true noise, which "oracle" needs.

    >>> resolve("uniform * precision").name
    'uniform*precision'
    """
    if isinstance(spec, np.ndarray):
        return Given(torch.as_tensor(np.ascontiguousarray(spec, np.float32)))
    if isinstance(spec, Tensor):
        return Given(spec)
    if isinstance(spec, Path):
        return _named(str(spec), truth)
    if isinstance(spec, str):
        parts = [p.strip() for p in spec.split("*")]
        if not all(parts):
            raise BadOption(
                f"'{spec}' is not a product of weight sources; write for example N+T+TS*mask.npy"
            )
        found = tuple(_named(p, truth) for p in parts)
        return found[0] if len(found) == 1 else Product(found)
    if isinstance(spec, Sequence):
        if not spec:
            raise BadOption("the list of weight sources is empty")
        return Product(tuple(resolve(s, truth) for s in spec))
    return spec


def _named(name: str, truth: Truth | None) -> Source:
    if name in FORMULAS:
        return FORMULAS[name]
    if name == "original":
        return Original()
    if name == "oracle":
        if truth is None:
            raise BadOption(
                "the weights 'oracle' need the true noise; they are for benchmarks only"
            )
        return Oracle(truth)
    path = Path(name)
    if name not in store.list_networks():
        if path.suffix and path.suffix not in store.ENDINGS:
            return Given(torch.from_numpy(open_cube(path).data), name=path.name)
        if not path.suffix and len(path.parts) == 1 and not path.exists():
            raise unknown_name(
                "weight source", name, [*FORMULAS, "original", "oracle", *store.list_networks()]
            )
    stored = store.load_network(name)
    return Net(stored.net, str(stored.card.get("name", name)), stored.sha256)
