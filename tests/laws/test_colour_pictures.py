"""Colour pictures get their own model and network; cubes of three bands do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

import hyperdlw
from hyperdlw.io import save_cube
from hyperdlw.testbed import scenes

NOTE = "a colour picture: model 'picture' (svtv, eigenimages), network 'colour-T'"


@pytest.fixture(scope="module")
def clean() -> NDArray[np.uint8]:
    """A picture made by code: three bands (band, row, col) of a textured scene."""
    scene = scenes.synthetic(3, 96, 104, rng=np.random.default_rng(11)).data
    return np.round(20 + 210 * scene).clip(0, 255).astype(np.uint8)


def make_noisy(clean: NDArray[np.uint8], sigma: float, impulses: float) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    noisy = clean + sigma * rng.standard_normal(clean.shape)
    hit = rng.random(clean.shape) < impulses
    noisy[hit] = rng.choice([0, 255], int(hit.sum()))
    return np.round(noisy).clip(0, 255).astype(np.uint8)


def psnr(x: NDArray[np.generic], clean: NDArray[np.uint8]) -> float:
    error = np.mean((np.asarray(x, np.float64).clip(0, 255) - clean) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def write(path: Path, array: NDArray[np.generic], **more: object) -> Path:
    """By another writer than ours."""
    drivers = {".png": "PNG", ".jpg": "JPEG", ".tif": "GTiff"}
    count, height, width = array.shape
    shape = {"count": count, "height": height, "width": width, "dtype": array.dtype.name}
    with rasterio.open(path, "w", driver=drivers[path.suffix], **shape, **more) as file:
        file.write(array)
    return path


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif"])
def test_pictures_are_known_by_their_file(
    name: str, clean: NDArray[np.uint8], tmp_path: Path
) -> None:
    more = {"photometric": "RGB"} if name == "a.tif" else {}
    path = write(tmp_path / name, make_noisy(clean, 20, 0.02), **more)
    target = tmp_path / f"clean{path.suffix}"
    report = hyperdlw.denoise_file(path, target)
    assert (report.model, report.weights) == ("picture", "colour-T")
    assert NOTE in report.notes
    result = hyperdlw.denoise(path)
    assert (result.report.model, result.report.notes[0]) == ("picture", NOTE)
    assert psnr(hyperdlw.open_cube(target).data, clean) > psnr(make_noisy(clean, 20, 0.02), clean)


def test_other_cubes_of_three_bands_are_not_touched(
    clean: NDArray[np.uint8], tmp_path: Path
) -> None:
    gray = write(tmp_path / "gray.tif", clean, photometric="MINISBLACK")
    waves = tmp_path / "waves.tif"
    save_cube(hyperdlw.Cube.from_array(clean, wavelengths=[450, 550, 650]), waves)
    given = [gray, waves, clean.astype(np.float32), clean.astype(np.uint16), clean[:2]]
    for cube in given:
        assert hyperdlw.denoise(cube, axes=None).report.model == "plain"


@pytest.mark.parametrize(
    "chosen", [{"model": "tv"}, {"weights": "uniform"}, {"paper": True}, {"rank": 2}], ids=str
)
def test_a_choice_of_the_user_stands(chosen: dict[str, object], clean: NDArray[np.uint8]) -> None:
    report = hyperdlw.denoise(clean, **chosen).report  # type: ignore[arg-type]
    assert report.model == chosen.get("model", "plain")
    assert NOTE not in report.notes


def test_a_clean_picture_comes_back_as_it_was(clean: NDArray[np.uint8]) -> None:
    smooth = np.round(clean / 4).astype(np.uint8) * 4
    restored = hyperdlw.denoise(smooth).restored
    assert isinstance(restored, np.ndarray)
    np.testing.assert_array_equal(restored, smooth)


@pytest.mark.parametrize(
    ("sigma", "impulses", "least"), [(2, 0.0, 0.0), (5, 0.0, 2.0), (25, 0.0, 4.0), (2, 0.03, 8.0)]
)
def test_every_noise_is_less_afterwards(
    sigma: float, impulses: float, least: float, clean: NDArray[np.uint8]
) -> None:
    noisy = make_noisy(clean, sigma, impulses)
    before, after = psnr(noisy, clean), psnr(hyperdlw.denoise(noisy).cube.data, clean)
    assert after > before + least


@pytest.mark.parametrize(("sigma", "impulses"), [(3, 0.0), (25, 0.0), (2, 0.03)])
def test_strips_are_the_whole(sigma: float, impulses: float, clean: NDArray[np.uint8]) -> None:
    noisy = make_noisy(clean, sigma, impulses)
    whole, strips = (hyperdlw.denoise(noisy, tile=tile) for tile in (None, 32))
    assert strips.report.tiling is not None
    assert strips.report.notes == whole.report.notes
    np.testing.assert_allclose(strips.cube.data, whole.cube.data, atol=0.02)


def test_advice_for_a_picture(clean: NDArray[np.uint8], tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", make_noisy(clean, 20, 0.0))
    found = hyperdlw.advise(hyperdlw.open_cube(path))
    assert (found.model, found.network, found.strength) == ("picture", "colour-T", 1.0)
    hyperdlw.denoise(path, **found.settings)
