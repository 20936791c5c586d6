"""Before anything is handed over: has more been taken away than the noise?

With noise of variance v, d = x - y what a restoration changes, the error of  y + g d  is, in expectation,

    v - 2 g v (1 - f) + g^2 mean d^2,      f the divergence of the restoration per voxel, 0 <= f <= 1,

so the best g is  v (1 - f) / mean d^2 <= v / mean d^2.  Where mean d^2 is above v, image has been
removed with the noise, and the change is taken back by that factor: band by band, and block by block where
a block stands out. Voxels that were not noise but lost (impulses, dead columns) take no part.

Strips: two sums per band, and blocks of a fixed grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..weights import NoiseLaw

SIDE = 8
SLACK = 1.8
"""A block may lose this many times its noise variance before it is weakened: 64 voxels scatter by a fifth."""
NOTHING = 2e-4
"""A noise level below this part of the range is not worth touching a cube for: 74 dB."""

OWN, ADDED = 0.003, 0.004
"""Level in ranges of constant and photon noise: up to the first the image's own, above the second not."""
MIXED, PURE = 0.5, 0.93
"""Share of proportional noise, in the median over bands, from which it is removed, and in full."""
WEAK, CLEAR, STRICT = 0.001, 0.0015, 0.8
"""Below the first level the share must be above 0.8: images of low noise have a little of this kind too."""
SPREAD = 1.3
"""Mean square of a signal over its squared mean, about."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """The image to hand over, and what was kept of every band's change (0: the input itself).

    ``words`` says what happened to a user.
    """

    x: Tensor
    kept: Tensor
    words: str


def guard(y: Tensor, x: Tensor, law: NoiseLaw, lost: Tensor, blocks: bool = True) -> Guarded:
    """Weaken a restoration x of y where it would do harm, all (band, row, col) on the unit scale.

    Args:
        law: of the noise.
        lost: voxels whose value is not signal plus noise; there x stays.
    """
    if float(law.level.max()) < NOTHING:
        kept = torch.where(lost, x, y)
        return Guarded(kept, torch.zeros(len(y)), "nothing to do: no noise was found")
    own = (~lost).to(y)
    change = torch.where(lost, 0.0, x - y)
    noise = law.variance(x) * own
    count = own.sum((1, 2)).clamp_min(1)
    moved = change.square().sum((1, 2)) / count
    band = (noise.sum((1, 2)) / count / moved.clamp_min(1e-20)).clamp_max(1.0)
    g = band[:, None, None].expand_as(y)
    if blocks and min(y.shape[1:]) >= SIDE:
        g = torch.minimum(g, _block_share(change, noise))
    out = torch.where(lost, x, y + g * change)
    weak = int((band < 0.9).sum())
    words = f"{weak} of {len(y)} bands were changed less than the model wanted" if weak else ""
    return Guarded(out, band, words)


def _block_share(change: Tensor, noise: Tensor) -> Tensor:
    """min(1, SLACK noise / change^2) of blocks, spread smoothly over the pixels."""
    rows, cols = change.shape[1:]
    pool = [
        torch.nn.functional.avg_pool2d(v, SIDE, ceil_mode=True, count_include_pad=False)
        for v in (change.square(), noise)
    ]
    share = (SLACK * pool[1] / pool[0].clamp_min(1e-20)).clamp_max(1.0)
    wide = torch.nn.functional.interpolate(
        share.unsqueeze(0), scale_factor=float(SIDE), mode="bilinear", align_corners=False
    )
    return wide.squeeze(0)[:, :rows, :cols]


def spare_floor(law: NoiseLaw) -> NoiseLaw:
    """The law of what may be removed: a weak floor, constant or of photons, belongs to the image.

    Real images carry such a floor of their instrument, of 0.001 to 0.003 of the range, and nothing tells it
    from noise that was added. So of a band whose floor a + b s is below :data:`OWN` only the part
    proportional to the signal, c s^2, may go, and that only if it is most of the noise in most bands:
    beside a stronger floor c is not known well enough. Above :data:`ADDED` all may go.
    """
    level = law.level.double().square()
    a, b, c = (v.double() for v in (law.a, law.b, law.c))
    # The mean signal m that gives this level, if the mean of s^2 is SPREAD m^2.
    over = (level - a).clamp_min(0)
    m = 2 * over / (b + (b.square() + 4 * SPREAD * c * over).sqrt()).clamp_min(1e-30)
    floor = torch.minimum(a + b * m, level)
    # Bands of about the same floor are judged together.
    spread = floor.sqrt() / floor.sqrt().median().clamp_min(1e-30)
    alike = (spread > 0.2) & (spread < 5)
    height = torch.where(alike, floor.sqrt().median(), floor.sqrt())
    own = ((ADDED - height) / (ADDED - OWN)).clamp(0, 1)
    share = float((1 - floor / level.clamp_min(1e-30)).median())
    weak = min(1.0, max(0.0, (CLEAR - float(law.level.median())) / (CLEAR - WEAK)))
    mixed = MIXED + weak * (STRICT - MIXED)
    sure = min(1.0, max(0.0, (share - mixed) / (PURE - mixed)))
    gain = 1 - own * (1 - sure)
    found = (1 - own) * floor + gain * (level - floor)
    parts = (found.sqrt(), a * (1 - own), b * (1 - own), c * gain)
    return NoiseLaw(*(v.to(law.level) for v in parts))
