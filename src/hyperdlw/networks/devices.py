"""Where the work is done: the processor, or a graphics card.

Networks and the solver follow the device of the image. On ``mps`` there are no float64 numbers, which the
solver needs for its sums, so there the networks alone are on the card.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ..errors import BadOption

DEVICES = ("auto", "cpu", "cuda", "mps")
NetT = TypeVar("NetT", bound=nn.Module)
_COPIES: WeakKeyDictionary[nn.Module, dict[torch.device, nn.Module]] = WeakKeyDictionary()


def find_device(name: str, is_there: Callable[[str], bool] | None = None) -> str:
    """The device that is meant; "auto": a card if there is one.

    >>> find_device("cpu"), find_device("auto", lambda name: name == "mps")
    ('cpu', 'mps')
    """
    known = is_there or has_device
    if name not in DEVICES:
        raise BadOption(f"device is one of {', '.join(DEVICES)}, not '{name}'")
    if name == "auto":
        return next((card for card in ("cuda", "mps") if known(card)), "cpu")
    if name != "cpu" and not known(name):
        raise BadOption(
            f"torch finds no device '{name}' on this machine; leave the device out, or install a torch "
            "that is built for it"
        )
    return name


def has_device(name: str) -> bool:
    """Whether torch can use a card."""
    return torch.cuda.is_available() if name == "cuda" else torch.backends.mps.is_available()


def solver_device(device: str) -> str:
    """Where the solver works beside networks on a device."""
    return "cpu" if device == "mps" else device


def place_network(net: NetT, device: torch.device) -> NetT:
    """The network on a device: itself, if it is there; else a copy, made once."""
    first = next(net.parameters(), None)
    if first is None or first.device == device:
        return net
    held = _COPIES.setdefault(net, {})
    if device not in held:
        held[device] = copy.deepcopy(net).to(device)
    found = held[device]
    assert isinstance(found, type(net))
    return found
