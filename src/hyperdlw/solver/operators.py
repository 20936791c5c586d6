"""Linear maps K with their adjoints and the eigenvalues of K'K under the Fourier transform.

Images are tensors (..., band, row, col); axes are counted from the end (-3 band, -2 row, -1 col).
Differences wrap around, as in the paper's code, so that K'K is diagonal in Fourier space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

BAND, ROW, COL = -3, -2, -1
AXES = (ROW, COL, BAND)


@dataclass(frozen=True)
class Operator:
    """A linear map with what ADMM needs of it.

    Attributes:
        apply: x -> K x.
        adjoint: u -> K'u.
        axes: the axes along which K'K is a convolution (none for the identity).
        symbol: (band, row, col) -> eigenvalues of K'K on the full Fourier grid of those axes,
            a float64 tensor with three axes that broadcasts against the image.
    """

    name: str
    apply: Callable[[Tensor], Tensor]
    adjoint: Callable[[Tensor], Tensor]
    axes: tuple[int, ...]
    symbol: Callable[[Sequence[int]], Tensor]


identity = Operator(
    "identity", lambda x: x, lambda u: u, (), lambda shape: torch.ones(1, 1, 1, dtype=torch.float64)
)
"""K = I."""


def _symbol(shape: Sequence[int], axis: int) -> Tensor:
    """Eigenvalues of D'D along one axis: 4 sin^2(pi q / n)."""
    n = shape[axis]
    values = 4.0 * torch.sin(math.pi * torch.arange(n, dtype=torch.float64) / n) ** 2
    view = [1, 1, 1]
    view[axis] = n
    return values.view(view)


def gradient(*axes: int, wrap: bool = True) -> Operator:
    """Differences along several axes, stacked in front of the band axis.

    (D x)_i = x_{i+1} - x_i and (D'u)_i = u_{i-1} - u_i with wrap-around; D x has the shape
    (..., axis, band, row, col). Without ``wrap`` the last difference of a line is 0, and there is no
    Fourier symbol: such a map serves inside a prox, not as the K of a term.

    >>> gradient(COL).apply(torch.tensor([[[1.0, 4.0, 9.0]]]))
    tensor([[[[ 3.,  5., -8.]]]])
    >>> gradient(ROW, COL).apply(torch.zeros(31, 8, 8)).shape
    torch.Size([2, 31, 8, 8])
    """

    def symbol(shape: Sequence[int]) -> Tensor:
        if not wrap:
            raise ValueError("differences that end at the border have no Fourier symbol")
        return sum((_symbol(shape, a) for a in axes[1:]), _symbol(shape, axes[0]))

    name = "gradient" + "".join({BAND: "b", ROW: "r", COL: "c"}[a] for a in axes)
    name += "" if wrap else " open"
    return Operator(
        name,
        lambda x: _differences(x, axes, wrap, False),
        lambda u: _differences(u, axes, wrap, True),
        tuple(sorted(axes)),
        symbol,
    )


def _gradient(x: Tensor, axes: Sequence[int], wrap: bool) -> Tensor:
    out = x.new_empty(*x.shape[:-3], len(axes), *x.shape[-3:])
    for part, axis in zip(out.unbind(-4), axes, strict=True):
        n = x.shape[axis]
        first, last = x.narrow(axis, 0, 1), x.narrow(axis, n - 1, 1)
        torch.sub(
            x.narrow(axis, 1, n - 1), x.narrow(axis, 0, n - 1), out=part.narrow(axis, 0, n - 1)
        )
        if wrap:
            torch.sub(first, last, out=part.narrow(axis, n - 1, 1))
        else:
            part.narrow(axis, n - 1, 1).zero_()
    return out


def _divergence(u: Tensor, axes: Sequence[int], wrap: bool) -> Tensor:
    out: Tensor | None = None
    for part, axis in zip(u.unbind(-4), axes, strict=True):
        n = part.shape[axis]
        if out is None:
            out = part.neg()
        else:
            out -= part
        out.narrow(axis, 1, n - 1).add_(part.narrow(axis, 0, n - 1))
        # Undo or close the line: u_{n-1} belongs to the first voxel, or to none.
        out.narrow(axis, 0 if wrap else n - 1, 1).add_(part.narrow(axis, n - 1, 1))
    assert out is not None
    return out


class _Differences(torch.autograd.Function):
    """D x, or D'x where ``transposed`` says so; each is the derivative of the other.

    One pass over memory per axis, where roll, subtract and stack need three, and backward as many.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Sequence[int], wrap: bool, transposed: bool) -> Tensor:
        ctx.how = axes, wrap, transposed
        return (_divergence if transposed else _gradient)(x, axes, wrap)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        axes, wrap, transposed = ctx.how
        return (_gradient if transposed else _divergence)(grads[0], axes, wrap), None, None, None


_differences: Callable[[Tensor, Sequence[int], bool, bool], Tensor] = _Differences.apply


OPPONENT = (
    (1 / math.sqrt(2), -1 / math.sqrt(2), 0.0),
    (1 / math.sqrt(6), 1 / math.sqrt(6), -2 / math.sqrt(6)),
    (1 / math.sqrt(3), 1 / math.sqrt(3), 1 / math.sqrt(3)),
)
"""Orthonormal colour rotation: two channels of saturation, then the value (brightness)."""


def opponent(k: Operator) -> Operator:
    """K P: rotate red, green, blue to saturation and value, then apply a map that acts on each band.

    P is orthonormal, so (K P)'(K P) = P'K'K P = K'K and the symbol is that of K.

    >>> x = torch.tensor([1.0, 1.0, 1.0]).view(3, 1, 1)
    >>> opponent(identity).apply(x).flatten()
    tensor([0.0000, 0.0000, 1.7321])
    """

    def rotate(x: Tensor, inverse: bool) -> Tensor:
        p = x.new_tensor(OPPONENT)
        return torch.matmul(p.mT if inverse else p, x.flatten(-2)).view_as(x)

    return Operator(
        f"opponent {k.name}",
        lambda x: k.apply(rotate(x, False)),
        lambda u: rotate(k.adjoint(u), True),
        k.axes,
        k.symbol,
    )


def _convert_once(table: Tensor) -> Callable[[Tensor], Tensor]:
    """r -> the table with the type and on the device of r; converted once for each."""

    @cache
    def converted(dtype: torch.dtype, device: torch.device) -> Tensor:
        return table.to(device=device, dtype=dtype)

    return lambda r: converted(r.dtype, r.device)


def invert_symbol(operators: Sequence[tuple[float, Operator]], shape: Sequence[int]) -> Tensor:
    """The eigenvalues of (sum_i a_i K_i'K_i)^-1, in float64, on the Fourier grid of their axes."""
    none = torch.zeros(1, 1, 1, dtype=torch.float64)
    return 1.0 / sum((a * k.symbol(shape) for a, k in operators), none)


def invert(
    operators: Sequence[tuple[float, Operator]], shape: Sequence[int]
) -> Callable[[Tensor], Tensor]:
    """A function that solves (sum_i a_i K_i'K_i) x = r for x; ``shape`` is (..., band, row, col).

    A real FFT pair over the axes the operators act on. Along a single axis (the spectrum) the
    inverse is a small circulant matrix and one matrix product is faster than strided transforms.
    """
    shape = tuple(shape[-3:])
    axes = tuple(sorted({a for _, k in operators for a in k.axes}))
    reciprocal = invert_symbol(operators, shape)
    if not axes:
        scale = float(reciprocal.squeeze())
        return lambda r: r * scale
    if len(axes) == 1:
        (axis,) = axes
        n = shape[axis]
        column = torch.fft.ifft(reciprocal.flatten()).real
        i = torch.arange(n)
        matrix = _convert_once(column[(i[:, None] - i[None, :]) % n])

        def solve_line(r: Tensor) -> Tensor:
            m = matrix(r)
            if axis == BAND:
                return torch.matmul(m, r.flatten(-2)).view_as(r)
            return torch.matmul(r.movedim(axis, -1), m.T).movedim(-1, axis)

        return solve_line
    first, last = axes[:-1], axes[-1]
    divisor = _convert_once(reciprocal.narrow(last, 0, shape[last] // 2 + 1))

    def solve_fourier(r: Tensor) -> Tensor:
        # One axis after the other and from the same layout, as for an image in strips: a penalty
        # that is not convex makes much of another rounding.
        spectrum: Tensor = torch.fft.rfft(r, dim=last)
        for axis in first:
            spectrum = torch.fft.fft(spectrum, dim=axis)
        spectrum = spectrum * divisor(r)
        for axis in reversed(first):
            spectrum = torch.fft.ifft(spectrum.contiguous(), dim=axis)
        image: Tensor = torch.fft.irfft(spectrum, n=shape[last], dim=last)
        return image

    return solve_fourier
