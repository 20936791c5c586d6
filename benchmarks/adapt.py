"""What ``hyperdlw adapt`` gains on airborne scenes with noises of sensors that no network has seen.

python benchmarks/adapt.py FOLDER [--steps 600] [SCENE=NOISE ...]

FOLDER holds the scenes (.npz). Every scene gets one noise, is adapted to alone, and is restored with and
without what was learned. The mean PSNR over bands is told; 31 bands of a scene are used.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
from scipy.ndimage import convolve1d
from scipy.signal import lfilter

import hyperdlw
from hyperdlw.testbed import SceneChoice, load_scenes, psnr

CASES = (
    "abu-airport-1=lag",
    "abu-airport-2=resampled",
    "hydice_urban_anomaly=lines",
    "samson=columns",
    "sandiego_plane=loudlag",
)
F64 = np.typing.NDArray[np.float64]


def hand_on(n: F64, axis: int) -> F64:
    """Noise of which every voxel hands 0.6 on to the next along an axis; every band has variance one."""
    n = lfilter([1], [1, -0.6], n, axis=axis)
    return n / n.std((1, 2), keepdims=True)


def add_noise(kind: str, x: F64, rng: np.random.Generator) -> F64:
    """A scene with photons (400 at full scale), a read noise of 0.01, and what the sensor makes of it."""
    n, sigma = rng.standard_normal(x.shape), np.sqrt(np.maximum(x, 0) / 400 + 1e-4)
    if kind == "resampled":  # to a map, half a pixel in both directions
        for axis in (1, 2):
            n = convolve1d(n, [0.5, 0.5], axis=axis, mode="wrap")
        return x + sigma * n / n.std((1, 2), keepdims=True)
    if kind == "lines":  # every scan line of every band has an offset
        return x + 0.7 * sigma * n + 0.02 * rng.standard_normal((*x.shape[:2], 1))
    if kind == "columns":  # lag along the track, and offsets of columns
        shift = 0.03 * rng.standard_normal((len(x), 1, x.shape[2]))
        return x + sigma * hand_on(n, 1) + shift
    if kind == "interband":  # neighbouring bands share noise
        return x + sigma * hand_on(n, 0)
    n = n if kind == "photons" else hand_on(n, 2)
    return x + (3 if kind == "loudlag" else 1) * sigma * n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("cases", nargs="*", default=CASES)
    given = parser.parse_intermixed_args()
    gains = []
    for name, kind in (case.split("=") for case in given.cases):
        clean = load_scenes(given.folder, SceneChoice(only=(name,)))[0][name]
        clean = clean[np.linspace(0, len(clean) - 1, 31).round().astype(int)]
        rng = np.random.default_rng(zlib.crc32(f"{name}{kind}".encode()))
        noisy = add_noise(kind, clean, rng).astype(np.float32)
        before = after = psnr(clean, hyperdlw.denoise(noisy).cube.data, clip=False)
        said, start = "", time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                sensor = hyperdlw.adapt([noisy], f"{folder}/own.safetensors", steps=given.steps)
                after = psnr(clean, hyperdlw.denoise(noisy, weights=sensor).cube.data, clip=False)
            except hyperdlw.DlwError as error:
                said = f"; {error}"
        gains.append(after - before)
        figures = f"noisy {psnr(clean, noisy, clip=False):.2f}, default {before:.2f}, adapted {after:.2f} dB"
        print(f"{name}, {kind}: {figures}, {time.process_time() - start:.0f} s{said}", flush=True)
    print(f"mean gain {np.mean(gains):.2f} dB, worst {min(gains):.2f} dB")


if __name__ == "__main__":
    main()
