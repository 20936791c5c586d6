"""``hyperdlw bench figures`` and ``real``: what the paper shows as pictures.

Weights of the seven networks where the noise is stronger in one corner; their restorations for a simple
and a complex target; the worst bands of a real image with every method, and measures that need no
clean image.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..cube import Cube, minmax_range
from ..errors import DlwError
from ..pipeline import denoise, heat
from ..testbed import Noisy, noise, psnr
from ..weights import resolve
from .classify import pack_map, unpack_map
from .experiment import (
    F32,
    NO_FILES,
    Clock,
    Experiment,
    Files,
    Record,
    Scene,
    Tell,
    Trial,
    hash_array,
)
from .report import Panel, draw_panels
from .runner import Method, Restorer, find_source
from .tables import MAIN, NETWORKS, ORIGINAL, RIVALS, Row, list_skipped, write_page, write_rows

TARGETS = {"simple": "nn", "complex": "lrtv"}
"""The models whose restorations are drawn for every network."""
SIGMA = (20 / 255, 70 / 255)
"""Standard deviation of the noise, and in the top right quarter."""
WORST = 3
"""Bands of a real image that are drawn: those with the strongest noise."""


def make_corner_noise(scene: Scene, seed: int = 0) -> Noisy:
    """Gaussian noise that is stronger in the top right quarter of every band."""
    bands, rows, cols = scene.data.shape
    sigma = np.full((bands, rows, cols), SIGMA[0], np.float32)
    sigma[:, : rows // 2, cols // 2 :] = SIGMA[1]
    start = noise.start_chain(scene.data)
    return noise.add_gaussian(start, sigma, np.random.default_rng([20260226, seed]))


def show_band(image: F32) -> NDArray[np.uint8]:
    """A band as a grey picture."""
    grey = (255 * np.clip(image, 0, 1)).astype(np.uint8)
    return np.repeat(grey[..., None], 3, -1)


def draw_figures(scene: Scene, out: Path) -> list[Path]:
    """Draw the weights and the restorations of the seven networks; write ``figures.md``."""
    noisy = make_corner_noise(scene)
    middle = len(scene.data) // 2
    y = torch.from_numpy(noisy.y)
    rows, cols = scene.data.shape[1:]
    maps: list[Panel] = [(f"noisy, band {middle}", show_band(noisy.y[middle]))]
    ratios = []
    for name in NETWORKS:
        w = resolve(name)(y, torch.ones_like(y, dtype=torch.bool)).numpy()
        corner = float(w[:, : rows // 2, cols // 2 :].mean())
        rest = float((w.sum() - corner * w.size / 4) / (w.size * 3 / 4))
        ratios.append((name, f"{corner:.2f}", f"{rest:.2f}", f"{rest / corner:.1f}"))
        maps.append((name, heat(w[middle])))
    restore = Restorer(scene, noisy)
    found, lines = [], []
    for kind, model in TARGETS.items():
        line: list[Panel] = [("clean", show_band(scene.data[middle]))]
        for name in NETWORKS:
            x, _ = restore(Row(name), model)
            value = psnr(scene.data, x)
            found.append((kind, model, name, f"{value:.2f}"))
            line.append((f"{model}, {name}: {value:.1f}", show_band(x[middle])))
        lines.append(line)
    text = write_page(
        "# The seven networks in pictures",
        f"{scene.name}, {len(scene.data)} bands of {rows}x{cols}, one draw of Gaussian noise of standard "
        f"deviation {255 * SIGMA[0]:.0f}/255, and {255 * SIGMA[1]:.0f}/255 in the top right quarter.",
        write_rows(("network", "mean weight there", "elsewhere", "ratio"), ratios),
        "![weights](weights.png)",
        write_rows(("target", "model", "network", "PSNR in dB"), found, left=3),
        "![restorations](restorations.png)",
    )
    pictures = {"weights.png": draw_panels([maps]), "restorations.png": draw_panels(lines)}
    return Experiment("figures", out).write({"figures.md": text, **pictures})


# Real images.


def measure_noise(data: F32) -> F32:
    """Standard deviation of the noise of every band, from mixed second differences."""
    d = (data[:, 1:, 1:] - data[:, :-1, 1:] - data[:, 1:, :-1] + data[:, :-1, :-1]) / 2
    return np.asarray(np.median(np.abs(d), axis=(1, 2)) / 0.6745, np.float32)


def measure_stripes(data: F32) -> F32:
    """How much the columns of a band jump: robust deviation of the second differences of their means."""
    means = data.mean(axis=1)
    jumps = means[:, 2:] - 2 * means[:, 1:-1] + means[:, :-2]
    return np.asarray(np.median(np.abs(jumps), axis=1) / 0.6745, np.float32)


def run_real(
    name: str,
    cube: Cube,
    out: Path,
    *,
    rows: Sequence[Row] = RIVALS.rows,
    files: Files = NO_FILES,
    tell: Tell | None = None,
) -> list[Path]:
    """Restore a real image with every method; write ``real.md`` and ``real.png``."""
    experiment = Experiment("real", out, tell)
    limits = minmax_range(cube.data, cube.valid)
    before = limits.to_unit(cube.data)
    worst = np.sort(np.argsort(measure_noise(before))[-WORST:])

    def restore(row: Row) -> F32:
        takes = "weights" in Method(row, row.model or "", files).takes
        words = {"weights": find_source(row.weights, files), "strength": 1.0} if takes else {}
        model = Method(row, row.model or "", files).model
        found = denoise(cube, model=model, range="minmax", paper=True, **words)  # type: ignore[arg-type]
        return limits.to_unit(found.cube.data)

    def measure(row: Row) -> Record:
        clock = Clock()
        try:
            x = restore(row)
        except DlwError as error:
            return {"skipped": str(error)}
        return {**describe_bands(x, worst), **clock.spent()}

    trials = [
        Trial(
            {"method": row.name, "scene": name, "scene_hash": hash_array(cube.data)},
            Method(row, row.model or "", files).describe(cube.shape),
            partial(measure, row),
        )
        for row in rows
    ]
    records = experiment.run(trials, lambda r: f"{r['method']}")
    first = {"method": "as it is", **describe_bands(before, worst)}
    everything = [first, *records]
    shape = (len(worst), *cube.shape[1:])
    grey = {r["method"]: unpack_map(r["bands"], shape) / 255 for r in everything if "bands" in r}
    panels = [
        [(f"{who}, {band}", show_band(bands[i])) for who, bands in grey.items()]
        for i, band in enumerate(worst)
    ]
    text = write_real(name, everything, worst.tolist())
    return experiment.write({"real.md": text, "real.png": draw_panels(panels)})


def describe_bands(data: F32, worst: NDArray[np.int64]) -> Record:
    """Noise and stripes that are left, in the mean over all bands and over the worst; these as pictures."""
    left, jumps = measure_noise(data), measure_stripes(data)
    return {
        "noise": float(left.mean()),
        "noise_worst": float(left[worst].mean()),
        "stripes": float(jumps.mean()),
        "stripes_worst": float(jumps[worst].mean()),
        "bands": pack_map((255 * np.clip(data[worst], 0, 1)).astype(np.int64)),
    }


def write_real(name: str, records: Sequence[Record], worst: Sequence[int]) -> str:
    """The measures of every method, in thousandths of the range of a band."""
    names = ("noise", "noise_worst", "stripes", "stripes_worst")
    seen = [r for r in records if "skipped" not in r]
    rows = [(r["method"], *[f"{1000 * r[n]:.2f}" for n in names]) for r in seen]
    return write_page(
        f"# A real image: {name}",
        "There is no clean image to compare with. Noise: a robust standard deviation of second "
        "differences; stripes: the same of the means of columns; in thousandths of the range of a band, "
        f"mean of all bands and of the {len(worst)} worst ({', '.join(map(str, worst))}, counted from 0). "
        "Smaller is smoother, which is not always better: fine structure counts as noise, too.",
        write_rows(("method", "noise", "worst bands", "stripes", "worst bands"), rows),
        list_skipped(records, "method"),
        "![the worst bands](real.png)",
    )


DEFAULT_ROWS = tuple(r for r in RIVALS.rows if r.weights in (ORIGINAL, MAIN) or r.model == "hyres")
"""The methods that take seconds: without those that take minutes on 200 bands."""
