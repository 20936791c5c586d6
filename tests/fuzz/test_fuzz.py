"""Anything may be in a file: a sentence or a result, soon, and without much memory.

A few seconds each; ``make fuzz`` takes minutes (HYPERDLW_FUZZ is the number of examples).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from hyperdlw import io
from hyperdlw.networks import files as store
from hyperdlw.pipeline import denoise_file
from hyperdlw.pipeline.journal import folder_of
from hyperdlw.solver import Schedule
from hyperdlw.testbed import scenes

from .damage import MANY, fuzz, harmless

numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.integers(0, 5), st.floats(), st.sampled_from(["", "x", "{"])
)
words = st.text(max_size=20)
values = st.one_of(numbers.map(str), words, st.lists(numbers, max_size=4).map(str))
keys = st.sampled_from(
    [
        "samples",
        "lines",
        "bands",
        "header_offset",
        "data_type",
        "interleave",
        "byte_order",
        "wavelength",
        "wavelength_units",
        "fwhm",
        "bbl",
        "band_names",
        "data_ignore_value",
        "reflectance_scale_factor",
        "map_info",
        "file_type",
    ]
)


@fuzz
@given(st.dictionaries(st.one_of(keys, words), values), st.integers(0, 200), st.booleans())
def test_envi_headers(entries, length, sound):
    base = {"samples": 2, "lines": 3, "bands": 4, "data_type": 4, "byte_order": 0}
    found = {**base, **entries} if sound else entries
    lines = [f"{k.replace('_', ' ')} = {v}" for k, v in found.items()]
    with tempfile.TemporaryDirectory() as place:
        head = Path(place, "a.hdr")
        head.write_text("ENVI\n" + "\n".join(lines), errors="replace")
        head.with_suffix(".img").write_bytes(bytes(length))
        with harmless():
            io.open_cube(head)


shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5, 40]), max_size=4).map(tuple)
arrays = st.tuples(shapes, st.sampled_from(["f4", "f8", "i2", "u1", "c8", "bool", "S3"]))
names = st.sampled_from(["cube", "reflectance", "wavelength", "fwhm", "x", "data", "bands"])
trees = st.recursive(arrays, lambda inner: st.dictionaries(names, inner, max_size=4), max_leaves=8)


def fill(group, tree):
    for name, entry in tree.items():
        if isinstance(entry, dict):
            fill(group.create_group(name), entry)
        else:
            made = group.create_dataset(name, entry[0], entry[1])
            made.attrs["scale_factor"] = "x" if entry[1] == "u1" else 2.0


@fuzz
@given(st.dictionaries(names, trees, max_size=4), st.sampled_from(["a.h5", "a.nc", "a.mat"]))
def test_hdf5_trees(tree, name):
    with tempfile.TemporaryDirectory() as place:
        with h5py.File(Path(place, name), "w") as file:
            fill(file, tree)
        with harmless():
            io.open_cube(Path(place, name))


@fuzz
@given(st.dictionaries(names, arrays.filter(lambda a: a[1] != "S3"), max_size=4), st.data())
def test_mat_trees(tree, data):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "a.mat")
        scipy.io.savemat(path, {k: np.zeros(*v) for k, v in tree.items()})
        raw = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(raw)
        with harmless():
            io.open_cube(path)


cards = st.dictionaries(
    st.sampled_from(["card", "name", "config", "architecture", "filters", "format"]),
    st.one_of(
        words,
        st.sampled_from(
            [
                "{}",
                "[1]",
                "null",
                '{"architecture": "dlwnet3d", "filters": 100000000, "blocks": 3}',
                '{"config": {"architecture": "dlwnet3d", "filters": -1, "blocks": 1e9}}',
            ]
        ),
    ),
)


@fuzz
@given(cards, st.binary(max_size=64), st.integers(0, 400))
def test_model_cards(card, damage, at):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "a.safetensors")
        save_file({"last.weight": torch.zeros(1, 2, 3)}, path, metadata=card)
        raw = bytearray(path.read_bytes())
        raw[at : at + len(damage)] = damage
        path.write_bytes(raw)
        with harmless():
            store.load_network(str(path))


@settings(fuzz, max_examples=MANY // 20 or 4)  # three runs each
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8), st.booleans())
def test_journals(at, damage, shorten):
    """A damaged journal: the same bytes in the end, or a sentence."""
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place, "in.npy"), Path(place, "out.npy")
        scene = scenes.synthetic(3, 9, 6, rng=np.random.default_rng(1)).data
        np.save(source, scene.transpose(1, 2, 0))

        def run(watch=None):
            tell = SimpleNamespace(plan_made=lambda *_: None, item_done=watch or (lambda *_: None))
            denoise_file(
                source,
                target,
                overwrite=True,
                progress=tell,
                model="tvs",
                weights="precision",
                schedule=Schedule(3, 0.1),
                tile=5,
            )
            return target.read_bytes()

        def stop(stage, done, count):
            if stage.startswith("step 1-"):
                raise ZeroDivisionError

        whole = run()
        with pytest.raises(ZeroDivisionError):
            run(stop)
        journal = folder_of(target) / "journal"
        raw = bytearray(journal.read_bytes())
        at %= len(raw)
        raw[at:] = damage if shorten else damage + raw[at + len(damage) :]
        journal.write_bytes(raw)
        with harmless():
            assert run() == whole
