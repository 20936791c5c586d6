"""Noisy PSNR of the five noise cases, beside the figures of the paper.

    python benchmarks/noise_levels.py [folder] [--repeats 5] [--seed 0]

The folder holds .npz files with a `cube` of shape (row, col, band). Every band is scaled to [0, 1];
the PSNR is the mean over the bands of the noisy cube as it is, not cut to [0, 1].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hyperdlw.testbed import find_noise
from hyperdlw.testbed.metrics import psnr

PAPER = {1: 14.71, 2: 16.16, 3: 16.19, 4: 13.13, 5: 12.91}
"""Noisy rows of the paper's CAVE table, in dB."""


def read(path: Path) -> np.ndarray:
    with np.load(path) as stored:
        cube = np.moveaxis(stored["cube"], 2, 0).astype(np.float32)
    low = cube.min(axis=(1, 2), keepdims=True)
    span = cube.max(axis=(1, 2), keepdims=True) - low
    return (cube - low) / np.where(span > 0, span, 1)


def make_noisy(number: int, x: np.ndarray, stream: list[int], clip: bool) -> np.ndarray:
    options = {} if clip else {"clip": False}
    return find_noise(number).apply(x, np.random.default_rng(stream), **options).y


def main() -> None:
    near = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "hsi" / "test"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=near)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    files = sorted(args.folder.glob("*.npz"))
    if not files:
        raise SystemExit(f"no .npz files in {args.folder}: name a folder of cubes")

    variants = [(number, True) for number in PAPER]
    variants += [(1, False), (5, False)]
    found: dict[tuple[int, bool], list[list[float]]] = {v: [] for v in variants}
    for place, path in enumerate(files):
        x = read(path)
        for number, clip in variants:
            found[number, clip].append(
                [
                    psnr(x, make_noisy(number, x, [args.seed, place, k], clip), clip=False)
                    for k in range(args.repeats)
                ]
            )
    print(f"noisy PSNR in dB, {args.repeats} draws, mean (standard deviation between draws)")
    head = "".join(f"{p.stem[:14]:>16}" for p in files)
    print(f"{'case':<44}{head}{'mean':>8}{'paper':>8}")
    for number, clip in variants:
        cells = "".join(f"{np.mean(v):>9.2f} ({np.std(v):.2f})" for v in found[number, clip])
        name = f"{number} {find_noise(number).about}{'' if clip else ', impulse bands not cut'}"
        print(f"{name:<44}{cells}{np.mean(found[number, clip]):>8.2f}{PAPER[number]:>8.2f}")


if __name__ == "__main__":
    main()
