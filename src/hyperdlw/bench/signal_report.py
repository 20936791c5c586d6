"""The report of the signal table: the bars, then detectors by noise, amplitude and kind, then mixtures."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..testbed import find_noise, signals
from .experiment import Record
from .field_report import Bar, judge_bar
from .tables import list_skipped, write_page, write_rows

SHOWN = 3.0
"""Standard errors above a half from which the noisy cube shows a signal."""
SURE = 2.0
"""Standard errors from which a fall is more than chance."""
FALL = 0.01
"""A fall of the area under the curve that is worth counting, whatever chance says."""
NOT_RIVALS = ("noisy", "plain", "protected")


@dataclass(frozen=True)
class SignalLook:
    """One signal in one restored cube.

    ``shown``: whether the noisy cube shows it; ``place``: what names it for all methods; ``warned``: whether
    the report says that faint signals may be gone.
    """

    noise: str
    amplitude: float
    kind: str
    method: str
    values: Mapping[str, float]
    shown: bool
    place: tuple[object, ...] = ()
    warned: bool = False

    @property
    def lost(self) -> bool:
        """Whether the area under the curve is below that of the noisy cube by more than chance."""
        return self.values["rise"] < -SURE * self.values["error"] - 1e-12


def list_looks(records: Sequence[Record]) -> list[SignalLook]:
    """Every signal in every cube."""
    found = []
    for r in records:
        if r["part"] != "implants" or "skipped" in r:
            continue
        for kind in signals.KINDS:
            here = f"{kind}_"
            values = {k.removeprefix(here): v for k, v in r.items() if k.startswith(here)}
            if not values:
                continue
            target, background = values.pop("pixels")
            error = math.sqrt((target + background + 1) / (12 * target * background))
            before = values["auc"] - values["rise"]
            shown = before > 0.5 + SHOWN * error
            place = (r["scene"], r["amplitude"], r["noise"], r["seed"], kind)
            what = (r["noise"], r["amplitude"], kind, r["method"])
            found.append(SignalLook(*what, values, shown, place, bool(r.get("warned"))))
    return found


def mean_of(looks: Sequence[SignalLook], figure: str) -> float | None:
    """The mean of a figure; None where there is nothing."""
    return statistics.fmean(look.values[figure] for look in looks) if looks else None


def match_amplitudes(looks: Sequence[SignalLook]) -> dict[str, float]:
    """By noise, the mean difference of the amplitude of a protected spectrum from that of the noisy cube.

    In parts of the true amplitude; in the mean over signals, without its sign.
    """
    found: dict[str, list[float]] = defaultdict(list)
    before = {k.place: k.values["bias"] for k in looks if k.method == "noisy"}
    for k in looks:
        if k.method == "protected" and k.place in before:
            found[k.noise].append(abs(k.values["bias"] - before[k.place]))
    return {noise: statistics.fmean(v) for noise, v in found.items()}


def list_bars(looks: Sequence[SignalLook], records: Sequence[Record]) -> list[Bar]:
    """What is promised."""
    plain = [k for k in looks if k.method == "plain"]
    shown = [k for k in plain if k.shown]
    lost = [k for k in shown if k.lost]
    kept = 1 - len(lost) / max(1, len(shown))
    told, rest = (sum(k.warned for k in some) for some in (lost, [k for k in plain if not k.lost]))
    rises: dict[str, list[float]] = defaultdict(list)
    for k in looks:
        if k.method != "noisy":
            rises[k.method].append(k.values["rise"])
    mean = {m: statistics.fmean(v) for m, v in rises.items()}
    rivals = {m: v for m, v in mean.items() if m not in NOT_RIVALS}
    best = max(rivals, key=rivals.__getitem__, default="")
    ours = mean.get("plain", 0.0)
    guarded = match_amplitudes(looks)
    bias = max(guarded.values(), default=0.0)
    return [
        judge_bar(
            f"signals that the noisy cube shows ({len(shown)} of {len(plain)}): not below it",
            "98 %", shown, kept >= 0.98, f"{100 * kept:.1f} %",
        ),
        judge_bar(
            "where below, the report warns of faint signals", "always", lost, told == len(lost),
            f"{told} of {len(lost)}; where not below {rest} of {len(plain) - sum(k.lost for k in plain)}",
        ),
        judge_bar(
            "mean rise of the area under the curve, above every rival", "above",
            "plain" in mean and rivals, ours > rivals.get(best, 0.0),
            f"{ours:+.4f}, {best} {rivals.get(best, 0.0):+.4f}",
        ),
        judge_bar(
            "amplitude of a protected spectrum against the noisy cube's, worst noise", "at most 2 %",
            guarded, bias <= 0.02, ", ".join(f"{n} {100 * v:.2f} %" for n, v in guarded.items()),
        ),
        Bar("Indian Pines, support vector machine", "above every published method",
            "`hyperdlw bench classify`"),
    ]  # fmt: skip


def write_markdown(records: Sequence[Record], titles: Mapping[str, str]) -> str:
    """The bars, then the figures."""
    looks = list_looks(records)
    methods = [m for m in ("noisy", *titles) if any(r["method"] == m for r in records)]
    scenes = dict.fromkeys(r["scene"] for r in records if r["part"] == "implants")
    count = len([k for k in looks if k.method == "noisy"])
    bars = [b.cells for b in list_bars(looks, records)]
    parts: list[str | list[str]] = [
        "# Signals: is what the noisy cube shows still there?",
        f"{count} signals in cubes of {', '.join(scenes)}: the plume of a gas, a mineral, targets of one to "
        "four pixels and a faint gradient over the scene, each with a spectrum of its own, at 0.5 to 5 % of "
        "the range of a band. Noise is added, bands get random gains and offsets, and every method gets that "
        "cube and nothing else. A matched filter and an adaptive cosine estimator look for each spectrum "
        "before and after. The filter's mean and covariance are those of the noisy cube, before and after.",
        f"A noisy cube shows a signal if its area under the curve is {SHOWN:g} standard errors above "
        f"a half. A restored cube is below it if the fall is more than {SURE:g} standard errors (DeLong).",
        "## The bars",
        write_rows(("what", "bar", "measured", "met"), bars, left=4),
        "## By method",
        "Over all signals. Below: of the signals that the noisy cube shows, those whose area under the curve "
        f"is below by more than chance; and those below by more than {FALL:g}, whatever chance says. Own: "
        "area under the curve with the filter's statistics taken from the restored cube itself.",
        write_methods(looks, methods, titles),
    ]
    for title, key in (("noise", "noise"), ("kind of signal", "kind"), ("amplitude", "amplitude")):
        parts.append(f"## Rise of the area under the curve by {title}")
        parts.append(write_rises(looks, methods[1:], titles, key))
    return write_page(
        *parts,
        "## Mixtures of known materials",
        "Endmembers by successive projections, mean angle to the true ones; position of the red edge and two "
        "indices on vegetation, root mean square error.",
        write_mixtures(records, methods, titles),
        "The accuracy of a support vector machine on Indian Pines is measured by `hyperdlw bench classify` "
        "([report](classify.md)).",
        list_skipped(records, "method", "scene"),
    )


def write_methods(
    looks: Sequence[SignalLook], methods: Sequence[str], titles: Mapping[str, str]
) -> list[str]:
    """A line per method."""
    rows = []
    for m in methods:
        mine = [k for k in looks if k.method == m]
        shown = [k for k in mine if k.shown]
        if not mine:
            continue
        total = max(1, len(shown))
        lost = sum(k.lost for k in shown) / total
        fell = sum(k.values["rise"] < -FALL for k in shown) / total
        worst = min((k.values["rise"] for k in shown), default=0.0)
        strong = [k for k in shown if k.amplitude >= 0.02]
        cells = [f"{mean_of(mine, f) or 0:.3f}" for f in ("auc", "ace", "own")]
        cells += [f"{100 * (mean_of(strong, 'bias') or 0):+.0f} %" if strong else "-"]
        cells += [f"{100 * (mean_of(mine, 'alarms') or 0):.1f} %"]
        cells += [f"{100 * lost:.1f} %", f"{100 * fell:.1f} %", f"{worst:+.3f}"]
        rows.append([titles.get(m, m), *cells])
    head = ("method", "matched filter", "cosine", "own", "amplitude", "false alarms", "below")
    return write_rows((*head, f"below by {FALL:g}", "worst"), rows)


def write_rises(
    looks: Sequence[SignalLook], methods: Sequence[str], titles: Mapping[str, str], key: str
) -> list[str]:
    """A line per noise, kind or amplitude, a column per method; the best is bold."""
    rows = []
    for value in dict.fromkeys(getattr(k, key) for k in looks):
        here = [k for k in looks if getattr(k, key) == value]
        before = mean_of([k for k in here if k.method == "noisy"], "auc") or 0.0
        rise = {m: mean_of([k for k in here if k.method == m], "rise") for m in methods}
        best = max((v for v in rise.values() if v is not None), default=None)
        cells = [
            "-" if v is None else f"**{v:+.3f}**" if v == best else f"{v:+.3f}"
            for v in rise.values()
        ]
        title = find_noise(value).title if key == "noise" else str(value)
        title = f"{100 * value:g} %" if key == "amplitude" else title
        rows.append([title, f"{before:.3f}", *cells])
    return write_rows(["", "noisy", *[titles.get(m, m) for m in methods]], rows)


def write_mixtures(
    records: Sequence[Record], methods: Sequence[str], titles: Mapping[str, str]
) -> list[str]:
    """A line per method: means over noises and scenes."""
    rows = []
    for m in methods:
        mine = [r for r in records if r["part"] == "mixtures" and r["method"] == m and "angle" in r]
        if not mine:
            continue
        figures = {"angle": 2, "red_edge": 2, "ndvi": 4, "pri": 4}
        cells = [f"{statistics.fmean(r[f] for r in mine):.{d}f}" for f, d in figures.items()]
        rows.append([titles.get(m, m), *cells])
    return write_rows(("method", "endmembers, degrees", "red edge, nm", "NDVI", "PRI"), rows)
