"""The tables as data: what is compared; and reports as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Strength = float | Literal["best", "auto"]
"""Factor on the regulariser; "best": the best of a grid on the clean image; "auto": the program's choice."""

NETWORKS = ("N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS")
"""The seven networks of the paper; N, T and TS name the source models nn, tv and tvs."""

SOURCE_MODELS = {"N": "nn", "T": "tv", "TS": "tvs"}

REFERENCE = "authors' "
"""Prefix of the rows of the checkpoints released with the paper."""


ORIGINAL = "original"
"""The weights of a model as its own paper has it: its own data term, no weights."""


@dataclass(frozen=True)
class Row:
    """A line of a table: a weight source and a strength, for every model of the table or for one.

    Attributes:
        weights: name of a weight source; empty for a method that takes none.
        strength: factor on the regulariser, or how it is found.
        model: the only model this row is for; None: every model of the table.
        name: what stands in front of the line; empty: the weights, or model and weights.
    """

    weights: str
    strength: Strength = 1.0
    model: str | None = None
    name: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """What stands in front of the line.

        >>> Row("oracle", "best").label
        'oracle, best strength'
        """
        return self.weights if self.strength == 1.0 else f"{self.weights}, {self.strength} strength"

    @property
    def method(self) -> str:
        """Model and weights together.

        >>> Row("N+T+TS", model="lrtv").method
        'lrtv, N+T+TS'
        """
        return ", ".join(w for w in (self.model, self.label) if w)


@dataclass(frozen=True)
class Table:
    """A table has noises side by side and rows down.

    Attributes:
        models: one part per model; empty: one part in all, with rows that name their model.
        rows: the weight sources.
        noise: names of the noises.
        label: how the labels of its tables in the paper begin; empty: it has none.
        data: the data set whose table of the paper stands beside ours.
        colour: it is for pictures of three bands.
        affected: bands with impulses, stripes or dead columns; None: 10 of 31, in proportion.
        panel: the rows that are shown as pictures.
        figures: the figures of merit that get a part with all noises.
        single: noises whose gains are told one by one.
    """

    name: str
    title: str
    models: tuple[str, ...]
    rows: tuple[Row, ...]
    noise: tuple[str, ...] = ("case1", "case2", "case3", "case4", "case5")
    label: str = ""
    data: str = "cave"
    notes: str = ""
    colour: bool = False
    affected: int | None = None
    panel: tuple[Row, ...] = ()
    figures: tuple[str, ...] = ("psnr",)
    single: tuple[str, ...] = ()

    def name_of(self, row: Row) -> str:
        """What stands in front of the line of a row."""
        return row.name or (row.label if self.models else row.method)

    def cells(self, rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
        """Every (row, model) of the table."""
        for row in rows:
            for model in (row.model,) if row.model else self.models:
                yield row, model


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
    rows=(*[Row(n) for n in NETWORKS], Row("N+T+TS-remote"), *FORMULAS),
    label="tab-three",
    notes="On CAVE the paper prints for uniform weights in nn the digits of ICVL: a copying error.",
    panel=(Row("uniform"), Row("oracle"), Row("N+T+TS")),
)

OWN = Table(
    name="networks",
    title="Every network in the models it was trained through",
    models=SIMPLE.models,
    rows=tuple(Row(n, model=SOURCE_MODELS[s]) for n in NETWORKS for s in n.split("+")),
    panel=tuple(Row("N+T+TS", model=m) for m in SIMPLE.models),
)

TARGETS = Table(
    name="targets",
    title="Models no network was trained with: lrtv, e3dtv, lrtfdfr and ctv (tab-tran-all, tab-tran-com)",
    models=("lrtv", "e3dtv", "lrtfdfr", "ctv"),
    rows=(Row(ORIGINAL), *[Row(n) for n in NETWORKS], Row("uniform"), Row("oracle")),
    label="tab-tran",
    panel=(Row(ORIGINAL), Row("uniform"), Row("N+T+TS")),
)

COLOUR = Table(
    name="colour",
    title="Colour: tv and svtv with the colour network (tab-tran-svtv)",
    models=("tv", "svtv"),
    rows=(
        Row(ORIGINAL, model="svtv"),
        Row(ORIGINAL, "best", model="svtv"),
        Row("colour-T"),
        *FORMULAS,
    ),
    label="tab-tran-svtv",
    data="bsds",
    notes="All three bands can have impulses, stripes or dead columns: that gives noisy figures like "
    "the paper's.",
    colour=True,
    affected=3,
    panel=(Row(ORIGINAL), Row("uniform"), Row("colour-T")),
)

MAIN = "N+T+TS"
"""The network that stands for DLW where only one is shown."""

RIVALS = Table(
    name="rivals",
    title="The published methods of the paper and the weighted models (tab-exist-com)",
    models=(),
    rows=(
        Row("", model="lrmr", name="LRMR"),
        Row("", model="nmog", name="NMoG"),
        Row(ORIGINAL, model="lrtv", name="LRTV"),
        Row(ORIGINAL, model="e3dtv", name="E3DTV"),
        Row(ORIGINAL, model="lrtfdfr", name="LRTF-DFR"),
        Row(ORIGINAL, model="ctv", name="CTV"),
        Row("", model="hyres", name="HyRes"),
        Row("", model="fasthymix", name="FastHyMix"),
        Row("", model="hsid-cnn", name="HSID-CNN"),
        Row("", model="hsi-denet", name="HSI-DeNet"),
        *[
            Row(MAIN, model=m, name=f"DLW-{m.upper()}")
            for m in ("nn", "lrtv", "e3dtv", "lrtfdfr", "ctv")
        ],
        Row(MAIN, model="pnp", name="DLW-PnP"),
    ),
    notes="FastHyMix is a reading of the published description, because its core is closed. HSID-CNN was "
    "trained here for a small part of its authors' budget. HSI-DeNet is not shipped: "
    "`hyperdlw train-rival hsi-denet` makes one, and `--networks FOLDER` brings it into this table. "
    "DLW-PnP uses the shipped eigenimage denoiser, not SERT.",
    label="tab-exist-com",
    figures=("psnr", "ssim", "sam"),
)
RIVALS = replace(RIVALS, panel=RIVALS.rows)

PNP = Table(
    name="pnp",
    title="Plug and play: the denoiser alone, uniform weights, and the seven networks (tab-sert)",
    models=("pnp", "pnp-hqs"),
    rows=(
        Row(ORIGINAL, model="pnp", name="denoiser alone"),
        Row(ORIGINAL, "best", model="pnp", name="denoiser alone, best level"),
        Row("uniform"),
        *[Row(n) for n in NETWORKS],
    ),
    label="tab-sert",
    notes="pnp is ADMM, pnp-hqs half-quadratic splitting. The denoiser alone gets the noise level it has "
    "in the loop, 50/255, or the best one of a grid, chosen on the clean cube. It is the shipped "
    "eigenimage denoiser where the paper has SERT, whose weights are not in any package: "
    "`--denoiser FILE` plugs in another one.",
    panel=(Row(ORIGINAL, name="denoiser alone"), Row("uniform"), Row(MAIN)),
    single=("case1", "case5"),
)

PRESET = "-paper"
"""Ending of the models with the constants of the paper."""

CONSTANTS = Table(
    name="constants",
    title="The constants that the paper prints, and ours",
    models=(),
    rows=tuple(
        Row(MAIN, model=m + preset, name=f"DLW-{m.upper()}, {whose}")
        for m in ("lrtv", "e3dtv", "lrtfdfr")
        for preset, whose in (("", "ours"), (PRESET, "the paper's"))
    ),
    label="tab-tran",
    notes="The paper prints no penalty, growth or number of steps: the models of its constants have "
    "those of the published LRTV and E3DTV (mu 0.01 growing by 1.5, 40 steps), LRTF-DFR ours. kappa and "
    "lambda do not follow the size of the image; the paper's scenes have 512 x 512 pixels. Our constants "
    "were chosen on a validation scene with our network; the paper's were not.",
)
CONSTANTS = replace(CONSTANTS, panel=CONSTANTS.rows)

TABLES: dict[str, Table] = {
    t.name: t for t in (SIMPLE, OWN, TARGETS, COLOUR, RIVALS, PNP, CONSTANTS)
}


# Reports as Markdown.


def write_rows(titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """A Markdown table; all columns but the first ``left`` are aligned to the right.

    >>> write_rows(("a", "b"), [("x", "1")])
    ['| a | b |', '|---|---:|', '| x | 1 |']
    """
    rule = "|" + "---|" * left + "---:|" * (len(titles) - left)
    head, *body = (f"| {' | '.join(cells)} |" for cells in (titles, *rows))
    return [head, rule, *body]


def write_page(*parts: str | Sequence[str]) -> str:
    """A Markdown text from its parts, paragraphs or lists of lines, with an empty line between any two.

    >>> write_page("# A", "", ["| a |", "|---|"])
    '# A\\n\\n| a |\\n|---|\\n'
    """
    blocks = (part if isinstance(part, str) else "\n".join(part) for part in parts)
    return "\n\n".join(block for block in blocks if block) + "\n"


def list_skipped(records: Iterable[Mapping[str, object]], *names: str) -> list[str]:
    """What was not run and why, by some facts of the records; a part of a page, or nothing."""
    skipped = [r for r in records if "skipped" in r]
    lines = {f"- {', '.join(str(r[n]) for n in names)}: {r['skipped']}" for r in skipped}
    return ["## Not run", "", *sorted(lines)] if lines else []


def wrap_prose(text: str, width: int = 100) -> str:
    """Break the long lines of a Markdown text; rows of tables and headings stay as they are.

    >>> wrap_prose("- a bb - ccc\\n| a bb ccc |", 8).splitlines()
    ['- a bb -', '  ccc', '| a bb ccc |']
    """

    def wrap_line(line: str) -> str:
        if len(line) <= width or line.startswith(("|", "#")):
            return line
        indent = "  " if line.startswith("- ") else ""
        # A line must not begin with a dash: it would be an item of a list.
        kept = line.replace(" - ", "\0- ")
        filled = textwrap.fill(
            kept, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return filled.replace("\0", " ")

    return "\n".join(map(wrap_line, text.split("\n")))
