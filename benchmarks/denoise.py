"""Where the time of denoise() goes: weights, solver, and the largest costs inside both.

    python benchmarks/denoise.py [--quality fast] [--model e3dtv] [--size 256] [--bands 31] [--threads 2]

Prints seconds of the best of some runs, the share of the weights, and the operations that take most
time by the profiler, as Markdown. Nothing is told but the options: the limits are searched for, as in
the plain command. 'processor' is the time of all threads, which other programs do not lengthen.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import hyperdlw
from hyperdlw.pipeline import DEFAULT_MODEL
from hyperdlw.weights import DEFAULT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quality", default="normal")
    parser.add_argument("--noise", type=int, default=5, help="case of the paper")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--weights", default=DEFAULT)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--bands", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--top", type=int, default=12, help="operations that are listed; 0: none")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(0)
    clean = hyperdlw.testbed.scenes.synthetic(args.bands, args.size, args.size, rng=rng).data
    noisy = hyperdlw.testbed.noise.case(args.noise, clean, rng).y

    chosen = {"model": args.model, "weights": args.weights, "quality": args.quality}

    def run() -> dict[str, float]:
        begin = time.process_time()
        found = hyperdlw.denoise(noisy, **chosen).report.seconds
        return {**found, "processor": time.process_time() - begin}

    hyperdlw.denoise(noisy[:, :32, :32], **chosen)
    best = min((run() for _ in range(args.repeats)), key=lambda s: s["processor"])
    voxels = noisy.size
    print(f"{args.quality}, {args.model}, {noisy.shape}, {args.threads} threads\n")
    print("| part | seconds | share | ns per voxel |\n|---|---:|---:|---:|")
    rest = best["total"] - best["weights"] - best["solve"]
    for part, seconds in {**best, "rest": rest}.items():
        share = 100 * seconds / best["total"]
        print(f"| {part} | {seconds:.2f} | {share:.0f} % | {1e9 * seconds / voxels:.0f} |")
    if not args.top:
        return
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        run()
    events = sorted(trace.key_averages(), key=lambda e: -e.self_cpu_time_total)
    total = sum(e.self_cpu_time_total for e in events)
    print("\n| operation | calls | seconds | share |\n|---|---:|---:|---:|")
    for e in events[: args.top]:
        share = 100 * e.self_cpu_time_total / total
        print(f"| {e.key} | {e.count} | {1e-6 * e.self_cpu_time_total:.2f} | {share:.0f} % |")


if __name__ == "__main__":
    main()
