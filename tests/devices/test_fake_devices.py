"""Everything follows the device of the image: nothing is left on the processor by mistake."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

from hyperdlw import models, pipeline, weights
from hyperdlw.app.page.job import JobRequest, PageJob
from hyperdlw.app.page.runner import Runner
from hyperdlw.cube import Cube
from hyperdlw.models import dip
from hyperdlw.models.denoisers import catalogue
from hyperdlw.networks import SkipNet, files, place_network
from hyperdlw.pipeline.plan import find_halo
from hyperdlw.solver import (
    DiskArray,
    DiskProblem,
    Problem,
    StripSolver,
    Whole,
    backward,
    solve,
    strip_solver,
    strip_step,
    use_stages,
)
from hyperdlw.solver.disk import Strips
from hyperdlw.train.bilevel import WeightTraining, bilevel_loss
from hyperdlw.train.recipe import Recipe
from hyperdlw.train.rival import RivalPlan, RivalTraining
from hyperdlw.weights import Known

sys.path.insert(0, str(Path(__file__).parent))
from fake import DEVICE, check_device, fake_device, make_images

MODELS = [name for name in models.list_models("model") if name != "dip"]
REFUSED = re.compile(r"devices|got tensors of")
NETWORKS = files.list_networks()


def place_all(*nets: torch.nn.Module) -> None:
    """Copies of networks on the device, made while tensors have numbers."""
    for net in nets:
        place_network(net, torch.device(DEVICE))


@pytest.fixture(scope="module", autouse=True)
def shipped_denoiser() -> None:
    place_all(catalogue._shipped())


def test_mixed_devices_are_refused() -> None:
    with fake_device():
        here, there = torch.rand(3, 4), torch.rand(3, 4, device=DEVICE)
        with pytest.raises(RuntimeError, match=REFUSED):
            torch.nn.functional.conv1d(there[None], here.new_ones(2, 3, 1))
        with pytest.raises(RuntimeError, match=REFUSED):
            here + there
        check_device(there.double() * 2, here.to(DEVICE))


class Placed(SkipNet):
    """A network that is made where it is needed: fake parameters cannot be moved."""

    def __init__(self, bands: int) -> None:
        with torch.device(DEVICE):
            super().__init__(bands)

    def to(self, *where: Any, **how: Any) -> Placed:
        return self


@pytest.mark.parametrize("original", [False, True], ids=["weighted", "original"])
def test_the_deep_image_prior(original: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dip, "SkipNet", Placed)
    with fake_device():
        y, w = make_images((3, 32, 32))
        model = models.build_model("dip", (3, 32, 32), original=original)
        check_device(solve(Problem(model, y, w), replace(model.schedule, steps=2)).x)


@pytest.mark.parametrize("original", [False, True], ids=["weighted", "original"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, original: bool) -> None:
    entry = models.list_models()[name]
    if original and "original" not in entry.takes:
        pytest.skip("no published version")
    shape = (entry.bands or 6, 16, 12)
    with fake_device():
        y, w = make_images(shape)
        model = models.build_model(name, shape, original=original)
        check_device(solve(Problem(model, y, w), replace(model.schedule, steps=2)).x)


@pytest.mark.parametrize("name", [*NETWORKS, "uniform", "precision", "robust", "mixture"])
def test_weights(name: str) -> None:
    source = weights.resolve(name)
    place_all(*source.modules)
    with fake_device(dynamic=not source.modules):
        (y,) = make_images((3, 24, 16), 1)
        valid = torch.ones_like(y, dtype=torch.bool)
        check_device(source(y, valid))


@pytest.mark.parametrize("name", ["robust", "mixture"])
def test_weights_of_a_restored_image(name: str) -> None:
    source = weights.resolve(name)
    with fake_device(dynamic=True):
        y, x = make_images((4, 24, 16))
        check_device(source.raw(y, torch.ones_like(y, dtype=torch.bool), x))


@pytest.mark.parametrize("source", ["nn", "tv", "tvs"])
def test_a_training_step(source: str) -> None:
    objective = Recipe(name="t", sources=(source,), loss="log")
    net = WeightTraining.build_network(objective).to(DEVICE)
    with fake_device():
        noisy, clean = make_images((2, 4, 12, 12))
        found, errors = bilevel_loss(net(noisy), noisy, clean, objective)
        check_device(found, errors)
        found.backward()
        check_device(*(p.grad for p in net.parameters() if p.grad is not None))
        rule = torch.optim.Adam(net.parameters())
        rule.step()


@pytest.mark.parametrize("loss", ["mse", "log"])
@pytest.mark.parametrize("how", ["unroll", "checkpoint"])
def test_losses_and_gradients(loss: str, how: str) -> None:
    objective = Recipe(name="t", sources=("tv",), loss=loss, backward=how)
    net = WeightTraining.build_network(objective).to(DEVICE)
    with fake_device():
        noisy, clean = make_images((2, 4, 12, 12))
        found, errors = bilevel_loss(net(noisy), noisy, clean, objective)
        check_device(found, errors)
        found.backward()
        check_device(*(p.grad for p in net.parameters() if p.grad is not None))


@pytest.mark.parametrize("name", ["tv", "tvs", "nn"])
def test_the_implicit_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (4, 12, 10)
    monkeypatch.setattr(backward, "STEPS", 2)  # fake residuals never fall
    with fake_device():
        y, w = make_images(shape)
        w.requires_grad_(True)
        model = models.build_model(name, shape)
        schedule = replace(model.schedule, steps=3, tolerance=1e-3, growth=1.0)
        x = solve(Problem(model, y, w), schedule, backward="implicit").x
        check_device(x)
        x.square().sum().backward()
        check_device(w.grad)


@pytest.mark.parametrize("name", sorted(files.RIVALS))
def test_rivals(name: str) -> None:
    plan = RivalPlan(name=name, channels=31, steps=1, batch=2, patch=12)
    run = RivalTraining.begin(plan)
    run.net.to(DEVICE)
    with fake_device():
        clean, noisy = make_images((2, 31, 12, 12))
        check_device(run.add_gradients((clean, noisy), 2))
        check_device(*(p.grad for p in run.net.parameters() if p.grad is not None))
        with torch.no_grad():
            check_device(run.net(noisy[0]))


@pytest.mark.parametrize("name", sorted(files.DENOISERS))
def test_denoisers(name: str) -> None:
    net = files.DENOISERS[name]().to(DEVICE).eval()
    with fake_device(), torch.no_grad():
        (y,) = make_images((31, 16, 16), 1)
        level = torch.full((31,), 0.1, device=DEVICE)
        check_device(net(y, level) if name == "ffdnet" else net(y))


def test_the_preview_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm steps from a state on the card, and what is shown comes back from it."""
    noisy = np.random.default_rng(0).random((4, 16, 12), np.float32)
    shown: list[torch.device] = []
    monkeypatch.setattr(
        pipeline, "put_back", lambda c, ready, x: shown.append(x.device) or Cube.from_array(noisy)
    )
    runner = Runner(Cube.from_array(noisy), lambda data: None)
    request = JobRequest("tv", "uniform")
    runner.run(PageJob(1, request))
    memory = runner.memory
    assert memory is not None
    memory.ready = pipeline.prepare_cube(runner.cube)
    source = Known(torch.from_numpy(memory.result.weights), weights.resolve("uniform"))
    with fake_device():
        memory.state = tree_map(
            lambda v: v.to(DEVICE) if isinstance(v, torch.Tensor) else v, memory.state
        )
        runner._show_preview(PageJob(2, replace(request, strength=2.0)), memory)
        y = torch.rand(4, 16, 12, device=DEVICE)
        check_device(source(y, torch.ones_like(y, dtype=torch.bool)))
    assert [place.type for place in shown] == ["cpu"]


class Memory(DiskArray):
    """A disk array whose tensors stay on the device: files cannot hold tensors without numbers."""

    held: ClassVar[dict[Path, torch.Tensor]] = {}

    def make(self) -> Memory:
        kind = getattr(torch, self.dtype)
        self.held.setdefault(self.path, torch.zeros(self.shape, dtype=kind, device=self.device))
        return self

    def read(self, rows: slice | np.ndarray = slice(None)) -> torch.Tensor:
        numbers = torch.from_numpy(np.arange(self.shape[-2])[rows]).to(self.device)
        return self.make().held[self.path].index_select(-2, numbers)

    def read_band(self, b: int) -> torch.Tensor:
        return self.make().held[self.path][b].clone()

    def write(self, rows: slice, values: torch.Tensor) -> None:
        check_device(values)
        self.make().held[self.path][..., rows, :] = values

    def write_band(self, b: int, values: torch.Tensor) -> None:
        check_device(values)
        self.make().held[self.path][b] = values


class Plainly:
    """Work without a journal."""

    def map(
        self, stage: str, function: Any, items: Any, makes: Any = (), here: bool = False
    ) -> Any:
        return [function(i) for i in items]

    def resuming(self) -> bool:
        return True  # nothing is removed: there are no files


@pytest.mark.parametrize(
    "name", [n for n in MODELS if find_halo(models.build_model(n, (3, 16, 12)))]
)
def test_steps_in_strips(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shape = (3, 16, 12)
    shares: dict[str, list[torch.Tensor]] = {}

    def save(g: DiskProblem, stage: str, i: int, parts: Any) -> None:
        check_device(*parts)
        shares[stage] = [v.double() for v in parts]

    for module in (strip_step, strip_solver):
        monkeypatch.setattr(module, "DiskArray", Memory)
    monkeypatch.setattr(strip_step, "save_share", save)
    monkeypatch.setattr(StripSolver, "add_up", lambda self, stage: list(shares[stage]))
    Memory.held.clear()
    with fake_device():
        model = models.build_model(name, shape)
        halo, wrap = find_halo(model)
        y, w = (Memory(tmp_path / v, shape, device=DEVICE) for v in "yw")
        plan = Strips(shape, 8, halo, wrap)
        whole = Whole(torch.rand(3, device=DEVICE))
        schedule = replace(model.schedule, steps=2)
        problem = DiskProblem(tmp_path, plan, use_stages(model), schedule, y, w, whole)
        image, *_ = StripSolver(problem, Plainly()).solve()
        check_device(image.read())
    Memory.held.clear()
