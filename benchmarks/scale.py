"""Cost against size, and the largest memory of a run with a limit, as Markdown tables.

    python benchmarks/scale.py [--sides 128 256 512 1024] [--bands 31] [--model lrtfdfr]
    python benchmarks/scale.py --memory 1G --side 1024 --bands 100 [--weights N+T+TS]

The first form times ``hyperdlw.denoise`` in this process, with and without tiles. The second denoises a
file in a process of its own and prints the largest memory it had, beside the plan.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

BLOCK = 64
REPEATED = 1024
"""Sides below this are timed REPEATED / side times, and the fastest counts."""


def scene(path: Path, bands: int, side: int) -> None:
    """A noisy cube on disk, made in blocks of rows: it need not fit in memory."""
    rng = np.random.default_rng(0)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (side, side, bands))
    spectra = rng.random((4, bands))
    for top in range(0, side, BLOCK):
        rows = np.arange(top, min(top + BLOCK, side))[:, None] / 64
        cols = np.arange(side)[None, :] / 48
        maps = np.stack([np.sin(rows * k + 1) * np.cos(cols * k) for k in range(1, 5)], -1)
        part = 0.5 + 0.1 * maps @ spectra
        out[top : top + BLOCK] = part + 0.05 * rng.standard_normal(part.shape)
    out.flush()


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def cost(sides: list[int], bands: int, model: str, weights: str) -> None:
    from hyperdlw import denoise, io

    print(f"{model}, weights {weights}, {bands} bands\n")
    print("| side | whole, s | ns per voxel | strips | in strips, s | ns per voxel |")
    print("|---|---|---|---|---|---|")
    for side in sides:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "noisy.npy"
            scene(path, bands, side)
            cube = io.open_cube(path)
        repeats = max(1, REPEATED // side)
        whole = best(lambda: denoise(cube, model=model, weights=weights), repeats)  # noqa: B023
        tile = max(16, side // 4)
        tiled = best(
            lambda: denoise(cube, model=model, weights=weights, tile=tile),  # noqa: B023
            repeats,
        )
        voxels = bands * side**2
        print(
            f"| {side} | {whole:.1f} | {1e9 * whole / voxels:.0f} | {-(-side // tile)} | "
            f"{tiled:.1f} | {1e9 * tiled / voxels:.0f} |",
            flush=True,
        )


CHILD = r"""
import json, resource, sys
from hyperdlw.app.cli.main import run
code = run(sys.argv[1:])
sys.stderr.write(f"\n{1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
sys.exit(code)
"""


def peak(bands: int, side: int, memory: str, model: str, weights: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        noisy, clean = Path(folder) / "noisy.npy", Path(folder) / "clean.npy"
        scene(noisy, bands, side)
        begin = time.perf_counter()
        line = ["denoise", str(noisy), str(clean), "--memory", memory, "-m", model, "-w", weights]
        ran = subprocess.run(
            [sys.executable, "-c", CHILD, *line, "--json"], capture_output=True, text=True
        )
        if ran.returncode:
            sys.exit(ran.stderr)
        seconds = time.perf_counter() - begin
        tiling = json.loads(ran.stdout)["tiling"]
    most = int(ran.stderr.splitlines()[-1])
    print("| cube | model, weights | limit | largest memory | way | tiles | seconds |")
    print("|---|---|---|---|---|---|---|")
    way, tiles = (tiling["way"], tiling["tiles"]) if tiling else ("whole", 1)
    print(
        f"| {bands} x {side} x {side} | {model}, {weights} | {memory} | {most / 2**20:.0f} MiB | "
        f"{way} | {tiles} | {seconds:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--bands", type=int)
    parser.add_argument("--model", default="lrtfdfr")
    parser.add_argument("--weights", default="N+T+TS")
    parser.add_argument("--memory")
    given = parser.parse_args()
    if given.memory:
        peak(given.bands or 100, given.side, given.memory, given.model, given.weights)
    else:
        cost(given.sides, given.bands or 31, given.model, given.weights)


if __name__ == "__main__":
    main()
