"""Columns of a pushbroom sensor: an offset, or a gain, of every column of every band, found and removed.

    y_b(row, col) = x_b(row, col) + o_b(row, col) + noise,      o = o0_b(col) + drift along the rows.

Neighbouring columns see almost the same ground, so the median over rows of y(col + 1) - y(col) is the
step of the offsets plus a little of the scene. Steps are measured in blocks of rows, and their sine
transform along the columns has, at the angle a, the covariance over the bands

    (2 - 2 cos a) (T + N) + K :

offsets T and noise N are white along the columns, the profile of the scene is a random walk K. Three facts
tell them apart. Odd and even blocks share the offsets and not the noise. Offsets have fast steps, the scene
slow ones. And the scene changes with the same spectra along the track, where there are no columns: that
gives the shape of K. What is removed is the mean of T given the steps; it is nothing where odd and even
blocks agree no better than by chance.

An edge or a road along the track is a few large steps among many small ones: what exceeds the usual size is
left to the scene.

Exact for images on disk: at most 64 rows of each of at most eight blocks of rows are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dst, idct
from scipy.linalg import eigh

from ..weights import find_medians

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

BLOCKS = 8
"""Blocks of rows at most; always an even number."""
LEAST_ROWS = 8
MOST_ROWS = 64
"""Rows of a block at least, and those of them that are looked at, at most."""
FAR = 3.0
"""Steps beyond this many times the usual size are left to the scene."""
DRAWS = 12
"""Draws of chance that the agreement of odd and even blocks is compared with."""
ROUGH = 4.0
"""How fast the weight of a step falls with the disagreement of its rows."""
SURE = 3.0
"""Mean over the bands of log(1 + T / N) from which columns are believed."""
PLAIN = 0.1
"""Part of the walk of the scene that has no preferred spectrum."""
FASTER = 2.0
"""Offsets that are white have steps 4.5 times as strong above as below the middle angle, a random walk 1."""
BACK = 1.5
"""How fast steps beyond the usual size lose influence."""
ROUNDS = 30
MAD = 1.4826


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of an image.

    Attributes:
        parts: (term, band, col): coefficients of 1, t and (3 t^2 - 1) / 2 with t = -1..1 along the rows.
        rows: number of rows of the image.
        gain: whether the parts are relative, y = x (1 + o).
    """

    parts: F64
    rows: int
    gain: bool

    @classmethod
    def none(cls, shape: Sequence[int]) -> Columns:
        """Nothing to remove from an image (band, row, col)."""
        bands, rows, cols = shape
        return cls(np.zeros((1, bands, cols)), rows, False)

    @property
    def kind(self) -> str:
        """In a word."""
        return ("gains" if self.gain else "offsets") if self.found else ""

    @property
    def found(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.parts.any())

    def at(self, first: int, last: int) -> F64:
        """The columns (band, row, col) of the rows ``first`` to ``last`` (not included)."""
        curve = _curves(np.arange(first, last), self.rows)
        # A fixed part alone has no drift to add.
        return np.asarray(
            np.einsum("kbc,kr->brc", self.parts, curve[: len(self.parts)], optimize=True)
        )

    def removed(self, y: F32, first: int = 0) -> F32:
        """Rows of the image, the first of which is number ``first``, without their columns."""
        if not self.found:
            return y
        column = self.at(first, first + y.shape[1])
        # A gain of -1 would say that nothing was measured.
        out = y / np.maximum(1 + column, 0.2) if self.gain else y - column
        return out.astype(np.float32)


def row_blocks(rows: int) -> list[tuple[int, int]]:
    """First and last row of the blocks of an image; none where there are too few rows."""
    number = min(BLOCKS, rows // LEAST_ROWS // 2 * 2)
    edge = [rows * k // number for k in range(number + 1)] if number else []
    return list(pairwise(edge))


@dataclass(frozen=True, eq=False)
class Measured:
    """What is kept of a block of rows.

    Attributes:
        step: median over the rows of y(col + 1) - y(col), (band, col - 1); NaN where nothing is known.
        spread: median distance of the rows from it.
        along: covariance (band, band) of the changes of the scene along the track.
    """

    step: F64
    spread: F64
    along: F64


def measure(y: F32, gain: bool = False) -> Measured:
    """Measure a block of rows (band, row, col), NaN where nothing was measured.

    Args:
        gain: relative steps, each difference divided by the mean of the two values.
    """
    whole = bool(np.isfinite(y).all())
    # A file may have no value in a whole column.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        step = np.diff(y, axis=2)
        along = _along_track(y, whole)
        if gain:
            level = 0.5 * (y[..., 1:] + y[..., :-1])
            median = np.median if whole else np.nanmedian
            typical = np.nan_to_num(median(np.abs(y), axis=(1, 2), keepdims=True))
            # Next to nothing has no gain: dark values are left out.
            step = np.where(level > 0.25 * typical, step / np.where(level != 0, level, 1), np.nan)
            along /= np.maximum(typical[:, 0] * typical[:, 0].T, 1e-30)
    step = np.ascontiguousarray(step.transpose(0, 2, 1))
    seen = torch.from_numpy(np.isfinite(step))
    middle = find_medians(torch.from_numpy(step), seen).numpy()
    spread = find_medians(torch.from_numpy(np.abs(step - middle[..., None])), seen).numpy()
    few = seen.sum(2).numpy() < 4
    return Measured(np.where(few, np.nan, middle), np.where(few, np.nan, spread), along)


def _along_track(y: F32, whole: bool) -> F64:
    """Covariance over the bands of the changes between neighbouring cells of 4x4 pixels along the track."""
    bands, rows, cols = y.shape
    if rows < 8 or cols < 4:
        return np.zeros((bands, bands))
    cells = y[:, : rows // 4 * 4, : cols // 4 * 4].reshape(bands, rows // 4, 4, cols // 4, 4)
    mean = (cells.mean(axis=(2, 4)) if whole else np.nanmean(cells, axis=(2, 4))).astype(np.float64)
    change = np.nan_to_num(np.diff(mean, axis=1).reshape(bands, -1))
    size = np.sqrt((change**2).mean(axis=0))
    # Few edges must not stand for the whole scene.
    change *= np.minimum(1, FAR * np.median(size) / np.maximum(size, 1e-30))
    return np.asarray(change @ change.T / change.shape[1])


def find_columns(
    read: Callable[[slice], F32],
    shape: Sequence[int],
    find_blocks: Callable[[Sequence[Measured], int], Columns] | None = None,
) -> Columns:
    """The columns of an image (band, row, col) in its own units: offsets, or gains, or none.

    Args:
        read: gives rows of it, NaN where nothing was measured.
        find_blocks: finds shifted blocks of columns (:mod:`hyperdlw.pipeline.shifted`), which are looked
            for where there is nothing else.
    """
    rows = shape[1]
    measured: dict[bool, list[Measured]] = {False: [], True: []}
    for a, b in row_blocks(rows):
        every = -(-(b - a) // MOST_ROWS)
        if every == 1:
            y = read(slice(a, b))
        else:
            y = np.concatenate([read(slice(r, r + 1)) for r in range(a, b, every)], axis=1)
        y = np.where(np.isfinite(y), y, np.float32(np.nan))
        for gain, blocks in measured.items():
            blocks.append(measure(y, gain))
    # Gains only where there are no offsets: of numbers whose zero is not the true one they mean nothing.
    for gain, blocks in measured.items():
        found, sure = settle(blocks, rows, gain)
        if sure > 0:
            return found
    return Columns.none(shape) if find_blocks is None else find_blocks(measured[False], rows)


def settle(blocks: list[Measured], rows: int, gain: bool) -> tuple[Columns, float]:
    """The columns from what was measured, and their size over chance (0: there are none)."""
    if len(blocks) < 2 or blocks[0].step.shape[1] < 16:
        shape = (blocks[0].step.shape[0], blocks[0].step.shape[1] + 1) if blocks else (1, 1)
        return Columns(np.zeros((1, *shape)), rows, gain), 0.0
    steps, spread = np.stack([m.step for m in blocks]), np.stack([m.spread for m in blocks])
    along = np.mean([m.along for m in blocks], axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        middle, usual = np.nanmedian(steps, axis=0), np.nanmedian(spread, axis=2, keepdims=True)
        # Where the rows disagree there is an edge, and its median is worth little.
        rough = np.nanmean(spread / np.maximum(usual, 1e-30), axis=(0, 1))
    steps = np.where(np.isfinite(steps), steps, np.nan_to_num(middle))
    calm = 1 / np.clip(np.nan_to_num(rough, nan=1e3), 1, 1e3) ** ROUGH
    place = np.array([(a + b - 1) / 2 for a, b in row_blocks(rows)])
    terms = 3 if len(blocks) >= 6 else 1
    curve = _curves(place, rows)[:terms]
    parts, sure = [], 0.0
    for k in range(terms):
        odd, even = (_contrast(steps, curve, k, slice(i, None, 2)) for i in (0, 1))
        part, how = _split(odd, even, calm, along, SURE if k == 0 else 0.0)
        if k == 0:
            sure = how
        parts.append(part)
        if sure == 0:
            break
    return Columns(np.stack(parts), rows, gain), sure


def _curves(row: NDArray[Any], rows: int) -> F64:
    """1, t and (3 t^2 - 1) / 2 with t = -1..1 along the rows, (3, row)."""
    t = 2 * np.asarray(row, float) / max(1, rows - 1) - 1
    return np.stack([np.ones_like(t), t, (3 * t * t - 1) / 2])


def _contrast(steps: F64, curve: F64, k: int, which: slice) -> F64:
    """Coefficient k of a least-squares fit of the curves to the steps of some blocks, (band, col - 1)."""
    s, c = steps[which], curve[:, which]
    if k == 0 and len(s) > 2:
        # The fixed part is a median, because edges are in some blocks only.
        return np.asarray(np.median(s, axis=0))
    solve = np.linalg.pinv(c)
    return np.asarray(np.einsum("n,nbc->bc", solve[:, k], s))


def _split(odd: F64, even: F64, calm: F64, along: F64, least: float) -> tuple[F64, float]:
    """Offsets (band, col) from the steps of two halves of the blocks, and their size over the noise."""
    bands, n = odd.shape
    live = (odd != even).any(axis=1)
    if not live.all():
        # A band without a measured step (gains of negative values) has no covariance to invert.
        found, sure = np.zeros((bands, n + 1)), 0.0
        if live.any():
            part = along[np.ix_(live, live)]
            found[live], sure = _split(odd[live], even[live], calm, part, least)
        return found, sure
    scale = MAD * np.median(np.abs(odd - even), axis=1) / 2
    scale = np.maximum(scale, 1e-6 * np.abs(odd).max() + 1e-12)[:, None]
    odd, even = odd / scale, even / scale
    fast = 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))
    step = (odd + even) / 2
    bound = calm * FAR * np.median(_size(step))
    columns = _shared(_cut(odd, bound), _cut(even, bound), fast)
    if not columns.any():
        return np.zeros((bands, n + 1)), 0.0
    noise = np.diag(_sine(_cut((odd - even) / 2, bound)) ** 2 @ fast / (fast**2).sum())
    shape = along / (scale * scale.T)
    shape = shape * (bands / max(float(np.trace(shape)), 1e-30)) + PLAIN * np.eye(bands)
    walk = shape * _walk_size(_sine(_cut(step, bound)), columns + noise, shape, fast)
    sure = float(np.log1p(np.diag(columns) / np.diag(noise)).mean())
    if sure < least:
        return np.zeros((bands, n + 1)), 0.0
    mean = _given(columns, noise, walk, fast)
    usual = FAR * np.sqrt(np.trace(walk + 2 * noise) / bands)
    found = mean(_cut(step, bound, BACK))
    for _ in range(ROUNDS):
        now = np.diff(found, axis=1)
        found = mean(now + _cut(step - now, calm * usual, BACK))
    return found * scale, sure


def _size(step: F64) -> F64:
    return np.asarray(np.sqrt((step**2).mean(axis=0)))


def _cut(step: F64, bound: F64, power: float = 1.0) -> F64:
    """Steps (band, col), those of a size over the bands beyond ``bound`` (col,) made smaller.

    With ``power`` 1 they are drawn back to the bound. A road would still be two steps then, which make a
    column; with a larger power steps are the smaller the further they are beyond it.
    """
    return step * np.minimum(1, bound / np.maximum(_size(step), 1e-30)) ** power


def _sine(step: F64) -> F64:
    return np.asarray(dst(step, type=1, norm="ortho", axis=-1))


def _shared(odd: F64, even: F64, fast: F64) -> F64:
    """The covariance T (band, band) of the offsets: what the steps of both halves have in common.

    The covariance of the halves is fast T + K. Weights in proportion to ``fast`` give T and a third of
    K. Directions count that stand above chance, which is seen in the difference of the halves under
    random signs. What is left on the diagonal is what a band has for itself. It is nothing altogether if
    fast steps are not ``FASTER`` times as strong as slow ones.
    """
    a, b = _sine(odd), _sine(even)
    weight = fast / (fast**2).sum()

    def common(p: F64, q: F64, w: F64) -> F64:
        c = (p * w) @ q.T
        return (c + c.T) / 2

    upper = np.arange(len(fast)) >= len(fast) // 2
    quick, slow = ((a * b).sum(axis=0)[part].mean() for part in (upper, ~upper))
    if quick <= FASTER * max(slow, 0.0):
        return np.zeros((len(a), len(a)))
    rng = np.random.default_rng(0)
    rest = (a - b) / np.sqrt(2)
    null = [common(rest, rest, weight * rng.choice([-1.0, 1.0], len(fast))) for _ in range(DRAWS)]
    chance = max(float(np.linalg.eigvalsh(c).max()) for c in null)
    total = common(a, b, weight)
    values, vectors = np.linalg.eigh(total)
    kept = values > 1.2 * chance
    shared = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    own = np.diag(total - shared)
    # One band says little about its own part, all bands together say enough.
    pooled = float(own.mean())
    if kept.any() and pooled > 1.2 * max(abs(float(np.diag(c).mean())) for c in null):
        shared += np.diag((pooled + np.maximum(own, 0.0)) / 2)
    return np.asarray(shared)


def _walk_size(coefficients: F64, white: F64, shape: F64, fast: F64) -> float:
    """The factor q of greatest likelihood for coefficients of covariance fast ``white`` + q ``shape``."""
    values, turn = eigh(shape, white)
    power = (turn.T @ coefficients) ** 2
    trials = np.logspace(-5, 1, 25) * float(np.trace(white)) / len(white)

    def badness(q: float) -> float:
        variance = fast + q * np.maximum(values, 0)[:, None]
        return float((np.log(variance) + power / variance).sum())

    return float(min(trials, key=badness))


def _given(columns: F64, noise: F64, walk: F64, fast: F64) -> Callable[[F64], F64]:
    """The mean of the offsets given their steps, T (fast (T + N) + K)^-1 step, as a function of the steps.

    The basis V with V'(T + N) V = 1 and V'K V = diag(m) makes the inverse V diag(1 / (fast + m)) V'.
    """
    size, turn = eigh(walk, columns + noise)
    root = np.sqrt(fast)

    def mean(step: F64) -> F64:
        z = (turn.T @ _sine(step)) * (root / (fast + np.maximum(size, 0)[:, None]))
        # Steps with sine coefficients root(fast) c belong to offsets with cosine coefficients -c.
        level = idct(np.pad(-z, ((0, 0), (1, 0))), type=2, norm="ortho", axis=-1)
        return np.asarray(columns @ (turn @ level))

    return mean
