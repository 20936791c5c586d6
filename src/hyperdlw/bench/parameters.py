"""Numbers of trained parameters: of a method, and of every network here (tab-numparams)."""

from __future__ import annotations

import torch

from .. import models
from ..models import denoisers
from ..models import published as rivals
from ..networks import SERT, DLWnet2d, DLWnet3d, SkipNet
from ..networks import files as store
from ..weights import Source


def of_source(source: Source) -> int:
    """Parameters of the networks behind a weight source."""
    return sum(p.numel() for net in source.modules for p in net.parameters())


def of_model(name: str, bands: int, denoiser: str | None = None) -> int:
    """Parameters of a model itself: its denoiser, or the network that is fitted to the image.

    >>> of_model("pnp", 31), of_model("dip", 31), of_model("tv", 31)
    (128644, 1687531, 0)
    """
    if rivals.is_rival(name):
        return rivals.find(name).parameters
    if name == "dip":
        return _count(SkipNet, bands)
    return denoisers.trained(denoiser or "eigen")[0] if models.find(name).takes_denoiser else 0


def networks(bands: int = 31) -> dict[str, int]:
    """Parameters of every architecture, for images of so many bands.

    >>> networks()["DLWnet"]
    113281
    """
    return {
        "DLWnet": _count(DLWnet3d),
        "DLWnet, colour": _count(DLWnet2d),
        "eigenimage denoiser": denoisers.trained("eigen")[0],
        "HSID-CNN": _count(store.RIVALS["hsid-cnn"]),
        "S2DIP": _count(SkipNet, bands),
        "SERT": _count(SERT, channels=bands),
        "HSI-DeNet": _count(store.RIVALS["hsi-denet"], channels=bands),
    }


def _count(kind: type[torch.nn.Module], *sizes: int, **named: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in kind(*sizes, **named).parameters())
