"""What is used when nothing is asked for; apart, so that the command line need not load torch."""

from typing import NamedTuple

MODEL = "plain"
"""The best of ``hyperdlw bench field``: lrtfdfr and eigenimages."""

WEIGHTS = "N+T+TS-remote"
"""Trained through all source models, on indoor and airborne scenes."""


class Quality(NamedTuple):
    """What a preset spends on a cube.

    Attributes:
        model: that takes the place of the default one.
        weights: the network that predicts the weights.
        steps: of the solver; its penalty ends where it ends after 20.
        passes: of the inner solver in every step.
        maps: whether eigenimages go through a network; else they are shrunk in a frame.
        looks: steps with a learned prior after the solver.
        mirror: whether their network sees the mirrored image, too.
    """

    model: str = MODEL
    weights: str = WEIGHTS
    steps: int = 20
    passes: int = 10
    maps: bool = True
    looks: int = 1
    mirror: bool = False


NORMAL = "normal"

QUALITIES = {
    "fast": Quality(weights="N+T+TS-fast", steps=10, passes=6, maps=False),
    NORMAL: Quality(),
    "best": Quality(looks=2, mirror=True),
}
"""What ``quality`` may name."""
