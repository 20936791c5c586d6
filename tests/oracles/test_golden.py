"""Networks, models and training gradients against outputs of the authors' own programs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hyperdlw import models
from hyperdlw.networks import files as store
from hyperdlw.solver import Problem, solve
from hyperdlw.train import Objective
from hyperdlw.train.bilevel import bilevel_loss
from hyperdlw.weights import softmax_weights

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
GOLDEN = SHARED / "golden" / "dlw"
RELEASE = SHARED / "reference" / "dlwnet-release"

pytestmark = pytest.mark.skipif(
    not (GOLDEN.is_dir() and RELEASE.is_dir()),
    reason="needs the reference outputs in ../shared/golden/dlw and the released checkpoints",
)

CASES = ["toys32_case1m", "toys32_case5"]
NETS = ["N", "T", "TS", "N+T", "N+TS", "T+TS", "N+T+TS"]
SOURCES = {"N": "nn", "T": "tv", "TS": "tvs"}
FILE_PART = {"N": "NUCLR", "T": "TV", "TS": "TVS"}

every_case = pytest.mark.parametrize("case", CASES)
every_net = pytest.mark.parametrize("net", NETS)


@cache
def arrays(name: str) -> dict[str, Tensor]:
    """The arrays of a file as (band, row, col)."""
    with np.load(GOLDEN / f"{name}.npz") as stored:
        return {
            k: torch.from_numpy(np.moveaxis(v, -1, 0).copy())
            for k, v in stored.items()
            if v.ndim == 3
        }


def assert_near(got: Tensor, want: Tensor, tolerance: float = 1e-4) -> None:
    """Absolute up to one, relative above."""
    assert got.shape == want.shape
    assert float(((got - want).abs() / want.abs().clamp_min(1)).max()) <= tolerance


@every_case
@every_net
def test_logits_and_weights(case: str, net: str) -> None:
    gold = arrays(case)
    part = "_".join(FILE_PART[s] for s in net.split("+"))
    own, card = store.import_checkpoint(RELEASE / f"DLWnet_{part}_Complex_10.pth")
    assert card["imported_from"].startswith("DLWnet_")
    logits = own(gold["noisy"])
    assert_near(logits, gold[f"logit_{net}"])
    assert_near(softmax_weights(logits), gold[f"W_{net}"])


@every_case
@every_net
@pytest.mark.parametrize("model", ["nn", "tv", "tvs"])
def test_models(case: str, net: str, model: str) -> None:
    """The paper's schedule, step for step, with the reference's own weights."""
    gold = arrays(case)
    y, want = gold["noisy"], gold[f"out_{model.upper()}_{net}"]
    got = solve(Problem(models.build_model(model, y.shape), y, gold[f"W_{net}"])).x
    assert float((got - want).abs().max()) <= 1e-4


@every_case
@pytest.mark.parametrize("net", ["N", "T", "TS", "N+T+TS"])
@pytest.mark.parametrize("backward", ["unroll", "checkpoint"])
def test_training_gradient(case: str, net: str, backward: str) -> None:
    gold, want = arrays(case), arrays(f"{case}_grads")[f"grad_logit_{net}"]
    logits = gold[f"logit_{net}"][None].clone().requires_grad_()
    loss, _ = bilevel_loss(
        logits,
        gold["noisy"][None],
        gold["clean"][None],
        Objective([SOURCES[s] for s in net.split("+")], backward=backward),
    )
    (got,) = torch.autograd.grad(loss, logits)
    assert float((got[0] - want).norm() / want.norm()) <= 1e-3
