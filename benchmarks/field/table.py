r"""Before and after: the plain command of the package beside the study, on small crops.

    python benchmarks/field/table.py
    python benchmarks/field/table.py --scenes made:1 thread_spools bin4:glass_tiles \
        --noises S50 case5 column-offsets --draws 1 2 --data ../shared/data

A scene is ``made:SEED`` (texture, edges, no noise; made by code), ``syn:SEED`` (the scene of the package's
demo), the name of a file in ``hsi/train`` or ``remote`` below ``--data``, or ``bin4:NAME``, such a file
averaged to 128 x 128 pixels. A noise is a name of the package ("mild", "snr50", "case5", ...) or a
short name: 1 to 5 (cases), G30 (even, /255), S50 (SNR), M (mild), P1000 (photons), clean. Short names
reproduce the draws of the table in README.md.

PSNR in dB: mean over bands, on the scale of the clean band, off bright pixels and gaps. "plain" and "new"
are told nothing: their bands have random gains and offsets. "known" and the published methods get the true
limits. "part" is the share of the weighted model in "new"; the rest are eigenimages.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from plain import restore

import hyperdlw
from hyperdlw.pipeline.columns import find_columns
from hyperdlw.testbed import NOISES, Noisy, crop_centre, find_noise, make_textured_scene, scenes
from hyperdlw.weights import resolve

F32 = NDArray[np.float32]
HEAD = ("scene", "noise", "noisy", "plain", "known", "HyRes", "FastHyMix", "new", "part")


def read_scene(name: str, crop: int, bands: int, data: Path | None) -> F32:
    """A clean scene (band, row, col), every band scaled to [0, 1]."""
    kind, _, rest = name.rpartition(":")
    if kind in ("made", "syn"):
        rng = np.random.default_rng(int(rest))
        if kind == "made":
            return make_textured_scene(bands, crop, crop, rng=rng)
        return crop_centre(scenes.synthetic(bands, crop, crop, rng=rng).data)
    if data is None:
        raise SystemExit(f"the scene '{name}' is a file: give the folder with --data")
    places = [data / folder / f"{rest}.npz" for folder in ("hsi/train", "remote")]
    found = [path for path in places if path.is_file()]
    if not found:
        raise SystemExit(f"there is no scene {rest}.npz in hsi/train or remote of {data}")
    with np.load(found[0]) as stored:
        cube = np.moveaxis(stored["cube"], 2, 0)[:bands].astype(np.float32)
    if kind == "bin4":
        step = cube.shape[1] // 128
        cube = cube[:, : 128 * step, : 128 * step]
        cube = cube.reshape(len(cube), 128, step, 128, step).mean((2, 4))
    return crop_centre(cube, crop)


def add_noise(x: F32, name: str, draw: int) -> Noisy:
    """Noise by a name of the package, or by a short name."""
    if name in NOISES:
        return NOISES[name].apply(x, np.random.default_rng([draw, zlib.crc32(name.encode())]))
    if name.isdigit():
        return find_noise(name).apply(x, np.random.default_rng([draw, int(name)]))
    rng = np.random.default_rng([draw, zlib.crc32(name.encode()) % 1000])
    normal = rng.standard_normal(x.shape).astype(np.float32)
    value = float(name[1:]) if name[1:].isdigit() else 0.0
    if name == "clean":
        y = x.copy()
    elif name == "M":
        y = x + normal * rng.uniform(2 / 255, 10 / 255, (len(x), 1, 1)).astype(np.float32)
    elif name[0] == "S" and value:
        y = x + normal * x / value
    elif name[0] == "G" and value:
        y = x + normal * np.float32(value / 255)
    elif name[0] == "P" and value:
        y = (rng.poisson(x * value) / value).astype(np.float32)
    else:
        raise SystemExit(f"there is no noise '{name}' (known: {', '.join(NOISES)}; S50, G30, ...)")
    return Noisy(y, Noisy.clean(x).truth)


def draw_scales(bands: int, draw: int) -> tuple[F32, F32]:
    """A gain and an offset for every band (band, 1, 1): units a program knows nothing of."""
    rng = np.random.default_rng(1000 + draw)
    gain, offset = rng.uniform(0.3, 3, (bands, 1, 1)), rng.uniform(-1, 1, (bands, 1, 1))
    return gain.astype(np.float32), offset.astype(np.float32)


def measure_psnr(dirty: Noisy, clean: F32, x: F32) -> float:
    """Mean over bands of the PSNR in dB, off bright pixels and gaps; not cut to [0, 1]."""
    seen = np.ones(x.shape, bool) if dirty.judged is None else dirty.judged
    square = np.where(seen, x.astype(np.float64) - dirty.find_target(clean), 0.0) ** 2
    mean = square.sum((1, 2)) / np.maximum(seen.sum((1, 2)), 1)
    return float(np.mean(-10 * np.log10(mean + 1e-30)))


def restore_new(raw: F32, columns: bool) -> tuple[F32, float]:
    """The study's restoration of a file, and the part of the weighted model in it."""
    if columns:
        raw = find_columns(raw).removed(raw)
    image = torch.from_numpy(raw)
    info: dict[str, object] = {}
    x = restore(image, image.isfinite(), resolve("N+T+TS"), info)
    return x.numpy(), float(str(info["part"]))


def score_methods(dirty: Noisy, scene: F32, draw: int, columns: bool) -> Iterator[str]:
    """The figures of one row, from "noisy" to "part"."""
    gain, offset = draw_scales(len(dirty.y), draw)
    raw = dirty.y * gain + offset

    def known(**options: str) -> F32:
        return hyperdlw.denoise(dirty.y, range=(0, 1), **options).cube.data

    noisy = measure_psnr(dirty, scene, dirty.y)
    # A clean cube has no PSNR to lose; how much it is changed is the figure.
    clean = np.array_equal(dirty.y, scene)
    yield "" if clean else f"{noisy:.2f}"
    yield f"{measure_psnr(dirty, scene, (hyperdlw.denoise(raw).cube.data - offset) / gain):.2f}"
    yield f"{measure_psnr(dirty, scene, known()):.2f}"
    for model in ("hyres", "fasthymix"):
        yield f"{measure_psnr(dirty, scene, known(model=model)):.2f}"
    x, part = restore_new(raw, columns)
    new = measure_psnr(dirty, scene, (x - offset) / gain)
    worse = not clean and new < noisy - 0.05
    yield f"{new:.2f} **worse**" if worse else f"{new:.2f}"
    yield f"{part:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", nargs="+", default=["made:1"])
    parser.add_argument("--noises", nargs="+", default=["5", "G30", "M", "S50", "S500", "clean"])
    parser.add_argument("--draws", nargs="+", type=int, default=[1])
    parser.add_argument("--crop", type=int, default=80, help="side of the scenes in pixels")
    parser.add_argument("--bands", type=int, default=31, help="first bands of a file")
    parser.add_argument("--data", type=Path, help="folder with hsi/train and remote")
    parser.add_argument("--columns", action="store_true", help='remove columns first in "new"')
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| " + " | ".join(HEAD) + " |\n|---|---|" + "---:|" * (len(HEAD) - 2))
    for name in args.scenes:
        x = read_scene(name, args.crop, args.bands, args.data)
        for noise in args.noises:
            for draw in args.draws:
                dirty = add_noise(x, noise, draw)
                label = noise if len(args.draws) == 1 else f"{noise}, draw {draw}"
                figures = score_methods(dirty, x, draw, args.columns)
                print("| " + " | ".join([name, label, *figures]) + " |", flush=True)


if __name__ == "__main__":
    main()
