"""Data sets of the paper: small files of the same layout are read as the paper takes them."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
from PIL import Image

from hyperdlw.app.cli.main import run
from hyperdlw.bench.catalogue import BenchOptions
from hyperdlw.errors import BadFile, BadOption
from hyperdlw.testbed import DATASETS, SceneChoice, find_dataset, load_scenes

RNG = np.random.default_rng(0)


def write_icvl(path: Path, rad: np.ndarray) -> None:
    """MATLAB 7.3: HDF5 behind a header, axes in MATLAB's order turned round."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["rad"] = rad.transpose(0, 2, 1)
        file["rgb"] = RNG.random((3, *rad.shape[:0:-1]))
        file["bands"] = np.linspace(400, 700, len(rad))[:, None]
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def load(name: str, folder: Path, **words: object) -> dict[str, np.ndarray]:
    return load_scenes(folder, SceneChoice(dataset=find_dataset(name), **words))[0]  # type: ignore[arg-type]


def unit(band: np.ndarray) -> np.ndarray:
    return (band - band.min()) / (band.max() - band.min())


def test_cave(tmp_path: Path) -> None:
    cube = RNG.integers(0, 65535, (31, 12, 10)).astype(np.uint16)
    home = tmp_path / "balloons_ms" / "balloons_ms"
    home.mkdir(parents=True)
    for i, band in enumerate(cube, 1):
        Image.fromarray(band).save(home / f"balloons_ms_{i:02}.png")
    Image.fromarray(np.zeros((12, 10, 3), np.uint8)).save(home / "balloons_RGB.bmp")
    found = load("cave", tmp_path)
    assert list(found) == ["balloons"]
    np.testing.assert_allclose(found["balloons"][30], unit(cube[30].astype(float)), atol=1e-4)


def test_icvl(tmp_path: Path) -> None:
    cube = RNG.random((31, 9, 14))
    write_icvl(tmp_path / "scene.mat", cube)
    found = load("icvl", tmp_path)["scene"]
    assert found.shape == (31, 9, 14)
    np.testing.assert_allclose(found[4], unit(cube[4]), atol=1e-6)


def test_pavia_and_dc(tmp_path: Path) -> None:
    cube = RNG.integers(0, 8000, (16, 12, 103)).astype(np.uint16)
    scipy.io.savemat(tmp_path / "PaviaU.mat", {"paviaU": cube})
    found = load("pavia", tmp_path, crop=10)["PaviaU"]
    assert found.shape == (70, 10, 10)
    whole = load("pavia", tmp_path)["PaviaU"]
    np.testing.assert_allclose(whole[0], unit(cube[:, :, 16].astype(float)), atol=1e-6)
    scipy.io.savemat(tmp_path / "dc_mall.mat", {"dc": RNG.random((8, 8, 191))})
    assert load("dc", tmp_path)["dc_mall"].shape == (152, 8, 8)


def test_urban_is_stored_by_pixels(tmp_path: Path) -> None:
    cube = RNG.integers(0, 900, (210, 6, 5)).astype(np.uint16)
    flat = cube.transpose(0, 2, 1).reshape(210, 30)  # MATLAB counts pixels down the columns
    scipy.io.savemat(tmp_path / "Urban_F210.mat", {"Y": flat, "nRow": 6, "nCol": 5})
    found = load("urban", tmp_path)["Urban_F210"]
    np.testing.assert_allclose(found[7], unit(cube[7].astype(float)), atol=1e-6)
    scipy.io.savemat(tmp_path / "Urban_F210.mat", {"Y": flat, "nRow": 7, "nCol": 5})
    with pytest.raises(BadFile, match="no cube"):
        load("urban", tmp_path)


def test_indian_pines_with_either_number_of_bands(tmp_path: Path) -> None:
    for bands, key in ((220, "indian_pines"), (200, "indian_pines_corrected")):
        scipy.io.savemat(tmp_path / "Indian_pines.mat", {key: RNG.random((6, 5, bands))})
        assert load("indian-pines", tmp_path)["Indian_pines"].shape == (bands, 6, 5)


def test_bsds_and_what_a_data_set_is_for(tmp_path: Path) -> None:
    Image.fromarray(RNG.integers(0, 255, (20, 24, 3)).astype(np.uint8)).save(tmp_path / "1.jpg")
    asked = BenchOptions(tmp_path, data=tmp_path, dataset="bsds")
    (scene,) = asked.load_scenes("colour", colour=True)
    assert scene.data.shape == (3, 20, 24)
    assert scene.affected == 3
    with pytest.raises(BadOption, match="is for hyperspectral scenes"):
        asked.load_scenes("simple")


def test_what_is_missing_is_said_with_its_source(tmp_path: Path) -> None:
    for name, dataset in DATASETS.items():
        with pytest.raises(BadFile, match="to be had from https://") as found:
            load(name, tmp_path)
        assert dataset.source in str(found.value)
    with pytest.raises(BadOption, match="did you mean 'icvl'"):
        find_dataset("icvi")


def test_commands_take_data_set_key_and_affected_bands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_icvl(tmp_path / "scene.mat", RNG.random((31, 24, 24)))
    words = ["--data", f"{tmp_path}", "--out", f"{tmp_path}/out", "--cases", "1", "--seeds", "1"]
    words += ["--models", "nn", "--no-pictures", "--quiet"]
    assert run(["bench", "networks", *words, "--key", "none"]) == 2
    assert "none" in capsys.readouterr().err
    assert run(["bench", "networks", *words, "--key", "rad"]) == 0
    assert run(["bench", "simple", *words, "--dataset", "icvl", "--affected", "31"]) == 0
    text = (tmp_path / "out" / "simple.md").read_text()
    assert "The same data set as the paper's, ICVL scenes" in text
    assert "/ 33.16 (" in text  # N in nn, case 1, ICVL
    one, all_ = f"{tmp_path}/one.npz", f"{tmp_path}/all.npz"
    noisy = ["noise", f"{tmp_path}/scene.mat", "--key", "rad", "--case", "3", "--quiet"]
    assert (
        run([*noisy[:2], one, *noisy[2:], "--affected", "1", "--truth", f"{tmp_path}/t.npz"]) == 0
    )
    assert np.load(tmp_path / "t.npz")["dead"].any(axis=(1, 2)).sum() == 1
    assert run([*noisy[:2], all_, *noisy[2:], "--affected", "32"]) == 2
    assert "31 bands" in capsys.readouterr().err
