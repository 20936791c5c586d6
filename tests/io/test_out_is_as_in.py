"""A denoised file is the input with other numbers in its cube: everything else is as it was."""

from __future__ import annotations

import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from hyperdlw.cube import Cube
from hyperdlw.io import list_losses, open_cube, open_reader, save_cube
from hyperdlw.pipeline import Outputs, denoise_file

from .same_files import assert_only_changed

NM = np.linspace(400.5, 2400.5, 5)


@pytest.fixture
def cube() -> np.ndarray:
    """A noisy scene (row, col, band)."""
    rng = np.random.default_rng(1)
    return (1000 + 100 * rng.random((12, 14, 5))).astype(np.float32)


def restore(source: Path, target: Path, **settings: object) -> np.ndarray:
    """Denoise a file; the restored values (band, row, col)."""
    denoise_file(source, target, model="tv", weights="uniform", **settings)
    return open_cube(target).data


@pytest.mark.parametrize("tile", [None, 6])
def test_a_tree_keeps_all_but_the_cube(tmp_path, cube, tile):
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        layout = {"chunks": (5, 7, 2), "compression": "gzip", "shuffle": True, "fletcher32": True}
        data = file.create_dataset("grid/data", data=cube.astype(">i2"), **layout)
        data.attrs["units"] = "counts"
        file["grid/wavelength"] = NM
        file["grid/wavelength"].make_scale("wavelength")
        data.dims[2].attach_scale(file["grid/wavelength"])
        data.dims[0].label = "line"
        file["link"] = h5py.SoftLink("/grid/data")
        file["far"] = h5py.ExternalLink("other.h5", "/x")
        file["text"] = np.array(["a", "ü"], dtype=h5py.string_dtype())
        file["table"] = np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")])
        file["grid"].attrs["many"] = np.arange(9)
    restore(tmp_path / "a.h5", tmp_path / "b.h5", tile=tile)
    assert_only_changed(tmp_path / "a.h5", tmp_path / "b.h5", "grid/data")


def test_in_strips_as_in_memory(tmp_path, cube):
    np.savez(tmp_path / "a.npz", x=cube, wl=NM)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["wl"] = cube, NM
    for name in ("a.npz", "a.h5"):
        whole = restore(tmp_path / name, tmp_path / f"whole_{name}")
        strips = restore(tmp_path / name, tmp_path / f"strips_{name}", tile=5)
        np.testing.assert_allclose(strips, whole, rtol=1e-5)


def test_one_band_of_two_axes(tmp_path, cube):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["plane"], file["other"] = cube[..., 0], np.arange(3)
    plain = {"key": "plane", "axes": None, "nodata": None}
    with open_reader(tmp_path / "a.h5", **plain) as reader:
        got = reader.read_cube()
    save_cube(got.with_data(got.data + 1), tmp_path / "b.h5")
    assert_only_changed(tmp_path / "a.h5", tmp_path / "b.h5", "plane")


def test_an_output_may_replace_its_input(tmp_path, cube):
    np.savez(tmp_path / "a.npz", x=cube, labels=np.arange(4))
    restore(tmp_path / "a.npz", tmp_path / "a.npz", overwrite=True)
    with np.load(tmp_path / "a.npz") as now:
        assert sorted(now) == ["labels", "x"]
        assert not np.array_equal(now["x"], cube)


def test_products_are_no_copies(tmp_path, cube):
    np.savez(tmp_path / "a.npz", weights=cube, labels=np.arange(4))
    outputs = Outputs(weights=str(tmp_path / "w.npz"), flags=str(tmp_path / "f.npz"))
    restore(tmp_path / "a.npz", tmp_path / "b.npz", outputs=outputs)
    for name in ("w.npz", "f.npz"):
        with np.load(tmp_path / name) as now:
            assert "labels" not in now


def test_a_changed_cube_is_no_copy(tmp_path, cube):
    """What the user changed beside the numbers is written, not what the input said."""
    from dataclasses import replace

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["wl"], file["more"] = cube, NM, np.arange(3)
    got = open_cube(tmp_path / "a.h5")
    assert list_losses(got, tmp_path / "b.h5") == ()
    changed = replace(got, wavelengths=NM + 1)
    assert list_losses(changed, tmp_path / "b.h5") == ("other variables (more)",)
    save_cube(changed, tmp_path / "b.h5")
    np.testing.assert_array_equal(open_cube(tmp_path / "b.h5").wavelengths, NM + 1)
    (tmp_path / "a.h5").unlink()
    save_cube(got, tmp_path / "c.h5")
    np.testing.assert_array_equal(open_cube(tmp_path / "c.h5").data, got.data)


@pytest.mark.parametrize("packed", [False, True])
def test_npz(tmp_path, cube, packed):
    said = {
        "hsi": np.asfortranarray(cube.astype(">f8")),
        "hsi_gt": np.eye(3),
        "text": np.array("x"),
    }
    (np.savez_compressed if packed else np.savez)(tmp_path / "a.npz", **said)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    restore(tmp_path / "a.npz", tmp_path / "b.npz")
    with zipfile.ZipFile(tmp_path / "a.npz") as old, zipfile.ZipFile(tmp_path / "b.npz") as new:
        pairs = zip(old.infolist(), new.infolist(), strict=True)
        for was, now in pairs:
            assert (was.filename, was.compress_type) == (now.filename, now.compress_type)
            assert (old.read(was) == new.read(now)) == (was.filename != "hsi.npy")
    with np.load(tmp_path / "b.npz") as now:
        assert now["hsi"].dtype == np.dtype(">f8")
        assert now["hsi"].flags.f_contiguous


def matlab_variables(cube: np.ndarray) -> dict[str, object]:
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = "one", np.arange(3)
    return {
        "before": np.arange(7.0),
        "hsi": cube,
        "hsi_gt": np.arange(168, dtype=np.uint8).reshape(12, 14),
        "bbl": np.array([1, 1, 0, 1, 1], bool),
        "info": {"sensor": "AVIRIS", "deep": {"n": 3}},
        "labels": cells,
        "sparse": scipy.sparse.eye(4).tocsc(),
        "complex": np.array([1 + 2j]),
    }


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "uint16"])
def test_mat5(tmp_path, cube, packed, dtype):
    said = matlab_variables(cube.astype(dtype))
    scipy.io.savemat(tmp_path / "a.mat", said, do_compression=packed)
    restored = restore(tmp_path / "a.mat", tmp_path / "b.mat")
    old, new = (scipy.io.loadmat(tmp_path / name) for name in ("a.mat", "b.mat"))
    assert list(old) == list(new)
    assert new["hsi"].dtype == dtype
    np.testing.assert_array_equal(new["hsi"].transpose(2, 0, 1), restored)
    assert not np.array_equal(new["hsi"], old["hsi"])
    raw, made = ((tmp_path / name).read_bytes() for name in ("a.mat", "b.mat"))
    assert raw[:128] == made[:128]
    for name in set(said) - {"hsi"}:
        np.testing.assert_equal(str(new[name]), str(old[name]))


def test_mat5_of_the_other_byte_order(tmp_path, cube):
    import struct

    def part(kind: int, raw: bytes) -> bytes:
        return struct.pack(">II", kind, len(raw)) + raw + bytes(-len(raw) % 8)

    def matrix(name: bytes, array: np.ndarray) -> bytes:
        sizes = struct.pack(f">{array.ndim}i", *array.shape)
        numbers = array.astype(">f4").tobytes("F")
        flags = struct.pack(">II", 7, 0)
        return part(14, part(6, flags) + part(5, sizes) + part(1, name) + part(7, numbers))

    head = b"MATLAB 5.0".ljust(116) + struct.pack(">Q", 128 + 10) + b"\x01\x00MI"
    more = matrix(b"more", np.float32([[1, 2]]))
    whole = head + matrix(b"hsi", cube) + more
    (tmp_path / "a.mat").write_bytes(whole)
    restored = restore(tmp_path / "a.mat", tmp_path / "b.mat")
    made = (tmp_path / "b.mat").read_bytes()
    assert len(made) == len(whole)
    assert made.endswith(more)
    np.testing.assert_array_equal(
        scipy.io.loadmat(tmp_path / "b.mat")["hsi"].transpose(2, 0, 1), restored
    )


def test_objects_of_matlab_are_still_found(tmp_path, cube):
    """The place of their data in the header moves with the size of the cube."""
    import struct

    smooth = np.zeros_like(cube).astype(np.float64)
    smooth[:6] = 1
    scipy.io.savemat(tmp_path / "a.mat", {"hsi": smooth, "rest": np.eye(2)}, do_compression=True)
    raw = bytearray((tmp_path / "a.mat").read_bytes())
    _, length = struct.unpack("<II", raw[128:136])
    place = 136 + length
    raw[116:124] = struct.pack("<Q", place)
    (tmp_path / "a.mat").write_bytes(raw)
    restore(tmp_path / "a.mat", tmp_path / "b.mat")
    made = (tmp_path / "b.mat").read_bytes()
    (moved,) = struct.unpack("<Q", made[116:124])
    assert len(made) != len(raw)
    assert made[moved:] == bytes(raw[place:])


def test_mat73(tmp_path, cube):
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        options = {"chunks": (2, 7, 6), "compression": "gzip"}
        file.create_dataset("hsi", data=cube.T.astype(np.float64), **options)
        file["hsi"].attrs["MATLAB_class"] = np.bytes_("double")
        file["hsi_gt"] = np.arange(6.0).reshape(2, 3)
        file["#refs#/a"] = np.arange(3)
        cells = np.array([[file["#refs#/a"].ref]], dtype=h5py.ref_dtype)
        file.create_dataset("names", data=cells).attrs["MATLAB_class"] = np.bytes_("cell")
        file["info/sensor"] = np.uint16([[72]])
        file["info"].attrs["MATLAB_class"] = np.bytes_("struct")
    with open(tmp_path / "a.mat", "rb+") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, by hand".ljust(116) + bytes(8) + b"\x00\x02IM")
    restored = restore(tmp_path / "a.mat", tmp_path / "b.mat", tile=6)
    assert (tmp_path / "b.mat").read_bytes()[:128] == (tmp_path / "a.mat").read_bytes()[:128]
    with h5py.File(tmp_path / "b.mat") as new, h5py.File(tmp_path / "a.mat") as old:
        np.testing.assert_allclose(new["hsi"][()].transpose(0, 2, 1), restored, rtol=1e-6)
        assert new["hsi"].chunks == (2, 7, 6)
        assert not np.array_equal(new["hsi"][()], old["hsi"][()])
        assert sorted(new) == sorted(old)
        assert new[new["names"][0, 0]].name == "/#refs#/a"
        assert dict(new["info"].attrs) == dict(old["info"].attrs)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("tile", [None, 5])
def test_zarr(tmp_path, cube, version, tile):
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(tmp_path / "a.zarr"), zarr_format=version)
    group.attrs["title"] = "scene"
    array = group.create_array("grid/data", data=cube, chunks=(5, 6, 2))
    array.attrs["units"] = "counts"
    group.create_array("grid/wavelength", data=NM)
    group.create_array("quality/flags", data=np.arange(6))
    restored = restore(tmp_path / "a.zarr", tmp_path / "b.zarr", tile=tile)
    old, new = (zarr.open(str(tmp_path / name), mode="r") for name in ("a.zarr", "b.zarr"))
    before, after = (dict(root.members(max_depth=None)) for root in (old, new))
    assert sorted(before) == sorted(after)
    assert dict(new.attrs) == {"title": "scene"}
    for name, item in before.items():
        assert after[name].metadata.to_dict() == item.metadata.to_dict()
    np.testing.assert_array_equal(after["quality/flags"][:], before["quality/flags"][:])
    np.testing.assert_array_equal(after["grid/data"][:].transpose(2, 0, 1), restored)
    assert not np.array_equal(after["grid/data"][:], cube)


def test_a_cube_made_by_hand_is_written_anew(tmp_path, cube):
    save_cube(Cube.from_array(cube), tmp_path / "a.h5")
    assert open_cube(tmp_path / "a.h5").shape == cube.shape
