"""Noises by name: the cases of the paper, those of the field, and those of installed packages.

A noise is a function ``(clean, rng, ...) -> Noisy`` with one line in :data:`NOISES`, or one entry
point ``hyperdlw.noise`` in another package; training, benchmark and command line then know its name.
It is a chain of blocks, each of which notes in the :class:`Truth` what it did::

    def my_noise(x, rng):
        "Gaussian noise and stripes in every band."
        return stripes(gaussian(x, rng), rng, affected=len(x))

What the paper leaves open, and what was chosen, stands in docs/decisions.md.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from ..errors import BadInput, BadOption
from ..io import Entry, Registry
from .field_blocks import (
    add_even,
    add_instrument,
    add_mild,
    add_proportional,
    brighten,
    change_gains,
    count_photons,
    cut_gaps,
    kill_elements,
    shift_blocks,
    shift_columns,
)
from .noise_blocks import F32, Clean, Pair, Rng, Start, draw_band_sigma, draw_bump_sigma
from .noise_blocks import Noisy as Noisy
from .noise_blocks import Truth as Truth
from .noise_blocks import add_gaussian as add_gaussian
from .noise_blocks import dead_columns as dead_columns
from .noise_blocks import gaussian as gaussian
from .noise_blocks import impulses as impulses
from .noise_blocks import spatial_gaussian as spatial_gaussian
from .noise_blocks import start_chain as start_chain
from .noise_blocks import stripes as stripes

PEAK: Pair = (10.0, 200.0)
"""Limits of the photons of a white voxel, one number per band."""
READ_OUT = 0.02
"""Standard deviation of the read-out noise beside the photons', for data in [0, 1]."""

# The cases of the paper.


def make_case1(x: Clean, rng: Rng, *, affected: int | None = None, clip: bool = True) -> Noisy:
    """Gaussian and impulses."""
    return impulses(gaussian(x, rng), rng, affected=affected, clip=clip)


def make_case2(x: Clean, rng: Rng, *, affected: int | None = None) -> Noisy:
    """Gaussian and stripes."""
    return stripes(gaussian(x, rng), rng, affected=affected)


def make_case3(x: Clean, rng: Rng, *, affected: int | None = None) -> Noisy:
    """Gaussian and dead columns."""
    return dead_columns(gaussian(x, rng), rng, affected=affected)


def make_case4(x: Clean, rng: Rng) -> Noisy:
    """Spatially varying Gaussian."""
    return spatial_gaussian(x, rng)


def make_case5(x: Clean, rng: Rng, *, affected: int | None = None, clip: bool = True) -> Noisy:
    """Mixture of all.

    Either kind of Gaussian (band by band, probability 1/2), then the others on bands drawn anew.
    """
    noisy = start_chain(x)
    even = draw_band_sigma(len(noisy.y), rng)
    bumps = draw_bump_sigma(noisy.y.shape, rng)
    spatial = rng.random((len(noisy.y), 1, 1)) < 0.5
    noisy = add_gaussian(noisy, np.where(spatial, bumps, even), rng)
    noisy = stripes(noisy, rng, affected=affected)
    noisy = impulses(noisy, rng, affected=affected, clip=clip)
    return dead_columns(noisy, rng, affected=affected)


# Noises that no shipped network was trained for.


def make_heavy_mixture(x: Clean, rng: Rng) -> Noisy:
    """Case 5, 20 of 31 bands affected."""
    return make_case5(x, rng, affected=round(20 / 31 * len(x)))


def make_full_mixture(x: Clean, rng: Rng) -> Noisy:
    """Case 5, all bands affected."""
    return make_case5(x, rng, affected=len(x))


def add_photons(x: Clean, rng: Rng) -> Noisy:
    """Photons and read-out.

    y_b = Poisson(peak_b x_b) / peak_b + READ_OUT n: the variance x_b / peak_b + READ_OUT^2 grows with
    the signal, and every band has its own exposure, log-uniform in ``PEAK``.
    """
    start = start_chain(x)
    unit = np.clip(start.y, 0, 1)
    peak = PEAK[0] * (PEAK[1] / PEAK[0]) ** rng.random((len(unit), 1, 1))
    y: F32 = (rng.poisson(unit * peak) / peak).astype(np.float32)
    sigma = np.sqrt(unit / peak + READ_OUT**2).astype(np.float32)
    y = y + np.float32(READ_OUT) * rng.standard_normal(y.shape, np.float32)
    return Noisy(y, replace(start.truth, sigma=sigma))


def make_wide_stripes(x: Clean, rng: Rng, width: int) -> Noisy:
    """Add Gaussian noise, and stripes ``width`` columns wide in 10 of 31 bands."""
    noisy = gaussian(x, rng)
    bands, rows, cols = noisy.y.shape
    narrow = np.zeros((bands, 1, -(-cols // width)), np.float32)
    wide = np.repeat(stripes(narrow, rng).y, width, 2)[:, :, :cols]
    stripe = noisy.truth.stripe + np.broadcast_to(wide, (bands, rows, cols))
    return Noisy(noisy.y + wide, replace(noisy.truth, stripe=stripe))


def make_stripes3(x: Clean, rng: Rng) -> Noisy:
    """Stripes 3 columns wide."""
    return make_wide_stripes(x, rng, 3)


def make_stripes8(x: Clean, rng: Rng) -> Noisy:
    """Stripes 8 columns wide."""
    return make_wide_stripes(x, rng, 8)


# The noises of the field. Where a scene or a detector is broken some other noise lies below it, since no
# file is without any.


class Block(Protocol):
    """One kind of damage."""

    def __call__(self, x: Start, rng: Rng, /) -> Noisy: ...


def chain_blocks(about: str, *blocks: Block) -> Callable[[Clean, Rng], Noisy]:
    """A noise that is its blocks, one after the other; ``about`` says what it is."""

    def make_noise(x: Clean, rng: Rng) -> Noisy:
        noisy = start_chain(x)
        for block in blocks:
            noisy = block(noisy, rng)
        return noisy

    make_noise.__doc__ = about
    return make_noise


def _even(level: int) -> Block:
    return partial(add_even, sigma=level / 255)


def _instrument(name: str) -> Block:
    # In full sun the noise of these instruments is near an SNR of 500.
    return partial(add_instrument, name=name, dim=0.1)


_snr150 = partial(add_proportional, snr=150)

FIELD_NOISES = {
    **{f"even{s}": chain_blocks(f"Gaussian, {s}/255 everywhere", _even(s)) for s in (5, 15, 30)},
    "mild": chain_blocks("Gaussian, 2 to 10/255 per band", add_mild),
    **{
        f"snr{s}": chain_blocks(
            f"SNR {s}, in proportion to the signal", partial(add_proportional, snr=s)
        )
        for s in (20, 50, 150, 500, 1000)
    },
    "photons200": chain_blocks("Photons, 200 at full scale", count_photons),
    "emit": chain_blocks("Photon law of EMIT, a tenth of the sun", _instrument("emit")),
    "tanager": chain_blocks("Photon law of Tanager-1, a tenth of the sun", _instrument("tanager")),
    "aviris-ng": chain_blocks(
        "Photon law of AVIRIS-NG, a tenth of the sun", _instrument("aviris-ng")
    ),
    "dead-elements": chain_blocks(
        "Dead detector elements as on EMIT, and mild", add_mild, kill_elements
    ),
    "column-gains": chain_blocks("Column gains as on HYPSO-1, and SNR 150", _snr150, change_gains),
    "column-offsets": chain_blocks(
        "Column offsets of a pushbroom sensor, drifting, and Gaussian 10/255",
        _even(10),
        shift_columns,
    ),
    "wide-stripes": chain_blocks("Stripes 3 to 15 columns wide, and mild", add_mild, shift_blocks),
    **{
        f"bright{t}": chain_blocks(
            f"Pixels {t} times as bright, and Gaussian 15/255",
            partial(brighten, times=t),
            _even(15),
        )
        for t in (20, 200)
    },
    "gaps": chain_blocks("Rows, blocks and a hole without data, and mild", add_mild, cut_gaps),
    "none": chain_blocks("No noise at all"),
}
"""What a file in the field looks like, by name."""

# The registry.


@dataclass(frozen=True)
class Noise(Entry):
    """A noise that has a name.

    ``build`` is (clean, rng, options) -> Noisy, ``takes`` the names of its options, such as "affected";
    ``about`` is what it is, in a few words: the first line of the function's docstring.
    """

    about: str = ""

    @property
    def case(self) -> int | None:
        """The number of a case of the paper; None for other noises."""
        return int(self.name[-1]) if self.name in CASES else None

    @property
    def title(self) -> str:
        """What stands above a column of a table: "case 1", or the name."""
        return self.name if self.case is None else f"case {self.case}"

    @property
    def stream(self) -> int:
        """A number that stands for this noise in the seed of a random stream."""
        return zlib.crc32(self.name.encode()) if self.case is None else self.case

    def leaves_scene(self) -> bool:
        """Whether it makes no gaps and no bright pixels, as the patches of a training need it."""
        return self.apply(np.full((8, 32, 32), 0.5), np.random.default_rng(0)).judged is None

    def apply(self, x: Clean, rng: Rng, **options: int | bool | None) -> Noisy:
        """Make a clean cube (band, row, col) in [0, 1] noisy; options that are None are left out.

        >>> find_noise("photons").apply(np.full((3, 4, 5), 0.5), np.random.default_rng(0)).y.shape
        (3, 4, 5)
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.takes:
                takes = f"takes {', '.join(sorted(self.takes))}" if self.takes else "has no options"
                raise BadOption(f"the noise '{self.name}' {takes}; '{name}' is not one")
        start = Noisy.clean(x)
        low, high = float(start.y.min()), float(start.y.max())
        if not (low >= -1e-3 and high <= 1 + 1e-3):  # also catches NaN
            raise BadInput(
                f"noise levels are meant for data in [0, 1]; this cube spans {low:g} to {high:g}: "
                "scale each band first and leave out NaN"
            )
        noisy = self.build(start.y, rng, **given)
        if not isinstance(noisy, Noisy) or noisy.y.shape != start.y.shape:
            raise BadInput(
                f"the noise '{self.name}' did not return a Noisy cube of the shape of its input"
            )
        return noisy


def _make_entry(name: str, given: Callable[..., Noisy]) -> Noise:
    options = list(inspect.signature(given).parameters)[2:]
    about = ((given.__doc__ or "").strip().splitlines() or [""])[0].rstrip(".")
    kind = "case of the paper" if name in CASES else "other noise"
    kind = "noise of the field" if name in FIELD_NOISES else kind
    return Noise(name, given, kind, frozenset(options), about or name)


CASES = ("case1", "case2", "case3", "case4", "case5")
"""Names of the cases of the paper."""

NOISES: Registry[Noise] = Registry(
    "noise",
    "hyperdlw.noise",
    {
        **dict(
            zip(CASES, (make_case1, make_case2, make_case3, make_case4, make_case5), strict=True)
        ),
        "case5-most": make_heavy_mixture,
        "case5-all": make_full_mixture,
        "photons": add_photons,
        "stripes3": make_stripes3,
        "stripes8": make_stripes8,
        **FIELD_NOISES,
    },
    _make_entry,
)
"""Every noise by name; another package adds one with an entry point ``hyperdlw.noise``."""


def find_noise(name: str | int) -> Noise:
    """The noise of a name, or of the number of a case of the paper.

    >>> find_noise(1).about, find_noise("5").name, find_noise("photons").about
    ('Gaussian and impulses', 'case5', 'Photons and read-out')
    """
    text = str(name).strip()
    return NOISES.find(f"case{text}" if text.isdigit() else text)


def case(
    number: int | str, x: Clean, rng: Rng, *, affected: int | None = None, clip: bool | None = None
) -> Noisy:
    """Make a case of the paper, by its number, or any other noise that has a name.

    Args:
        x: clean cube (band, row, col), every band scaled to [0, 1].
        affected: number of bands with impulses, stripes or dead columns; None: 10 of 31.
        clip: cut bands to [0, 1] before impulses are set in them; None: yes.

    >>> dirty = case(1, np.full((31, 8, 8), 0.5), np.random.default_rng(0))
    >>> dirty.y.dtype.name, int(dirty.truth.impulse.any(axis=(1, 2)).sum())
    ('float32', 10)
    """
    return find_noise(number).apply(x, rng, affected=affected, clip=clip)
