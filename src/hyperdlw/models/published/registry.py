"""Methods that are not of the solver's form, behind the same call: no weights, no strength.

A rival is a function ``run(y, *, rank=None, seed=0) -> x`` of an image (band, row, col) with bands in
[0, 1]. ``denoise(cube, model="nmog")`` and ``hyperdlw denoise --model nmog`` find it here, and so does a
network file: ``--model run/hsi-denet.safetensors``.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import BadInput, BadOption, unknown_name
from ...networks import files as store
from ..denoisers.catalogue import Spec, resolve_grey
from . import fasthymix, hyres, lrmr, nmog


class Run(Protocol):
    """An image (band, row, col), bands in [0, 1] -> the restored one."""

    def __call__(self, y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor: ...


@dataclass(frozen=True)
class Entry:
    """A rival: ``parameters`` counts what was trained (0: nothing)."""

    name: str
    run: Run
    summary: str
    parameters: int = 0
    sha256: str = ""

    @property
    def takes_denoiser(self) -> bool:
        """Whether ``run`` has the keyword ``denoiser``."""
        return "denoiser" in inspect.signature(self.run).parameters


@dataclass(frozen=True)
class _Network:
    """A trained network as a rival; the file is read when it is used."""

    name: str | Path

    def __call__(self, y: Tensor, *, rank: int | None = None, seed: int = 0) -> Tensor:
        if rank is not None:
            raise BadOption(f"the network {self.name} has no rank to choose")
        net = store.load_rival(self.name).net
        with torch.no_grad():
            out: Tensor = net(y)
        return out


_BUILT_IN: dict[str, Any] = {
    "lrmr": lrmr.run,
    "nmog": nmog.run,
    "hyres": hyres.run,
    "fasthymix": fasthymix.run,
}

_NETWORKS = {
    "hsid-cnn": (
        "HSID-CNN: a network that restores a band from itself and 24 neighbours.",
        399_161,
    ),
    "hsi-denet": ("HSI-DeNet: a deep network for a fixed number of bands (31).", 2_767_680),
}


def registry() -> dict[str, Entry]:
    """Every rival by name."""
    found = {
        name: Entry(name, run, (run.__doc__ or "").strip().splitlines()[0])
        for name, run in _BUILT_IN.items()
    }
    for name, (summary, parameters) in _NETWORKS.items():
        found[name] = Entry(name, _Network(name), summary, parameters)
    return found


def is_rival(model: str) -> bool:
    """Whether a model is one of these, or the file of a network.

    >>> is_rival("nmog"), is_rival("run/hsi-denet.safetensors"), is_rival("tv")
    (True, True, False)
    """
    return model in _BUILT_IN or model in _NETWORKS or model.endswith(".safetensors")


def find(model: str) -> Entry:
    """The rival of a name or a network file; trained networks come with the hash of their file."""
    if not is_rival(model):
        raise unknown_name("rival", model, registry())
    if model in _BUILT_IN:
        return registry()[model]
    stored = store.load_rival(model)
    count = sum(p.numel() for p in stored.net.parameters())
    summary = f"{stored.card['architecture']} from {model}"
    return Entry(model, _Network(model), summary, count, stored.sha256)


def restore(
    model: str,
    y: Tensor,
    *,
    rank: int | None = None,
    seed: int = 0,
    denoiser: Spec | None = None,
) -> Tensor:
    """Run a rival on an image (band, row, col) with bands in [0, 1].

    >>> y = torch.rand(4, 9, 8, generator=torch.Generator().manual_seed(0))
    >>> restore("lrmr", y, rank=2).shape
    torch.Size([4, 9, 8])
    """
    if y.dim() != 3 or 0 in y.shape:
        raise BadInput(f"a rival wants an image (band, row, col), not shape {tuple(y.shape)}")
    if rank is not None and not 1 <= rank <= y.shape[0]:
        raise BadOption(f"rank must lie between 1 and the {y.shape[0]} bands, not {rank}")
    entry = find(model)
    if denoiser is None:
        return entry.run(y, rank=rank, seed=seed)
    check_denoiser(entry)
    run: Any = entry.run
    out: Tensor = run(y, rank=rank, seed=seed, denoiser=denoiser)
    return out


def check_denoiser(entry: Entry) -> None:
    """Refuse a denoiser for a rival that has none."""
    if not entry.takes_denoiser:
        have = ", ".join(e.name for e in registry().values() if e.takes_denoiser)
        raise BadOption(f"the model '{entry.name}' has no denoiser to choose (it has: {have})")


def check_options(
    model: str,
    *,
    weights: Any,
    strength: Any,
    schedule: Any = "paper",
    rank: Any = None,
    denoiser: Any = None,
) -> None:
    """Refuse what a rival has no use for, rather than ignore it."""
    from ..defaults import WEIGHTS as DEFAULT

    if not (isinstance(weights, str) and weights == DEFAULT):
        raise BadOption(f"the model '{model}' takes no weights; leave them out")
    if strength != 1.0:
        raise BadOption(f"the model '{model}' has no strength to choose; leave it out")
    if schedule != "paper":
        raise BadOption(f"the model '{model}' has no schedule to choose; leave it out")
    if isinstance(rank, str):
        raise BadOption(f"the model '{model}' takes a whole number as rank, not '{rank}'")
    if denoiser is not None:
        check_denoiser(find(model))
        if not callable(denoiser):
            resolve_grey(denoiser)
