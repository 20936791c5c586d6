"""Whatever the file, the user sees one sentence: a DlwError, and nothing else."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, BadOption, OutputExists
from hyperdlw.io import describe_file, matlab, open_cube, save_cube

CUBE = np.arange(3 * 4 * 5, dtype=np.uint16).reshape(3, 4, 5)


def npy_bytes(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz_bytes(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def mat_bytes(compress=False, **arrays):
    file = io.BytesIO()
    savemat(file, arrays, do_compression=compress)
    return file.getvalue()


def made(name):
    with tempfile.TemporaryDirectory() as folder:
        save_cube(Cube.from_array(CUBE), f"{folder}/{name}")
        return Path(folder, name).read_bytes()


def v73_bytes():
    with tempfile.TemporaryDirectory() as folder:
        matlab.write_variables(Path(folder, "a.mat"), {"cube": CUBE})
        return Path(folder, "a.mat").read_bytes()


def lying_npy(shape):
    header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(64)


def npz_of(member):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("cube.npy", member)
    return file.getvalue()


def lying_mat():
    """The length of the data says one thing, the dimensions another."""
    raw = mat_bytes(cube=CUBE)
    dims = struct.pack("<3i", 3, 4, 5)
    assert dims in raw
    return raw.replace(dims, struct.pack("<3i", 30000, 40000, 5))


def bad_type_tag():
    """A data type that does not exist: SciPy's reader crashes the interpreter on it."""
    raw = mat_bytes(cube=CUBE)
    good = struct.pack("<II", 4, CUBE.nbytes)
    assert good in raw
    return raw.replace(good, struct.pack("<II", 0, CUBE.nbytes))


def bomb_npz():
    """A gigabyte of zeros in a megabyte of zip, header and all in agreement."""
    file = io.BytesIO()
    header = lying_npy((1000, 1000, 500))[:-64]
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("cube.npy", "w") as member,
    ):
        member.write(header)
        for _ in range(100):
            member.write(bytes(10**7))
    return file.getvalue()


def huge_png():
    """A header for 100000 x 100000 pixels, and no pixels."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    size = struct.pack(">IIBBBBB", 100000, 100000, 16, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size)
    return start + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


RANDOM = np.random.default_rng(3).bytes(3000)
OBJECTS = np.array([{"a": 1}], object)
FAULTS = {
    "random.npy": (RANDOM, "not a .npy file"),
    "random.npz": (RANDOM, "not a zip"),
    "random.mat": (RANDOM, "no MATLAB file"),
    "random.png": (RANDOM, "damaged"),
    "random.tif": (RANDOM, "damaged"),
    "random": (RANDOM, "no format"),
    "text.csv": (b"a,b,c\n1,2,3\n", "no format"),
    "empty.npy": (b"", "is empty"),
    "pickle.npy": (pickle.dumps([1, 2]), "pickle"),
    "objects.npy": (npy_bytes(OBJECTS, allow_pickle=True), "Python objects"),
    "lie.npy": (lying_npy((10**6, 10**6, 200)), "cut short.*400000.0 GB"),
    "endless.npy": (lying_npy((10**30, 10, 10)), "cut short"),
    "negative.npy": (lying_npy((-1, 4, 5)), "empty"),
    "line.npy": (npy_bytes(np.zeros(5)), "1 axis"),
    "scalar.npy": (npy_bytes(np.float64(5)), "0 axes"),
    "video.npy": (npy_bytes(np.zeros((2, 3, 4, 5, 6))), "5 axes"),
    "words.npy": (npy_bytes(np.array([[["a"]]])), "real numbers"),
    "complex.npy": (npy_bytes(CUBE.astype(complex)), "complex128.*real numbers"),
    "fields.npy": (npy_bytes(np.zeros((2, 2, 2), [("r", "f4")])), "real numbers"),
    "bandless.npy": (npy_bytes(np.zeros((4, 5, 0))), "empty"),
    "objects.npz": (npz_bytes(x=OBJECTS), "no 3-D array"),
    "lie.npz": (npz_of(lying_npy((10**6, 10**6, 200))), "size its header promises"),
    "bomb.npz": (bomb_npz(), "promises 1.0 GB but holds only"),
    "none.npz": (npz_bytes(), "no variables"),
    "flat.npz": (npz_bytes(v=np.zeros((31, 400))), "v: 31x400 float64.*--key"),
    "complex.npz": (npz_bytes(x=CUBE * 1j), "no 3-D array of real numbers"),
    "bandless.npz": (npz_bytes(x=np.zeros((4, 5, 0))), "empty"),
    "scale.npz": (npz_bytes(x=CUBE, scale=0.0), "scale"),
    "nested.npz": (npz_bytes(x=CUBE)[:-10], "damaged"),
    "lie.mat": (lying_mat(), "size its header promises"),
    "tag.mat": (bad_type_tag(), "damaged"),
    "complex.mat": (mat_bytes(x=CUBE * 1j), "no 3-D array of real numbers"),
    "struct.mat": (mat_bytes(x={"y": CUBE}), "no 3-D array"),
    "none.mat": (mat_bytes(), "no variables"),
    "huge.png": (huge_png(), "promises 20.0 GB"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(tmp_path, name):
    content, words = FAULTS[name]
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match=f"(?s){words}") as error:
            open_cube(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    message = str(error.value)
    assert name in message
    assert "\n" not in message


GOOD = {
    "a.npy": npy_bytes(CUBE),
    "a.npz": npz_bytes(x=CUBE),
    "a.mat": mat_bytes(x=CUBE),
    "packed.mat": mat_bytes(compress=True, x=CUBE),
    "v73.mat": v73_bytes(),
    "a.tif": made("a.tif"),
}


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, -1])
@pytest.mark.parametrize("name", GOOD)
def test_cut_short(tmp_path, name, keep):
    raw = GOOD[name]
    (tmp_path / name).write_bytes(raw[:-1] if keep == -1 else raw[: int(len(raw) * keep)])
    if name == "a.mat" and keep == -1:
        pytest.skip("the last byte is padding")
    with pytest.raises(BadFile):
        open_cube(tmp_path / name)


def test_a_pickle_is_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "marker",)

    trap = np.empty((1, 1, 1), object)
    trap[0, 0, 0] = Trap()
    (tmp_path / "a.npy").write_bytes(npy_bytes(trap, allow_pickle=True))
    (tmp_path / "a.npz").write_bytes(npz_bytes(x=trap))
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("a.npy", "a.npz", "b.npy"):
        with pytest.raises(BadFile):
            open_cube(tmp_path / name)
    with pytest.raises(BadFile, match="never unpickles"):
        open_cube(tmp_path / "a.npz", key="x")
    assert not (tmp_path / "marker").exists()


def test_hdf5_that_promises_what_it_does_not_hold(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_dataset("x", (10**5, 10**5, 100), "f8", chunks=(10, 10, 10))
    with pytest.raises(BadFile, match="promises"):
        open_cube(tmp_path / "a.mat")


@pytest.mark.parametrize("look", [open_cube, describe_file])
def test_places_that_hold_no_cube(tmp_path, look):
    with pytest.raises(BadFile, match="there is no file"):
        look(tmp_path / "missing.npy")
    with pytest.raises(BadFile, match="there is no file"):
        look("a\0b.npy")
    with pytest.raises(BadFile, match="without PNG"):
        look(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadFile, match="neither a file nor a folder"):
        look(tmp_path / "pipe")


def test_the_content_decides_before_the_name(tmp_path):
    (tmp_path / "a.npy").write_bytes(GOOD["a.tif"])
    (tmp_path / "a.mat").write_bytes(GOOD["a.npz"])
    assert open_cube(tmp_path / "a.npy").encoding.format == "tiff"
    assert open_cube(tmp_path / "a.mat").encoding.format == "npz"


def test_outputs_that_cannot_be(tmp_path):
    cube = Cube.from_array(CUBE)
    with pytest.raises(BadFile, match="no folder"):
        save_cube(cube, tmp_path / "missing" / "a.npy")
    for name in ("a", "a.xyz"):
        with pytest.raises(BadOption, match="names no format"):
            save_cube(cube, tmp_path / name)
    with pytest.raises(BadFile, match="cannot be a file name"):
        save_cube(cube, "a\0b.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(BadFile, match="is a folder"):
        save_cube(cube, tmp_path / "folder.npy", overwrite=True)
    (tmp_path / "a.npy").write_bytes(b"old")
    with pytest.raises(OutputExists, match="--overwrite"):
        save_cube(cube, tmp_path / "a.npy")
    assert (tmp_path / "a.npy").read_bytes() == b"old"


def test_nan_and_inf_are_invalid_and_come_back(tmp_path):
    array = np.zeros((4, 5, 3), np.float32)
    array[0, 0, 0], array[1, 1, 1], array[2, 2, 2] = np.nan, np.inf, -np.inf
    np.save(tmp_path / "a.npy", array)
    cube = open_cube(tmp_path / "a.npy")
    assert np.count_nonzero(~cube.valid) == 3
    save_cube(cube, tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array)


def test_nodata_of_the_user_wins(tmp_path):
    np.savez(tmp_path / "a.npz", cube=CUBE, nodata=3)
    assert not open_cube(tmp_path / "a.npz").valid.ravel()[CUBE.transpose(2, 0, 1).ravel() == 3]
    cube = open_cube(tmp_path / "a.npz", nodata=7)
    assert np.count_nonzero(~cube.valid) == 1
    assert cube.data[~cube.valid] == 7
