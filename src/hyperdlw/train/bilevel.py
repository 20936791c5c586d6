"""Training of weight networks: how good are the images that the models restore with these weights?"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor

from .. import models
from ..errors import BadOption
from ..io import atomic
from ..networks import ARCHITECTURES, DLWnet3d, Network, factor
from ..networks import files as store
from ..pipeline import denoise
from ..solver import Problem, Schedule, solve
from ..testbed import find_noise, psnr
from ..weights import FLOOR, Net, Spec, resolve, softmax_weights
from .card import describe_data, describe_start
from .loop import (
    F32,
    Pair,
    RunSettings,
    Training,
    TrainingData,
    check_free,
    find_place,
    resume_run,
    run_training,
)
from .patches import Patches, crop_middle, split_scenes
from .recipe import Objective, Recipe, RecipeFile, ScenePlan, TrainingPlan

PART_VOXELS = 130_000
"""Voxels that go through network and solvers together: one 64x64x31 patch, or ten of 20x20x31."""
SAMPLES = 20_000
"""Voxels whose activations pruning looks at, per image."""


def weigh_images(logits: Tensor, noisy: Tensor, objective: Objective) -> Tensor:
    """Weights of the network, times those of a further source, with mean one for every image."""
    w = softmax_weights(logits)
    if objective.times is None:
        return w
    source, images = resolve(objective.times), noisy.reshape(-1, *noisy.shape[-3:])
    fixed = [source(y, torch.ones_like(y, dtype=torch.bool)) for y in images]
    both = w * torch.stack(fixed).view_as(w)
    return (both / both.mean((-3, -2, -1), keepdim=True)).clamp_min(FLOOR)


def deepen_schedule(usual: Schedule, objective: Objective) -> Schedule:
    """The schedule with as many steps as the networks of this objective are trained with."""
    return replace(usual, steps=max(1, round(objective.depth * usual.steps)))


def restore_images(logits: Tensor, noisy: Tensor, objective: Objective) -> list[Tensor]:
    """The images of every source model under the weights of ``logits`` (..., band, row, col)."""
    w = weigh_images(logits, noisy, objective)
    images = []
    for name in objective.sources:
        model = models.build_model(name, noisy.shape)
        usual = model.schedule
        # The implicit gradient is that of the minimiser, so the minimiser has to be found.
        schedule = (
            usual.converged(1e-4, 300)
            if objective.backward == "implicit"
            else deepen_schedule(usual, objective)
        )
        images.append(solve(Problem(model, noisy, w), schedule, backward=objective.backward).x)
    return images


def bilevel_loss(
    logits: Tensor, noisy: Tensor, clean: Tensor, objective: Objective
) -> tuple[Tensor, Tensor]:
    """Mean over source models and patches of the error (equation (3)), and the MSE of each source.

    ``loss`` "mse": mean squared error. "log": mean over sources and patches of log(MSE), so that every
    patch counts by its ratio, as it does in a mean of PSNR values.
    """
    images = restore_images(logits, noisy, objective)
    errors = torch.stack([((x - clean) ** 2).flatten(1).mean(1) for x in images])
    loss = errors.mean() if objective.loss == "mse" else torch.log(errors + 1e-8).mean()
    return loss, errors.detach().mean(1)


def make_pairs(scenes: Mapping[str, F32], recipe: ScenePlan, side: int = 48) -> list[Pair]:
    """Central crops of the held-out scenes, once per noise of the recipe; the same in every run."""
    pairs = []
    for i, scene in enumerate(scenes.values()):
        clean = crop_middle(scene, side)
        for noise in map(find_noise, dict.fromkeys(recipe.noise)):
            rng = np.random.default_rng([20260101, i, noise.stream])
            pairs.append((clean, noise.apply(clean, rng).y))
    return pairs


@dataclass
class WeightTraining(Training[Recipe, Network, tuple[Tensor, Tensor]]):
    """A run of a weight network."""

    plan_type: ClassVar[type[TrainingPlan]] = Recipe

    @staticmethod
    def build_network(recipe: Recipe) -> Network:
        return ARCHITECTURES[recipe.architecture](**recipe.sizes)

    @property
    def figure_names(self) -> list[str]:
        return [f"mse_{s}" for s in self.recipe.sources]

    def add_gradients(self, patches: tuple[Tensor, Tensor], batch: int) -> Tensor:
        """Add the gradient of the loss in parts; returns [loss, MSE of each source].

        The loss is a mean over patches, so the gradients of parts of the batch add up to the same,
        and the memory is that of one part.
        """
        figures = torch.zeros(1 + len(self.recipe.sources), device=patches[0].device)
        count = max(1, PART_VOXELS // patches[0][0].numel())
        for x, y in zip(*(torch.split(t, count) for t in patches), strict=True):
            loss, errors = bilevel_loss(self.net(y), y, x, self.recipe)
            share = len(y) / batch
            torch.autograd.backward(loss * share)
            figures += torch.cat([loss.detach().view(1), errors]) * share
        return figures

    def validate(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Mean PSNR of every source model on pairs of clean and noisy images (dB), as a user runs it."""
        recipe, source = self.recipe, Net(self.averaged(), "validation")
        weights: Spec = source if recipe.times is None else [source, recipe.times]
        totals = dict.fromkeys(recipe.sources, 0.0)
        for clean, noisy in pairs:
            for name in recipe.sources:
                schedule = deepen_schedule(models.build_model(name, noisy.shape).schedule, recipe)
                x = denoise(
                    noisy,
                    model=name,
                    weights=weights,
                    schedule=schedule,
                    range=(0, 1),
                    paper=True,
                )
                totals[name] += psnr(clean, x.cube.data) / len(pairs)
        return totals


def begin_from(recipe: Recipe, start: str | Path, patches: Patches) -> WeightTraining:
    """A run that starts from a network, which is pruned first if it is wider than the recipe's."""
    net = store.load_network(start).net
    filters = recipe.filters or net.filters
    if isinstance(net, DLWnet3d) and net.filters > filters:
        images = [torch.from_numpy(patches.cut_patch(step, 0)[1]) for step in range(8)]
        net = prune_network(net, filters, images)
    net = net.train().requires_grad_(True)
    wanted = {"architecture": recipe.architecture, "filters": filters}
    if any(net.config[k] != v for k, v in wanted.items()):
        raise BadOption(
            f"the recipe wants {wanted}, the network {start} it starts from is {net.config}"
        )
    return WeightTraining.begin(replace(recipe, filters=filters), net)


def train(
    recipe: Recipe,
    scenes: Mapping[str, F32],
    out: str | Path,
    *,
    held_out: Mapping[str, F32] | None = None,
    start: str | Path | None = None,
    **settings: Unpack[RunSettings],
) -> Path:
    """Train a weight network as one recipe says and write it to ``out``; returns its path.

    Args:
        scenes: clean cubes (band, row, col) in [0, 1] by name.
        held_out: scenes for validation; without them there is none.
        start: file of the network to start from, instead of the recipe's ``start``.
        settings: see :class:`hyperdlw.train.loop.RunSettings`.
    """
    folder, start = Path(out), recipe.start if start is None else start
    run = resume_run(WeightTraining, recipe, folder, settings)
    recipe = recipe if run is None else run.recipe
    patches = Patches(list(scenes.values()), recipe)
    if run is None:
        run = WeightTraining.begin(recipe) if start is None else begin_from(recipe, start, patches)
    facts = {
        "sources": list(recipe.sources),
        **describe_data(scenes, held_out, recipe),
        **({} if start is None else describe_start(start)),
    }
    data = TrainingData(patches, make_pairs(held_out or {}, recipe), facts)
    return run_training(run, data, folder, **settings)


def train_recipe(
    recipe: RecipeFile,
    scenes: Mapping[str, F32],
    out: str | Path,
    **settings: Unpack[RunSettings],
) -> Path:
    """Train a weight network through all stages of a recipe file; returns the path of the network.

    A stage writes to the folder of its name in ``out``. The stages of a recipe that the first one
    starts from write to the folder of that recipe beside ``out``; those that are there already are
    used. If the time (``minutes``) ends before the last stage does, the path is that of the stage.

    Args:
        scenes: clean cubes (band, row, col) in [0, 1] by name; every stage takes those it names.
        settings: see :class:`hyperdlw.train.loop.RunSettings`; ``minutes`` is for all stages together.
    """
    folder = Path(out)
    minutes = settings.get("minutes")
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    for stage in recipe.stages:  # before the first stage, not after
        check_free(stage, folder / stage.stage, settings)
    target, done = _train_stages(recipe, scenes, folder, deadline, settings)
    final = folder / target.name
    if not done or final == target:
        return target
    if find_place()[0] == 0:
        with atomic(final, overwrite=True) as tmp:
            shutil.copyfile(target, tmp)
    return final


def _train_stages(
    recipe: RecipeFile,
    scenes: Mapping[str, F32],
    out: Path,
    deadline: float | None,
    settings: RunSettings,
) -> tuple[Path, bool]:
    """The network of the last stage that was reached, and whether that is the end of the recipe."""
    target: Path | None = None
    if recipe.parent is not None:
        beside: RunSettings = {**settings, "resume": True}
        folder = out.parent / recipe.parent.name
        target, done = _train_stages(recipe.parent, scenes, folder, deadline, beside)
        if not done:
            return target, False
    for r in recipe.stages:
        start, folder = target, out / r.stage
        target = folder / f"{r.name}.safetensors"
        if settings.get("resume") and is_finished(target, r):
            continue
        chosen, apart = split_scenes(scenes, r)
        left: RunSettings = {**settings}
        if deadline is not None:
            left["minutes"] = (deadline - time.monotonic()) / 60
        train(r, chosen, folder, held_out=apart, start=start, **left)
        if not is_finished(target, r):
            return target, False
    assert target is not None
    return target, True


def is_finished(path: Path, recipe: Recipe) -> bool:
    """Whether a file holds the network at the end of a recipe; one of another recipe is an error."""
    if not path.exists():
        return False
    card = store.load_network(path).card
    recipe.check_same(Recipe.from_dict(card["recipe"]), path)
    return bool(card["steps"] == recipe.last_step)


@torch.no_grad()
def prune_network(net: DLWnet3d, filters: int, images: Sequence[Tensor]) -> DLWnet3d:
    """A network with fewer filters whose layers give about the same outputs on some noisy images.

    The layer after activations a computes W a. Without channel q, and with the other columns of W
    refitted, the smallest expected squared error is ||W_q||^2 / (C^-1)_qq with C the covariance of
    a, reached by W - W_q (C^-1)_q / (C^-1)_qq (the optimal brain surgeon of Hassibi and Stork, layer
    by layer). Channels go one by one, the cheapest first; what the means lose goes into the bias.

    Args:
        images: noisy images (band, row, col) like those to be met later.
    """
    state = {k: v.clone() for k, v in net.state_dict().items()}
    names = [f"{kind}.{i}" for i in range(len(net.space)) for kind in ("space", "spectrum")]
    layers = [m for pair in zip(net.space, net.spectrum, strict=True) for m in pair]
    activations = [image[None, ..., None] for image in images]
    for k, name in enumerate(names):
        activations = [factor(t, layers[k], along_bands=k % 2 == 1) for t in activations]
        following = "last" if k + 1 == len(names) else names[k + 1]
        weight = state[f"{following}.weight"]
        out = weight.shape[0]
        columns = weight.double().transpose(0, 1).flatten(1)
        a = torch.cat([_some(t) for t in activations])
        kept, refitted = _drop(columns, torch.cov(a.T), filters)
        mean = a.mean(0)
        lost = (mean @ columns - mean[kept] @ refitted).view(out, -1).sum(1)
        state[f"{following}.weight"] = (
            refitted.view(len(kept), out, *weight.shape[2:]).transpose(0, 1).to(weight.dtype)
        )
        state[f"{following}.bias"] += lost.to(weight.dtype)
        for part in ("weight", "bias"):
            state[f"{name}.{part}"] = state[f"{name}.{part}"][kept]
    small = DLWnet3d(filters, len(net.space))
    small.load_state_dict(state)
    return small


def _some(t: Tensor) -> Tensor:
    """Activations of evenly spread voxels, (voxel, channel), in double precision."""
    flat = t.flatten(0, -2)
    return flat[:: max(1, len(flat) // SAMPLES)].double()


def _drop(columns: Tensor, covariance: Tensor, keep: int) -> tuple[list[int], Tensor]:
    """The channels to keep, and their refitted columns (channel, ...)."""
    size = len(columns)
    ridge = 1e-8 * covariance.diagonal().mean() * torch.eye(size, dtype=covariance.dtype)
    inverse = torch.linalg.inv(covariance + ridge)
    kept, w = list(range(size)), columns.clone()
    while len(kept) > keep:
        q = int((w.square().sum(1) / inverse.diagonal()).argmin())
        rest = [i for i in range(len(kept)) if i != q]
        share = inverse[rest, q] / inverse[q, q]
        w = w[rest] - share[:, None] * w[q]
        inverse = inverse[rest][:, rest] - share[:, None] * inverse[q, rest]
        kept.pop(q)
    return kept, w
