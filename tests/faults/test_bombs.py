"""Small files that promise or unpack to gigabytes are refused within 100 MB and two seconds."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

MEASURE = """
import resource, sys, time
import numpy, h5py, rasterio, hyperdlw
from hyperdlw.errors import DlwError
from hyperdlw.io import open_cube, describe_file, open_reader
look = {"open": open_cube, "info": describe_file, "strips": lambda p: open_reader(p).read(slice(0, 1))}
if sys.argv[2] == "network":
    from hyperdlw.networks.files import load_network
    look["network"] = load_network
with open_reader(sys.argv[3]) as file:  # what is loaded when it is first used
    file.read()
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    look[sys.argv[2]](sys.argv[1])
    told = "accepted"
except DlwError as error:
    told = str(error)
spent = time.process_time() - start
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(f"{grown}\\n{spent}\\n{told}")
"""


def save_chunks(path: Path, shape: tuple[int, ...], chunk: tuple[int, ...], **more: object) -> None:
    """An HDF5 file whose chunks are stored as a few zeros."""
    with h5py.File(path, "w") as file:
        most = (None,) * len(shape)
        item = file.create_dataset(
            "x", shape, "f8", chunks=chunk, maxshape=most, compression="gzip"
        )
        item.id.write_direct_chunk((0,) * len(shape), zlib.compress(bytes(2**20)))
        for name, value in more.items():
            file[name] = value


def make_chunked_mat(path: Path) -> None:
    save_chunks(path, (40, 50, 60), (4000, 5000, 60))


def make_wide_neighbour(path: Path) -> None:
    """A harmless cube beside a list of wavelengths in one giant chunk."""
    with h5py.File(path, "w") as file:
        file["cube"] = np.random.default_rng(0).random((40, 50, 6))
        file["cube"].attrs["axes"] = "rcb"
        item = file.create_dataset(
            "wavelengths", (6,), "f8", chunks=(2**28,), maxshape=(None,), compression="gzip"
        )
        item.id.write_direct_chunk((0,), zlib.compress(bytes(2**20)))


def pack_element(name: str, kind: int, count: int, word: int, size: int) -> bytes:
    """A compressed variable of version 5: a class, so many zeros, stored as this type."""

    def part(code: int, content: bytes) -> bytes:
        return struct.pack("<II", code, len(content)) + content + bytes(-len(content) % 8)

    head = part(6, struct.pack("<II", kind, 0)) + part(5, struct.pack("<ii", 1, count))
    head += part(1, name.encode()) + struct.pack("<II", word, count * size)
    stream = zlib.compressobj(9)
    packed = stream.compress(struct.pack("<II", 14, len(head) + count * size) + head)
    block = bytes(2**20)
    for _ in range(count * size // len(block)):
        packed += stream.compress(block)
    packed += stream.flush()
    return struct.pack("<II", 15, len(packed)) + packed


MAT5 = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"


def make_text_mat(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"x": np.random.default_rng(0).random((8, 9, 5))})
    text = pack_element("metadata", 4, 60 * 2**20, 16, 1) + pack_element("axes", 4, 2**24, 16, 1)
    path.write_bytes(path.read_bytes() + text)


def make_packed_mat(path: Path) -> None:
    """Bytes that are doubles to MATLAB: eight times as large in memory."""
    element = bytearray(pack_element("x", 6, 60 * 2**20, 2, 1))
    path.write_bytes(MAT5 + bytes(element))


def make_many_members(path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1))
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(20_000):
            archive.writestr(f"a{i}.npy", buffer.getvalue())


def make_many_variables(path: Path) -> None:
    path.write_bytes(MAT5 + pack_element("x", 6, 0, 9, 8) * 50_000)


def make_long_header(path: Path) -> None:
    """The header of a member says that it is a gigabyte long."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**30))
        for _ in range(1024):
            file.write(b" " * 2**20)


def make_wide_tile(path: Path) -> None:
    """A TIFF of 16 x 16 pixels in one tile of 40 000 x 40 000."""
    packed = zlib.compress(bytes(2**20))
    tags = [(256, 4, 16), (257, 4, 16), (258, 3, 16), (259, 3, 8), (262, 3, 1), (277, 3, 1)]
    tags += [(322, 4, 40_000), (323, 4, 40_000), (324, 4, 8), (325, 4, len(packed)), (339, 3, 1)]
    directory = struct.pack("<H", len(tags))
    for tag, kind, value in tags:
        directory += struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value)
    start = 8 + len(packed)
    path.write_bytes(b"II*\0" + struct.pack("<I", start) + packed + directory + bytes(4))


def make_many_objects(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for i in range(20_000):
            file.create_group(f"g{i}")


def make_many_attributes(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for i in range(900):
            group = file.create_group(f"g{i}")
            for j in range(60):
                group.attrs[f"a{j}"] = j


def make_promise(path: Path) -> None:
    with h5py.File(path, "w") as file:
        item = file.create_dataset("cube", (10, 2**17, 2**14), "f8", chunks=(1, 64, 64))
        item.attrs["axes"] = "brc"


def make_network(path: Path) -> None:
    """A header of sixty megabytes that names a million empty tensors."""
    one = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    text = json.dumps({f"t{i}": one for i in range(900_000)}, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "chunk.mat": (make_chunked_mat, "open"),
    "chunk.h5": (make_wide_neighbour, "open"),
    "text.mat": (make_text_mat, "open"),
    "packed.mat": (make_packed_mat, "open"),
    "members.npz": (make_many_members, "open"),
    "variables.mat": (make_many_variables, "info"),
    "header.npz": (make_long_header, "info"),
    "tile.tif": (make_wide_tile, "open"),
    "objects.h5": (make_many_objects, "info"),
    "attributes.h5": (make_many_attributes, "info"),
    "promise.h5": (make_promise, "strips"),
    "net.safetensors": (make_network, "network"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_at_once(tmp_path: Path, name: str) -> None:
    make, look = BOMBS[name]
    make(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 70e6
    plain = tmp_path / f"plain{Path(name).suffix}"
    if look == "network":
        plain = plain.with_suffix(".npy")
    save_plain(plain)
    words = [sys.executable, "-c", MEASURE, str(tmp_path / name), look, str(plain)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    grown, spent, told = ran.stdout.strip().split("\n")
    assert name in told, told
    assert float(grown) < 100, f"{grown} MB: {told}"
    assert float(spent) < 2, f"{spent} s: {told}"


def save_plain(path: Path) -> None:
    from hyperdlw import Cube, save_cube

    save_cube(Cube.from_array(np.zeros((3, 20, 24), np.float32), axes="brc"), path)
