"""Files made from a session: the restored cube and its products, a picture, a report, the log."""

from __future__ import annotations

import html
import io as streams
import json
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...cube import Cube
from ...errors import BadOption, DlwError
from ...io import atomic, check_save, save_cube, to_json
from ...pipeline import colour_bands, data_url, heat, pseudo_colour, stretch
from ..cli.options import as_float32
from .session import Absent, Session

if TYPE_CHECKING:
    from ...pipeline import Result

RGB = NDArray[np.uint8]
Values = NDArray[np.number]

CUBES = ("restored", "weights", "removed", "flags", "invented", "uncertainty")
"""Products that are cubes; the last one is there if it was asked for."""
# Browsers take scripts for dangerous downloads, so the log is plain text.
SUFFIXES = {
    "picture": "-picture.png",
    "report": "-report.html",
    "record": "-report.json",
    "audit": "-audit.html",
    "noise": "-noise.txt",
    "command": "-commands.txt",
    "python": "-python.txt",
}
KINDS = (*CUBES, *SUFFIXES)
MOST_PIXELS = 2048
"""Longest side of an exported picture's panel; larger images lose rows and columns, evenly."""


SMALLEST = 240
"""Side that the panels of tiny images are brought near to, by whole factors."""


@dataclass(frozen=True)
class Export:
    """What is wanted: one of ``KINDS``.

    Attributes:
        bands: red, green and blue of pictures; empty: chosen by wavelength.
        pins: pixels (row, col) whose spectra the report shows.
    """

    kind: str
    bands: Sequence[int] = ()
    pins: Sequence[tuple[int, int]] = ()

    def render(self, session: Session) -> bytes:
        """The bytes of a product that is no cube."""
        if self.kind == "picture":
            return draw_picture(_result(session), self.bands)
        if self.kind == "record":
            told = to_json(_result(session).report.as_dict())
            return json.dumps(told, indent=2, allow_nan=False).encode() + b"\n"
        if self.kind in ("command", "python"):
            return write_log(session, self.kind).encode()
        if self.kind in ("audit", "noise"):
            return write_product(session, self.kind)
        return write_report(session, self).encode()


def write_export(session: Session, wanted: Export, folder: Path) -> Path:
    """Write one export into a fresh temporary folder; the result is always a single file."""
    stem = _stem(session.name)
    if wanted.kind in SUFFIXES:
        path = folder / f"{stem}{SUFFIXES[wanted.kind]}"
        path.write_bytes(wanted.render(session))
        return path
    cube = _cube_of(_result(session), wanted.kind)
    path = folder / f"{stem}-{wanted.kind}{find_ending(session.name, cube)}"
    save_cube(cube, path)
    made = sorted(p for p in folder.rglob("*") if p.is_file())
    if made == [path]:
        return path
    # A format of several files (a folder of bands, a header beside its data) is sent as one.
    packed = folder / f"{path.stem}.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in made:
            archive.write(file, file.relative_to(folder))
    return packed


def save_export(session: Session, wanted: Export) -> tuple[Path, int]:
    """Write one export to OUT or next to it; returns the path and the number of clipped voxels."""
    target, over = session.target, session.overwrite
    if target is None:
        raise Absent("no output was named when the program started; use the downloads")
    if wanted.kind in SUFFIXES:
        path = target.with_name(target.stem + SUFFIXES[wanted.kind])
        data = wanted.render(session)
        with atomic(path, overwrite=over) as tmp:
            tmp.write_bytes(data)
        return path, 0
    cube = _cube_of(_result(session), wanted.kind)
    path = target
    if wanted.kind != "restored":
        path = target.with_name(f"{target.stem}-{wanted.kind}{find_ending(target.name, cube)}")
    return path, save_cube(cube, path, overwrite=over)


def find_ending(name: str, cube: Cube) -> str:
    """The ending of an output like the input, or .npz if that format cannot hold this cube."""
    suffix = Path(name).suffix
    try:
        check_save(f"x{suffix}", cube)
    except DlwError:
        return ".npz"
    return suffix


def write_log(session: Session, kind: str) -> str:
    """The runs that came to their end, as a script for a shell or as Python; each has its output."""
    runs = [job for job in session.log if job.progress == "done"]
    if not runs:
        raise Absent("there is nothing to export before the first run")
    name, suffix = session.name, Path(session.name).suffix
    pairs = [(job.request, f"{Path(name).stem}-run{job.number}{suffix}") for job in runs]
    if kind == "command":
        return "\n".join(["#!/bin/sh", *(r.write_command(name, t) for r, t in pairs)]) + "\n"
    return "\n".join(["import hyperdlw\n", *(r.write_python(name, t) for r, t in pairs)]) + "\n"


def write_product(session: Session, kind: str) -> bytes:
    """The audit as a page, or the noise of every band as isofit reads it."""
    from ...pipeline import Outputs

    result = _result(session)
    with tempfile.TemporaryDirectory(prefix="hyperdlw-view-") as folder:
        path = Path(folder) / kind
        if kind == "audit":
            result.save_audit(path, title=session.name)
        else:
            waves = session.cube.wavelengths
            Outputs(noise=str(path)).save_texts(result.report, waves, overwrite=False)
        return path.read_bytes()


def draw_picture(result: Result, bands: Sequence[int] = ()) -> bytes:
    """Noisy, restored and mean weight side by side, each with its name above."""
    from PIL import Image, ImageDraw, ImageFont

    panels = list(_panels(result, bands).items())
    rows, cols, _ = panels[0][1].shape
    size = max(12, min(28, cols // 18))
    head, gap = 2 * size, max(4, cols // 60)
    page = Image.new("RGB", (3 * cols + 4 * gap, rows + head + gap), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size)
    for i, (name, rgb) in enumerate(panels):
        left = gap + i * (cols + gap)
        draw.text((left, head // 4), name, fill=(40, 44, 52), font=font)
        page.paste(Image.fromarray(rgb), (left, head))
    memory = streams.BytesIO()
    page.save(memory, "PNG", compress_level=6)
    return memory.getvalue()


def write_report(session: Session, wanted: Export) -> str:
    """One page without any reference to the outside: pictures, spectra, weights, settings."""
    result, cube = _result(session), session.cube
    r = result.report
    figures = "".join(
        f"<figure><img src='{data_url(_small(rgb))}' alt='{name}'>"
        f"<figcaption>{name}</figcaption></figure>"
        for name, rgb in _panels(result, wanted.bands).items()
    )
    x = np.arange(cube.bands) if cube.wavelengths is None else cube.wavelengths
    axis = "band" if cube.wavelengths is None else "wavelength (nm)"
    known = (result.weights > 0).sum(axis=(1, 2))
    mean = result.weights.sum(axis=(1, 2)) / np.maximum(known, 1)
    plots = [("Mean weight of every band", _draw_lines(x, {"weight": mean}, axis))]
    for row, col in wanted.pins:
        values = session.spectrum(row, col)
        lines = {k: np.array(values[k], float) for k in ("noisy", "restored")}
        plots.append((f"Spectrum at row {row}, column {col}", _draw_lines(x, lines, axis)))
    charts = "".join(f"<section><h2>{html.escape(t)}</h2>{s}</section>" for t, s in plots)
    rows = {
        "File": session.name,
        "Bands, rows, columns": " × ".join(map(str, r.shape)),
        "Model": f"{r.model}, strength {r.strength:g}",
        "Weights": r.weights,
        "Bands used": f"{r.bands_used} of {r.shape[0]}",
        "Weight below 0.1": f"{100 * r.down_weighted:.1f} % of the voxels",
        "Steps": f"{r.steps}" + ("" if r.converged else " (not converged)"),
        "Seconds": f"{r.seconds.get('total', 0):.1f}",
    }
    table = "".join(
        f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items()
    )
    full = html.escape(json.dumps(r.as_dict(), indent=2, default=str))
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        f"<title>{html.escape(session.name)}: restored with hyperdlw</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(session.name)}</h1><div class='row'>{figures}</div>"
        f"<table>{table}</table>{charts}"
        f"<details><summary>Everything that was recorded</summary><pre>{full}</pre></details></html>"
    )


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem;"
    "color:#1d2129}h1{font-size:1.4rem}h2{font-size:1rem;margin:1.5rem 0 .25rem}"
    ".row{display:flex;gap:1rem;flex-wrap:wrap}figure{margin:0;flex:1 1 300px}"
    "img{width:100%;image-rendering:pixelated}figcaption{color:#5a6270}"
    "th{text-align:left;font-weight:500;color:#5a6270;padding-right:2rem}table{margin:1rem 0}"
    "svg text{font:11px system-ui,sans-serif;fill:#5a6270}pre{overflow:auto}"
)


def _draw_lines(x: Values, lines: dict[str, Values], axis: str) -> str:
    """A line plot as SVG; gaps where a value is missing."""
    width, height, left, bottom, top = 1040.0, 240.0, 60.0, 34.0, 18.0
    values = np.concatenate([v[np.isfinite(v)] for v in lines.values()])
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    x0, x1 = float(np.min(x)), float(np.max(x))
    x1 = x1 if x1 > x0 else x0 + 1.0

    def across(v: float) -> float:
        return left + (v - x0) / (x1 - x0) * (width - left - 8)

    def up(v: float) -> float:
        return height - bottom - (v - low) / (high - low) * (height - bottom - top)

    parts = [f"<svg viewBox='0 0 {width:g} {height:g}' role='img'>"]
    for v in (low, (low + high) / 2, high):
        parts.append(
            f"<line x1='{left}' x2='{width}' y1='{up(v):.1f}' y2='{up(v):.1f}' stroke='#e3e6ea'/>"
            f"<text x='{left - 6}' y='{up(v) + 4:.1f}' text-anchor='end'>{v:.3g}</text>"
        )
    for v, anchor in ((x0, "start"), ((x0 + x1) / 2, "middle"), (x1, "end")):
        parts.append(
            f"<text x='{across(v):.1f}' y='{height - 18}' text-anchor='{anchor}'>{v:.4g}</text>"
        )
    parts.append(f"<text x='{width / 2}' y='{height - 3}' text-anchor='middle'>{axis}</text>")
    colours = ("#9aa3af", "#0b63c5") if len(lines) == 2 else ("#0b63c5",)
    for i, ((name, line), colour) in enumerate(zip(lines.items(), colours, strict=True)):
        path, pen = [], "M"
        for a, b in zip(x.tolist(), line.tolist(), strict=True):
            if not np.isfinite(b):
                pen = "M"
                continue
            path.append(f"{pen}{across(a):.1f} {up(b):.1f}")
            pen = "L"
        parts.append(
            f"<path d='{''.join(path)}' fill='none' stroke='{colour}' stroke-width='1.5'/>"
        )
        parts.append(f"<text x='{left + 8 + 80 * i}' y='12' style='fill:{colour}'>{name}</text>")
    return "".join([*parts, "</svg>"])


def _panels(result: Result, bands: Sequence[int]) -> dict[str, RGB]:
    """All three at the same size, the images with the stretch of the restored one."""
    chosen = colour_bands(result.cube) if len(bands) != 3 else (bands[0], bands[1], bands[2])
    if not all(0 <= b < result.cube.bands for b in chosen):
        raise BadOption(f"bands are numbered from 0 to {result.cube.bands - 1}")
    limits = stretch(result.cube, chosen)
    used = np.maximum((result.weights > 0).sum(axis=0), 1)
    panels = {
        "noisy": pseudo_colour(result.noisy, chosen, limits),
        "restored": pseudo_colour(result.cube, chosen, limits),
        "mean weight": heat(result.weights.sum(axis=0) / used),
    }
    return {k: _small(v, MOST_PIXELS) for k, v in panels.items()}


def _small(rgb: RGB, side: int = 640) -> RGB:
    """At most ``side`` pixels; tiny images are enlarged, so that their pixels and names are seen."""
    longest = max(rgb.shape[:2])
    step, times = -(-longest // side), max(1, SMALLEST // longest)
    return np.ascontiguousarray(rgb[::step, ::step].repeat(times, axis=0).repeat(times, axis=1))


def _cube_of(result: Result, kind: str) -> Cube:
    if kind == "restored":
        return result.cube
    if kind == "removed":
        return as_float32(result.noisy, result.noisy.data - result.cube.data, "removed")
    if kind == "uncertainty":
        if result.uncertainty is None:
            raise Absent("the run was not asked for its uncertainty; run it again with that option")
        return as_float32(result.noisy, result.uncertainty, "uncertainty")
    if kind in ("flags", "invented"):
        from ...pipeline import describe_quantity, flag_result

        codes = flag_result(result, "auto") if kind == "flags" else result.invented
        if codes is None:
            raise Absent("this run does not tell which voxels it invented")
        marked = describe_quantity(result.noisy, kind).with_data(codes)
        return replace(marked, valid=np.ones(marked.shape, bool))
    return as_float32(result.noisy, result.weights, "weights")


def _result(session: Session) -> Result:
    if session.result is None:
        raise Absent("there is nothing to export before the first run")
    return session.result


def _stem(name: str) -> str:
    """The file's name without its ending, and without anything a header could not carry."""
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in Path(name).stem)
    return kept.strip(".") or "cube"
