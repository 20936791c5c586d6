"""Arrays of four axes are series of cubes: each is cleaned as if it were alone, the rest stays."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from hyperdlw import denoise, denoise_file, open_cube, save_cube
from hyperdlw.app.cli.main import run
from hyperdlw.errors import BadFile, BadInput, BadOption
from hyperdlw.io import describe_file, list_series
from hyperdlw.io.reader import ReadOptions
from hyperdlw.pipeline import Outputs

QUICK = {"model": "tv", "weights": "uniform"}
SCENE = (1000 + 100 * np.random.default_rng(1).random((5, 12, 14))).astype(np.float32)
SERIES = np.stack([SCENE, SCENE[:, ::-1] + 50, SCENE[:, :, ::-1] - 50])
NM = np.linspace(400, 900, 5)


def write_npy(path: Path) -> None:
    np.save(path, SERIES.transpose(0, 2, 3, 1))


def write_npz(path: Path) -> None:
    np.savez(path, hsi=SERIES, wavelengths=NM, labels=np.arange(4))


def write_mat(path: Path) -> None:
    values = {"hsi": SERIES.transpose(2, 3, 1, 0), "wl": NM, "labels": np.arange(4)}
    scipy.io.savemat(path, values, do_compression=True)


def write_mat73(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["hsi"], file["wl"] = SERIES.transpose(0, 1, 3, 2), NM[:, None]


def write_nc(path: Path) -> None:
    """Time is the last axis, and says so; a mask of three axes is smaller than the series."""
    with h5py.File(path, "w") as file:
        file["refl"], file["wavelength"] = SERIES.transpose(1, 2, 3, 0), NM
        file["cloud"] = np.zeros((12, 14, 3), np.uint8)
        file["wavelength"].attrs["units"] = "nm"
        for axis, name in enumerate(("wavelength", "y", "x", "time")):
            if name not in file:
                file[name] = np.arange(file["refl"].shape[axis], dtype=float)
            file[name].make_scale(name)
            file["refl"].dims[axis].attach_scale(file[name])


def write_zarr(path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(path))
    group.create_array("a/refl", data=SERIES, chunks=(1, 5, 6, 7))
    group.create_array("a/wavelength", data=NM)


FILES = {
    "a.npy": (write_npy, "array[{}]"),
    "a.npz": (write_npz, "hsi[{}]"),
    "a.mat": (write_mat, "hsi[...,{}]"),
    "v73.mat": (write_mat73, "hsi[...,{}]"),
    "a.nc": (write_nc, "refl[...,{}]"),
    "a.zarr": (write_zarr, "a/refl[{}]"),
}


def make(path: Path) -> tuple[str, ...]:
    write, key = FILES[path.name]
    write(path)
    return tuple(key.format(i) for i in range(3))


def read_rest(path: Path) -> dict[str, object]:
    """What is beside the series, by other readers."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name].tolist() for name in file if name != "hsi"}
    if path.name in ("a.mat", "b.mat") and path.suffix == ".mat":
        found = scipy.io.loadmat(path)
        return {name: str(found[name]) for name in found if name != "hsi"}
    if path.suffix in (".nc", ".mat"):
        with h5py.File(path) as file:
            return {name: file[name][()].tolist() for name in file if file[name].ndim < 4}
    return {}


@pytest.mark.parametrize("name", FILES)
def test_the_cubes_are_found(tmp_path: Path, name: str) -> None:
    keys = make(tmp_path / name)
    assert list_series(tmp_path / name, ReadOptions()) == keys
    assert set(keys) <= set(describe_file(tmp_path / name)["variables"])
    with pytest.raises(BadFile, match=r"a series of 3 cubes.*--key"):
        open_cube(tmp_path / name)
    for i, key in enumerate(keys):
        got = open_cube(tmp_path / name, key=key)
        np.testing.assert_array_equal(got.data, SERIES[i])
        if name != "a.npy":
            np.testing.assert_array_equal(got.wavelengths, NM)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("tile", [None, 6])
def test_each_cube_is_cleaned_as_if_it_were_alone(tmp_path: Path, name: str, tile) -> None:
    keys = make(tmp_path / name)
    target = tmp_path / f"b{Path(name).suffix}"
    report = denoise_file(tmp_path / name, target, tile=tile, **QUICK)
    assert f"3 cubes were cleaned, {keys[0]} to {keys[2]}" in report.notes
    for key, noisy in zip(keys, SERIES, strict=True):
        alone = denoise(noisy, tile=tile, **QUICK).restored
        np.testing.assert_allclose(open_cube(target, key=key).data, alone, rtol=1e-6)
    if name != "v73.mat":  # its copy has the same reader by another name
        assert read_rest(target) == read_rest(tmp_path / name)
    left = [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]
    assert left == []


@pytest.mark.parametrize("name", FILES)
def test_one_cube_may_be_replaced_alone(tmp_path: Path, name: str) -> None:
    keys = make(tmp_path / name)
    got = open_cube(tmp_path / name, key=keys[1])
    target = tmp_path / f"b{Path(name).suffix}"
    save_cube(got.with_data(got.data + 1), target)
    for i, key in enumerate(keys):
        np.testing.assert_allclose(open_cube(target, key=key).data, SERIES[i] + (i == 1))


def test_the_command_cleans_all_of_them(tmp_path: Path, capsys) -> None:
    make(tmp_path / "a.npz")
    command = ["denoise", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "-m", "tv"]
    assert run([*command, "-w", "uniform"]) == 0
    told = capsys.readouterr().err
    assert "3 cubes were cleaned, hsi[0] to hsi[2]" in told
    assert "not kept" not in told
    assert not np.array_equal(np.load(tmp_path / "b.npz")["hsi"][2], SERIES[2])
    assert run([*command, "-w", "uniform"]) == 2  # it exists
    folder = ["denoise", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), str(tmp_path / "out/")]
    assert run([*folder, "-m", "tv", "-w", "uniform", "-q"]) == 0
    made = np.load(tmp_path / "out" / "a.npz")["hsi"]
    np.testing.assert_array_equal(made, np.load(tmp_path / "b.npz")["hsi"])


def test_series_of_pages(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    series = SERIES.astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", series, metadata={"axes": "TCYX"}, imagej=True)
    keys = list_series(tmp_path / "a.tif", ReadOptions())
    assert keys == ("0", "1", "2")
    denoise_file(tmp_path / "a.tif", tmp_path / "b.tif", **QUICK)
    made = tifffile.imread(tmp_path / "b.tif")
    for now, noisy in zip(made, series, strict=True):
        np.testing.assert_array_equal(now, np.rint(denoise(noisy, **QUICK).cube.data))


def test_other_keys_and_formats(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", SERIES.transpose(2, 0, 3, 1))
    got = open_cube(tmp_path / "a.npy", key="array[:,2]")
    np.testing.assert_array_equal(got.data, SERIES[2])
    with pytest.raises(BadOption, match="there is no variable"):
        open_cube(tmp_path / "a.npy", key="array[:,3]")
    with pytest.raises(BadOption, match=r"written in the format of its input.*--key 'array\[0\]'"):
        denoise_file(tmp_path / "a.npy", tmp_path / "b.nc", **QUICK)
    outputs = Outputs(weights=str(tmp_path / "w.npy"))
    with pytest.raises(BadOption, match="products of a series have no names"):
        denoise_file(tmp_path / "a.npy", tmp_path / "b.npy", outputs=outputs, **QUICK)
    np.save(tmp_path / "one.npy", SERIES[:1].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(open_cube(tmp_path / "one.npy").data, SCENE)
    np.save(tmp_path / "c.npy", SCENE)
    with pytest.raises(BadOption, match="holds one image, no variables"):
        open_cube(tmp_path / "c.npy", key="array[0]")
    with pytest.raises(BadInput, match="cube by cube"):
        denoise(SERIES)
