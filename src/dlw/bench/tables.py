"""The tables as data: what is compared, and what the paper prints for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .cases import Strength

NETWORKS = ("N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS")
"""The seven networks of the paper; N, T and TS name the source models nn, tv and tvs."""

SOURCE_OF = {"N": "nn", "T": "tv", "TS": "tvs"}

REFERENCE = "authors' "
"""Prefix of the rows of the checkpoints released with the paper."""


@dataclass(frozen=True)
class Row:
    """A line of a table: a weight source and a strength."""

    weights: str
    strength: Strength = 1.0

    @property
    def label(self) -> str:
        return self.weights if self.strength == 1.0 else f"{self.weights}, {self.strength} strength"


@dataclass(frozen=True)
class Table:
    """Models across, weight sources down, noise cases side by side.

    ``paper`` maps (weights, model, noise case) to the PSNR printed in the paper for the CAVE scenes.
    """

    name: str
    title: str
    models: tuple[str, ...]
    rows: tuple[Row, ...]
    noise: tuple[int, ...] = (1, 2, 3, 4, 5)
    paper: dict[tuple[str, str, int], float] = field(default_factory=dict)
    notes: str = ""
    colour: bool = False


FORMULAS = (
    Row("uniform"),
    Row("precision"),
    Row("robust"),
    Row("mixture"),
    Row("oracle"),
    Row("oracle", "best"),
)

SIMPLE = Table(
    name="simple",
    title="Simple targets: nn, tv and tvs with every weight source (tab-three-all, tab-three-com)",
    models=("nn", "tv", "tvs"),
    rows=(*[Row(n) for n in NETWORKS], *FORMULAS),
    paper={
        ("N", "nn", 1): 31.53,
        ("T", "tv", 1): 33.87,
        ("TS", "tvs", 1): 32.28,
        ("N+T+TS", "nn", 1): 31.63,
        ("N+T+TS", "tv", 1): 33.00,
        ("N+T+TS", "tvs", 1): 30.97,
    },
    notes="Paper: mean of ten whole CAVE scenes (512 x 512); only the rows known to us are given.",
)

COLOUR = Table(
    name="colour",
    title="Colour: tv with the colour network",
    models=("tv",),
    rows=(Row("colour-T"), *FORMULAS),
    colour=True,
)

TABLES: dict[str, Table] = {t.name: t for t in (SIMPLE, COLOUR)}
