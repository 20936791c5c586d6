"""Train one weight network for everything, from a shipped one (see "Training" in README.md).

    python benchmarks/field/train_interim.py --data ../shared/data --out runs/field --minutes 65

Writes ``log.jsonl``, ``checkpoint.pt`` (every five minutes), ``last.safetensors`` and
``best.safetensors`` (running means of the parameters) to ``--out``.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
import training_material as m
from torch import Tensor, nn

from hyperdlw import models
from hyperdlw.networks import files
from hyperdlw.solver import Problem, solve
from hyperdlw.testbed import find_noise, noise
from hyperdlw.train.optimisers import Soap
from hyperdlw.weights import softmax_weights

REFERENCE, LEAST, MOST = 40 / 255, 0.005, 2.0
SOURCES = ("nn", "tv", "tvs")
"""Models the network is trained through."""
TARGET = "lrtfdfr"
"""The default model, which has no gradient worth having and is only validated."""
VOXELS = (55_000, 75_000, 110_000)
POOL = 8
"""Crops that are kept; a crop and its limits cost as much as a step, so each is used three times."""
WARM_UP, KEPT = 50, 0.998
CHOSEN = {
    "crop_testmsi2": ("case1", "case2", "case5", "mild", "snr50", "known 1", "known 5"),
    "muufl_90": ("case1", "case3", "case5", "even30", "known 5"),
    "moffett_50": ("case2", "case5"),
    "made": ("case4", "photons200"),
}
"""The cubes of the validation: scene -> noises, "known" with the true limits told."""
ORDER = ("case1", "case2", "case3", "case4", "case5", "even30", "mild")
ORDER += ("snr20", "snr50", "photons200", "dead-elements")
"""Number of a noise in the random stream of a validation cube."""
Rows = dict[str, list[float]]


def find_strength(sigma: float) -> float:
    return min(MOST, max(LEAST, sigma / REFERENCE))


def restore_with(net: nn.Module, s: m.Sample, names: tuple[str, ...]) -> Iterator[Tensor]:
    """The sample restored by every model, without a gradient."""
    w = softmax_weights(net(s.y.clamp(-1.0, 2.0)))
    t = find_strength(s.sigma)
    for name in names:
        if name == TARGET:
            rank = min(len(s.y), 12)
            model = models.build_model(name, s.y.shape, min(1.0, t * t), rank=rank)
        else:
            model = models.build_model(name, s.y.shape, t)
        yield solve(Problem(model, s.y, w)).x


def compute_loss(net: nn.Module, s: m.Sample, teacher: nn.Module, distil: float) -> Tensor:
    """Mean log MSE over the sources; on the paper's noise also the distance to the teacher's weights.

    The teacher sees the same patch on its true limits: its weights, not its input, are what a file
    should get.
    """
    y = s.y.unsqueeze(0)
    logits = net(y.clamp(-1.0, 2.0))
    w = softmax_weights(logits)
    t = find_strength(s.sigma)
    total = torch.zeros(())
    for name in SOURCES:
        model = models.build_model(name, y.shape, t)
        x = solve(Problem(model, y, w), backward="unroll").x
        error = ((x[0] - s.x) * s.span).square().mean()
        total = total + torch.log(error + 1e-9) / len(SOURCES)
    if s.given is not None:
        with torch.no_grad():
            target = torch.softmax(teacher(s.given).flatten(), 0)
        log = torch.log_softmax(logits.flatten(), 0)
        total = total + distil * (target * (torch.log(target.clamp_min(1e-12)) - log)).sum()
    return total


def make_validation(held: m.Scenes) -> dict[str, m.Sample]:
    """The held-out cubes by "scene/noise"."""
    out = {}
    for i, (name, scene) in enumerate(held.items()):
        side = min(80, *scene.shape[1:])
        top, left = ((n - side) // 2 for n in scene.shape[1:])
        step = len(scene) // 31
        x = scene[: step * 31 : step, top : top + side, left : left + side]
        low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
        x = np.ascontiguousarray((x - low) / (high - low))
        for kind in CHOSEN[name]:
            if kind.startswith("known"):
                number = int(kind[-1])
                small = np.ascontiguousarray(x[:, :56, :56])
                rng = np.random.default_rng([32, i, number])
                sample = m.keep_limits(noise.case(number, small, rng), small)
            else:
                rng = np.random.default_rng([31, i, ORDER.index(kind)])
                sample = m.prepare_sample(find_noise(kind).apply(x, rng), x, min(56, side))
            out[f"{name}/{kind}"] = sample
    return out


@torch.no_grad()
def validate(net: nn.Module, cubes: dict[str, m.Sample]) -> Rows:
    """PSNR in dB (mean over bands, units of the scene) of every cube, one per model."""
    rows: Rows = {}
    for name, s in cubes.items():
        rows[name] = []
        for x in restore_with(net, s, (*SOURCES, TARGET)):
            square = ((x - s.x) * s.span).square().mean((1, 2))
            rows[name].append(round(float((-10 * torch.log10(square)).mean()), 3))
    return rows


@dataclass
class Run:
    """A run of the training: the network, what steps it, and where it is written."""

    net: nn.Module
    start: str
    out: Path
    rate: float
    cubes: dict[str, m.Sample]
    log: TextIO
    begun: float = field(default_factory=time.monotonic)
    step: int = 0
    skipped: int = 0
    best: float = -math.inf
    average: Any = field(init=False)
    rule: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.average = copy.deepcopy(self.net).eval().requires_grad_(False)
        self.rule = Soap(self.net.parameters(), lr=self.rate)

    def write(self, **figures: object) -> None:
        seconds = round(time.monotonic() - self.begun)
        self.log.write(json.dumps({"step": self.step, "seconds": seconds, **figures}) + "\n")
        self.log.flush()

    def advance(self, loss: Tensor, done: float) -> float:
        """One step down the gradient; the norm of the gradient."""
        for group in self.rule.param_groups:
            warm = min(1, (self.step + 1) / WARM_UP)
            group["lr"] = self.rate * warm * 0.5 * (1 + math.cos(math.pi * done))
        self.rule.zero_grad()
        loss.backward()
        norm = float(nn.utils.clip_grad_norm_(self.net.parameters(), 1.0))
        if math.isfinite(norm) and math.isfinite(float(loss.detach())):
            self.rule.step()
            keep = min(KEPT, (1 + self.step) / (10 + self.step))
            with torch.no_grad():
                pairs = zip(self.average.parameters(), self.net.parameters(), strict=True)
                for a, p in pairs:
                    a.lerp_(p, 1 - keep)
        else:
            self.skipped += 1
        self.step += 1
        return norm

    def save(self, check: bool) -> None:
        """Write the state and the running mean; with ``check`` also validate, and keep the best."""
        score = None
        if check:
            rows = validate(self.average, self.cubes)
            n = len(SOURCES)
            score = float(np.mean([0.5 * np.mean(r[:n]) + 0.5 * r[n] for r in rows.values()]))
            means = [round(float(v), 3) for v in np.mean(list(rows.values()), axis=0)]
            self.write(score=score, means=means, rows=rows)
        state = {"net": self.net.state_dict(), "average": self.average.state_dict()}
        state |= {"optimiser": self.rule.state_dict(), "step": self.step}
        torch.save(state, self.out / "checkpoint.pt.tmp")
        (self.out / "checkpoint.pt.tmp").replace(self.out / "checkpoint.pt")
        data = [*m.CAVE, *m.AIRBORNE, "textured scenes"]
        card = {"name": "field", "steps": self.step, "start": self.start, "data": data}
        card["score"] = score
        files.save_network(self.out / "last.safetensors", self.average, card, overwrite=True)
        if score is not None and score > self.best:
            self.best = score
            files.save_network(self.out / "best.safetensors", self.average, card, overwrite=True)


def train(
    run: Run, groups: tuple[m.Scenes, ...], teacher: nn.Module, args: argparse.Namespace
) -> None:
    pool: list[tuple[m.Sample, int, str]] = []
    recent: list[float] = []
    saved = checked = time.monotonic()
    while (done := (time.monotonic() - run.begun) / (60 * args.minutes)) < 1:
        rng = np.random.default_rng([args.seed, run.step])
        if len(pool) < POOL or run.step % 3 == 0:
            voxels = VOXELS[int(rng.integers(len(VOXELS)))]
            pool = [*pool[-POOL + 1 :], m.draw_crop(groups, rng, voxels)]
            crop, side, kind = pool[-1]
        else:
            crop, side, kind = pool[int(rng.integers(len(pool)))]
        loss = compute_loss(run.net, m.cut_patch(crop, side, rng), teacher, args.distil)
        norm = run.advance(loss, done)
        recent.append(float(loss.detach()))
        if run.step % 20 == 0:
            mean = round(float(np.mean(recent)), 4)
            run.write(loss=mean, norm=round(norm, 3), kind=kind, skipped=run.skipped)
            recent = []
        now = time.monotonic()
        if now - saved > 300:
            first = run.best == -math.inf and now - checked > 240
            check = first or now - checked > 840
            run.save(check)
            saved = time.monotonic()
            checked = saved if check else checked
    run.save(check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with hsi/train and remote")
    parser.add_argument("--out", type=Path, default=Path("runs/field"))
    parser.add_argument("--minutes", type=float, default=65.0)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--start", default="N+T+TS-remote", help="name or file of a network")
    parser.add_argument("--teacher", default="N+T+TS-remote", help="name or file of a network")
    parser.add_argument("--distil", type=float, default=1.0, help="weight of the teacher")
    parser.add_argument("--seed", type=int, default=2027)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    quiet, made, airborne, held = m.read_scenes(args.data)
    net = files.load_network(args.start).net.train().requires_grad_(True)
    teacher = files.load_network(args.teacher).net
    with (args.out / "log.jsonl").open("a") as log:
        run = Run(net, args.start, args.out, args.rate, make_validation(held), log)
        rows = validate(run.average, run.cubes)
        run.write(start=args.start, rows=rows)
        # Validation of the start does not count as training time.
        run.begun = time.monotonic()
        train(run, (quiet, made, airborne), teacher, args)


if __name__ == "__main__":
    main()
