"""Networks with the plain command, and with known limits, on the four validation scenes of the field.

    python benchmarks/field/compare_networks.py --data ../shared/data N+T+TS N+T+TS-remote

Prints the PSNR in dB, plain and known limits, of every scene and case, and the means. "Known limits" is
lrtfdfr by ``--paper`` on [0, 1]. Cubes are 31 bands of 80x80 pixels, one noise draw.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hyperdlw import denoise, open_cube
from hyperdlw.bench.field import draw_scales, mean_psnr
from hyperdlw.testbed import find_noise, make_textured_scene

F32 = NDArray[np.float32]
BANDS, SIDE = 31, 80
FILES = ("hsi/train/crop_testmsi2", "remote/muufl_90", "remote/moffett_50")
"""Scenes below ``--data``. The airborne two are training scenes of the shipped networks."""


def cut_scene(x: F32) -> F32:
    """The centre of a scene in evenly spread bands, each on [0, 1]."""
    top, left = ((n - SIDE) // 2 for n in x.shape[1:])
    step = max(1, len(x) // BANDS)
    x = x[: BANDS * step : step, top : top + SIDE, left : left + SIDE]
    lo, hi = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
    return np.ascontiguousarray((x - lo) / (hi - lo), np.float32)


def compare(clean: F32, y: F32, network: str) -> tuple[float, float]:
    """PSNR of the plain command, which is told no limits, and with known limits."""
    gain, offset = draw_scales(len(y), 3)
    plain = denoise(y * gain + offset, weights=network).cube.data
    known = denoise(y, model="lrtfdfr", weights=network, range=(0, 1), paper=True).cube.data
    seen = np.ones(y.shape, bool)
    return mean_psnr(clean, (plain - offset) / gain, seen), mean_psnr(clean, known, seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("networks", nargs="+")
    given = parser.parse_args()
    scenes = {Path(f).name: cut_scene(open_cube(given.data / f"{f}.npz").data) for f in FILES}
    scenes["made:5"] = make_textured_scene(BANDS, SIDE, SIDE, rng=np.random.default_rng(5))
    rows = []
    for name, clean in scenes.items():
        for case in range(1, 6):
            y = find_noise(f"case{case}").apply(clean, np.random.default_rng(41)).y
            rows.append([compare(clean, y, network) for network in given.networks])
            print(
                name, case, *(f"{plain:.2f}/{known:.2f}" for plain, known in rows[-1]), flush=True
            )
    for network, (plain, known) in zip(given.networks, np.mean(rows, axis=0), strict=True):
        print(f"{network}: plain {plain:.2f} dB, known limits {known:.2f} dB")


if __name__ == "__main__":
    main()
