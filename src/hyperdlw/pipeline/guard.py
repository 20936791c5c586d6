"""Before anything is handed over: has more been taken away than the noise?

With noise of variance v, d = x - y what a restoration changes, the error of  y + g d  is, in expectation,

    v - 2 g v (1 - f) + g^2 mean d^2,      f the divergence of the restoration per voxel, 0 <= f <= 1,

so the best g is  v (1 - f) / mean d^2 <= v / mean d^2.  Where mean d^2 is above v, image has been
removed with the noise, and the change of the band is taken back by that factor. Voxels that were not noise
but lost (impulses, dead columns) take no part. In strips these are two sums per band.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..weights import NoiseLaw

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


def sum_change(filled: Tensor, mild: Tensor, lost: Tensor, law: NoiseLaw) -> tuple[Tensor, Tensor]:
    """Sums (band,) over the voxels that are not lost: of the squared change, and of the noise variance."""
    moved = (mild - filled).square().masked_fill(lost, 0.0)
    noise = law.variance(mild).masked_fill(lost, 0.0)
    return moved.sum((1, 2), dtype=torch.float64), noise.sum((1, 2), dtype=torch.float64)


def guard_share(moved: Tensor, noise: Tensor) -> Tensor:
    """How much of a change is kept, band by band: min(1, noise / moved), of sums over the same voxels."""
    return (noise / moved.clamp_min(1e-30)).clamp_max(1.0).float()


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
