"""Adjoints, Fourier symbols and inverses of the linear maps, over all shapes."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hyperdlw.solver.operators import (
    BAND,
    COL,
    OPPONENT,
    ROW,
    Operator,
    gradient,
    identity,
    invert,
    opponent,
)

OPERATORS = [identity] + [
    gradient(*axes) for n in (1, 2, 3) for axes in permutations((BAND, ROW, COL), n)
]
NAMES = [k.name for k in OPERATORS]
every_operator = pytest.mark.parametrize("k", OPERATORS, ids=NAMES)

sizes = st.integers(1, 7)
shapes = st.builds(
    lambda batch, image: (*batch, *image),
    st.lists(st.integers(1, 2), max_size=1),
    st.tuples(sizes, sizes, sizes),
)
quick = settings(max_examples=20, deadline=None, derandomize=True)


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@every_operator
@quick
@given(shape=shapes)
def test_adjoint(k: Operator, shape: tuple[int, ...]) -> None:
    """<K x, u> = <x, K'u>."""
    x = normal(shape, 0)
    kx = k.apply(x)
    u = normal(tuple(kx.shape), 1)
    close((kx * u).sum(), (x * k.adjoint(u)).sum())


OPEN = [gradient(*axes, wrap=False) for axes in [(ROW,), (COL,), (ROW, COL), (BAND, ROW)]]
COLOUR = [opponent(identity), opponent(gradient(ROW, COL))]


@pytest.mark.parametrize("k", OPEN, ids=lambda k: k.name)
@quick
@given(shape=shapes)
def test_adjoint_of_open_lines(k: Operator, shape: tuple[int, ...]) -> None:
    test_adjoint.hypothesis.inner_test(k, shape)


@pytest.mark.parametrize("k", COLOUR, ids=lambda k: k.name)
@quick
@given(size=st.tuples(sizes, sizes))
def test_colour(k: Operator, size: tuple[int, int]) -> None:
    test_adjoint.hypothesis.inner_test(k, (3, *size))
    test_symbol.hypothesis.inner_test(k, (3, *size))


def test_opponent_channels() -> None:
    """P is a rotation, and grey has no saturation."""
    p = torch.tensor(OPPONENT, dtype=torch.float64)
    close(p @ p.T, torch.eye(3, dtype=torch.float64))
    close((p @ torch.ones(3, dtype=torch.float64))[:2], torch.zeros(2, dtype=torch.float64))


def test_open_lines_end() -> None:
    x = torch.arange(4.0).view(1, 1, 4)
    assert gradient(COL, wrap=False).apply(x).flatten().tolist() == [1, 1, 1, 0]


@every_operator
@quick
@given(shape=shapes)
def test_symbol(k: Operator, shape: tuple[int, ...]) -> None:
    """K'K is multiplication by the symbol in Fourier space."""
    x, axes = normal(shape, 2), (BAND, ROW, COL)
    there = torch.fft.fftn(x, dim=axes) * k.symbol(shape[-3:])
    close(torch.fft.ifftn(there, dim=axes).real, k.adjoint(k.apply(x)))


SUMS = [
    [(0.7, identity)],
    [(0.7, identity), (1.9, identity)],
    *[[(0.7, identity), (1.9, k)] for k in OPERATORS[1:]],
    [(1.3, gradient(ROW)), (0.2, identity), (2.0, gradient(COL))],
    [(1.3, gradient(ROW, COL)), (0.2, identity), (2.0, gradient(BAND))],
]


@pytest.mark.parametrize("parts", SUMS, ids=lambda p: "+".join(k.name for _, k in p))
@quick
@given(shape=shapes)
def test_invert(parts: list[tuple[float, Operator]], shape: tuple[int, ...]) -> None:
    """invert() solves (sum a K'K) x = r."""
    r = normal(shape, 3)
    x = invert(parts, shape)(r)
    assert x.shape == r.shape
    close(sum(a * k.adjoint(k.apply(x)) for a, k in parts), r)


@pytest.mark.parametrize("axes", [(BAND,), (ROW,), (COL,), (ROW, COL), (BAND, ROW, COL)], ids=str)
def test_invert_keeps_single_precision(axes: tuple[int, ...]) -> None:
    r = normal((5, 6, 7), 4).float()
    solve = invert([(1.0, identity), (1.0, gradient(*axes))], r.shape)
    assert solve(r).dtype == torch.float32
    torch.testing.assert_close(solve(r).double(), solve(r.double()), rtol=0, atol=1e-5)


def test_difference_of_a_ramp_wraps_around() -> None:
    x = torch.arange(4.0).view(1, 1, 4)
    assert gradient(COL).apply(x).flatten().tolist() == [1, 1, 1, -3]
    assert not gradient(BAND, ROW).apply(x).any()
