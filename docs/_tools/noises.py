"""Draw every kind of noise before and after the plain command: ``python docs/_tools/noises.py``.

    python docs/_tools/noises.py [--docs docs] [--only NAME ...]

Writes ``guide/noises.md`` and ``figures/noises/NAME.png`` below ``--docs``; with ``--only`` the pictures
of these noises and no page. The figures of the page are measured here, its sentences stand in ``ABOUT``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import hyperdlw
from hyperdlw.bench.field import ALIKE, mean_psnr
from hyperdlw.bench.tables import wrap_prose, write_rows
from hyperdlw.pipeline import pseudo_colour
from hyperdlw.testbed import find_noise, make_textured_scene

F32 = NDArray[np.float32]

SEED, SHAPE = 7, (31, 96, 96)
TIMES, GAP = 3, 4
"""Pixels of the picture per pixel of the scene, and between two panels."""
STEP = 4
"""Grey values are multiples of this: the files are half as large, and the eye sees no step."""
TITLES = {
    "cases": "The five cases of the paper",
    "level": "Gaussian noise and noise that grows with the signal",
    "instruments": "Photons and instruments",
    "detector": "Detectors and columns",
    "scene": "Bright pixels, gaps, and no noise",
}
ABOUT = {
    "cases": {
        "case1": "Gaussian noise of another strength in every band, and impulses (black and white "
        "voxels) in a third of them: both go, weak roads "
        "fade, and fine texture is smoothed.",
        "case2": "Gaussian noise of another strength in every band, and thin stripes of a constant "
        "offset in a third of them: no striped column is left to see, "
        "and fine texture is smoothed.",
        "case3": "Gaussian noise of another strength in every band, and dead columns in a third of "
        "them: the columns are filled, but this band at the end of the spectrum, with strong noise, "
        "loses contrast and thin roads.",
        "case4": "Gaussian noise that is strong around one place of each band and weaker away from "
        "it: it goes, and with it texture and the thin dark line down the middle.",
        "case5": "All of the four cases at once: large shapes come back out of a band in which the eye "
        "finds nothing, texture and the thin dark line down the middle do not.",
    },
    "level": {
        "even5": "Weak Gaussian noise, 5/255 everywhere: the grain goes and the details stay.",
        "even30": "Strong Gaussian noise, 30/255 everywhere: edges and roads come back, fine texture "
        "is smoothed.",
        "mild": "Weak Gaussian noise, 2 to 10/255, another strength in every band: the grain goes and "
        "the details stay.",
        "snr20": "Noise of a twentieth of the signal: the grain on bright fields goes and the details "
        "stay.",
        "snr50": "Noise of a fiftieth of the signal, which is hard to see: it becomes weaker, and the "
        "details stay.",
        "snr150": "Noise of 1/150 of the signal, which cannot be seen: it becomes weaker in the middle "
        "of the spectrum; in the first band some single pixels are changed by more than the noise.",
        "snr500": "Noise of 1/500 of the signal, as of a good instrument in full sun: it becomes a "
        "little weaker, but in the first and the last band some single pixels are changed by far "
        "more than the noise.",
    },
    "instruments": {
        "photons200": "Counted photons, 200 of them at full scale, so that bright fields are noisier: "
        "the grain goes and the details stay.",
        "emit": "The noise law of EMIT for a dark scene with a tenth of the sun: noise that can hardly "
        "be seen becomes weaker, and the details stay.",
        "tanager": "The noise law of Tanager-1 for a dark scene with a tenth of the sun, strongest in "
        "the first band: the grain goes and the details stay.",
        "aviris-ng": "The noise law of AVIRIS-NG for a dark scene with a tenth of the sun, strongest in "
        "the first band: the grain goes, and weak texture with it.",
    },
    "detector": {
        "dead-elements": "Detector elements that read one value along the whole track, as on EMIT, and "
        "weak Gaussian noise: the dead column is filled, and the dark line of the scene stays.",
        "column-gains": "Gains of the columns that differ by 0.3 % as on HYPSO-1, and an SNR of 150, "
        "neither of which can be seen: the noise becomes weaker, **the column "
        "gains stay**.",
        "column-offsets": "Offsets of all columns that bands share and that drift along the track, as of "
        "a pushbroom sensor, and Gaussian noise: most goes, faint broad "
        "stripes stay.",
        "wide-stripes": "Blocks of 3 to 15 columns with an offset in a third of the bands, and weak "
        "Gaussian noise: the grain and most blocks go; one of which an edge is in doubt stays.",
    },
    "scene": {
        "bright20": "Pixels 20 times as bright as the scene, such as glints, and Gaussian noise: the "
        "bright pixels stay, nothing spreads around them, and the grain goes.",
        "bright200": "Pixels 200 times as bright as the scene, such as flames, and Gaussian noise: the "
        "same comes out as with 20 times.",
        "gaps": "Rows, blocks and a hole where nothing was measured (black), and weak Gaussian noise: "
        "the gaps stay gaps, nothing spreads around them, and the grain goes.",
        "none": "No noise at all: the cube comes back as it was, to the last bit.",
    },
}
"""What each noise is and what comes out, in one sentence: look at the pictures when you draw anew."""


@dataclass(frozen=True)
class Shown:
    """The picture of a noise, the band in it, and the PSNR of every band before and after."""

    picture: NDArray[np.uint8]
    band: int
    before: NDArray[np.float64]
    after: NDArray[np.float64]


def show_noise(name: str, clean: F32) -> Shown:
    """Make a scene noisy, restore it with no option, and draw the band that is hit most."""
    noise = find_noise(name)
    noisy = noise.apply(clean, np.random.default_rng([SEED, noise.stream]))
    restored = hyperdlw.denoise(noisy.y).cube.data
    target = noisy.find_target(clean)
    seen = np.ones(clean.shape, bool) if noisy.judged is None else noisy.judged

    def score(x: F32) -> NDArray[np.float64]:
        one = [slice(b, b + 1) for b in range(len(x))]
        return np.array([mean_psnr(target[b], x[b], seen[b]) for b in one])

    # A gap counts as an error of the whole scale, so that gaps are what is shown of gaps.
    error = np.where(noisy.valid, noisy.y - target, 1.0)
    band = int(np.argmax((error**2).mean(axis=(1, 2))))
    limits = np.quantile(clean[band], [0.001, 0.999])
    panels = [
        pseudo_colour(x, (band, band, band), limits)[..., 0] // STEP * STEP
        for x in (noisy.y, restored, target)
    ]
    large = [p.repeat(TIMES, axis=0).repeat(TIMES, axis=1) for p in panels]
    gap = np.full((len(large[0]), GAP), 255, np.uint8)
    picture = np.concatenate([large[0], gap, large[1], gap, large[2]], axis=1)
    return Shown(picture, band, score(noisy.y), score(restored))


def say(figure: float) -> str:
    """A PSNR in dB; a band that is the same counts ``ALIKE``."""
    return "exact" if figure > ALIKE - 0.01 else f"{figure:.1f}"


def write_row(name: str, x: Shown) -> list[str]:
    """A row of the table of the page."""
    worse = int((x.after < x.before - 0.05).sum())
    means = [float(v.mean()) for v in (x.before, x.after)]
    of_band = [float(v[x.band]) for v in (x.before, x.after)]
    gain = f"{means[1] - means[0]:.1f}"
    return [
        f"[{name}](#{name})",
        *map(say, means),
        gain,
        str(worse or "none"),
        str(x.band),
        *map(say, of_band),
    ]


def write_page(found: dict[str, Shown]) -> str:
    titles = (
        "noise",
        "noisy",
        "restored",
        "gain",
        "bands made worse",
        "band shown",
        "noisy",
        "restored",
    )
    rows = {name: write_row(name, x) for name, x in found.items()}
    lines = [
        "# Noises in pictures",
        "",
        "Each kind of noise before and after the plain command, `hyperdlw.denoise(noisy)` with no "
        "option. Left the noisy band, in the middle what comes out, on the right the clean band, all "
        "three on one grey scale. The scene is made by code "
        f"(`made:{SEED}`, {SHAPE[0]} bands, {SHAPE[1]} x {SHAPE[2]} pixels). The band is the one that "
        "is hit most: the pictures show the worst band, not the usual one.",
        "",
        "`python docs/_tools/noises.py` draws the pictures and writes this page. PSNR is in dB, off "
        "gaps and bright pixels, and nothing is cut to [0, 1] for it: first the mean over all bands, "
        "then the band shown. This is one scene and one draw of each noise; `hyperdlw bench field` "
        "measures more of them, beside other methods.",
        "",
        *write_rows(titles, rows.values()),
        "",
    ]
    for group, sentences in ABOUT.items():
        lines += [f"## {TITLES[group]}", ""]
        for name, sentence in sentences.items():
            _, before, after, *_, band, first, then = rows[name]
            lines += [
                f"### {name}",
                "",
                f"{sentence}",
                "",
                f"![{name}: noisy, restored, clean](../figures/noises/{name}.png)",
                "",
                f"*PSNR {before} before and {after} after; band {band}, shown, {first} and {then}.*",
                "",
            ]
    return wrap_prose("\n".join(lines).rstrip() + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--docs", type=Path, default=Path(__file__).parents[1])
    options.add_argument("--only", nargs="*", help="names of noises: no page is written")
    asked = options.parse_args()
    folder = asked.docs / "figures" / "noises"
    folder.mkdir(parents=True, exist_ok=True)
    clean = make_textured_scene(*SHAPE, rng=np.random.default_rng(SEED))
    found = {}
    for name in asked.only or [n for sentences in ABOUT.values() for n in sentences]:
        found[name] = show_noise(name, clean)
        path = folder / f"{name}.png"
        Image.fromarray(found[name].picture).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1000} kB", flush=True)
    if not asked.only:
        (asked.docs / "guide" / "noises.md").write_text(write_page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
