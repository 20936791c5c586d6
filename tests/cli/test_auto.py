"""``hyperdlw denoise --strength auto``, and ``hyperdlw advise``, whose command works as printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperdlw.cube import Cube
from hyperdlw.io import save_cube


def test_the_chosen_strength_is_told(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    out = noisy.with_name("out.npy")
    ran = hyperdlw("denoise", noisy, out, "--model", "tv", "--strength", "auto", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["choice"]["strength"] == told["strength"]
    assert {t["strength"] for t in told["choice"]["curve"]} >= {1.0, 2.0}
    ran = hyperdlw("denoise", noisy, out, "--strength", "auto", "--model", "tv", "--overwrite")
    assert "(auto, sure)" in ran.out


def test_a_strength_that_is_no_number(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    ran = hyperdlw("denoise", noisy, noisy.with_name("out.npy"), "--strength", "much")
    assert ran.code == 1
    assert "--strength is a number or auto, not 'much'" in ran.err


def test_advise_prints_reasons_and_a_command(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    ran = hyperdlw("advise", noisy)
    assert ran.code == 0, ran.err
    for word in ("model", "network", "strength", "rank", "noise", "dead columns"):
        assert word in ran.out
    assert f"hyperdlw denoise {noisy} {noisy.parent}/noisy_clean.npy -m " in ran.out


def test_denoise_auto_follows_the_advice(hyperdlw: Callable[..., Any], noisy: Path) -> None:
    told = json.loads(hyperdlw("advise", noisy, "--json").out)
    ran = hyperdlw("denoise", noisy, noisy.with_name("out.npy"), "--auto", "--json")
    assert ran.code == 0, ran.err
    done = json.loads(ran.out)
    assert (done["model"], done["weights"], done["strength"]) == (
        told["model"],
        told["network"],
        told["strength"],
    )
    assert set(told["divergence"]["tv"]) >= {"N", "T", "TS", "N+T+TS"}
    assert len(told["bands"]) == 6


def test_advise_on_a_missing_file(hyperdlw: Callable[..., Any], tmp_path: Path) -> None:
    ran = hyperdlw("advise", tmp_path / "none.npy")
    assert ran.code == 2
    assert "none.npy" in ran.err


def write_fits(path: Path, cube: np.ndarray) -> None:
    """A FITS file of one image, from the standard."""
    axes = {f"NAXIS{i}": n for i, n in enumerate(cube.shape[::-1], 1)}
    cards = {"SIMPLE": "T", "BITPIX": -32, "NAXIS": 3, **axes}
    head = "".join(f"{k:<8}= {v:>20}".ljust(80) for k, v in cards.items()) + "END"
    path.write_bytes(head.ljust(2880).encode() + cube.astype(">f4").tobytes().ljust(2880, b"\0"))


def save_as(kind: str, cube: np.ndarray, folder: Path) -> tuple[Path, list[str]]:
    """A file of a format that says little, and what ``advise`` needs to read it."""
    noisy = Cube.from_array(cube, axes="rcb", wavelengths=np.linspace(400, 900, cube.shape[2]))
    path = folder / f"a scene.{kind}"
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file["one/x"], file["two/x"] = cube.transpose(2, 0, 1), cube.transpose(2, 0, 1)
        return path, ["--key", "two/x", "--axes", "brc", "--nodata", "-1"]
    if kind == "folder":
        path = folder / "bands"
        stored = (np.clip(cube, 0, 1) * 65535).astype(np.uint16)
        save_cube(Cube.from_array(stored, axes="rcb"), f"{path}/")
    elif kind == "fits":
        write_fits(path, cube.transpose(2, 0, 1))
    elif kind in ("png", "jpg"):
        picture = (np.clip(cube[..., :3], 0, 1) * 255).astype(np.uint8)
        save_cube(Cube.from_array(picture, axes="rcb"), path)
    elif kind == "npy":
        np.save(path, cube.transpose(2, 0, 1))
        return path, ["--axes", "brc", "--range", "0,1"]
    elif kind == "none":
        path = folder / "scene"
        save_cube(noisy, folder / "scene.img")
        (folder / "scene.img").rename(path)
    else:
        save_cube(noisy, path)
    return path, []


KINDS = ["hdr", "img", "none", "tif", "nc", "h5", "zarr", "mat", "npy", "npz", "png", "jpg", "fits"]
KINDS += ["folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_printed_command_works(hyperdlw, tmp_path, clean, kind):
    noise = 0.1 * np.random.default_rng(4).standard_normal(clean.shape)
    path, options = save_as(kind, (clean + noise).astype(np.float32), tmp_path)
    ran = hyperdlw("advise", path, *options)
    assert ran.code == 0, ran.err
    words = shlex.split(ran.out.splitlines()[-1])
    assert words[0] == "hyperdlw"
    again = hyperdlw(*words[1:])
    assert again.code == 0, again.err
    assert Path(words[3]).exists()
    assert Path(words[3]).suffix == path.suffix
