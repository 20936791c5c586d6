"""Windows of a file equal those of the whole cube, and a cube written by windows the whole one."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadInput, OutOfResources, OutputExists
from hyperdlw.io import checks, numpy_files, open_cube, open_reader, open_writer, save_cube

NAMES = ["a.npy", "a.npz", "a.mat", "a.hdr", "a.bil", "a.bip", "a.tif", "a.h5", "a.zarr", "bands/"]
LAZY = {"npy", "envi", "tiff", "hdf5", "zarr"}


@pytest.fixture(scope="module")
def cube() -> Cube:
    stored = np.random.default_rng(5).integers(0, 4000, (5, 9, 11)).astype(np.uint16)
    stored[:, 2, 3] = 65535
    return Cube.from_array(
        stored, encoding=Encoding("uint16", "brc", scale=0.25, offset=-3.0, nodata=65535.0)
    )


@pytest.fixture(scope="module")
def files(cube, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("windows")
    for name in NAMES:
        (folder / name.replace("/", "_")).mkdir()
        save_cube(cube, f"{folder}/{name.replace('/', '_')}/{name}")
    return {name: f"{folder}/{name.replace('/', '_')}/{name}" for name in NAMES}


limits = st.one_of(st.none(), st.integers(-12, 12))
chosen = st.one_of(
    st.none(), st.builds(slice, limits, limits), st.lists(st.integers(0, 4), max_size=6)
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("name", NAMES)
@given(rows=st.builds(slice, limits, limits), cols=st.builds(slice, limits, limits), bands=chosen)
def test_a_window_is_a_part_of_the_whole(files, name, rows, cols, bands):
    axes = "brc" if name == "a.npy" else None  # a .npy has no place for the order
    whole = open_cube(files[name], axes=axes)
    with open_reader(files[name], axes=axes) as source:
        data, valid = source.read(rows, cols, bands)
        stored = source.read_stored(rows, cols, bands)
        assert source.lazy == (source.encoding.format in LAZY)
    which = slice(None) if bands is None else bands
    np.testing.assert_array_equal(data, whole.data[which][:, rows, cols])
    np.testing.assert_array_equal(valid, whole.valid[which][:, rows, cols])
    assert (data.dtype, valid.dtype, stored.dtype) == (np.float32, bool, source.dtype)
    assert stored.dtype.isnative


@pytest.mark.parametrize("name", NAMES)
def test_writing_by_windows_is_writing_the_whole(same, files, cube, tmp_path, name):
    """In any order, from several threads, with bands one by one at the end."""
    axes = "brc" if name == "a.npy" else None
    with open_reader(files[name], axes=axes) as source:
        with open_writer(f"{tmp_path}/{name}", source) as sink:

            def work(window):
                rows, cols = window
                sink.write(rows, cols, *source.read(rows, cols))

            windows = [(slice(r, r + 4), slice(c, c + 5)) for r in (8, 0, 4) for c in (5, 0, 10)]
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(work, windows))
            rows, cols = slice(1, 3), slice(2, 9)
            sink.write_stored(rows, cols, source.read_stored(rows, cols, [4, 0]), bands=[4, 0])
            assert not os.path.exists(sink.path)
        assert sink.clipped == 0
    back = open_cube(f"{tmp_path}/{name}", axes=axes)
    same(open_cube(files[name], axes=axes), back)
    assert back.encoding == source.encoding
    single = {".hdr": 2, ".bil": 2, ".bip": 2}
    assert len(os.listdir(tmp_path)) == single.get(os.path.splitext(name)[1], 1)


@pytest.mark.parametrize("how", ["abort", "error", "interrupt"])
@pytest.mark.parametrize("name", NAMES)
def test_an_aborted_output_leaves_the_old_one(same, files, tmp_path, name, how):
    axes = "brc" if name == "a.npy" else None
    old = open_cube(files[name], axes=axes)
    target = f"{tmp_path}/{name}"
    save_cube(old, target)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    sink = open_writer(target, old, overwrite=True)
    sink.write(slice(0, 4), slice(0, 11), old.data[:, :4] * 0)
    if how == "abort":
        sink.abort()
    else:
        kind = ValueError if how == "error" else KeyboardInterrupt
        with pytest.raises(kind), sink:
            raise kind
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    same(old, open_cube(target, axes=axes))


def test_values_are_clipped_and_counted(tmp_path, cube):
    with open_writer(tmp_path / "a.npy", cube, encoding=Encoding("uint8", "brc")) as sink:
        sink.write(slice(0, 1), slice(0, 3), np.tile([-5.0, 3.4, 300.0], (5, 1, 1)))
    assert sink.clipped == 10
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy")[0, 0, :4], [0, 3, 255, 0])


def test_what_a_window_may_not_be(tmp_path, files, cube):
    with open_reader(files["a.tif"]) as source:
        with pytest.raises(BadInput, match=r"no band 5.*0 to 4"):
            source.read(bands=[5])
        with pytest.raises(BadInput, match="steps of 2"):
            source.read(slice(0, 8, 2))
    with open_writer(tmp_path / "a.npy", cube) as sink:
        with pytest.raises(BadInput, match=r"\(5, 2, 11\).*\(5, 3, 11\)"):
            sink.write(slice(0, 2), slice(None), cube.data[:, :3])
        with pytest.raises(BadInput, match="stores uint16, not int32"):
            sink.write_stored(slice(0, 9), slice(None), cube.data.astype(np.int32))
    with pytest.raises(BadInput, match="finished"):
        sink.write(slice(0, 9), slice(None), cube.data)
    with pytest.raises(OutputExists):
        open_writer(tmp_path / "a.npy", cube)


@pytest.mark.parametrize("name", ["a.npy", "a.hdr", "a.tif", "a.h5", "a.zarr", "a.npz"])
def test_a_source_can_be_sent_to_another_process(files, name):
    with open_reader(files[name], nodata=7.0) as source:
        there = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(there.read()[0], source.read()[0])
        assert there.nodata == 7.0
        there.close()


def test_memory_and_disk_are_asked_first(tmp_path, files, cube, monkeypatch):
    monkeypatch.setattr(checks, "measure_memory", lambda: 1000)
    with pytest.raises(OutOfResources, match=r"2\.5 kB in memory.*1\.0 kB") as error:
        open_cube(files["a.npy"])
    assert error.value.exit_code == 4
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda folder: type("D", (), {"free": 10}))
    with pytest.raises(OutOfResources, match="990 bytes and there are 10 bytes free"):
        open_writer(tmp_path / "a.npy", cube)
    assert not list(tmp_path.iterdir())


def test_a_window_of_a_huge_file_reads_a_window(tmp_path):
    """A terabyte of holes: reading it whole is refused, a window of it is read."""
    with open(tmp_path / "a.npy", "wb") as file:
        facts = {"descr": "<f4", "fortran_order": True, "shape": (100000, 10000, 250)}
        numpy_files.npformat.write_array_header_1_0(file, facts)
        start = file.tell()
        file.truncate(start + 4 * 100000 * 10000 * 250)
        file.seek(start + 4 * (7 + 100000 * (3 + 10000 * 249)))
        file.write(np.float32(5).tobytes())
    with open_reader(tmp_path / "a.npy") as source:
        assert source.shape == (250, 100000, 10000)
        data, _ = source.read(slice(5, 9), slice(2, 6))
    assert data.sum() == data[249, 2, 1] == 5
    with pytest.raises(OutOfResources, match="in memory"):
        open_cube(tmp_path / "a.npy")
