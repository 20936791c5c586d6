"""Gaussian denoisers: functions (x, sigma) -> x that plug-and-play models use as a prior.

A denoiser takes an image (..., band, row, col) near [0, 1] with white noise of standard deviation
sigma and returns its guess of the clean image. Any callable of that form will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ...errors import BadOption, unknown_name
from ...io import Entry, Registry
from ...networks import FFDNet, files, place_network
from ...solver import Small, StagedProx
from . import framelet

Denoiser = Callable[[Tensor, float], Tensor]
"""(image (..., band, row, col), sigma) -> image of the same shape."""

PlaneDenoiser = Callable[[Tensor, Tensor], Tensor]
"""(grey images (image, row, col), sigma: one number, one per image, or a map) -> images."""

RUN = 4
"""Neighbouring pixels of a row that are added up before the components are found."""

Rank = int | Literal["auto"]

DenoiserSpec = str | Path | Denoiser | PlaneDenoiser
"""What a user may give: a name, a file with a trained network, or a callable."""


def resolve_denoiser(spec: str | Path | Denoiser) -> Denoiser:
    """The denoiser a user means: a registered name, a file with a trained one, or a callable.

    >>> resolve_denoiser(lambda x, sigma: 0.5 * x)(torch.ones(1, 2, 2), 0.1).mean()
    tensor(0.5000)
    """
    if callable(spec):
        return spec
    if str(spec) in DENOISERS:
        denoise: Denoiser = DENOISERS[str(spec)].build
        return denoise
    if Path(spec).suffix not in files.ENDINGS:
        raise unknown_name("denoiser", str(spec), DENOISERS)
    net = files.load_denoiser(spec).net
    if isinstance(net, FFDNet):
        return EigenDenoiser(net)
    return lambda x, sigma: net(x)  # SERT guesses the noise level by itself


def resolve_plane_denoiser(spec: str | Path | PlaneDenoiser) -> PlaneDenoiser:
    """The denoiser of grey images in any units: "framelet", "gauss", a file, or a callable.

    >>> resolve_plane_denoiser("framelet")(torch.zeros(1, 8, 8), torch.tensor(0.1)).shape
    torch.Size([1, 8, 8])
    """
    if callable(spec):
        return spec
    if str(spec) in PLANE_DENOISERS:
        return PLANE_DENOISERS[str(spec)]
    if Path(spec).suffix not in files.ENDINGS:
        raise unknown_name("denoiser of grey images", str(spec), PLANE_DENOISERS)
    net = files.load_denoiser(spec).net
    if not isinstance(net, FFDNet):
        raise BadOption(f"{spec} is a denoiser of cubes, and one of grey images is needed")
    return scale_to_unit(net)


def find_network(spec: DenoiserSpec | None) -> files.Stored[files.DenoiserNet] | None:
    """The trained network behind a denoiser, or None.

    >>> find_network("framelet") is None, find_network("eigen").card["name"]
    (True, 'gauss')
    """
    if spec is None or callable(spec):
        return None
    shipped = str(spec) in ("eigen", "gauss")
    if not shipped and Path(spec).suffix not in files.ENDINGS:
        return None
    return files.load_denoiser("gauss" if shipped else spec)


@cache
def _shipped() -> FFDNet:
    net = files.load_denoiser("gauss").net
    assert isinstance(net, FFDNet)
    return net


def denoise_planes(images: Tensor, sigma: Tensor | float) -> Tensor:
    """Denoise grey images near [0, 1] with the shipped network, see :data:`PlaneDenoiser`."""
    net = place_network(_shipped(), images.device)
    out: Tensor = net(images, torch.as_tensor(sigma).to(images.device))
    return out


def scale_to_unit(denoise: PlaneDenoiser) -> PlaneDenoiser:
    """The same denoiser for images in any units: each is scaled to [0, 1], with its noise level."""

    def restore(images: Tensor, sigma: Tensor) -> Tensor:
        low, high = images.amin((1, 2), True), images.amax((1, 2), True)
        scale = (high - low).clamp_min(1e-6)
        level = sigma / (scale.flatten() if sigma.dim() == 1 else scale)
        return low + scale * denoise((images - low) / scale, level)

    return restore


PLANE_DENOISERS: dict[str, PlaneDenoiser] = {
    "framelet": framelet.denoise,
    "gauss": scale_to_unit(denoise_planes),
}
"""Denoisers of grey images by name."""


@dataclass(frozen=True)
class EigenDenoiser:
    """A denoiser of cubes from one of grey images.

    The cube is projected on its first ``rank`` spectral components. Their basis is orthonormal, so
    every eigenimage has the noise level of the cube; each is scaled to [0, 1] and denoised with
    the level in that scale. Any number of bands.

    Attributes:
        denoise: of (image, row, col) and one noise level per image.
        rank: number of components, at most the number of bands; "auto" takes those that stand out of
            white noise of level sigma.
    """

    denoise: PlaneDenoiser = denoise_planes
    rank: Rank = 4

    def __post_init__(self) -> None:
        if self.rank != "auto" and self.rank < 1:
            raise BadOption(
                f"the rank of the eigenimages must be at least 1 or 'auto', not {self.rank}"
            )

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        if x.dim() > 3:
            flat = x.reshape(-1, *x.shape[-3:])
            return torch.stack([self(cube, sigma) for cube in flat]).view_as(x)
        basis = components_from_sums(sum_spectra(x), self.rank, sigma).to(x.dtype)
        out: Tensor = torch.tensordot(
            basis, self.denoise_images(torch.tensordot(basis.T, x, 1), sigma), 1
        )
        return out

    def denoise_images(self, images: Tensor, sigma: float) -> Tensor:
        """The eigenimages, denoised."""
        if sigma <= 0:
            return images
        return scale_to_unit(self.denoise)(images, images.new_full((len(images),), sigma))

    def staged(self, sigma: Callable[[float], float]) -> StagedProx:
        """In stages, with the noise level of a step t: sums give the components of the eigenimages."""

        def update_small(total: Tensor, t: float, small: Small) -> Small:
            return components_from_sums(total, self.rank, sigma(t))

        def prox_part(v: Tensor, t: float, small: Small, images: Tensor | None) -> Tensor:
            assert images is not None
            made: Tensor = torch.tensordot(small.to(images), images, 1)
            return made

        return StagedProx(
            lambda v, t, small, images: sum_spectra(v),
            update_small,
            prox_part,
            project_part=lambda v, small: torch.tensordot(small.T.to(v), v, 1),
            update_images=lambda images, t, small, old: self.denoise_images(images, sigma(t)),
            start_sum_part=sum_spectra,
            start_small=lambda total, shape: components_from_sums(total, self.rank, 0.0),
            values_per_pixel=40 * (4 if self.rank == "auto" else self.rank),
        )


DENOISERS: Registry[Entry] = Registry(
    "denoiser",
    "hyperdlw.denoisers",
    {"eigen": EigenDenoiser()},
    lambda name, given: Entry(name, given, "denoiser"),
)
"""Denoisers of cubes by name: ours, then those of installed packages."""


@torch.no_grad()
def sum_spectra(x: Tensor) -> Tensor:
    """Sums over pixels x_b x_c, x_b and 1, as columns (band, band + 2) in float64.

    The pixels are sums of :data:`RUN` neighbours of a row over the root of their number: white noise
    keeps its level, what neighbours have in common grows, and the components stand out more.
    """
    if x.shape[-1] >= 2 * RUN:
        runs = x.shape[-1] // RUN
        x = x[..., : runs * RUN].reshape(*x.shape[:-1], runs, RUN).sum(-1) / math.sqrt(RUN)
    flat = x.flatten(1).double()
    bands, pixels = flat.shape
    count = flat.new_full((bands, 1), pixels)
    return torch.cat([flat @ flat.T, flat.sum(1, keepdim=True), count], 1)


def components_from_sums(sums: Tensor, rank: Rank, sigma: float) -> Tensor:
    """Orthonormal columns (band, component) that span the strongest spectral components of a cube.

    Every sign is such that the eigenimage has a positive mean, so that reordering the bands
    reorders the result.
    """
    bands = len(sums)
    values, vectors = torch.linalg.eigh(sums[:, :bands])
    if rank == "auto":
        # The largest eigenvalue of pure noise (Marchenko and Pastur).
        edge = (sigma * (math.sqrt(float(sums[0, -1])) + math.sqrt(bands))) ** 2
        rank = max(1, int((values > edge).sum()))
    basis: Tensor = vectors.flip(1)[:, :rank]
    return basis * torch.where(basis.T @ sums[:, bands] < 0, -1.0, 1.0)
