"""The audit as one page in HTML that a person can hand to a reviewer.

It holds everything itself: pictures and charts are inside, nothing is fetched, no script runs. Names and
notes come from files of others, so every text is escaped. Charts are of all pixels; pictures are of a look
(:mod:`hyperdlw.pipeline.look`) that leaves out pixels of a large cube.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..io import atomic
from .invented import REASONS
from .look import (
    KINDS,
    Look,
    correlate_bands,
    draw_columns,
    draw_correlations,
    draw_invented,
    draw_weights,
    find_spots,
    show_band,
    show_colours,
)
from .page_parts import (
    STYLE,
    Chart,
    Line,
    make_figure,
    make_note,
    make_plot,
    make_section,
    make_table,
)
from .report import Report
from .whiteness import FLOORS, SIGNS, SURE, Audit, BandAudit

F64 = NDArray[np.float64]

SHOWN = 3
"""Bands and pixels that are shown."""
MOST = 20
"""Flagged bands in the table."""
SHORT = {"neighbours": "neighbours", "pooled": "5 bands", "image": "image", "edges": "edges"}
MEANS = {
    "neighbours": "neighbouring pixels",
    "pooled": "neighbours, five bands summed",
    "image": "with the image around the pixel",
    "edges": "with edges and detail",
}


@dataclass(frozen=True, eq=False)
class Dossier:
    """What a page is made of.

    Attributes:
        title: the name of the cube.
        report: None where only the cubes before and after are known.
        files: by role (input, output) the hashes of files by name.
        command: what repeats it.
    """

    title: str
    look: Look
    audit: Audit
    report: Report | None = None
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    command: str = ""

    @property
    def axis(self) -> tuple[F64, str]:
        """Where the bands of the audit lie, and what that is."""
        use = [b.band for b in self.audit.bands]
        waves = self.look.noisy.wavelengths
        if waves is None:
            return np.array(use, float) + 1, "band"
        return np.asarray(waves, float)[use], "wavelength (nm)"

    def name_band(self, band: int) -> str:
        waves = self.look.noisy.wavelengths
        return f"band {band + 1}" + ("" if waves is None else f", {waves[band]:.0f} nm")


def write_page(dossier: Dossier, path: str, *, overwrite: bool = False) -> None:
    """Write the page, wholly or not at all."""
    text = make_page(dossier)
    with atomic(path, overwrite=overwrite) as tmp:
        tmp.write_text(text, encoding="utf-8")


def make_page(dossier: Dossier) -> str:
    """The page as text."""
    parts = (
        _head(dossier),
        _tiles(dossier),
        _pictures(dossier),
        _noise(dossier),
        _whiteness(dossier),
        _removed(dossier),
        _spectra(dossier),
        _trust(dossier),
        _repeat(dossier),
    )
    title = html.escape(f"Audit: {dossier.title}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Whatever a name should manage to smuggle in: nothing is loaded and no script runs.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(d: Dossier) -> str:
    kind = "none" if not d.audit.removed else "bad" if d.audit.structured else "good"
    line = d.audit.describe(d.look.noisy.wavelengths)
    bands, rows, cols = d.look.noisy.shape if d.report is None else d.report.shape
    about = f"{bands} bands, {rows} x {cols} pixels, hyperdlw {__version__}"
    advice = {
        "good": "None of the four signs of removed signal is above its limit in any band.",
        "bad": "Look at the bands below: something of the scene may have gone with the noise. "
        "A smaller --strength takes less.",
        "none": "The cube is as it was.",
    }[kind]
    return (
        f"<header><h1>{html.escape(d.title)}</h1>"
        f'<div class="soft">What denoising took away: {html.escape(about)}</div>'
        f'<div class="verdict {kind}">{html.escape(line[0].upper() + line[1:])}</div>'
        f'<div class="soft">{html.escape(advice)}</div></header>'
    )


def _middle(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.median(known)) if known else None


def _tiles(d: Dossier) -> str:
    bands = d.audit.bands
    level, gain = _middle([b.level for b in bands]), _middle([b.gain for b in bands])
    shown = [
        (f"{len(d.audit.structured)} of {len(bands)}", "bands with a structured residual"),
        (
            "-" if level is None else f"{100 * level:.2g} %",
            "noise before, of the range (median band)",
        ),
        ("-" if gain is None else f"{gain:+.1f} dB", "gain in signal to noise (median band)"),
    ]
    if d.report is not None:
        voxels = max(1, int(np.prod(d.report.shape)))
        invented = d.report.invented.get("voxels", 0)
        assert isinstance(invented, int)
        shown += [
            (f"{100 * invented / voxels:.2g} %", "of the voxels are invented by the model"),
            (f"{100 * d.report.down_weighted:.2g} %", "of the voxels have a weight below 0.1"),
        ]
    cells = "".join(
        f'<div class="tile"><b>{html.escape(v)}</b><span>{html.escape(k)}</span></div>'
        for v, k in shown
    )
    return f'<div class="tiles">{cells}</div>'


def _pictures(d: Dossier) -> str:
    before, after, change = show_colours(d.look, find_spots(d.look))
    every = "" if d.look.step == 1 else f" One of {d.look.step} x {d.look.step} pixels is shown."
    return make_section(
        "Before and after",
        '<div class="row">',
        make_figure(
            before, "Before, in pseudo colour. Dots: the three pixels of the spectra below."
        ),
        make_figure(after, "After, with the same stretch."),
        make_figure(
            change, f"How much was changed: dark little, bright much, grey not at all.{every}"
        ),
        "</div>",
    )


def _noise(d: Dossier) -> str:
    x, name = d.axis
    bands = d.audit.bands
    marks = [float(x[i]) for i, b in enumerate(bands) if b.structured]
    before = np.array([100 * b.level for b in bands])
    removed = np.array([100 * b.level * b.removed for b in bands])
    lines = [Line(before, "noise before", "c0"), Line(removed, "removed", "c2")]
    left = np.array([np.nan if b.left is None else 100 * b.left for b in bands])
    known = bool(np.isfinite(left).any())
    lines += [Line(left, "standard deviation after", "c1")] if known else []
    plots = [
        make_plot(Chart(x, lines, name, "% of the range", log=True, marks=marks), "Noise per band")
    ]
    if known:
        gain = np.array([np.nan if b.gain is None else b.gain for b in bands])
        lines = [Line(gain, "", "c1"), Line(np.zeros_like(gain), "", "c0 thin")]
        plots.append(make_plot(Chart(x, lines, name, "dB", marks=marks), "Gain in signal to noise"))
    told = (
        "Before: the level that was measured in the noisy cube. Removed: root mean square of the "
        "difference. After: the standard deviation of the result, by restoring it once more with "
        "fresh noise; it holds what is smoothed away, too."
        if known
        else "Before: the level that was measured in the noisy cube. Removed: root mean square of the "
        "difference. The standard deviation of the result was not asked for."
    )
    return make_section(
        "Noise before and after", make_note(told), '<div class="pair">', *plots, "</div>"
    )


def _limit(band: BandAudit, sign: str) -> float:
    return FLOORS[SIGNS.index(sign)] + SURE / float(np.sqrt(max(1, band.voxels)))


def _whiteness(d: Dossier) -> str:
    x, name = d.axis
    bands, plots = d.audit.bands, []
    for sign, title in MEANS.items():
        values = np.array([getattr(b, sign) for b in bands])
        limits = np.array([_limit(b, sign) for b in bands])
        marks = [float(x[i]) for i, b in enumerate(bands) if sign in b.signs]
        lines = [Line(values, "", "c1"), Line(limits, "limit", "limit")]
        low, high = min(-0.2, float(values.min())), max(0.3, float(values.max()))
        chart = Chart(x, lines, name, "correlation", marks=marks, bottom=low, top=high, height=190)
        plots.append(make_plot(chart, title[0].upper() + title[1:]))
    rows = [
        [
            d.name_band(b.band),
            ", ".join(SHORT[s] for s in b.signs),
            f"{b.removed:.2f}",
            *(f"{getattr(b, s):+.3f}" for s in SIGNS),
        ]
        for b in bands
        if b.structured
    ]
    head = ["band", "above the limit", "removed (sd)", *SHORT.values()]
    more = f"Shown are {MOST} of {len(rows)} such bands." if len(rows) > MOST else ""
    told = (
        "White noise has none of these correlations, whatever removed it. Negative ones are harmless: "
        "they are noise that was left in the result. Along rows and columns the smaller one counts, so "
        "a removed stripe is no structure. Invented voxels take no part."
    )
    found = make_note("No band is above a limit.")
    if rows:
        found = make_table(head, rows[:MOST], 5) + (make_note(more) if more else "")
    return make_section(
        "Is it white?", make_note(told), '<div class="pair">', *plots, "</div>", found
    )


def choose_bands(audit: Audit) -> list[int]:
    """Bands that are shown: the most suspicious, the noisiest and the middle one."""
    bands = audit.bands
    if not bands:
        return []
    excess = [max(getattr(b, s) - _limit(b, s) for s in SIGNS) for b in bands]
    order = np.argsort([b.level for b in bands], kind="stable")
    wanted = [int(np.argmax(excess)), int(order[-1]), int(order[len(order) // 2])]
    return [bands[i].band for i in dict.fromkeys(wanted)]


def _removed(d: Dossier) -> str:
    rows = []
    for b in choose_bands(d.audit):
        before, after, gone = show_band(d.look, b)
        name = d.name_band(b)
        rows += [
            '<div class="row">',
            make_figure(before, f"{name}, before"),
            make_figure(after, f"{name}, after"),
            make_figure(
                gone, f"{name}, removed (grey scale: three deviations either way; blue: invented)"
            ),
            "</div>",
        ]
    matrix = make_figure(
        draw_correlations(correlate_bands(d.look, [b.band for b in d.audit.bands])),
        "Correlation of what was removed between bands, at the same pixel: blue -1, white 0, red +1.",
    )
    told = (
        "What was removed should look like noise, not like the scene. Between bands, shapes of red off "
        "the diagonal are noise or scene that several bands share."
    )
    shown = f'<div class="row">{matrix}</div>'
    return make_section("What was removed", make_note(told), *rows, shown)


def _spectra(d: Dossier) -> str:
    waves = d.look.noisy.wavelengths
    x = np.arange(1.0, d.look.noisy.bands + 1) if waves is None else np.asarray(waves, float)
    order, plots = np.argsort(x, kind="stable"), []
    for k, (r, c) in enumerate(find_spots(d.look)):
        before, after = (
            np.where(cube.valid[:, r, c], cube.data[:, r, c], np.nan)[order].astype(float)
            for cube in (d.look.noisy, d.look.restored)
        )
        lines = [Line(before, "before", "c0"), Line(after, "after", f"c{k + 1}")]
        chart = Chart(x[order], lines, d.axis[1], "value", width=380)
        place = f"row {r * d.look.step + 1}, column {c * d.look.step + 1}"
        plots.append(make_plot(chart, place[0].upper() + place[1:]))
    return make_section("Spectra of three pixels", '<div class="row">', *plots, "</div>")


def _trust(d: Dossier) -> str:
    report, look = d.report, d.look
    parts = []
    if report is not None:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
        parts.append(f"<ul>{notes}</ul>" if notes else "")
        invented = {k: v for k, v in report.invented.items() if k != "voxels" and v}
        kept = [["Bright pixels, as they were", str(report.set_aside.get("bright_pixels", 0))]]
        kept += [["Wild voxels", str(report.set_aside.get("wild_voxels", 0))]]
        kept += [["Dead columns of single bands", str(report.set_aside.get("dead_columns", 0))]]
        kept += [["Voxels not measured", str(report.invalid_voxels)]]
        kept += [[f"Invented: {k}", str(v)] for k, v in invented.items()]
        for band, why in list(report.bands_skipped.items())[:20]:
            kept.append([f"Not denoised: {d.name_band(band)}", why])
        parts.append(make_table(["set aside, invented, left out", "how many"], kept, 1) + "<br>")
    parts.append('<div class="row">')
    if look.weights.any():
        text = "Mean weight over the bands: bright is trusted, grey is not in use."
        parts.append(make_figure(draw_weights(look), text))
    text = "Share of the bands that are invented: black none, bright all."
    parts.append(make_figure(draw_invented(look), text) if look.invented.any() else "")
    parts.append(
        make_figure(draw_columns(look), "Flags per column: a row for each band, from band 1 down.")
    )
    parts.append("</div>")
    keys = "".join(
        f'<span class="key"><span class="swatch" style="background:rgb{colour}"></span>{kind}</span>'
        for kind, colour in KINDS.items()
    )
    parts.append(f'<div class="legend">{keys}</div>')
    told = (
        "Invented voxels have the value of the model: no measurement stands behind them, and no figure "
        "of this page is made of them"
    )
    if look.invented.any() or report is not None:
        codes = ", ".join(f"{k} {v}" for k, v in REASONS.items())
        parts.append(make_note(f"{told}. Codes of --save-invented: {codes}."))
    return make_section("What was trusted, set aside and invented", *parts)


def _repeat(d: Dossier) -> str:
    parts = [f"<pre>{html.escape(d.command)}</pre>"] if d.command else []
    rows = [
        [f"{role}: {name}", digest]
        for role, held in d.files.items()
        for name, digest in held.items()
    ]
    report = d.report
    if report is not None:
        rows += [[f"network: {name}", digest] for name, digest in report.networks.items()]
    if rows:
        body = "".join(
            f"<tr><td>{html.escape(a)}</td><td class=hash>{html.escape(b)}</td></tr>"
            for a, b in rows
        )
        parts.append(
            f"<table><thead><tr><th>file</th><th>SHA-256</th></tr></thead>{body}</table><br>"
        )
    facts = [["hyperdlw", __version__]]
    if report is not None:
        facts = [[k, v] for k, v in report.versions.items()]
        facts += [
            ["model", report.title],
            ["weights", report.weights],
            ["noise", report.describe_noise() or "not measured"],
            ["range", report.range],
            ["steps", f"{report.steps}" + ("" if report.converged else " (not converged)")],
        ]
    parts.append(make_table(["what", "which"], facts))
    return make_section("Repeat it", *parts)


def write_command(source: str, target: str, settings: Mapping[str, object]) -> str:
    """The call in Python that repeats a run, where no command was typed."""
    words = [repr(source), repr(target), *(f"{k}={v!r}" for k, v in settings.items())]
    return f"hyperdlw.denoise_file({', '.join(words)})"
