"""The right variable and the right axes, by what files say and what arrays look like."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from hyperdlw import Cube, DlwError, denoise, denoise_file, open_cube, save_cube
from hyperdlw.io import describe_file, open_reader
from hyperdlw.testbed import scenes


@pytest.fixture(scope="module")
def scene() -> np.ndarray:
    """A noisy (band, row, col) scene whose sizes say nothing."""
    rng = np.random.default_rng(2)
    clean = scenes.synthetic(50, 60, 70, rng=rng).data
    return (clean + 0.05 * rng.standard_normal(clean.shape)).astype(np.float32)


@pytest.mark.parametrize("axes", ["brc", "rcb", "rbc", "crb"])
@pytest.mark.parametrize("ending", ["npy", "npz", "mat", "h5", "zarr"])
def test_files_carry_their_order(tmp_path: Path, scene: np.ndarray, axes: str, ending: str) -> None:
    stored = np.ascontiguousarray(scene.transpose(["brc".index(a) for a in axes]))
    cube = Cube.from_array(stored, axes=axes)
    save_cube(cube, tmp_path / f"a.{ending}")
    np.testing.assert_array_equal(open_cube(tmp_path / f"a.{ending}").data, scene)
    if ending == "npy":
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), stored)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy", mmap_mode="r"), stored)


def test_strips_carry_it_too(tmp_path: Path, scene: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", scene)
    report = denoise_file(
        tmp_path / "a.npy", tmp_path / "b.npy", tile=20, model="tv", weights="uniform"
    )
    assert report.shape == scene.shape
    with open_reader(tmp_path / "b.npy") as file:
        assert (file.encoding.axes, file.notes) == ("brc", ())


@pytest.mark.parametrize("axes", ["brc", "rcb"])
def test_values_tell_the_order(tmp_path: Path, scene: np.ndarray, axes: str) -> None:
    stored = scene.transpose(["brc".index(a) for a in axes])
    np.save(tmp_path / "a.npy", stored)  # rcb is in Fortran's order in the file
    np.savez(tmp_path / "a.npz", x=np.ascontiguousarray(stored))
    scipy.io.savemat(tmp_path / "a.mat", {"x": stored})
    for name in ("a.npy", "a.npz", "a.mat"):
        with open_reader(tmp_path / name) as file:
            assert file.encoding.axes == axes
            assert "by values" in " ".join(file.notes)
            np.testing.assert_array_equal(file.read()[0], scene)


def test_sizes_tell_the_order(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((8, 40, 50))
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "b.npy", values.transpose(1, 2, 0).copy())
    np.save(tmp_path / "c.npy", np.random.default_rng(0).random((60, 40, 40)))
    said = {name: describe_file(tmp_path / f"{name}.npy") for name in "abc"}
    assert [said[name]["axes"] for name in "abc"] == ["brc", "rcb", "brc"]
    assert "by sizes" in said["a"]["notes"][0]
    assert said["b"]["notes"] == ()


def test_what_is_not_clear_is_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((40, 45, 50)))
    np.savez(tmp_path / "a.npz", np.random.default_rng(0).random((40, 45, 50)))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DlwError, match=r"40x45x50.*--axes"):
            open_cube(tmp_path / name)
        assert open_cube(tmp_path / name, axes="rcb").shape == (50, 40, 45)


def test_neighbours_tell_the_order(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((40, 45, 50))
    np.savez(tmp_path / "a.npz", x=values, wavelengths=np.linspace(400, 900, 40))
    scipy.io.savemat(tmp_path / "a.mat", {"x": values, "x_gt": np.zeros((45, 50), np.uint8)})
    scipy.io.savemat(tmp_path / "b.mat", {"x": values, "x_gt": np.zeros((40, 45), np.uint8)})
    shapes = [open_cube(tmp_path / n).shape for n in ("a.npz", "a.mat", "b.mat")]
    assert shapes == [(40, 45, 50), (40, 45, 50), (50, 40, 45)]


def test_python_says_what_looks_wrong(scene: np.ndarray) -> None:
    square = scene[:, :55, :55]
    with pytest.warns(UserWarning, match="axes='rcb'"):
        denoise(square.transpose(1, 2, 0), model="tv", weights="uniform")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        denoise(square, model="tv", weights="uniform")
        denoise(square.transpose(1, 2, 0), axes="rcb", model="tv", weights="uniform")


# --- matrices of bands and pixels


def make_samson(scene: np.ndarray, pixels_first: bool = False) -> dict[str, np.ndarray]:
    """Samson, Jasper Ridge and Urban: V is bands x pixels, which go down the columns."""
    bands, rows, cols = scene.shape
    matrix = scene.transpose(0, 2, 1).reshape(bands, -1)
    sides = {"nRow": np.float64(rows), "nCol": np.float64(cols), "nBand": np.float64(bands)}
    return {"V": matrix.T if pixels_first else matrix, **sides}


def write_v73(path: Path, variables: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, value in variables.items():
            file[name] = np.atleast_2d(value).T


@pytest.mark.parametrize("write", [scipy.io.savemat, write_v73])
@pytest.mark.parametrize("pixels_first", [False, True])
def test_matrices_with_sides(tmp_path: Path, scene: np.ndarray, write, pixels_first: bool) -> None:
    given = make_samson(scene, pixels_first)
    given["RGB"] = np.zeros((*scene.shape[1:], 3))
    given["A"] = np.random.default_rng(0).random((3, given["V"].size // len(scene)))
    write(tmp_path / "a.mat", given)
    cube = open_cube(tmp_path / "a.mat")
    np.testing.assert_array_equal(cube.data, scene)
    assert any("matrix of bands and pixels" in note for note in cube.metadata["notes"])
    expected = denoise(scene, model="tv", weights="uniform").restored
    for tile, name in ((None, "b.mat"), (20, "c.mat"), (None, "d.npz")):
        denoise_file(tmp_path / "a.mat", tmp_path / name, tile=tile, model="tv", weights="uniform")
        np.testing.assert_allclose(open_cube(tmp_path / name).data, expected, atol=2e-4)


def test_a_picture_is_no_cube_beside_spectra(tmp_path: Path, scene: np.ndarray) -> None:
    given = make_samson(scene)
    variables = {"RGB": np.zeros((*scene.shape[1:], 3)), "V": given["V"]}
    scipy.io.savemat(tmp_path / "a.mat", variables)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, value in variables.items():
            file[f"data/{name}"] = value
    for name in ("a.mat", "a.h5"):
        with pytest.raises(DlwError, match="nRow"):
            open_cube(tmp_path / name)


def test_previews_are_passed_over(tmp_path: Path, scene: np.ndarray) -> None:
    image = scene.transpose(1, 2, 0)
    np.savez(tmp_path / "a.npz", image=image, rgb=image[..., :3])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["quicklook/rgb"], file["data/image"] = image[..., :3], image
        file["data/image"].attrs["wavelength"] = np.linspace(400, 900, len(scene))
    for name in ("a.npz", "a.h5"):
        np.testing.assert_array_equal(open_cube(tmp_path / name).data, scene)
