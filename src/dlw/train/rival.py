"""Training of the networks that restore an image by themselves: HSID-CNN and HSI-DeNet.

Scenes, noise and keyed patches are those of the weight networks, so that all learn from the same data.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import __version__, noise, store
from ..errors import BadFile, BadOption, unknown_name
from ..io.atomic import atomic
from ..metrics import psnr
from ..store import RIVALS, Rival
from .loop import LIMIT_BAD, TrainingStopped, _trim_log, validation_set
from .patches import Patches

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class RivalPlan:
    """One training run of a rival network; it is kept in the card.

    Attributes:
        name: architecture, a key of ``store.RIVALS``.
        patch, batch: side of a patch in pixels, and patches per step.
        targets: bands of each patch that HSID-CNN restores in a step.
        steps: number of optimiser steps (Adam, mean squared error).
        rate: learning rate after a linear warm-up; it falls to 0 as a cosine.
        average: decay of the running mean of the parameters that is written.
        seed: of the first weights, patches, noise and target bands.
        noise: noise cases, one drawn per patch.
        validate: steps between two validations.
    """

    name: str
    patch: int = 20
    batch: int = 4
    targets: int = 3
    steps: int = 4000
    rate: float = 1e-3
    warmup: int = 200
    average: float = 0.998
    clip: float = 1.0
    seed: int = 0
    noise: tuple[int, ...] = (1,)
    affected: tuple[float, float] | None = None
    bands: tuple[int, int] | None = None
    pick: Literal["area", "side"] = "area"
    subsample: int = 2
    validate: int = 500

    def __post_init__(self) -> None:
        if self.name not in RIVALS:
            raise unknown_name("network to train", self.name, RIVALS)
        for name in ("patch", "batch", "targets", "steps"):
            if getattr(self, name) < 1:
                raise BadOption(f"{name} must be at least 1, not {getattr(self, name)}")

    def size_at(self, step: int) -> tuple[int, int]:
        return self.patch, self.batch

    def rate_at(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))


PLANS = {
    "hsid-cnn": RivalPlan("hsid-cnn"),
    "hsi-denet": RivalPlan("hsi-denet", patch=32, batch=8, steps=3000),
}
"""The planned budget of each network; ``minutes`` may end a run earlier."""


@dataclass
class RivalTraining:
    """Everything a run needs to go on."""

    plan: RivalPlan
    net: Rival
    optimiser: torch.optim.Optimizer
    average: dict[str, Tensor]
    step: int = 0
    bad_in_a_row: int = 0
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, plan: RivalPlan, bands: int) -> RivalTraining:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(plan.seed)
            sizes = {"channels": bands} if plan.name == "hsi-denet" else {}
            net = RIVALS[plan.name](**sizes)
        optimiser = torch.optim.Adam(net.parameters(), lr=plan.rate)
        return cls(plan, net, optimiser, {k: v.clone() for k, v in net.state_dict().items()})

    def save(self, path: Path) -> None:
        state = {
            "plan": json.dumps(asdict(self.plan)),
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "step": self.step,
            "bad": self.bad_in_a_row,
            "seconds": self.seconds,
            "scores": self.scores,
        }
        with atomic(path, overwrite=True) as tmp:
            torch.save(state, tmp)

    @classmethod
    def resume(cls, path: Path, name: str, bands: int) -> RivalTraining:
        """Go on from a checkpoint; the plan is the one the run was begun with."""
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            values = json.loads(state["plan"])
            lists: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
            }
            self = cls.begin(RivalPlan(**lists), bands)
            self.net.load_state_dict(state["net"])
            self.optimiser.load_state_dict(state["optimiser"])
        except Exception as error:  # a damaged pickle can fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadFile(f"{path} is not a checkpoint of this training: {reason}") from error
        if self.plan.name != name:
            raise BadFile(f"{path} is a checkpoint of {self.plan.name}, not of {name}")
        self.average, self.scores = state["average"], state["scores"]
        self.step, self.bad_in_a_row = state["step"], state["bad"]
        self.seconds = state["seconds"]
        return self

    def averaged(self) -> Rival:
        """The network with the running mean of its parameters."""
        sizes = {k: v for k, v in self.net.config.items() if k != "architecture"}
        net = RIVALS[self.plan.name](**sizes)
        net.load_state_dict(self.average)
        return net.eval()

    def advance(self, patches: Patches) -> dict[str, Any]:
        """One optimiser step; returns the figures of the log."""
        p = self.plan
        clean, noisy = patches.batch(self.step, range(p.batch))
        rng = np.random.default_rng([p.seed, self.step, 0, 1])
        for group in self.optimiser.param_groups:
            group["lr"] = p.rate_at(self.step)
        self.net.train()
        self.optimiser.zero_grad()
        restored, target = self.net.sample(noisy, clean, rng, p.targets)
        loss = ((restored - target) ** 2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        value = float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.net.parameters(), p.clip))
        if math.isfinite(norm) and math.isfinite(value):
            self.optimiser.step()
            keep = min(p.average, (1 + self.step) / (10 + self.step))
            for name, tensor in self.net.state_dict().items():
                if tensor.is_floating_point():
                    self.average[name].lerp_(tensor, 1 - keep)
            self.bad_in_a_row = 0
        else:
            self.bad_in_a_row += 1
        self.step += 1
        return {"step": self.step, "loss": value, "gradient": norm}


@torch.no_grad()
def validate(net: Rival, pairs: list[tuple[F32, F32]], name: str) -> dict[str, float]:
    """Mean PSNR on the validation crops."""
    total = sum(psnr(clean, net(torch.from_numpy(noisy)).numpy()) for clean, noisy in pairs)
    return {name: total / len(pairs)}


def train_rival(
    plan: RivalPlan,
    scenes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    resume: bool = False,
    minutes: float | None = None,
    checkpoint_minutes: float = 3.0,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train a rival network and write ``out/<name>.safetensors``; returns its path.

    ``out`` also gets ``checkpoint.pt`` and ``log.jsonl``. With ``minutes`` the run stops after that
    time, writes the network as it is, and can be resumed.
    """
    out = Path(out)
    counts = sorted({s.shape[0] for s in scenes.values()})
    if len(counts) > 1:
        raise BadOption(f"the training scenes must have the same number of bands, not {counts}")
    out.mkdir(parents=True, exist_ok=True)
    where, log = out / "checkpoint.pt", out / "log.jsonl"
    if resume and where.exists():
        run = RivalTraining.resume(where, plan.name, counts[0])
    else:
        run = RivalTraining.begin(plan, counts[0])
    plan = run.plan
    patches = Patches(list(scenes.values()), plan)
    pairs = validation_set(held_out, plan) if held_out else []
    _trim_log(log, run.step, True)
    started = saved = time.monotonic()
    before = run.seconds
    while run.step < plan.steps:
        figures = run.advance(patches)
        now = time.monotonic()
        run.seconds = before + now - started
        if run.bad_in_a_row >= LIMIT_BAD:
            raise TrainingStopped(
                f"loss or gradient was not finite {LIMIT_BAD} steps in a row (step {run.step}); "
                f"the last good checkpoint is {where if where.exists() else 'none'}"
            )
        over = minutes is not None and now - started > 60 * minutes
        last = over or run.step == plan.steps
        if pairs and (run.step % plan.validate == 0 or last):
            run.scores = figures["psnr"] = validate(run.averaged(), pairs, plan.name)
        figures["seconds"] = round(run.seconds, 3)
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
        if report is not None:
            report(figures)
        if last or now - saved > 60 * checkpoint_minutes:
            run.save(where)
            saved = now
        if over:
            break
    target = out / f"{plan.name}.safetensors"
    store.save(target, run.averaged(), card(run, scenes, held_out), overwrite=True)
    return target


def card(
    run: RivalTraining, scenes: Mapping[str, F32], held_out: Mapping[str, F32] | None
) -> dict[str, Any]:
    """What a user should know about the network."""
    p = run.plan
    return {
        "name": p.name,
        "kind": "rival",
        "data": sorted(scenes),
        "validation": sorted(held_out or {}),
        "noise": [f"case {c}: {noise.CASES[c]}" for c in p.noise],
        "steps": run.step,
        "training_seconds": round(run.seconds),
        "validation_psnr": {k: round(v, 2) for k, v in run.scores.items()},
        "version": __version__,
        "torch": torch.__version__,
        "plan": asdict(p),
    }
