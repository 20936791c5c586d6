"""A failure at any moment leaves the old output, and nothing beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.errors import BadFile, OutOfResources, OutputExists
from hyperdlw.io import FORMATS, atomic, open_cube, save_cube


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("directory", [False, True])
def test_failure_in_the_middle(tmp_path, error, directory):
    out = tmp_path / "out"
    if directory:
        out.mkdir()
        (out / "x").write_text("old")
    else:
        out.write_text("old")

    def fail():
        with atomic(out, overwrite=True, directory=directory) as tmp:
            (tmp / "x" if directory else tmp).write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert (out / "x" if directory else out).read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(("known", "name"), [("npy", "a.npy"), ("png-folder", "a/")])
def test_failure_inside_a_writer(tmp_path, monkeypatch, known, name):
    cube = Cube.from_array(np.ones((3, 4, 5), np.uint8), axes="rcb")
    save_cube(cube, f"{tmp_path}/{name}")
    form = FORMATS[known].form
    whole = form.write

    def broken(cube, path, *rest):
        whole(cube, path, *rest)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(form, "write", broken)
    with pytest.raises(OutOfResources, match="No space left on device"):
        save_cube(cube.with_data(cube.data * 2), f"{tmp_path}/{name}", overwrite=True)
    assert (open_cube(f"{tmp_path}/{name}").data == 1).all()
    assert os.listdir(tmp_path) == [name.rstrip("/")]


def test_failure_of_the_last_rename_puts_the_old_folder_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "x").write_text("old")
    rename = os.rename

    def broken(source, target):
        if str(source).endswith(".partial"):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(BadFile), atomic(out, overwrite=True, directory=True) as tmp:
        (tmp / "x").write_text("new")
    assert (out / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_an_output_that_appears_meanwhile_is_kept(tmp_path):
    out = tmp_path / "out"

    def race():
        with atomic(out) as tmp:
            tmp.write_text("mine")
            out.write_text("theirs")

    with pytest.raises(OutputExists):
        race()
    assert out.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic(tmp_path / "link", overwrite=True) as tmp:
        tmp.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BadFile, match="Permission denied"), atomic(tmp_path / "out") as tmp:
        tmp.write_text("x")


FULL = """
    import resource, sys
    from pathlib import Path
    import h5py, rasterio, scipy.io
    import numpy as np
    from hyperdlw.cube import Cube
    from hyperdlw.errors import BadFile
    from hyperdlw.io import open_writer, matlab, save_cube

    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    noise = np.random.default_rng(0).integers(0, 60000, (3, size, size)).astype(np.uint16)
    cube = Cube.from_array(noise)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
    for name in ["a.npy", "a.npz", "a.mat", "v73.mat", "a.png", "a.tif"]:
        matlab.LARGEST = 0 if name == "v73.mat" else 2**31
        (folder / name).write_bytes(b"old")
        try:
            save_cube(cube, folder / name, overwrite=True)
        except BadFile as error:
            assert "cannot write" in str(error), error
        else:
            raise AssertionError(f"{name}: a full disk was not noticed")
        assert (folder / name).read_bytes() == b"old"
    assert len(list(folder.iterdir())) == 6
    for name in ["b.npy", "b.hdr", "b.tif", "b.h5"]:
        try:
            with open_writer(folder / name, cube) as sink:
                for row in range(0, size, 50):
                    rows = slice(row, row + 50)
                    sink.write(rows, slice(0, size), cube.data[:, rows])
        except BadFile as error:
            assert "cannot write" in str(error), error
        else:
            raise AssertionError(f"{name} by windows: a full disk was not noticed")
    assert len(list(folder.iterdir())) == 6
"""


@pytest.mark.parametrize("size", [64, 700])
def test_full_disk(tmp_path, size):
    """A limit on the size of files stands in for a full disk; a process of its own, as it stays."""
    code = textwrap.dedent(FULL)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


KILLED = """
    import sys
    import numpy as np
    from hyperdlw.cube import Cube
    from hyperdlw.io import save_cube

    print("ready", flush=True)
    for i in range(10**6):
        save_cube(Cube.from_array(np.full((2, 40, 50), i % 9)), sys.argv[1], overwrite=True)
"""


def test_killed_at_any_moment(tmp_path):
    """Whenever the writer dies, the output is one complete cube."""
    out = tmp_path / "a.npz"
    save_cube(Cube.from_array(np.zeros((2, 40, 50))), out)
    for delay in (0.01, 0.02, 0.03):
        code = textwrap.dedent(KILLED)
        writer = subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert np.ptp(open_cube(out).data) == 0
