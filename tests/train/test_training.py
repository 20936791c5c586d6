"""Training: the loss is right, a run can be stopped anywhere, and processes agree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hyperdlw import models
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.io import save_cube
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.solver import Problem, solve
from hyperdlw.testbed import load_scenes, scenes
from hyperdlw.train import Objective, Recipe, draw_curves, read_recipe, train
from hyperdlw.train.bilevel import WeightTraining, begin_from, bilevel_loss, restore_images
from hyperdlw.train.loop import TrainingStopped
from hyperdlw.train.patches import Patches
from hyperdlw.weights import softmax_weights

TINY = Recipe(
    "tiny", ("nn", "tv"), filters=4, patch=8, batch=3, steps=6, warmup=2, validate=3, rate=0.01
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenes")
    for i in range(3):
        cube = scenes.synthetic(6, 24, 20, rng=np.random.default_rng(i))
        save_cube(cube, path / f"scene{i}.npz")
    return path


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, np.ndarray]:
    found, left_out = load_scenes(folder)
    assert len(found) == 3
    assert left_out == {}
    return found


def same(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


def same_tensors(a: Path, b: Path) -> bool:
    one, two = store.load_network(a).net.state_dict(), store.load_network(b).net.state_dict()
    return all(torch.equal(one[k], two[k]) for k in one)


def test_the_network_that_ships_is_the_running_mean(data: dict[str, np.ndarray]) -> None:
    """mean <- keep mean + (1 - keep) parameters; keep = (1 + k) / (10 + k) at first, then as told."""
    for average in (0.0, 0.3):
        recipe = Recipe(
            "x", ("tv",), filters=2, patch=8, batch=1, warmup=0, steps=6, average=average
        )
        run = WeightTraining.begin(recipe)
        patches = Patches(list(data.values()), recipe)
        mean = {k: v.clone() for k, v in run.net.state_dict().items()}
        keeps = []
        for k in range(5):
            run.advance(patches)
            keeps.append(min(average, (1 + k) / (10 + k)))
            for name, value in run.net.state_dict().items():
                mean[name] = keeps[-1] * mean[name] + (1 - keeps[-1]) * value
        held = run.averaged().state_dict()
        for name, value in mean.items():
            torch.testing.assert_close(held[name], value)
        same = all(torch.equal(held[n], v) for n, v in run.net.state_dict().items())
        assert same == (average == 0)
    assert keeps[0] < keeps[-1] == 0.3


def test_patches_depend_on_seed_step_and_index_only(data: dict[str, np.ndarray]) -> None:
    patches = Patches(list(data.values()), TINY)
    together = patches.cut_batch(5, range(3))
    alone = [patches.cut_batch(5, [i]) for i in (2, 0, 1)]
    for i, (clean, noisy) in zip((2, 0, 1), alone, strict=True):
        assert torch.equal(clean[0], together[0][i])
        assert torch.equal(noisy[0], together[1][i])
    assert not torch.equal(together[0], patches.cut_batch(6, range(3))[0])


@pytest.mark.parametrize("bands", [None, (3, 5)])
def test_patches_have_the_asked_size(
    data: dict[str, np.ndarray], bands: tuple[int, int] | None
) -> None:
    recipe = replace(TINY, bands=bands, noise=(1, 2, 3, 4, 5), affected=(0.0, 1.0))
    for step in range(8):
        clean, noisy = Patches(list(data.values()), recipe).cut_batch(step, range(3))
        assert clean.shape == noisy.shape
        assert clean.shape[2:] == (8, 8)
        assert clean.shape[1] == 6 if bands is None else 3 <= clean.shape[1] <= 5
        assert float(clean.min()) >= 0.0
        assert float(clean.max()) <= 1.0


def test_bands_are_a_range_with_a_stride() -> None:
    """Scenes whose value is the band's number show which bands were taken."""
    scene = np.broadcast_to(np.arange(40, dtype=np.float32)[:, None, None] / 39, (40, 12, 12))
    patches = Patches([scene], replace(TINY, bands=(3, 9), noise=(1,)))
    steps = set()
    for step in range(60):
        taken = np.rint(patches.cut_patch(step, 0)[0][:, 0, 0] * 39).astype(int)
        stride = np.diff(taken)
        assert 3 <= len(taken) <= 9
        assert (stride == stride[0]).all()
        steps.add(int(stride[0]))
    assert min(steps) == 1
    assert max(steps) > 4


@pytest.mark.parametrize(("pick", "share"), [("area", 1 / 17), ("side", 1 / 5)])
def test_small_scenes_get_their_share(pick: str, share: float) -> None:
    small, large = np.zeros((3, 10, 10), np.float32), np.ones((3, 40, 40), np.float32)
    patches = Patches([small, large], replace(TINY, pick=pick))
    drawn = np.mean([patches.cut_patch(step, 0)[0][0, 0, 0] == 0 for step in range(600)])
    assert abs(drawn - share) < 4 * np.sqrt(share * (1 - share) / 600)
    with pytest.raises(BadOption, match="pick"):
        replace(TINY, pick="size")


def test_growth_changes_patch_and_batch(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    recipe = replace(TINY, growth=((4, 12, 1), (2, 10, 2)))
    assert [recipe.size_at(k) for k in range(6)] == [(8, 3)] * 2 + [(10, 2)] * 2 + [(12, 1)] * 2
    card = store.load_network(train(recipe, data, tmp_path)).card
    assert Recipe.from_dict(card["recipe"]) == recipe
    with pytest.raises(BadOption, match="growth"):
        replace(TINY, growth=((4, 12),))


def test_log_loss_is_the_mean_of_the_logarithms(data: dict[str, np.ndarray]) -> None:
    clean, noisy = Patches(list(data.values()), TINY).cut_batch(0, range(3))
    logits = torch.zeros_like(noisy)
    one_by_one = [
        bilevel_loss(logits[i : i + 1], noisy[i : i + 1], clean[i : i + 1], Objective([s]))[0]
        for s in TINY.sources
        for i in range(3)
    ]
    mse, _ = bilevel_loss(logits, noisy, clean, Objective(TINY.sources))
    log, _ = bilevel_loss(logits, noisy, clean, Objective(TINY.sources, loss="log"))
    torch.testing.assert_close(mse, torch.stack(one_by_one).mean())
    torch.testing.assert_close(log, torch.stack(one_by_one).log().mean(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [1.0, 2.0])
def test_depth_is_a_factor_on_the_solver_steps(data: dict[str, np.ndarray], depth: float) -> None:
    _, noisy = Patches(list(data.values()), TINY).cut_batch(0, [0, 1])
    logits = noisy - 0.5
    model = models.build_model("tv", noisy.shape)
    schedule = replace(model.schedule, steps=int(depth) * model.schedule.steps)
    wanted = solve(Problem(model, noisy, softmax_weights(logits)), schedule).x
    (found,) = restore_images(logits, noisy, Objective(["tv"], backward="none", depth=depth))
    assert torch.equal(found, wanted)
    with pytest.raises(BadOption, match="depth in the recipe"):
        replace(TINY, depth=0.0)


@pytest.mark.parametrize("backward", ["unroll", "checkpoint"])
def test_training_lowers_the_loss(
    data: dict[str, np.ndarray], tmp_path: Path, backward: str
) -> None:
    recipe = replace(TINY, steps=40, backward=backward, loss="log")
    train(recipe, data, tmp_path)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [x["step"] for x in log] == list(range(1, 41))
    first, last = np.mean([x["loss"] for x in log[:8]]), np.mean([x["loss"] for x in log[-8:]])
    assert last < first - 0.1


def test_implicit_training_runs(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    train(replace(TINY, steps=2, backward="implicit", sources=("tv",)), data, tmp_path)
    assert all(np.isfinite(p).all() for p in _arrays(tmp_path / "tiny.safetensors"))


def _arrays(path: Path) -> list[np.ndarray]:
    return [v.numpy() for v in store.load_network(path).net.state_dict().values()]


@pytest.mark.parametrize("optimiser", ["adam", "soap"])
def test_resumed_equals_uninterrupted(
    data: dict[str, np.ndarray], tmp_path: Path, optimiser: str
) -> None:
    tiny = replace(TINY, optimiser=optimiser)
    train(tiny, data, tmp_path / "whole", held_out=data)
    train(tiny, data, tmp_path / "parts", held_out=data, minutes=0.0)  # stops after a step
    for _ in range(7):
        train(tiny, data, tmp_path / "parts", held_out=data, resume=True, minutes=0.0)
    assert same_tensors(tmp_path / "whole/tiny.safetensors", tmp_path / "parts/tiny.safetensors")
    logs = [(tmp_path / d / "log.jsonl").read_text().splitlines() for d in ("whole", "parts")]
    losses = [[json.loads(line)["loss"] for line in log] for log in logs]
    assert losses[0] == losses[1]


def test_killed_at_random_moments_equals_uninterrupted(
    folder: Path, data: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """SIGKILL, ten times, wherever it hits; then the run is finished and compared."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "name='k'\nsources=['tv']\nfilters=4\npatch=8\nbatch=2\nsteps=400\nwarmup=2\nrate=0.01\n"
    )
    command = [sys.executable, "-m", "hyperdlw.app.cli.main", "train", str(recipe)]
    command += ["--data", str(folder), "--out"]
    tail = ["--resume", "--checkpoint-minutes", "0.0", "--threads", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    rng = np.random.default_rng(7)
    killed = 0
    for _ in range(10):
        log = tmp_path / "cut/log.jsonl"
        before = len(log.read_bytes()) if log.exists() else 0
        process = subprocess.Popen(
            [*command, str(tmp_path / "cut"), *tail], env=environment, stderr=subprocess.DEVNULL
        )
        # Start-up takes seconds: wait for the first new step, then strike.
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            if log.exists() and len(log.read_bytes()) > before:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.25))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed == 10, "the run ended before it could be killed; give it more steps"
    # The last leg needs no other process.
    (run,) = read_recipe(recipe).stages
    torch.set_num_threads(1)
    train(run, data, tmp_path / "cut", resume=True)
    train(run, data, tmp_path / "whole")
    assert same_tensors(tmp_path / "whole/k.safetensors", tmp_path / "cut/k.safetensors")


@pytest.mark.slow
def test_torchrun_equals_a_single_process(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "name='d'\nsources=['nn','tv']\nfilters=4\npatch=8\nbatch=4\nsteps=4\nwarmup=1\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    base = ["hyperdlw.app.cli.main", "train", str(recipe), "--data", str(folder), "--out"]
    one = [sys.executable, "-m", *base, str(tmp_path / "one")]
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    two += ["29547", "-m", *base, str(tmp_path / "two")]
    subprocess.run(one, check=True, env=environment, capture_output=True)
    subprocess.run(two, check=True, env=environment, capture_output=True)
    nets = [
        store.load_network(tmp_path / d / "d.safetensors").net.state_dict() for d in ("one", "two")
    ]
    for key, value in nets[0].items():
        # The softmax does not see the last bias: its gradient is rounding, which Adam magnifies.
        if key != "last.bias":
            torch.testing.assert_close(value, nets[1][key], rtol=1e-4, atol=1e-6)


def test_fine_tuning_starts_from_the_given_network(
    data: dict[str, np.ndarray], tmp_path: Path
) -> None:
    train(TINY, data, tmp_path / "a")
    start = tmp_path / "a/tiny.safetensors"
    tuned = begin_from(TINY, start, Patches(list(data.values()), TINY))
    for key, value in store.load_network(start).net.state_dict().items():
        assert torch.equal(tuned.net.state_dict()[key], value)
    assert all(p.requires_grad for p in tuned.net.parameters())


def test_a_card_tells_what_came_before(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    recipe, networks = TINY, []
    for place in "abc":
        networks.append(store.load_network(train(recipe, data, tmp_path / place)))
        recipe = replace(TINY, start=str(tmp_path / place / "tiny.safetensors"))
    history = networks[-1].card["history"]
    assert [h["sha256"] for h in history] == [n.sha256 for n in networks[:2]]
    assert [h["steps"] for h in history] == [TINY.steps] * 2
    assert networks[-1].card["start_sha256"] == networks[1].sha256
    assert "history" not in networks[0].card


def test_bad_steps_are_skipped_then_stop_the_run(
    data: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Patches.cut_batch

    def sometimes(self: Patches, step: int, indices: range) -> tuple[torch.Tensor, torch.Tensor]:
        clean, noisy = real(self, step, indices)
        return (clean * torch.nan, noisy) if step in bad else (clean, noisy)

    monkeypatch.setattr(Patches, "cut_batch", sometimes)
    bad = {1, 3}
    train(TINY, data, tmp_path / "some")
    assert store.load_network(tmp_path / "some/tiny.safetensors").card["skipped_steps"] == 2
    assert all(np.isfinite(p).all() for p in _arrays(tmp_path / "some/tiny.safetensors"))
    bad = set(range(1, 100))
    with pytest.raises(TrainingStopped, match=r"checkpoint\.pt"):
        train(replace(TINY, steps=20), data, tmp_path / "all", checkpoint_minutes=0.0)
    kept = WeightTraining.resume(tmp_path / "all/checkpoint.pt")
    assert all(bool(torch.isfinite(p).all()) for p in kept.net.parameters())


def test_the_card_is_true(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    held = {"scene0": data["scene0"]}
    rest = {k: v for k, v in data.items() if k != "scene0"}
    card = store.load_network(train(TINY, rest, tmp_path, held_out=held)).card
    assert card["data"] == ["scene1", "scene2"]
    assert card["validation"] == ["scene0"]
    assert card["steps"] == TINY.steps
    assert set(card["validation_psnr"]) == {"nn", "tv"}
    assert Recipe.from_dict(card["recipe"]) == TINY


def test_paper_and_cosine_rates() -> None:
    paper = replace(TINY, schedule="epochs", epoch=10, decay=0.8, rate=1e-3)
    assert paper.rate_at(0) == paper.rate_at(9) == 1e-3
    assert paper.rate_at(25) == pytest.approx(0.64e-3)
    cosine = replace(TINY, steps=100, warmup=10, rate=1.0)
    assert cosine.rate_at(4) == pytest.approx(0.5)
    assert cosine.rate_at(10) == pytest.approx(1.0)
    assert cosine.rate_at(99) < 1e-3


def test_faults(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no folder"):
        load_scenes(tmp_path / "none")
    (tmp_path / "checkpoint.pt").write_bytes(b"junk")
    with pytest.raises(BadFile, match="not a checkpoint"):
        WeightTraining.resume(tmp_path / "checkpoint.pt")
    scene = scenes.synthetic(4, 6, 6, rng=np.random.default_rng(0)).data
    with pytest.raises(BadFile, match="smaller than the patches"):
        Patches([scene], TINY).cut_patch(0, 0)


@pytest.mark.parametrize("bands", [3, 7, 31, 224])
def test_networks_take_any_number_of_bands(bands: int) -> None:
    y = torch.rand(bands, 9, 8)
    assert DLWnet3d()(y).shape == y.shape


def test_curves(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    train(TINY, data, tmp_path, held_out=data)
    picture = draw_curves(tmp_path / "log.jsonl", tmp_path / "curves.png")
    assert picture is not None
    assert picture.read_bytes().startswith(b"\x89PNG")
