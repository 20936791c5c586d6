"""The networks inside the package: small, documented, and better than no weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw import models
from hyperdlw.networks import files as store
from hyperdlw.networks.dlwnet import DLWnet3d
from hyperdlw.solver import Problem, solve
from hyperdlw.testbed import noise, scenes
from hyperdlw.testbed.metrics import psnr
from hyperdlw.train import Recipe
from hyperdlw.weights import softmax_weights


@pytest.fixture(params=store.list_networks())
def stored(request: pytest.FixtureRequest) -> store.Stored:
    return store.load_network(request.param)


def test_size_and_card(stored: store.Stored) -> None:
    assert store.locate_network(stored.card["name"]).stat().st_size < 500_000
    for field in ("sources", "data", "noise", "seed", "steps", "training_seconds", "version"):
        assert stored.card[field] not in (None, [], ""), field
    recipe = Recipe.from_dict(stored.card["recipe"])
    assert list(recipe.sources) == stored.card["sources"]
    # Nothing in a card may point to the machine it was made on.
    assert "/" not in str(recipe.start)


def test_better_than_no_weights(stored: store.Stored) -> None:
    """Mean over cases 1 and 5, on the network's own models, on a scene made by code."""
    if isinstance(stored.net, DLWnet3d):
        clean = scenes.synthetic(31, 40, 40, rng=np.random.default_rng(3)).data
    else:
        clean = scenes.synthetic(3, 64, 64, rng=np.random.default_rng(3)).data
    gains = []
    for case in (1, 5):
        y = torch.from_numpy(noise.case(case, clean, np.random.default_rng(case)).y)
        w = softmax_weights(stored.net(y))
        for name in stored.card["sources"]:
            model = models.build_model(name, y.shape)
            ours, uniform = (solve(Problem(model, y, v)).x for v in (w, torch.ones_like(y)))
            gains.append(psnr(clean, ours.numpy()) - psnr(clean, uniform.numpy()))
    # Three bands tell less about each other than thirty-one.
    assert np.mean(gains) > (2.0 if len(clean) > 3 else 0.5)


@pytest.mark.parametrize("bands", [1, 3, 31, 224])
def test_any_number_of_bands(stored: store.Stored, bands: int) -> None:
    if not isinstance(stored.net, DLWnet3d):
        pytest.skip("a colour network has three bands")
    y = torch.rand(bands, 12, 10)
    w = softmax_weights(stored.net(y))
    assert w.shape == y.shape
    assert float(w.mean()) == pytest.approx(1.0001, rel=1e-4)
