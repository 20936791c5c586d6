"""The training loop of any network: steps, validation, checkpoints and exact resume."""

from __future__ import annotations

import copy
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypedDict, TypeVar, Unpack

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map

from ..errors import BadFile, DlwError, OutputExists
from ..io import atomic
from ..networks import FFDNet, MapNet, Network, Rival, find_device, solver_device
from ..networks import files as store
from .card import describe_run
from .optimisers import build_optimiser
from .recipe import TrainingPlan

F32 = NDArray[np.float32]
Pair = tuple[F32, F32]
"""A clean image (band, row, col) and its noisy version, or its noise."""
BatchT = TypeVar("BatchT")
CutT = TypeVar("CutT", covariant=True)
PlanT = TypeVar("PlanT", bound=TrainingPlan)
NetT = TypeVar("NetT", bound=Network | FFDNet | MapNet | Rival)
KEPT = ("average", "step", "skipped", "bad_in_a_row", "seconds", "scores")
"""Attributes of a run that a checkpoint holds as they are."""
LIMIT_BAD = 5
"""Steps in a row without a finite loss and gradient that stop a run."""


class TrainingStopped(DlwError):
    """The loss or its gradient stayed infinite; the message names the last good checkpoint."""

    exit_code = 3


class PatchSource(Protocol[CutT]):
    """Where the patches of a step come from."""

    def cut_batch(self, step: int, indices: Sequence[int]) -> CutT: ...


@dataclass(frozen=True)
class Figures:
    """What is known about a step after it: loss, norm of the gradient, steps skipped so far.

    Attributes:
        errors: further figures of the loss by name, such as the MSE of every source model.
        psnr: PSNR of the validation by model (dB), after steps that had one.
        seconds: time of the run so far.
    """

    step: int
    loss: float
    gradient: float
    skipped: int
    errors: Mapping[str, float]
    psnr: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> str:
        """One line of the log."""
        line = {k: v for k, v in asdict(self).items() if k not in ("errors", "psnr")}
        return json.dumps({**line, **self.errors, **({"psnr": self.psnr} if self.psnr else {})})


@dataclass
class Training(ABC, Generic[PlanT, NetT, BatchT]):
    """Everything a run needs to go on: this is what a checkpoint holds.

    A subclass trains one kind of network: it builds it, and says what the loss and the validation are.
    """

    plan_type: ClassVar[type[TrainingPlan]]

    recipe: PlanT
    net: NetT
    optimiser: torch.optim.Optimizer
    average: dict[str, Tensor]
    step: int = 0
    skipped: int = 0
    bad_in_a_row: int = 0
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    @staticmethod
    @abstractmethod
    def build_network(recipe: PlanT) -> NetT:
        """A network as the recipe wants it, with random weights."""

    @abstractmethod
    def add_gradients(self, patches: BatchT, batch: int) -> Tensor:
        """Add the gradients of some patches of a step; returns the loss and the figures after it.

        Args:
            batch: number of patches of the whole step; other processes may have a part of them.
        """

    @abstractmethod
    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """PSNR of the averaged network by model (dB)."""

    @property
    def figure_names(self) -> list[str]:
        """Names of the figures that ``add_gradients`` returns after the loss."""
        return []

    @classmethod
    def begin(cls, recipe: PlanT, net: NetT | None = None) -> Self:
        """The first state: ``net``, or random weights from the recipe's seed."""
        if net is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(recipe.seed)
                net = cls.build_network(recipe)
        rule = build_optimiser(recipe.optimiser, net.parameters(), recipe.rate)
        average = {k: v.detach().clone() for k, v in net.state_dict().items()}
        return cls(recipe, net, rule, average)

    def save(self, path: Path) -> None:
        """Write the checkpoint so that a reader sees the old one or the new one."""
        state = {name: getattr(self, name) for name in KEPT}
        state["recipe"] = json.dumps(self.recipe.to_dict())
        state |= {"net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}
        held = BytesIO()
        torch.save(state, held)  # on a full disk torch would hide what the system says
        with atomic(path, overwrite=True) as tmp:
            tmp.write_bytes(held.getbuffer())

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Go on from a checkpoint."""
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
            recipe: Any = cls.plan_type.from_dict(json.loads(state["recipe"]))
            kept = {name: state[name] for name in KEPT}
        except FileNotFoundError as error:
            raise BadFile(f"there is no checkpoint {path} to resume from") from error
        except Exception as error:  # a damaged pickle can fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadFile(f"{path} is not a checkpoint of this training: {reason}") from error
        self = cls.begin(recipe)
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        for name, value in kept.items():
            setattr(self, name, value)
        return self

    def place(self, device: str) -> None:
        """Go on on another device; checkpoints are read on any."""
        if self.device.type == device:
            return
        self.net.to(device)
        self.optimiser.load_state_dict(self.optimiser.state_dict())  # to where the parameters are
        self.average = {k: v.to(device) for k, v in self.average.items()}

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.net.parameters()).device

    def averaged(self) -> NetT:
        """The network with the running mean of its parameters, the one that is shipped; on the processor."""
        net = copy.deepcopy(self.net)
        net.cpu()
        net.load_state_dict(self.average)
        net.eval()
        return net

    def advance(self, patches: PatchSource[BatchT]) -> Figures:
        """One optimiser step; returns the figures of the log."""
        r = self.recipe
        rank, world = find_place()
        batch = r.size_at(self.step)[1]
        indices = range(rank, batch, world)
        for group in self.optimiser.param_groups:
            group["lr"] = r.rate_at(self.step)
        parameters = list(self.net.parameters())
        for p in parameters:
            p.grad = torch.zeros_like(p)
        figures = torch.zeros(1 + len(self.figure_names), device=self.device)
        if indices:  # a process may have no patch of a small batch
            cut = tree_map(lambda v: v.to(self.device), patches.cut_batch(self.step, indices))
            figures = self.add_gradients(cut, batch)
        if world > 1:
            for p in parameters:
                dist.all_reduce(p.grad)
            dist.all_reduce(figures)
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, r.clip))
        good = math.isfinite(norm) and bool(torch.isfinite(figures).all())
        if good:
            self.optimiser.step()
            # A short memory at first, so that the random start is forgotten.
            keep = min(r.average, (1 + self.step) / (10 + self.step)) if r.average else 0.0
            for name, value in self.net.state_dict().items():
                if value.is_floating_point():  # batch normalisation also counts its steps
                    self.average[name].lerp_(value, 1 - keep)
            self.bad_in_a_row = 0
        else:
            self.skipped += 1
            self.bad_in_a_row += 1
        self.step += 1
        errors = {n: float(e) for n, e in zip(self.figure_names, figures[1:], strict=True)}
        return Figures(self.step, float(figures[0]), norm, self.skipped, errors)


def find_place() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class RunSettings(TypedDict, total=False):
    """How a training is run; it changes nothing in the network.

    Attributes:
        device: "cpu", "cuda", or "auto": a card if there is one. On "mps" there is no training, which needs
            float64.
        resume: go on from ``out/checkpoint.pt``.
        checkpoint_minutes: time between two checkpoints; 3 by default.
        minutes: stop after this time (the run can be resumed).
        report: called with the plan and the figures of every step.
    """

    device: str
    resume: bool
    checkpoint_minutes: float
    minutes: float | None
    report: Callable[[TrainingPlan, Figures], None] | None


@dataclass(frozen=True)
class TrainingData(Generic[BatchT]):
    """What a run learns from: patches, validation pairs, and what the card says about them."""

    patches: PatchSource[BatchT]
    pairs: Sequence[Pair]
    facts: Mapping[str, object]


def run_training(
    run: Training[PlanT, NetT, BatchT],
    data: TrainingData[BatchT],
    out: Path,
    **settings: Unpack[RunSettings],
) -> Path:
    """Step a run to its end, and write the network; returns its path.

    ``out`` is a folder that gets ``checkpoint.pt``, ``log.jsonl`` and the network itself,
    ``<name>.safetensors``.
    """
    run.place(solver_device(find_device(settings.get("device", "cpu"))))
    _step_to_end(run, data, out, settings)
    target = out / f"{run.recipe.name}.safetensors"
    rank, world = find_place()
    if rank == 0:
        store.save_network(
            target, run.averaged(), {**describe_run(run), **data.facts}, overwrite=True
        )
    if world > 1:
        dist.barrier()  # the other processes may read the network next
    return target


def check_free(recipe: TrainingPlan, out: Path, settings: RunSettings) -> None:
    """Refuse a new run in a folder that has one: days of work may be in it."""
    held = [p for p in (out / "checkpoint.pt", out / f"{recipe.name}.safetensors") if p.exists()]
    if held and not settings.get("resume"):
        raise OutputExists(
            f"{held[0]} is there from an earlier run; go on with --resume, or choose another --out"
        )


def resume_run(
    kind: type[Training[PlanT, NetT, BatchT]], recipe: PlanT, out: Path, settings: RunSettings
) -> Training[PlanT, NetT, BatchT] | None:
    """The run in the checkpoint of a folder, if there is one and ``settings`` ask for it."""
    check_free(recipe, out, settings)
    where = out / "checkpoint.pt"
    if not where.exists():
        return None
    run = kind.resume(where)
    recipe.check_same(run.recipe, where)
    return run


def _step_to_end(
    run: Training[PlanT, NetT, BatchT],
    data: TrainingData[BatchT],
    out: Path,
    settings: RunSettings,
) -> None:
    """Step until the recipe or the time is over, with log, validation and checkpoints in ``out``."""
    pause, minutes = settings.get("checkpoint_minutes", 3.0), settings.get("minutes")
    report = settings.get("report")
    chief = find_place()[0] == 0
    out.mkdir(parents=True, exist_ok=True)
    where, log_path = out / "checkpoint.pt", out / "log.jsonl"
    recipe = run.recipe
    _trim_log(log_path, run.step, chief)
    started, saved, before = time.monotonic(), time.monotonic(), run.seconds
    while run.step < recipe.last_step:
        figures = run.advance(data.patches)
        run.seconds = before + time.monotonic() - started
        if run.bad_in_a_row >= LIMIT_BAD:
            raise TrainingStopped(
                f"loss or gradient was not finite {LIMIT_BAD} steps in a row (step {run.step}, network "
                f"{recipe.name}, patch seed [{recipe.seed}, {run.step - 1}]); the last "
                f"good checkpoint is {where if where.exists() else 'none'}"
            )
        over = minutes is not None and time.monotonic() - started > 60 * minutes
        last = over or run.step == recipe.last_step
        if data.pairs and (run.step % recipe.validate == 0 or last):
            run.scores = run.validate(data.pairs)
            figures = replace(figures, psnr=run.scores)
        if chief:
            figures = replace(figures, seconds=round(run.seconds, 3))
            with log_path.open("a", encoding="utf-8") as file:
                file.write(figures.to_json() + "\n")
            if report is not None:
                report(recipe, figures)
            if last or time.monotonic() - saved > 60 * pause:
                run.save(where)
                saved = time.monotonic()
        if over:
            break


def _trim_log(path: Path, step: int, chief: bool) -> None:
    """Drop lines after the checkpoint's step, so that a resumed log has every step once."""
    if not chief or not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = []
    for line in lines:
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError):
            break
    with atomic(path, overwrite=True) as tmp:
        tmp.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
