"""Files of named variables: which is the cube, and MATLAB as an independent writer sees it."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import BadFile, BadOption, DlwError
from hyperdlw.io import describe_file, open_cube, save_cube


def write_v73(path, **variables):
    """As MATLAB does: a 512-byte header, then HDF5 with the axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            file[name] = np.atleast_2d(value).T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        file.create_group("#refs#")
    with open(path, "rb+") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def write(path, **variables):
    if path.suffix == ".npz":
        np.savez(path, **variables)
    elif path.stem == "v73":
        write_v73(path, **variables)
    else:
        savemat(path, variables, do_compression=path.stem == "packed")


NAMES = ["a.npz", "a.mat", "packed.mat", "v73.mat"]


@pytest.mark.parametrize("name", NAMES)
def test_the_only_cube_is_found_beside_labels_and_wavelengths(tmp_path, scene, name):
    write(tmp_path / name, labels=scene[..., 0], wavelengths=np.array([4.0, 5, 6]), x=scene)
    cube = open_cube(tmp_path / name)
    np.testing.assert_array_equal(cube.data, scene.transpose(2, 0, 1))
    np.testing.assert_array_equal(cube.wavelengths, [4, 5, 6])
    assert cube.encoding.key == "x"
    assert cube.encoding.axes == "rcb"


@pytest.mark.parametrize("name", NAMES)
def test_several_cubes_are_listed(tmp_path, scene, name):
    write(tmp_path / name, clean=scene, noisy=scene[:, :, :2])
    with pytest.raises(BadFile, match=r"clean: 5x7x3 uint16, noisy: 5x7x2 uint16.*--key"):
        open_cube(tmp_path / name)
    assert open_cube(tmp_path / name, key="noisy").shape == (2, 5, 7)
    with pytest.raises(BadOption, match="did you mean 'noisy'"):
        open_cube(tmp_path / name, key="nosy")
    facts = describe_file(tmp_path / name)
    assert facts["shape"] is None
    assert list(facts["variables"]) == ["clean", "noisy"]


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_called_cube_comes_first(tmp_path, scene, name):
    write(tmp_path / name, rgb=scene[:, :, :2], cube=scene)
    assert open_cube(tmp_path / name).shape == describe_file(tmp_path / name)["shape"] == (3, 5, 7)


@pytest.mark.parametrize("name", NAMES)
def test_scale_and_offset(tmp_path, scene, name):
    write(tmp_path / name, cube=scene, scale=0.25, offset=-2.0)
    cube = open_cube(tmp_path / name)
    np.testing.assert_array_equal(cube.data, scene.transpose(2, 0, 1) * 0.25 - 2)
    np.testing.assert_array_equal(cube.to_array()[0], scene)


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_is_noted(tmp_path, scene, name):
    write(tmp_path / name, cube=scene, wavelengths=np.arange(4.0), scale=np.ones(3))
    cube = open_cube(tmp_path / name)
    assert cube.wavelengths is None
    assert [note.split()[0] for note in cube.metadata["notes"]] == ["wavelengths", "scale"]


@pytest.mark.parametrize("name", NAMES)
def test_axes(tmp_path, scene, name):
    write(tmp_path / name, x=scene)
    assert open_cube(tmp_path / name, axes="brc").shape == (5, 7, 3)
    assert describe_file(tmp_path / name, axes="brc")["shape"] == (5, 7, 3)
    with pytest.raises(DlwError, match="arrangement"):
        open_cube(tmp_path / name, axes="xyz")


@pytest.mark.parametrize("name", NAMES)
def test_describe(tmp_path, scene, name):
    write(tmp_path / name, x=scene, wavelengths=np.array([400.0, 500, 600]))
    facts = describe_file(tmp_path / name)
    assert (facts["shape"], facts["stored_shape"]) == ((3, 5, 7), (5, 7, 3))
    assert (facts["key"], facts["dtype"]) == ("x", "uint16")
    assert facts["wavelengths"] == (400.0, 600.0)
    assert facts["format"] == {"a.npz": "npz", "v73.mat": "mat73"}.get(name, "mat5")


def test_v73_axes_are_reversed(tmp_path):
    """A MATLAB 20x24x6 array lies in the file as (6, 24, 20)."""
    matlab = np.arange(20 * 24 * 6, dtype=float).reshape(20, 24, 6)
    write_v73(tmp_path / "v73.mat", x=matlab)
    with h5py.File(tmp_path / "v73.mat") as file:
        assert file["x"].shape == (6, 24, 20)
    cube = open_cube(tmp_path / "v73.mat")
    assert cube.shape == (6, 20, 24)
    assert cube.data[5, 19, 0] == matlab[19, 0, 5]


def test_hdf5_that_calls_itself_mat(tmp_path, scene):
    with h5py.File(tmp_path / "plain.mat", "w") as file:
        file["rad"] = scene.T
    np.testing.assert_array_equal(open_cube(tmp_path / "plain.mat").data, scene.transpose(2, 0, 1))


def test_v73_input_is_written_as_v73(tmp_path, scene):
    write_v73(tmp_path / "v73.mat", ref=scene)
    save_cube(open_cube(tmp_path / "v73.mat"), tmp_path / "out.mat")
    with h5py.File(tmp_path / "out.mat") as file:
        np.testing.assert_array_equal(file["ref"][()].T, scene)


def test_links_out_of_a_v73_file_are_not_followed(tmp_path, scene):
    write_v73(tmp_path / "other.mat", x=scene)
    write_v73(tmp_path / "v73.mat", labels=scene[..., 0])
    with h5py.File(tmp_path / "v73.mat", "r+") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "other.mat"), "x")
    with pytest.raises(BadFile, match="no 3-D array"):
        open_cube(tmp_path / "v73.mat")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "?"])
def test_version_5_as_scipy_writes_it(tmp_path, kind, packed):
    array = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(kind)
    other = {"text": "abc", "cells": np.array([1, "a"], object), "deep": {"x": array}, "n": 1.0}
    savemat(tmp_path / "a.mat", {**other, "cube": array}, do_compression=packed)
    facts = describe_file(tmp_path / "a.mat")
    assert list(facts["variables"]) == ["text", "cells", "deep", "n", "cube"]
    cube = open_cube(tmp_path / "a.mat")
    assert cube.encoding.dtype == array.dtype.name
    np.testing.assert_array_equal(cube.data, array.transpose(2, 0, 1))


def test_version_5_in_the_other_byte_order(tmp_path):
    """Big-endian bytes by hand: header, then one double array packed as uint8."""
    from struct import pack

    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    body = pack(">IIII", 6, 8, 6, 0) + pack(">II3i4x", 5, 12, 2, 3, 4)
    body += pack(">HH", 1, 1) + b"x\0\0\0" + pack(">II", 2, 24) + array.tobytes(order="F")
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + pack(">II", 14, len(body))
    (tmp_path / "a.mat").write_bytes(head + body)
    cube = open_cube(tmp_path / "a.mat")
    np.testing.assert_array_equal(cube.data, array.transpose(2, 0, 1))
    assert cube.encoding.dtype == "float64"  # the class, not the packing: no rounding on output


def test_names_a_format_cannot_hold(tmp_path, scene):
    cube = Cube.from_array(scene, axes="rcb", encoding=Encoding("uint16", key="../up 1"))
    for name in ("a.npz", "a.mat"):
        save_cube(cube, tmp_path / name)
        assert open_cube(tmp_path / name).encoding.key == "cube"
