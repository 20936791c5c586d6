"""Scenes made by code obey what a hyperspectral scene obeys."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hyperdlw.errors import BadFile, BadOption, MissingDependency
from hyperdlw.testbed import SceneChoice, find_roads, load_scenes, scenes
from hyperdlw.train import Recipe, split_scenes


def test_bands_span_the_unit_interval_and_wavelengths_are_set() -> None:
    scene = scenes.synthetic(rng=np.random.default_rng(0))
    assert scene.shape == (31, 128, 128)
    assert scene.valid.all()
    np.testing.assert_allclose(scene.data.min(axis=(1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(scene.data.max(axis=(1, 2)), 1, atol=1e-6)
    assert scene.wavelengths is not None
    np.testing.assert_allclose(scene.wavelengths, np.linspace(400, 700, 31))


@pytest.mark.parametrize("endmembers", [1, 2, 3, 6, 10])
def test_spectral_rank_is_the_number_of_materials(endmembers: int) -> None:
    scene = scenes.synthetic(60, 96, 96, rng=np.random.default_rng(1), endmembers=endmembers)
    pixels = scene.data.reshape(60, -1).astype(np.float64)
    centred = pixels - pixels.mean(axis=1, keepdims=True)
    singular = np.linalg.svd(centred, compute_uv=False)
    assert (singular > 1e-5 * singular[0]).sum() == endmembers


def test_scene_has_edges_and_smooth_parts() -> None:
    scene = scenes.synthetic(rng=np.random.default_rng(2))
    band = scene.data[15]
    step = np.abs(np.diff(band, axis=1))
    # A gradient or a blob has no steps of this size; noise has no flat half.
    assert np.quantile(step, 0.99) > 0.1
    assert np.median(step) < 0.03
    # Neighbouring bands look alike, distant ones do not.
    near = np.corrcoef(scene.data[14].ravel(), scene.data[15].ravel())[0, 1]
    far = np.corrcoef(scene.data[2].ravel(), scene.data[28].ravel())[0, 1]
    assert near > 0.95
    assert far < 0.8


def test_same_state_same_scene() -> None:
    one, two, other = (
        scenes.synthetic(5, 30, 20, rng=np.random.default_rng(k)).data for k in (0, 0, 1)
    )
    assert one.tobytes() == two.tobytes()
    assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 50), (3, 50, 1), (224, 9, 7), (2, 300, 20)])
def test_any_size(shape: tuple[int, int, int]) -> None:
    scene = scenes.synthetic(*shape, rng=np.random.default_rng(0))
    assert scene.shape == shape
    assert np.isfinite(scene.data).all()
    assert 0 <= scene.data.min() <= scene.data.max() <= 1


def test_given_wavelengths() -> None:
    nm = np.linspace(400, 2500, 50)
    scene = scenes.synthetic(50, 32, 32, rng=np.random.default_rng(0), wavelengths=nm)
    np.testing.assert_array_equal(scene.wavelengths, nm)
    with pytest.raises(BadOption, match="50 wavelengths for 31 bands"):
        scenes.synthetic(rng=np.random.default_rng(0), wavelengths=nm)
    with pytest.raises(BadOption, match="at least one"):
        scenes.synthetic(bands=0, rng=np.random.default_rng(0))


def test_indian_pines() -> None:
    pytest.importorskip("tensorly")
    cube, labels = scenes.indian_pines()
    assert cube.shape == (200, 145, 145)
    assert cube.encoding.dtype == "uint16"
    assert labels.shape == (145, 145)
    assert set(np.unique(labels)) == set(range(17))


def test_picture() -> None:
    pytest.importorskip("skimage")
    cube = scenes.picture()
    assert cube.shape == (3, 256, 256)
    assert cube.data.min() >= 0
    assert cube.data.max() <= 1
    assert cube.data.std() > 0.1
    assert scenes.picture(512).shape == (3, 512, 512)
    with pytest.raises(BadOption, match="512"):
        scenes.picture(513)


@pytest.mark.parametrize(
    ("module", "call", "command"),
    [
        ("tensorly.datasets", scenes.indian_pines, r"pip install 'hyperdlw\[demo\]'"),
        ("skimage.data", scenes.picture, "pip install scikit-image"),
    ],
)
def test_missing_package_names_the_command(module, call, command, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=command):
        call()


def test_scenes_made_by_code_have_names(tmp_path) -> None:
    """They need no folder, join the files of one, and are the same wherever they are named."""
    found, left_out = load_scenes(None, SceneChoice(("made:3", "roads:3"), first=6, crop=32))
    assert left_out == {}
    made, roads = found["made:3"], found["roads:3"]
    assert made.shape == roads.shape == (6, 32, 32)
    assert (made.min(), made.max()) == (0, 1)
    along = roads.std(axis=1)
    assert all(along[:, road].max() < 0.3 * along.mean() for road in find_roads(32))
    np.savez(tmp_path / "file.npz", cube=np.moveaxis(made, 0, 2))
    both, _ = load_scenes(tmp_path, SceneChoice(("file", "made:3"), first=6, crop=32))
    assert set(both) == {"file", "made:3"}
    assert np.array_equal(both["made:3"], made)
    plan = Recipe("one", ("nn",), held_out=("made:3",))
    _, apart = split_scenes({"file": both["file"]}, plan)
    assert apart["made:3"].shape == (6, 128, 128)
    with pytest.raises(BadOption, match="'made:x'"):
        load_scenes(None, SceneChoice(("made:x",)))
    with pytest.raises(BadOption, match="no folder"):
        load_scenes(None, SceneChoice(("made:3", "file")))
    with pytest.raises(BadFile, match="no folder nowhere"):
        load_scenes("nowhere", SceneChoice(("made:3", "file")))
