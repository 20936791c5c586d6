"""What a weight source is, and the scale that all weights end with.

One convention everywhere: w multiplies the *squared* residual, is 0 on voxels that are not valid and
has mean one over those that are. The paper prints W = sqrt(w).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import BadOption
from ..models import Sensor

FLOOR = 1e-4
"""Smallest weight of a valid voxel (epsilon of Lemma 1): keeps the data term strongly convex."""

Sees = Literal["image", "band", "rows"]


class Source:
    """Weights w for a noisy image: how much every voxel is trusted.

    A source of your own is a subclass with ``raw``. Where it is registered (entry point
    ``hyperdlw.weights``) it has a name like a built-in one.

    Attributes:
        name: shown in reports; the name of the class in small letters unless given.
        rounds: how often image and weights are computed in turn; from the second round on ``raw`` gets
            the image restored so far.
        follows_noise: whether the weight of a voxel depends on the noise of that voxel.
        wants_original: whether it asks for the published version of the model.
        logits: whether ``raw`` gives logits, of which w is the softmax.
        sees: what ``raw`` must be given for an image that is held in strips: "rows" (strips with
            ``reach`` further rows on either side), "band" (whole bands, one at a time) or "image".
            A source that sees the image cannot be used in strips.
        reach: rows around a voxel on which its weight depends, for a source that sees rows.
        sensor: what is known of the noise beforehand; None: it is taken for white.
    """

    name: str = ""
    rounds: int = 1
    follows_noise: bool = True
    wants_original: bool = False
    logits: bool = False
    sees: Sees = "image"
    reach: int = 0
    sensor: Sensor | None = None

    def __init_subclass__(cls) -> None:
        if not cls.name:
            cls.name = cls.__name__.lower()

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        """Weights up to a common factor, or logits; any shape that fits to that of y.

        Args:
            y: noisy image (band, row, col) on the unit interval, gaps filled.
            valid: where it was measured.
            x: the image restored so far, from the second round on.
        """
        raise BadOption(
            f"the weight source '{self.name}' has no method 'raw'; its package must add it"
        )

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        """The weights of an image: mean one over the valid voxels, at least FLOOR there, 0 elsewhere."""
        raw = self.raw(y, valid, x)
        if self.logits:
            return softmax_weights(raw, valid)
        w = torch.where(valid, raw, raw.new_zeros(()))
        scale = self.scale(int(valid.sum()), sum(map(sum_weights, w)))
        return rescale_weights(w, scale).masked_fill_(~valid, 0.0)

    def scale(self, count: int, total: float) -> float:
        """What the raw weights of ``count`` valid voxels with the sum ``total`` are multiplied by."""
        return find_scale(count, total)

    def on_bands(self, use: NDArray[np.bool_]) -> Source:
        """The source for the bands in use of an image."""
        return self

    def on_rows(self, rows: slice) -> Source:
        """The source for some rows of an image."""
        return self

    def check_shape(self, shape: Sequence[int]) -> None:
        """Refuse an image (band, row, col) that the source is not for."""

    @property
    def factors(self) -> tuple[Source, ...]:
        """The sources that multiply."""
        return (self,)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The networks at work."""
        return ()

    @property
    def networks(self) -> dict[str, str]:
        """SHA-256 of the files of the networks, by name."""
        return {}

    @property
    def digest(self) -> str:
        """A hash of what the name does not tell, such as the numbers of an array."""
        return ""


class Product(Source):
    """The product of several sources, scaled to mean one again."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._factors = tuple(f for s in sources for f in s.factors)
        self.name = "*".join(f.name for f in self._factors)
        self.rounds = max(f.rounds for f in self._factors)
        self.follows_noise = any(f.follows_noise for f in self._factors)
        self.wants_original = any(f.wants_original for f in self._factors)
        self.sensor = next((f.sensor for f in self._factors if f.sensor), None)

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return multiply_weights([f(y, valid, x) for f in self._factors])

    def scale(self, count: int, total: float) -> float:
        if total == 0:
            raise BadOption(
                f"the weights '{self.name}' trust no voxel together: each voxel is left out by one of "
                "them; use one alone, or masks that overlap"
            )
        return super().scale(count, total)

    def on_bands(self, use: NDArray[np.bool_]) -> Source:
        return Product([f.on_bands(use) for f in self._factors])

    def on_rows(self, rows: slice) -> Source:
        return Product([f.on_rows(rows) for f in self._factors])

    def check_shape(self, shape: Sequence[int]) -> None:
        for f in self._factors:
            f.check_shape(shape)

    @property
    def factors(self) -> tuple[Source, ...]:
        return self._factors

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        return tuple(m for f in self._factors for m in f.modules)

    @property
    def networks(self) -> dict[str, str]:
        return {name: sha256 for f in self._factors for name, sha256 in f.networks.items()}

    @property
    def digest(self) -> str:
        return " ".join(f.digest for f in self._factors).strip()


@dataclass(frozen=True, eq=False)
class Known(Source):
    """Weights that a source gave before, for a second run with the same image."""

    values: Tensor
    source: Source

    def __post_init__(self) -> None:
        for name in ("name", "follows_noise", "wants_original", "sensor"):
            object.__setattr__(self, name, getattr(self.source, name))

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return self.values.to(y.device)

    @property
    def networks(self) -> dict[str, str]:
        return self.source.networks


def softmax_weights(logits: Tensor, valid: Tensor | None = None) -> Tensor:
    """w = M softmax(logits) + 1e-4 over the M valid voxels of each image, 0 elsewhere.

    The softmax runs over all of (band, row, col) at once; leading axes are separate images.

    >>> softmax_weights(torch.zeros(2, 2, 2)).unique()
    tensor([1.0001])
    """
    flat = logits.flatten(-3)
    if valid is None:
        w = torch.softmax(flat, -1) * flat.shape[-1] + FLOOR
        return w.view_as(logits)
    ok = valid.expand_as(logits).flatten(-3)
    w = torch.softmax(flat.masked_fill(~ok, -torch.inf), -1) * ok.sum(-1, keepdim=True) + FLOOR
    return torch.where(ok, w, torch.zeros_like(w)).view_as(logits)


def sum_weights(w: Tensor) -> float:
    """The sum of weights, in float64."""
    return float(w.sum(dtype=torch.float64))


def find_scale(count: int, total: float) -> float:
    """What makes the mean one, with 24 binary digits.

    A sum over strips ends in other digits than one over bands; in float32 both give the same weights.
    """
    mantissa, exponent = math.frexp(count / total if total > 0 else 0.0)
    return math.ldexp(round(math.ldexp(mantissa, 24)), exponent - 24)


def multiply_weights(factors: Sequence[Tensor]) -> Tensor:
    """The product of weights, 0 where one of them is at the floor: what is left out stays out."""
    w = math.prod(factors[1:], start=factors[0])
    kept = torch.stack([f > FLOOR for f in factors]).all(0)
    return torch.where(kept, w, torch.zeros_like(w))


def rescale_weights(w: Tensor, scale: float) -> Tensor:
    """max(w scale, FLOOR), in place of w and rounded once.

    In float64, band by band: weights and scale may be out of the range of float32, their product is not.
    """
    for band in w:
        band.copy_((band.double() * scale).clamp_min_(FLOOR))
    return w
