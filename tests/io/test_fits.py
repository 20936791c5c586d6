"""FITS files, made here from the standard (no other program is needed to read them back)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hyperdlw
from hyperdlw.errors import DlwError
from hyperdlw.io import open_cube


def make_part(cards: dict[str, str], numbers: bytes) -> bytes:
    """A header of cards and the numbers after it, in blocks of 2880 bytes."""
    lines = [f"{key:<8}= {value:>20} / a comment".ljust(80) for key, value in cards.items()]
    head = "".join([*lines, "END".ljust(80)]).encode()
    return head + b" " * (-len(head) % 2880) + numbers + b"\0" * (-len(numbers) % 2880)


def make_file(path: Path, cube: NDArray[np.generic], **more: str) -> Path:
    """An empty first part with a table of history, the cube in an extension, and a map after it."""
    bits = {"float32": -32, "int16": 16, "uint8": 8}[cube.dtype.name]
    axes = {f"NAXIS{i}": str(n) for i, n in enumerate(cube.shape[::-1], 1)}
    kind = {"XTENSION": "'IMAGE   '", "BITPIX": str(bits), "NAXIS": "3", **axes}
    kind |= {"PCOUNT": "0", "GCOUNT": "1", **more}
    first = {"SIMPLE": "T", "BITPIX": "8", "NAXIS": "0", "OBSERVER": "'somebody'"}
    flat = {"XTENSION": "'IMAGE   '", "BITPIX": "8", "NAXIS": "2", "NAXIS1": "4", "NAXIS2": "2"}
    stored = cube.astype(cube.dtype.newbyteorder(">")).tobytes()
    parts = [make_part(first, b""), make_part(kind, stored), make_part(flat, bytes(range(8)))]
    path.write_bytes(b"".join(parts))
    return path


@pytest.fixture
def cube() -> NDArray[np.float32]:
    rng = np.random.default_rng(3)
    ramp = np.linspace(1, 2, 24 * 20).reshape(1, 24, 20) * np.linspace(1, 3, 7).reshape(-1, 1, 1)
    return (ramp + 0.2 * rng.standard_normal(ramp.shape)).astype(np.float32)


def test_numbers_scale_gaps_and_wavelengths(tmp_path: Path, cube: NDArray[np.float32]) -> None:
    stored = (1000 * cube).astype(np.int16)
    stored[0, 0, 0] = -999
    wave = {"CTYPE3": "'WAVE    '", "CUNIT3": "'nm      '", "CRVAL3": "500.0", "CDELT3": "10.0"}
    more = {"BSCALE": "0.5", "BZERO": "100.0", "BLANK": "-999", **wave}
    found = open_cube(make_file(tmp_path / "a.fits", stored, **more))
    assert found.wavelengths is not None
    assert found.wavelengths.tolist() == [500, 510, 520, 530, 540, 550, 560]
    assert np.argwhere(~found.valid).tolist() == [[0, 0, 0]]
    np.testing.assert_allclose(found.data[1:], 0.5 * stored[1:] + 100)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_only_the_cube_differs_in_the_output(
    dtype: str, tmp_path: Path, cube: NDArray[np.float32]
) -> None:
    given = cube if dtype == "float32" else (1000 * cube).astype(dtype)
    source, target = make_file(tmp_path / "a.fits", given), tmp_path / "b.fits"
    hyperdlw.denoise_file(source, target, model="tv", weights="uniform")
    before, after = source.read_bytes(), target.read_bytes()
    start, length = 2 * 2880, given.nbytes
    assert len(before) == len(after)
    assert before[:start] == after[:start]
    assert before[start + length :] == after[start + length :]
    numbers = np.frombuffer(after, given.dtype.newbyteorder(">"), given.size, start)
    expected = hyperdlw.denoise(source, model="tv", weights="uniform").cube.data
    tolerance = 1e-5 if dtype == "float32" else 0.51
    np.testing.assert_allclose(numbers.reshape(cube.shape), expected, atol=tolerance)


def test_what_is_no_cube_is_one_sentence(tmp_path: Path, cube: NDArray[np.float32]) -> None:
    whole = make_file(tmp_path / "a.fits", cube).read_bytes()
    bad = {"flat": whole[:2880], "short": whole[:7000], "endless": whole[:9] + b" " * 9000}
    bad["cut behind the word END"] = whole[: 2880 + whole[2880:].index(b"END     ") + 80]
    for name, data in bad.items():
        path = tmp_path / f"{name}.fits"
        path.write_bytes(data)
        with pytest.raises(DlwError, match=r"three axes|shorter|without an end"):
            open_cube(path)
    with pytest.raises(DlwError, match="cannot be written"):
        hyperdlw.save_cube(hyperdlw.Cube.from_array(cube), tmp_path / "new.fits")
