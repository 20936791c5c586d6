"""A format of somebody else's package works wherever a built-in one does."""

from __future__ import annotations

import json
from contextlib import ExitStack

import numpy as np
import pytest
from outside import Package

from hyperdlw import io
from hyperdlw.errors import BadOption
from hyperdlw.pipeline import plan
from hyperdlw.testbed import scenes

OUTSIDE = '''
"""The other package: a line of JSON, then the numbers (band, row, col)."""

import json

import numpy as np

from hyperdlw.cube import Encoding
from hyperdlw.io import FileFacts, Format, build_reader, map_windows


class Plain(Format):
    name = "plain"
    suffixes = (".plain",)
    holds = frozenset(["wavelengths"])

    def recognise(self, path, head):
        return head.startswith(b'{"plain":')

    def open_reader(self, path, options):
        with open(path, "rb") as file:
            said = json.loads(file.readline())
            start = file.tell()
        dtype, shape = np.dtype(said["dtype"]), tuple(said["plain"])
        waves = said["wavelengths"]
        facts = FileFacts(wavelengths=None if waves is None else np.array(waves))
        stored = Encoding(dtype.name, "brc", format=self.name)
        window = map_windows(path, start, shape, dtype, "brc")
        return build_reader(path, shape, stored, window, facts, options)

    def write(self, cube, path, stored, encoding):
        waves = None if cube.wavelengths is None else cube.wavelengths.tolist()
        said = {"plain": stored.shape, "dtype": stored.dtype.str, "wavelengths": waves}
        path.write_bytes(json.dumps(said).encode() + b"\\n" + stored.tobytes())
'''


@pytest.fixture
def install(tmp_path_factory):
    """Make the package known to this process, with the given entry point."""
    with ExitStack() as stack:

        def made(name: str, target: str) -> None:
            folder = tmp_path_factory.mktemp("outside")
            points = {"hyperdlw.formats": {name: target}}
            package = Package(folder, {"their_format": OUTSIDE}, points)
            stack.enter_context(package.installed())

        yield made


def test_an_outside_format_from_the_command_line(hyperdlw, install, noisy, tmp_path, monkeypatch):
    install("plain", "their_format:Plain")
    scene = io.open_cube(noisy)
    waves = np.linspace(400.0, 900.0, scene.bands)
    source = tmp_path / "scene.plain"
    io.save_cube(type(scene)(scene.data, scene.valid, waves), source)
    facts = json.loads(hyperdlw("info", source, "--json").out)
    assert facts["format"] == "plain"
    assert facts["wavelengths"] == [400.0, 900.0]
    assert json.loads(hyperdlw("info", source, "--nodata", "7", "--json").out)["nodata"] == 7
    # By content, under any name; and to the last bit through another format.
    source.rename(tmp_path / "scene.xyz")
    assert hyperdlw("convert", tmp_path / "scene.xyz", tmp_path / "a.npz").code == 0
    np.testing.assert_array_equal(io.open_cube(tmp_path / "a.npz").data, scene.data)
    assert hyperdlw("convert", tmp_path / "a.npz", source).code == 0
    np.testing.assert_array_equal(io.open_cube(source).wavelengths, waves)
    # Whole and in strips, as if the process itself took no memory.
    for name in ("BASE", "NETWORK", "RESERVE", "SAMPLE_BYTES", "MILD_COPIES"):
        monkeypatch.setattr(plan, name, 0)
    options = ("-m", "nn", "-w", "precision", "--range", "0,1")
    for out, more in (("b.plain", ()), ("c.plain", ("--memory", "150K"))):
        ran = hyperdlw("denoise", source, tmp_path / out, *options, *more)
        assert ran.code == 0, ran.err
    whole, strips = (io.open_cube(tmp_path / name) for name in ("b.plain", "c.plain"))
    assert whole.encoding.format == strips.encoding.format == "plain"
    assert whole.data.std() < scene.data.std()
    np.testing.assert_allclose(strips.data, whole.data, atol=1e-5)


@pytest.mark.parametrize("name", ["other", "plain"])
def test_a_wrong_entry_point_is_named(install, noisy, name):
    install(name, "their_format:Plain" if name == "other" else "their_format:json")
    with pytest.raises(BadOption, match="mend or remove that package"):
        io.open_cube(noisy)


def test_scenes_of_an_outside_format_in_training_and_benchmark(hyperdlw, install, tmp_path):
    install("plain", "their_format:Plain")
    (tmp_path / "in").mkdir()
    for i in range(2):
        cube = scenes.synthetic(4, 16, 16, rng=np.random.default_rng(i))
        io.save_cube(cube, tmp_path / f"in/{i}.plain")
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'name = "own"\nsources = ["tv"]\nfilters = 2\npatch = 8\nbatch = 1\nsteps = 2\n'
    )
    ran = hyperdlw("train", recipe, "--data", tmp_path / "in", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    words = "--data", tmp_path / "in", "--out", tmp_path / "out", "--seeds", "1", "--quiet"
    ran = hyperdlw("bench", "simple", *words, "--models", "tv", "--cases", "1")
    assert ran.code == 0, ran.err
    lines = (tmp_path / "out" / "simple.jsonl").read_text().splitlines()
    assert {json.loads(line)["scene"] for line in lines} == {"0", "1"}
