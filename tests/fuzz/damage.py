"""Real files of every format, made by the programs that make them, and what may happen to their bytes."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import rasterio
import scipy.io
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from PIL import Image

from hyperdlw.cube import Cube, Encoding
from hyperdlw.errors import DlwError
from hyperdlw.io import matlab, save_cube

MANY = int(os.environ.get("HYPERDLW_FUZZ", "0"))
fuzz = settings(
    max_examples=MANY or 25,
    derandomize=not MANY,  # the same examples in every plain run; other ones by the hour
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def harmless() -> Iterator[None]:
    """Only a DlwError, at most 200 MB, and no hang over two seconds.

    Of the processor: a busy machine is no failure.
    """
    tracemalloc.start()
    sentence, begin = "", time.process_time()
    try:
        yield
    except DlwError as error:
        sentence = str(error)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "\n" not in sentence
    assert most < 200e6
    assert time.process_time() - begin < 2


CUBE = np.arange(3 * 4 * 5, dtype=np.uint16).reshape(3, 4, 5)
"""(row, col, band)."""
WAVELENGTHS = np.linspace(400.0, 1000.0, 5)


def save(path: Path) -> None:
    save_cube(Cube.from_array(CUBE, axes="rcb", wavelengths=WAVELENGTHS), path)


def save_mat5(path: Path) -> None:
    scipy.io.savemat(path, {"cube": CUBE, "wavelength": WAVELENGTHS})


def save_packed(path: Path) -> None:
    scipy.io.savemat(path, {"cube": CUBE, "note": "text"}, do_compression=True)


def save_mat73(path: Path) -> None:
    matlab.write_variables(path, {"cube": CUBE})


def save_tiled(path: Path) -> None:
    array = np.zeros((5, 32, 48), np.float32)
    layout = {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"}
    with rasterio.open(path, "w", "GTiff", 48, 32, 5, dtype="float32", nodata=-1, **layout) as file:
        file.write(array)


def save_picture(path: Path) -> None:
    colour = Cube.from_array(CUBE[..., :3].astype(np.uint8))
    save_cube(colour, path, encoding=Encoding("uint8", "brc"))


def save_pages(path: Path) -> None:
    first, *rest = [Image.fromarray(band) for band in CUBE.transpose(2, 0, 1)]
    first.save(path, save_all=True, append_images=rest)


def save_folder(path: Path) -> None:
    path.mkdir()
    for i, band in enumerate(CUBE.transpose(2, 0, 1)):
        Image.fromarray(band.astype(np.uint8)).save(path / f"band_{i:02}.png")


def save_chunked(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("reflectance", data=CUBE, chunks=(2, 2, 5), compression="gzip")
        made.attrs["scale_factor"], made.attrs["_FillValue"] = 0.5, np.uint16(7)
        file["wavelength"] = WAVELENGTHS


def save_netcdf(path: Path) -> None:
    import xarray

    axes = ("y", "x", "band")
    data = xarray.Dataset(
        {"radiance": (axes, CUBE.astype(np.float32), {"units": "W"})},
        {"wavelength": ("band", WAVELENGTHS)},
    )
    data.to_netcdf(path, engine="h5netcdf")


def save_fits(path: Path) -> None:
    """By hand: cards of 80 characters, blocks of 2880 bytes."""
    facts = {"SIMPLE": "T", "BITPIX": 16, "NAXIS": 3, "NAXIS1": 4, "NAXIS2": 3, "NAXIS3": 5}
    facts |= {"BZERO": 32768, "BSCALE": 1, "CTYPE3": "'WAVE    '", "CRVAL3": 400.0, "CDELT3": 150.0}
    cards = "".join(f"{k:8}= {v!s:>20}".ljust(80) for k, v in facts.items()) + "END".ljust(80)
    data = (CUBE.transpose(2, 0, 1).astype(np.int32) - 32768).astype(">i2").tobytes()
    path.write_bytes(cards.ljust(2880).encode() + data.ljust(2880, b"\0"))


def save_hdf4(path: Path) -> None:
    from pyhdf.SD import SD, SDC

    file = SD(str(path), SDC.WRITE | SDC.CREATE)
    made = file.create("cube", SDC.UINT16, CUBE.shape)
    made[:] = CUBE
    made.attr("axes").set(SDC.CHAR8, "rcb")
    made.endaccess()
    file.end()


def save_library(path: Path) -> None:
    np.linspace(0, 1, 10).astype("<f4").tofile(path.with_suffix(".sli"))
    path.write_text(
        "ENVI\nsamples = 5\nlines = 2\nbands = 1\ndata type = 4\ninterleave = bsq\nbyte order = 0\n"
        "file type = ENVI Spectral Library\nwavelength units = nm\n"
        "wavelength = {400, 500, 600, 700, 800}\nspectra names = {a, b}\n"
    )


def save_table(path: Path) -> None:
    path.write_text("wavelength,a,b\n400,0.1,0.2\n500,0.2,0.3\n600,0.3,0.1\n")


MAKERS: dict[str, Callable[[Path], None]] = {
    "a.npy": save,
    "a.npz": save,
    "a.mat": save_mat5,
    "packed.mat": save_packed,
    "v73.mat": save_mat73,
    "a.hdr": save,
    "a.tif": save,
    "tiled.tif": save_tiled,
    "pages.tif": save_pages,
    "folder": save_folder,
    "a.png": save_picture,
    "a.jpg": save_picture,
    "a.h5": save_chunked,
    "a.nc": save_netcdf,
    "a.fits": save_fits,
    "a.zarr": save,
}
"""Every reader of cubes."""
if find_spec("pyhdf"):
    MAKERS["a.hdf"] = save_hdf4
SPECTRA: dict[str, Callable[[Path], None]] = {"library.hdr": save_library, "table.csv": save_table}

odd_bytes = st.one_of(
    st.binary(min_size=1, max_size=8),
    st.sampled_from([bytes([255]) * 4, bytes([255]) * 8, bytes(4), bytes(8), b"\x7f\xff\xff\xff"]),
    st.integers(0, 2**32 - 1).map(lambda n: n.to_bytes(4, "little")),
    st.integers(0, 2**64 - 1).map(lambda n: n.to_bytes(8, "big")),
)
places = st.floats(0, 1, exclude_max=True)
wounds = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "insert", "cut", "repeat"]), places, odd_bytes
    ),
    min_size=1,
    max_size=4,
)


def wound(raw: bytes, wounds: list[tuple[str, float, bytes]]) -> bytes:
    """The bytes with some of them changed, inserted, doubled or gone."""
    for how, where, odd in wounds:
        at, size = int(where * len(raw)), len(odd)
        if how == "write":
            raw = raw[:at] + odd + raw[at + size :]
        elif how == "insert":
            raw = raw[:at] + odd + raw[at:]
        elif how == "repeat":
            raw = raw[:at] + raw[at : at + 64 * size] + raw[at:]
        else:
            raw = raw[:at] + raw[at + size**2 :]
    return raw
