"""Networks where the image is."""

from __future__ import annotations

import copy
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

NetT = TypeVar("NetT", bound=nn.Module)
_COPIES: WeakKeyDictionary[nn.Module, dict[torch.device, nn.Module]] = WeakKeyDictionary()


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
