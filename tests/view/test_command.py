"""``hyperdlw view`` from start to Ctrl-C, as a program of its own."""

from __future__ import annotations

import builtins
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from hyperdlw.app.cli import main as cli

PROGRAM = "import sys; from hyperdlw.app.cli.main import run; sys.exit(run(sys.argv[1:]))"


def start(*arguments: object) -> subprocess.Popen[str]:
    source = str(Path(cli.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "view", "--no-browser", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )


def test_from_start_to_ctrl_c_during_a_job(tmp_path):
    """The address is on the first line; the signal ends job and server without a word."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "y.npy", rng.random((128, 128, 8), np.float32))
    program = start(tmp_path / "y.npy", tmp_path / "x.npy")
    try:
        assert program.stdout is not None
        address = re.match(r"(http://127\.0\.0\.1:\d+/[\w-]{20,}/) ", program.stdout.readline())
        assert address is not None
        base = address[1]
        with httpx.Client(timeout=120) as client:
            assert client.get(base).status_code == 200
            found = client.get(f"{base}api/choices").json()
            job = {"model": found["model"], "weights": found["weight"], "strength": 1}
            assert client.post(f"{base}api/job", json=job).status_code == 202
            end = time.monotonic() + 120
            while client.get(f"{base}api/status").json()["job"]["progress"] == "waiting":
                assert time.monotonic() < end
                time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=120)
    finally:
        program.kill()
    assert program.returncode == 0
    assert err == ""
    assert out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["y.npy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no.npy"], "there is no file"),
        (["y.npy", "y.npy"], "exists"),
        (["y.npy", "no/x.npy"], "there is no folder"),
        (["y.npy", "x.png"], "can hold"),
        (["y.npy", "--port", "99999"], "--port"),
        (["y.npy", "--port", "-1"], "--port"),
        (["y.npy", "--key", "a"], "--key"),
        ([".", "x.npy"], "OUT is for one cube"),
        (["y.npy", "--protect", "gas.csv"], "neither a file nor a region"),
    ],
)
def test_bad_starts_are_one_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", np.zeros((5, 6, 7), np.uint8))
    assert cli.run(["view", "--no-browser", *arguments]) == 2
    seen = capsys.readouterr()
    assert words in seen.err
    assert seen.err.count("\n") == 1


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "PIL"])
def test_missing_package_names_the_command(tmp_path, monkeypatch, capsys, package):
    np.save(tmp_path / "y.npy", np.zeros((5, 6, 7), np.uint8))
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        return real(name, *rest, **named)

    for module in ("server", "serving"):
        monkeypatch.delitem(sys.modules, f"hyperdlw.app.page.{module}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    assert cli.run(["view", "--no-browser", str(tmp_path / "y.npy")]) == 2
    seen = capsys.readouterr().err
    assert "pip install 'hyperdlw[view]'" in seen
    assert package in seen


def test_a_folder_and_several_variables_are_listed(tmp_path):
    from hyperdlw.app.page.opening import Opening, list_cubes
    from hyperdlw.io import ReadOptions

    np.save(tmp_path / "y.npy", np.zeros((5, 6, 7), np.uint8))
    both = {"before": np.zeros((3, 4, 5)), "after": np.ones((3, 4, 5)), "nm": np.arange(5)}
    np.savez(tmp_path / "two.npz", **both)
    paths = [str(tmp_path / name) for name in ("y.npy", "two.npz")]
    listed = list_cubes(paths, Opening(ReadOptions()))
    assert [entry.name for entry in listed] == ["y.npy", "two.npz: before", "two.npz: after"]
    assert listed[2].open().cube.data.min() == 1
    first = list_cubes(paths[1:], Opening(ReadOptions(key="after")))[0]
    assert first.name == "two.npz: after"


def test_cube_larger_than_the_machine_is_refused():
    from hyperdlw.app.page.session import check_memory
    from hyperdlw.errors import BadInput

    check_memory((6, 20, 24), "small.npy")
    with pytest.raises(BadInput, match="cut out a smaller part"):
        check_memory((10**6, 10**4, 10**4), "large.npy")


def test_the_first_picture_waits_for_no_torch(tmp_path):
    """It takes a second to load, which the page does while somebody looks."""
    np.save(tmp_path / "y.npy", np.zeros((6, 5, 7), np.float32))
    text = (
        "import sys; from hyperdlw.io import ReadOptions; from hyperdlw.app.page import serving\n"
        "from hyperdlw.app.page.opening import Opening, list_cubes\n"
        f"cubes = list_cubes([{str(tmp_path / 'y.npy')!r}], Opening(ReadOptions(axes='brc')))\n"
        "session = cubes[0].open(); session.facts(); session.plane('noisy', 0)\n"
        "assert 'torch' not in sys.modules\n"
        "session.warm_up(); session.close(); assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


def test_a_device_that_is_not_there_is_one_sentence(tmp_path, capsys):
    from hyperdlw.app.cli.main import run

    np.save(tmp_path / "a.npy", np.ones((8, 9, 3), np.float32))
    assert run(["view", str(tmp_path / "a.npy"), "--device", "cuda", "--no-browser"]) == 2
    assert "torch finds no device 'cuda'" in capsys.readouterr().err
