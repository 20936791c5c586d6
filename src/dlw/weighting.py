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

from . import defaults, store
from .errors import BadInput, BadOption, unknown_name
from .io import open_cube
from .nets.dlwnet import DLWnet3d, Network
from .nets.rows import GROUP
from .noise import Truth

FLOOR = 1e-4
"""Smallest weight of a valid voxel (epsilon of Lemma 1): keeps the data term strongly convex."""

DEFAULT = defaults.WEIGHTS
"""The network used when nothing else is asked for."""


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


def normalised(w: Tensor, valid: Tensor) -> Tensor:
    """Scale to mean one over the valid voxels, at least ``FLOOR`` there and 0 elsewhere."""
    w = torch.where(valid, w, torch.zeros_like(w))
    scale = scale_of(int(valid.sum()), sum(map(total, w)))
    return rescaled(w, scale).masked_fill_(~valid, 0.0)


def total(w: Tensor) -> float:
    """The sum of weights, in float64."""
    return float(w.sum(dtype=torch.float64))


def scale_of(count: int, total: float) -> float:
    """What makes the mean one, with 24 binary digits.

    A sum over strips ends in other digits than one over bands; in float32 both give the same weights.
    """
    mantissa, exponent = math.frexp(count / total if total > 0 else 0.0)
    return math.ldexp(round(math.ldexp(mantissa, 24)), exponent - 24)


def rescaled(w: Tensor, scale: float) -> Tensor:
    """max(w scale, FLOOR), in place of w and rounded once.

    In float64, band by band: weights and scale may be out of the range of float32, their product is not.
    """
    for band in w:
        band.copy_((band.double() * scale).clamp_min_(FLOOR))
    return w


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


def noise_level(y: Tensor, valid: Tensor) -> Tensor:
    """Robust standard deviation of the noise of every band, shape (band,).

    Median absolute value of mixed second differences y_ij - y_i+1,j - y_i,j+1 + y_i+1,j+1, which
    have standard deviation 2 sigma and hardly see the image (Donoho's rule). Bands without four
    valid neighbours fall back to the spread of their values.
    """
    levels = []
    for band, ok in zip(y, valid, strict=True):
        d = band[:-1, :-1] - band[1:, :-1] - band[:-1, 1:] + band[1:, 1:]
        m = ok[:-1, :-1] & ok[1:, :-1] & ok[:-1, 1:] & ok[1:, 1:]
        if bool(m.any()):
            level = d[m].abs().median() / (2 * 0.6745)
        else:
            values = band[ok]
            level = (
                (values - values.median()).abs().median() / 0.6745
                if len(values)
                else band.new_tensor(1.0)
            )
        levels.append(level)
    return torch.stack(levels).clamp_min(1e-4)


@dataclass(frozen=True)
class Uniform:
    """w = 1: the ablation of the paper."""

    name: str = "uniform"
    rounds: int = 1

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return torch.ones_like(y)

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return normalised(self.raw(y, valid, x), valid)


@dataclass(frozen=True)
class Original(Uniform):
    """w = 1, and a model's published version in place of the weighted one."""

    name: str = "original"


def wants_original(source: Source) -> bool:
    """Whether a source, or a factor of it, asks for the published version of the model."""
    parts = source.sources if isinstance(source, Product) else (source,)
    return any(isinstance(s, Original) for s in parts)


def precision_of(level: Tensor) -> Tensor:
    """1 / sigma^2."""
    return 1 / level**2


@dataclass(frozen=True)
class Precision:
    """w = 1 / sigma_b^2 with a robust noise level of every band."""

    name: str = "precision"
    rounds: int = 1

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return precision_of(noise_level(y, valid))[:, None, None].expand_as(y)

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return normalised(self.raw(y, valid, x), valid)


TRUST = 0.4
"""Smallest spread of a residual that is believed, in noise levels of its band."""


def _scale(y: Tensor, x: Tensor, valid: Tensor) -> Tensor:
    """Robust standard deviation of the residual y - x in every band, shape (band,).

    It is at least ``TRUST`` noise levels. Without that limit a band that is fitted closely gets more
    weight, is fitted more closely still, and in the end holds all the weight there is: low rank
    then loses 3 dB against the noisy image itself.
    """
    levels = [
        b[ok].abs().median() / 0.6745 if bool(ok.any()) else b.new_tensor(1.0)
        for b, ok in zip(y - x, valid, strict=True)
    ]
    return torch.maximum(torch.stack(levels), TRUST * noise_level(y, valid))


@dataclass(frozen=True)
class Robust:
    """Reweighting w = exp(-xi r^2 / s_b^2) / s_b^2, r = y - x, s_b the robust spread of band b.

    The first round has no residual and uses the precision; every further one uses the image of the
    round before (half-quadratic minimisation of the Welsch loss).
    """

    xi: float = 0.1
    rounds: int = 4
    name: str = "robust"

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        if x is None:
            return Precision().raw(y, valid)
        s = _scale(y, x, valid)[:, None, None]
        return torch.exp(-self.xi * ((y - x) / s) ** 2) / s**2

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return normalised(self.raw(y, valid, x), valid)


@dataclass(frozen=True)
class Mixture:
    """Expected precision under a Gaussian mixture of the residual of every band, fitted by EM.

    w = sum_k gamma_k / sigma_k^2, gamma_k the probability that the voxel belongs to component k;
    zero means, so that impulses and stripes land in the wide components.
    """

    components: int = 3
    steps: int = 30
    rounds: int = 4
    name: str = "mixture"

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return normalised(self.raw(y, valid, x), valid)

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        if x is None:
            return Precision().raw(y, valid)
        # A band at a time: there are several images per component.
        bands = (self._band(y[b : b + 1], valid[b : b + 1], x[b : b + 1]) for b in range(len(y)))
        return torch.cat(list(bands))

    def _band(self, y: Tensor, valid: Tensor, x: Tensor) -> Tensor:
        square = (y - x) ** 2
        ok = valid.to(y.dtype)
        count = ok.sum((1, 2)).clamp_min(1)
        least = (TRUST * noise_level(y, valid)) ** 2
        # (component, band): variances one decade apart from the robust spread upwards.
        spread = _scale(y, x, valid) ** 2
        variance = torch.stack([spread * 9.0**k for k in range(self.components)])
        share = torch.full_like(variance, 1 / self.components)
        gamma = torch.empty(0)
        for _ in range(self.steps):
            log = (share / variance.sqrt()).log()[:, :, None, None] - square / (
                2 * variance[:, :, None, None]
            )
            gamma = torch.softmax(log, 0) * ok
            mass = gamma.sum((2, 3)).clamp_min(1e-12)
            variance = torch.maximum((gamma * square).sum((2, 3)) / mass, least)
            share = (mass / count).clamp_min(1e-12)
        return (gamma / variance[:, :, None, None]).sum(0)


@dataclass(frozen=True)
class Oracle:
    """w = 1 / (sigma^2 + stripe^2) from the true noise, floor on impulses and dead voxels.

    For benchmarks only: it shows what knowing the noise alone would bring.
    """

    truth: Truth
    name: str = "oracle"
    rounds: int = 1

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        sigma = torch.as_tensor(np.broadcast_to(self.truth.sigma, self.truth.impulse.shape).copy())
        stripe = torch.as_tensor(self.truth.stripe)
        lost = torch.as_tensor(self.truth.impulse | self.truth.dead)
        if lost.shape != y.shape:
            raise BadInput(f"the truth has shape {tuple(lost.shape)}, the image {tuple(y.shape)}")
        w = 1 / (sigma**2 + stripe**2).clamp_min(1e-6)
        return normalised(torch.where(lost, torch.zeros_like(w), w).to(y), valid)


@dataclass(frozen=True, eq=False)
class Given:
    """A user's own weights or mask, (band, row, col) or one plane for all bands."""

    values: Tensor
    name: str = "given"
    rounds: int = 1

    def __call__(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        v = self.values.to(y)
        if v.dim() == 2:
            v = v.unsqueeze(0)
        if v.shape[-2:] != y.shape[-2:] or v.shape[0] not in (1, y.shape[0]):
            raise BadInput(
                f"the weights have (band, row, col) shape {tuple(v.shape)}, the image {tuple(y.shape)}"
            )
        if not bool(torch.isfinite(v).all()) or bool((v < 0).any()):
            raise BadInput("the given weights must be finite and not negative")
        if not bool(((v > 0) & valid).any()):
            raise BadInput(
                "the given weights are 0 on every valid voxel, so there is nothing to fit"
            )
        return normalised(v.expand_as(y), valid)


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
    if name not in store.names():
        if path.suffix and path.suffix not in store.ENDINGS:
            return Given(torch.from_numpy(open_cube(path).data), name=path.name)
        if not path.suffix and len(path.parts) == 1 and not path.exists():
            raise unknown_name(
                "weight source", name, [*FORMULAS, "original", "oracle", *store.names()]
            )
    stored = store.load(name)
    return Net(stored.net, str(stored.card.get("name", name)), stored.sha256)
