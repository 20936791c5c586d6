"""The denoiser of eigenimages: its laws, its training, and the one that is shipped."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyperdlw.models import find_eigenimages
from hyperdlw.models.denoisers.eigenimages import guess_images, load_maps
from hyperdlw.networks import FOLD, MapNet, files
from hyperdlw.testbed import find_noise, make_textured_scene, psnr
from hyperdlw.train import MapRecipe, TrainingImages, train_maps

TINY = MapRecipe(
    "tiny", filters=4, patch=16, around=24, steps=4, warmup=1, validate=2, optimiser="adam"
)


def textures(count: int, side: int = 40) -> list[np.ndarray]:
    streams = (np.random.default_rng(k) for k in range(count))
    return [make_textured_scene(8, side, side, rng=rng) for rng in streams]


def test_a_part_of_an_image_is_as_in_the_whole():
    net = load_maps()
    u = 3 * torch.randn(5, 150, 61, generator=torch.Generator().manual_seed(0))
    whole = net(u)
    for top, bottom in ((48, 150), (52, 110), (0, 97)):
        assert top % FOLD == 0
        part = net(u[:, top:bottom])
        first = net.reach if top else 0
        last = bottom - top - (net.reach if bottom < 150 else 0)
        assert torch.equal(part[:, first:last], whole[:, top + first : top + last])


def test_gradients_see_the_same_function():
    net = MapNet(6, 8, 2)
    torch.nn.init.normal_(net.last.weight, std=0.1)
    u = torch.randn(6, 13, 10, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        quiet = net(u)
    assert (net(u).detach() - quiet).abs().max() < 1e-5


def test_a_restoration_keeps_no_graph():
    """A graph of all images at once takes 60 times the memory of the cube."""
    images = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not guess_images(images, torch.ones_like(images)).requires_grad


def test_training_can_be_killed_and_resumed(tmp_path):
    photographs = [x[:3] for x in textures(2)]
    cubes = {str(k): v for k, v in enumerate(textures(2))}
    data = TrainingImages(cubes, photographs, {"other": textures(3)[2]})
    whole = train_maps(TINY, data, tmp_path / "a")
    for _ in range(4):
        parts = train_maps(TINY, data, tmp_path / "b", minutes=0.0, resume=True)
    one, other = (files.load_denoiser(path) for path in (whole, parts))
    for a, b in zip(one.net.parameters(), other.net.parameters(), strict=True):
        assert torch.equal(a, b)
    assert one.card["kind"] == "denoiser"
    assert set(one.card["validation_psnr"]) == {"even30", "even10", "even3"}


@pytest.mark.parametrize(("noise", "gain"), [("even5", 0.4), ("even30", 0.4)])
def test_the_shipped_one_is_above_the_frame(noise, gain):
    """On a scene made by code that it was not trained on, with the level known."""
    x = make_textured_scene(31, 64, 64, rng=np.random.default_rng(901))
    y = torch.from_numpy(find_noise(noise).apply(x, np.random.default_rng(1)).y)
    sigma = int(noise[4:]) / 255
    flat = y.flatten(1).double()
    images = find_eigenimages(flat @ flat.T, flat.shape[1], torch.full((31,), sigma))
    flat_law = lambda s: torch.full_like(s, sigma**2)  # noqa: E731
    frame, net = (
        psnr(x, images.denoise(y, flat_law, learned=learned).numpy()) for learned in (0.0, 1.0)
    )
    assert net > frame + gain
