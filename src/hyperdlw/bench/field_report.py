"""The report of the field table: the bars with what was measured, then every figure by noise and method."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..testbed import CASES, find_noise
from .experiment import Record
from .report import FIGURES
from .tables import list_skipped, write_page, write_rows

WORSE = 0.05
"""dB below the input from which a cube counts as made worse."""
MILD = ("snr20", "snr50", "snr150", "snr500", "snr1000", "mild")
LAWS = ("photons200", "emit", "tanager", "aviris-ng")
NOT_RIVALS = ("noisy", "plain", "auto", "known", "first")

Image = tuple[str, str, str, int]
"""(group, scene, noise, draw)."""


@dataclass(frozen=True)
class Bar:
    """A promise: what is asked, what was measured, and whether it is met (None: not measured)."""

    what: str
    asked: str
    measured: str = "not measured"
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        words = {None: "not measured", True: "yes", False: "**no**"}
        return self.what, self.asked, self.measured, words[self.met]


class FieldRecords:
    """The records of a run, by image and method."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.by_image: dict[Image, dict[str, Record]] = defaultdict(dict)
        for r in records:
            if "skipped" not in r:
                self.by_image[r["group"], r["scene"], r["noise"], r["seed"]][r["method"]] = r

    def pairs(
        self,
        one: str,
        two: str,
        noises: Sequence[str] | None = None,
        group: str | None = None,
        figure: str = "psnr",
    ) -> list[tuple[float, float]]:
        """A figure of two methods on every image that has both."""
        return [
            (found[one][figure], found[two][figure])
            for (where, _, noise, _), found in self.by_image.items()
            if (noises is None or noise in noises) and group in (None, where)
            if all(m in found and figure in found[m] for m in (one, two))
        ]

    def gain(
        self, one: str, two: str, noises: Sequence[str] | None = None, group: str | None = None
    ) -> float | None:
        """Mean PSNR of one method above another; None where no image has both."""
        found = self.pairs(one, two, noises, group)
        return statistics.fmean(a - b for a, b in found) if found else None

    def values(self, figure: str, method: str = "plain", **where: str) -> list[float]:
        """A figure of a method on the images of a noise, or of a group."""
        every = (found.get(method, {}) for found in self.by_image.values())
        return [r[figure] for r in every if figure in r and where.items() <= r.items()]

    def cells(self, noises: Sequence[str]) -> dict[tuple[str, str], dict[str, float]]:
        """Mean PSNR over the draws by (scene, noise) and method."""
        found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for (_, scene, noise, _), methods in self.by_image.items():
            if noise in noises:
                for name, r in methods.items():
                    found[scene, noise][name].append(r["psnr"])
        return {
            cell: {m: statistics.fmean(v) for m, v in methods.items()}
            for cell, methods in found.items()
        }


def list_bars(records: Sequence[Record]) -> list[Bar]:
    """Every bar of the field, in the order in which they were set."""
    m = FieldRecords(records)
    both = m.pairs("plain", "noisy", [n for n in noises_of(records) if n != "none"])
    worse = sum(a < b - WORSE for a, b in both)
    return [
        judge_bar("cubes made worse by more than 0.05 dB", "0", both, worse == 0, f"{worse} of {len(both)}"),
        least("a clean cube: PSNR of the least alike", 60, m.values("psnr", noise="none"), "dB"),
        *against_best("SNR 20 to 1000 and mild", m.cells(MILD)),
        *against_best("photons and the laws of instruments", m.cells(LAWS)),
        most("cases, below known limits, airborne", 0.3, m.gain("known", "plain", CASES, "airborne")),
        most("cases, below known limits, CAVE", 0.7, m.gain("known", "plain", CASES, "CAVE")),
        mean_cases(m),
        most("cases, known limits, airborne: above the first release", 0.3,
             m.gain("known", "first", CASES, "airborne"), at_least=True),
        most("case 2, airborne: above FastHyMix", 0,
             m.gain("plain", "fasthymix", ["case2"], "airborne"), at_least=True),
        most("even noise, airborne: above FastHyMix", 0,
             m.gain("plain", "fasthymix", ["even5", "even30"], "airborne"), at_least=True),
        most("column offsets: gained", 8, m.gain("plain", "noisy", ["column-offsets"]), at_least=True),
        ratio("column offsets: profile error, times smaller", 5, m.pairs("noisy", "plain", figure="profile")),
        greatest("roads along the track: changed, of the range", 0.001, m.values("road_change")),
        dead_bar(m),
        *[bright_bar(m, times) for times in (20, 200)],
        greatest("bright pixels: changed", 0.02, m.values("bright_change")),
        greatest("Indian Pines: removed, in noise levels", 1.1, m.values("removed_levels")),
        greatest("Indian Pines: correlation of what is removed", 0.15, m.values("removed_correlation")),
        time_bar(m),
        most("`--auto`: below the plain command", 0.1, m.gain("plain", "auto")),
        Bar("strips, resume, seeds", "as before", "tests/equivalences"),
    ]  # fmt: skip


def noises_of(records: Sequence[Record]) -> list[str]:
    """The noises of records, in the order in which they come."""
    return list(dict.fromkeys(r["noise"] for r in records))


def judge_bar(what: str, asked: str, found: object, met: bool, text: str) -> Bar:
    """A bar that is measured if anything was found."""
    return Bar(what, asked, text, met) if found else Bar(what, asked)


def most(what: str, limit: float, value: float | None, *, at_least: bool = False) -> Bar:
    """A mean in dB that must not be above a limit, or not below it."""
    asked = f"{'at least' if at_least else 'at most'} {limit:g} dB"
    if value is None:
        return Bar(what, asked)
    return Bar(what, asked, f"{value:+.2f} dB", value >= limit if at_least else value <= limit)


def least(what: str, limit: float, values: Sequence[float], unit: str = "") -> Bar:
    """The smallest value must reach a limit."""
    low = min(values, default=0.0)
    return judge_bar(what, f"at least {limit:g} {unit}", values, low >= limit, f"{low:.1f} {unit}")


def greatest(what: str, limit: float, values: Sequence[float]) -> Bar:
    """The largest value must keep to a limit."""
    high = max(values, default=0.0)
    return judge_bar(what, f"at most {limit:g}", values, high <= limit, f"{high:.3g}")


def ratio(what: str, limit: float, pairs: Sequence[tuple[float, float]]) -> Bar:
    """The geometric mean of ratios must reach a limit."""
    value = statistics.geometric_mean(a / max(b, 1e-9) for a, b in pairs) if pairs else 0.0
    return judge_bar(what, f"at least {limit:g}", pairs, value >= limit, f"{value:.1f}")


def against_best(
    what: str, cells: Mapping[tuple[str, str], Mapping[str, float]]
) -> tuple[Bar, Bar]:
    """In every cell near the best of all methods, and in the mean above each of them."""
    behind: dict[tuple[str, str], float] = {}
    margins: dict[str, list[float]] = defaultdict(list)
    for cell, methods in cells.items():
        rivals = {m: v for m, v in methods.items() if m not in NOT_RIVALS}
        if "plain" in methods and rivals:
            behind[cell] = max(rivals.values()) - methods["plain"]
            for m, v in rivals.items():
                margins[m].append(methods["plain"] - v)
    worst = max(behind, key=behind.__getitem__, default=("", ""))
    mean = {m: statistics.fmean(v) for m, v in margins.items()}
    nearest = min(mean, key=mean.__getitem__, default="")
    below, above = behind.get(worst, 0.0), mean.get(nearest, 0.0)
    return (
        judge_bar(f"{what}: below the best in any cell", "at most 0.3 dB", behind, below <= 0.3,
                  f"{below:+.2f} dB ({', '.join(worst)})"),
        judge_bar(f"{what}: in the mean above each", "above 0 dB", behind, above > 0,
                  f"{above:+.2f} dB ({nearest})"),
    )  # fmt: skip


def mean_cases(m: FieldRecords) -> Bar:
    """The mean of the cases with known limits on the CAVE scenes, cut to [0, 1] as in the paper's tables."""
    found = [v for n in CASES for v in m.values("psnr_cut", "known", noise=n, group="CAVE")]
    value = statistics.fmean(found) if found else 0.0
    what = "cases, known limits, CAVE: mean"
    return judge_bar(what, "at least 33.3 dB", found, value >= 33.3, f"{value:.2f} dB")


def dead_bar(m: FieldRecords) -> Bar:
    """Dead elements against the columns beside them."""
    dead, beside = m.values("psnr_dead"), m.values("psnr_beside")
    lost = statistics.fmean(beside) - statistics.fmean(dead) if dead else None
    return most("dead elements: below their neighbours", 1, lost)


def bright_bar(m: FieldRecords, times: int) -> Bar:
    """Bright pixels against the same noise without them."""
    lost: list[float] = []
    for (group, scene, noise, seed), found in m.by_image.items():
        other = m.by_image.get((group, scene, "even15", seed), {})
        if noise == f"bright{times}" and "plain" in found and "plain" in other:
            lost.append(other["plain"]["psnr"] - found["plain"]["psnr"])
    what = f"bright pixels, {times} times: lost off them"
    return most(what, 0.5, statistics.fmean(lost) if lost else None)


def time_bar(m: FieldRecords) -> Bar:
    """Processor seconds on the paper's cases against the first release, at the size of the run."""
    pairs = m.pairs("plain", "first", CASES, figure="processor")
    times = sum(a for a, _ in pairs) / max(sum(b for _, b in pairs), 1e-9)
    what = "time against the first release (set for 256x256x31; here at the size of the run)"
    return judge_bar(what, "at most 1.3", pairs, times <= 1.3, f"{times:.2f}")


def write_markdown(records: Sequence[Record], titles: Mapping[str, str]) -> str:
    """The bars, then the figures by group of scenes, then harm and seconds by method."""
    scored = [r for r in records if "psnr" in r]
    methods = [m for m in ("noisy", *titles) if any(r["method"] == m for r in scored)]
    seeds = len({r["seed"] for r in scored})
    bars = [b.cells for b in list_bars(records)]
    parts: list[str | list[str]] = [
        "# The field: every method as a user runs it",
        f"The noisy cube and nothing else, {seeds} noise draw{'s' * (seeds > 1)}. Bands have random gains "
        "and offsets. Figures are means over scenes and draws, on the scale of the clean band, not cut to "
        "[0, 1], off bright pixels and gaps; a band that is the same counts 200 dB. Airborne scenes carry "
        "noise of their own, so they judge no level above an SNR of 50. Lines that know more than a user "
        "are labelled and are not compared with.",
        "## The bars",
        write_rows(("what", "bar", "measured", "met"), bars, left=4),
    ]
    for group in dict.fromkeys(r["group"] for r in scored):
        mine = [r for r in scored if r["group"] == group]
        scenes = ", ".join(dict.fromkeys(r["scene"] for r in mine))
        parts += [f"## Scenes: {group}", f"{scenes}."]
        for figure, kind in FIGURES.items():
            parts += [f"### {group}: {kind.title}", write_figures(mine, methods, titles, figure)]
    parts += ["## Harm and time", write_harm(scored, methods[1:], titles)]
    return write_page(*parts, list_skipped(records, "method", "scene"))


def write_figures(
    records: Sequence[Record], methods: Sequence[str], titles: Mapping[str, str], figure: str
) -> list[str]:
    """A line per noise, a column per method; the best that knows no more than a user is bold."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for r in records:
        values[r["noise"], r["method"]].append(r[figure])
    kind = FIGURES[figure]
    pick: Callable[..., float] = max if kind.larger else min
    rows = []
    for noise in noises_of(records):
        mean = {m: statistics.fmean(values[noise, m]) for m in methods if (noise, m) in values}
        fair = [v for m, v in mean.items() if m not in ("noisy", "known", "first")]
        best = pick(fair) if len(fair) > 1 else None
        cells = []
        for m in methods:
            text = f"{mean[m]:.{kind.decimals}f}" if m in mean else "-"
            bold = m in mean and mean[m] == best and m not in ("noisy", "known", "first")
            cells.append(f"**{text}**" if bold else text)
        rows.append([find_noise(noise).title, *cells])
    return write_rows(["noise", *[titles.get(m, m) for m in methods]], rows)


def write_harm(
    records: Sequence[Record], methods: Sequence[str], titles: Mapping[str, str]
) -> list[str]:
    """Cubes made worse, and seconds, by method."""
    m, rows = FieldRecords(records), []
    for name in methods:
        both = m.pairs(name, "noisy", [n for n in noises_of(records) if n != "none"])
        worse = sum(a < b - WORSE for a, b in both)
        lost = max((b - a for a, b in both), default=0.0)
        seconds, busy = (statistics.fmean(m.values(f, name)) for f in ("seconds", "processor"))
        rows.append(
            (
                titles[name],
                f"{worse} of {len(both)}",
                f"{max(lost, 0):.2f}",
                f"{seconds:.2f}",
                f"{busy:.2f}",
            )
        )
    titles_row = ("method", "cubes made worse", "most lost, dB", "seconds", "processor seconds")
    return write_rows(titles_row, rows)
