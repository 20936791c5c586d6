"""The noises of the field by name: chains of blocks, as the lines of the field table need them.

Where a scene or a detector is broken some other noise lies below it, since no file is without any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

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
from .noise_blocks import Clean, Noisy, Rng, Start, start_chain


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
