"""The training loop: steps, validation, checkpoints and exact resume."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BadFile, BadOption, DlwError
from ..io import atomic
from ..networks import ARCHITECTURES, DLWnet3d, Network
from ..networks import files as store
from ..testbed import find_noise, psnr
from .card import about_run, came_from, from_scenes
from .loss import add_gradients, restored
from .optimisers import optimiser
from .patches import Draw, Patches
from .prune import narrowed
from .recipe import Plan, Recipe

F32 = NDArray[np.float32]
LIMIT_BAD = 5
"""Steps in a row without a finite loss and gradient that stop a run."""


class TrainingStopped(DlwError):
    """The loss or its gradient stayed infinite; the message names the last good checkpoint."""

    exit_code = 3


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
class Training:
    """Everything a run needs to go on: this is what a checkpoint holds.

    A subclass trains another kind of network: it names its recipe and its architectures, and says
    what the loss and the validation are.
    """

    kind: ClassVar[type[Plan]] = Recipe
    architectures: ClassVar[Mapping[str, Any]] = ARCHITECTURES

    recipe: Any
    net: Any
    optimiser: torch.optim.Optimizer
    average: dict[str, Tensor]
    step: int = 0
    skipped: int = 0
    bad_in_a_row: int = 0
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, recipe: Plan, patches: Patches | None = None) -> Self:
        """Fresh weights from the recipe's seed, or those of the network it starts from.

        Args:
            patches: where a network that is wider than the recipe's is narrowed on.
        """
        if recipe.start is not None:
            net = store.load_network(recipe.start).net
            recipe = replace(recipe, filters=recipe.filters or net.filters)
            assert recipe.filters is not None
            if isinstance(net, DLWnet3d) and patches and net.filters > recipe.filters:
                images = [torch.from_numpy(patches.patch(step, 0)[1]) for step in range(8)]
                net = narrowed(net, recipe.filters, images)
            net = net.train().requires_grad_(True)
            wanted = {"architecture": recipe.architecture, "filters": recipe.filters}
            if any(net.config[k] != v for k, v in wanted.items()):
                raise BadOption(
                    f"the recipe wants {wanted}, the network {recipe.start} it starts from is {net.config}"
                )
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(recipe.seed)
                net = cls.architectures[recipe.architecture](**recipe.sizes)
        rule = optimiser(recipe.optimiser, net.parameters(), recipe.rate)
        average = {k: v.detach().clone() for k, v in net.state_dict().items()}
        return cls(recipe, net, rule, average)

    def save(self, path: Path) -> None:
        """Write the checkpoint so that a reader sees the old one or the new one."""
        state = {
            "recipe": json.dumps(self.recipe.to_dict()),
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "step": self.step,
            "skipped": self.skipped,
            "bad": self.bad_in_a_row,
            "seconds": self.seconds,
            "scores": self.scores,
        }
        with atomic(path, overwrite=True) as tmp:
            torch.save(state, tmp)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Go on from a checkpoint."""
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            recipe = cls.kind.from_dict(json.loads(state["recipe"]))
        except FileNotFoundError as error:
            raise BadFile(f"there is no checkpoint {path} to resume from") from error
        except Exception as error:  # a damaged pickle can fail in any way
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadFile(f"{path} is not a checkpoint of this training: {reason}") from error
        self = cls.begin(replace(recipe, start=None))
        self.recipe = recipe
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.average = state["average"]
        self.step, self.skipped, self.bad_in_a_row = state["step"], state["skipped"], state["bad"]
        self.seconds, self.scores = state["seconds"], state["scores"]
        return self

    def averaged(self) -> Any:
        """The network with the running mean of its parameters, the one that is shipped."""
        sizes = {k: v for k, v in self.net.config.items() if k != "architecture"}
        net = type(self.net)(**sizes)
        net.load_state_dict(self.average)
        return net.eval()

    @property
    def figures(self) -> list[str]:
        """Names of the figures that ``gradients`` returns after the loss."""
        return [f"mse_{s}" for s in self.recipe.sources]

    def gradients(self, patches: Any, indices: Sequence[int], batch: int) -> Tensor:
        """Add the gradients of the patches ``indices`` of this step; the loss and the figures."""
        r = self.recipe
        clean, noisy = patches.batch(self.step, indices)
        return add_gradients(
            self.net,
            noisy,
            clean,
            r.sources,
            batch=batch,
            kind=r.loss,
            backward=r.backward,
            depth=r.depth,
        )

    def validate(self, pairs: list[tuple[F32, F32]]) -> dict[str, float]:
        """PSNR of the averaged network on held-out crops."""
        return validate(self.averaged(), pairs, self.recipe)

    def advance(self, patches: Any) -> Figures:
        """One optimiser step; returns the figures of the log."""
        r = self.recipe
        rank, world = _place()
        batch = r.size_at(self.step)[1]
        indices = range(rank, batch, world)
        for group in self.optimiser.param_groups:
            group["lr"] = r.rate_at(self.step)
        parameters = list(self.net.parameters())
        for p in parameters:
            p.grad = torch.zeros_like(p)
        figures = torch.zeros(1 + len(self.figures))
        if indices:  # a process may have no patch of a small batch
            figures = self.gradients(patches, indices, batch)
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
        errors = {name: float(e) for name, e in zip(self.figures, figures[1:], strict=True)}
        return Figures(self.step, float(figures[0]), norm, self.skipped, errors)


def _place() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def validation_set(
    scenes: Mapping[str, F32], recipe: Draw, side: int = 48
) -> list[tuple[F32, F32]]:
    """Central crops of the held-out scenes, once per noise case; the same in every run."""
    pairs = []
    for i, scene in enumerate(scenes.values()):
        _, rows, cols = scene.shape
        top, left = max(0, (rows - side) // 2), max(0, (cols - side) // 2)
        clean = np.ascontiguousarray(scene[:, top : top + side, left : left + side])
        for noise in map(find_noise, dict.fromkeys(recipe.noise)):
            rng = np.random.default_rng([20260101, i, noise.stream])
            pairs.append((clean, noise.apply(clean, rng).y))
    return pairs


@torch.no_grad()
def validate(net: Network, pairs: list[tuple[F32, F32]], recipe: Recipe) -> dict[str, float]:
    """Mean PSNR of every source model on the validation crops."""
    totals = dict.fromkeys(recipe.sources, 0.0)
    for clean, noisy in pairs:
        y = torch.from_numpy(noisy)
        images = restored(net(y), y, recipe.sources, "none", recipe.depth)
        for name, x in zip(recipe.sources, images, strict=True):
            totals[name] += psnr(clean, x.numpy()) / len(pairs)
    return totals


class How(TypedDict, total=False):
    """How a training is run; it changes nothing in the network.

    Attributes:
        resume: go on from ``out/checkpoint.pt``.
        checkpoint_minutes: time between two checkpoints; 3 unless told.
        minutes: stop after this time (the run can be resumed).
        report: called with the figures of every step.
    """

    resume: bool
    checkpoint_minutes: float
    minutes: float | None
    report: Callable[[Figures], None] | None


@dataclass(frozen=True)
class Material:
    """What a run learns from: patches, validation pairs, and what the card says about them."""

    patches: Any
    pairs: list[tuple[F32, F32]]
    facts: dict[str, Any]


def train(
    recipe: Recipe,
    scenes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    **how: Unpack[How],
) -> Path:
    """Train a weight network as the recipe says and write it to ``out``; returns its path.

    Args:
        scenes: clean cubes (band, row, col) in [0, 1] by name.
        held_out: scenes for validation; without them there is none.
        how: see :class:`How`.
    """

    def material(r: Recipe) -> Material:
        facts = {
            "sources": list(r.sources),
            **from_scenes(scenes, held_out, r),
            **({} if r.start is None else came_from(r.start)),
        }
        pairs = validation_set(held_out, r) if held_out else []
        return Material(Patches(list(scenes.values()), r), pairs, facts)

    return conduct(Training, recipe, material, out, **how)


def conduct(
    kind: type[Training],
    recipe: Plan,
    material: Callable[[Any], Material],
    out: str | Path,
    **how: Unpack[How],
) -> Path:
    """Begin or resume a run, step to its end, and write the network; returns its path.

    ``out`` is a folder that gets ``checkpoint.pt``, ``log.jsonl`` and the network itself,
    ``<name>.safetensors``.

    Args:
        material: called with the recipe of the run, which is the checkpoint's if it is resumed.
    """
    out = Path(out)
    where = out / "checkpoint.pt"
    run = kind.resume(where) if how.get("resume") and where.exists() else None
    if run is not None and run.recipe.name != recipe.name:
        raise BadFile(f"{where} is a checkpoint of {run.recipe.name}, not of {recipe.name}")
    given = material(recipe if run is None else run.recipe)
    run = run or kind.begin(recipe, given.patches)
    advance(
        run,
        given.patches,
        given.pairs,
        out,
        checkpoint_minutes=how.get("checkpoint_minutes", 3.0),
        minutes=how.get("minutes"),
        report=how.get("report"),
    )
    target = out / f"{run.recipe.name}.safetensors"
    if _place()[0] == 0:
        store.save_network(
            target, run.averaged(), {**about_run(run), **given.facts}, overwrite=True
        )
    return target


def advance(
    run: Training,
    patches: Any,
    pairs: list[tuple[F32, F32]],
    out: Path,
    *,
    checkpoint_minutes: float,
    minutes: float | None,
    report: Callable[[Figures], None] | None,
) -> None:
    """Step until the recipe or the time is over, with log, validation and checkpoints in ``out``."""
    chief = _place()[0] == 0
    out.mkdir(parents=True, exist_ok=True)
    where, log_path = out / "checkpoint.pt", out / "log.jsonl"
    recipe = run.recipe
    _trim_log(log_path, run.step, chief)
    started, saved, before = time.monotonic(), time.monotonic(), run.seconds
    while run.step < recipe.steps:
        figures = run.advance(patches)
        run.seconds = before + time.monotonic() - started
        if run.bad_in_a_row >= LIMIT_BAD:
            raise TrainingStopped(
                f"loss or gradient was not finite {LIMIT_BAD} steps in a row (step {run.step}, network "
                f"{recipe.name}, patch seed [{recipe.seed}, {run.step - 1}]); the last "
                f"good checkpoint is {where if where.exists() else 'none'}"
            )
        over = minutes is not None and time.monotonic() - started > 60 * minutes
        last = over or run.step == recipe.steps
        if pairs and (run.step % recipe.validate == 0 or last):
            run.scores = run.validate(pairs)
            figures = replace(figures, psnr=run.scores)
        if chief:
            figures = replace(figures, seconds=round(run.seconds, 3))
            with log_path.open("a", encoding="utf-8") as file:
                file.write(figures.to_json() + "\n")
            if report is not None:
                report(figures)
            if last or time.monotonic() - saved > 60 * checkpoint_minutes:
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
