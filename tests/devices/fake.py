"""Tensors of a device that is not there: they have a shape, a type and a device, and no numbers.

The device is called "meta". torch makes fake tensors of "cuda" too, but a build without CUDA cannot index
them. Every operation is looked at here: one that gets tensors of two devices is refused, but for copies
and numbers (tensors without axes), as CUDA does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = "meta"
COPIES = ("aten.copy_", "aten._to_copy", "aten.copy")
"""Operations that take numbers from one device to another."""


class StrictDevices(TorchDispatchMode):
    """Refuses mixed devices; where a program reads a number off a tensor, it gets one."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        given = [v for v in tree_leaves((args, kwargs or {})) if isinstance(v, Tensor)]
        devices = {v.device.type for v in given if v.dim() > 0}
        if len(devices) > 1 and not str(func).startswith(COPIES):
            raise RuntimeError(f"{func} got tensors of {' and '.join(sorted(devices))}")
        if func is torch.ops.aten._local_scalar_dense.default:
            kind = args[0].dtype
            return True if kind == torch.bool else 0.5 if kind.is_floating_point else 1
        return func(*args, **(kwargs or {}))


@contextmanager
def fake_device(dynamic: bool = False) -> Iterator[None]:
    """Inside, new tensors are fake, and real ones become fake when they are used.

    ``dynamic``: sizes may depend on numbers, as those of what a mask selects do; slower.
    """
    shapes = ShapeEnv() if dynamic else None
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes), StrictDevices():
        yield


def make_images(shape: tuple[int, ...], count: int = 2) -> list[Tensor]:
    """Images on the device, without numbers."""
    return [torch.rand(shape, device=DEVICE) for _ in range(count)]


def check_device(*found: Tensor) -> None:
    """A result is where its input was."""
    assert all(v.device.type == DEVICE for v in found)
