"""Independent readers that say whether two files differ in the numbers of some arrays only."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np


def describe_attributes(item: h5py.HLObject) -> dict[str, str]:
    """Every attribute: type, shape and value; references by the name they lead to."""

    def plain(value: object) -> object:
        if isinstance(value, h5py.Reference):
            return item.file[value].name
        if isinstance(value, np.ndarray):
            return [plain(v) for v in value.tolist()] if value.dtype.kind == "O" else value.tolist()
        if isinstance(value, tuple | list | np.void):
            return [plain(v) for v in value]
        return value

    return {k: f"{np.asarray(v).dtype} {plain(v)}" for k, v in item.attrs.items()}


def describe_hdf5(path: Path, but: tuple[str, ...]) -> dict[str, object]:
    """All of a file: groups, links, attributes, layout and numbers, without those of ``but``."""
    found: dict[str, object] = {}
    with h5py.File(path, "r") as file:
        found["/"] = describe_attributes(file)
        found["userblock"] = file.userblock_size

        def visit(name: str, item: h5py.HLObject) -> None:
            found[name + "@"] = describe_attributes(item)
            if isinstance(item, h5py.Dataset):
                filters = (item.compression, item.compression_opts, item.shuffle, item.fletcher32)
                found[name + ":"] = (item.shape, item.maxshape, item.dtype, item.chunks, filters)
                scales = [[s.name for s in axis.values()] for axis in item.dims]
                found[name + "-"] = (scales, [axis.label for axis in item.dims], item.fillvalue)
                if name not in but:
                    found[name] = np.asarray(item[()]).tolist()

        file.visititems(visit)
    return found


def assert_only_changed(old: Path, new: Path, *names: str) -> None:
    """Two HDF5 files are alike but for the numbers of ``names``, and these differ."""
    was, now = describe_hdf5(old, names), describe_hdf5(new, names)
    assert was.keys() == now.keys()
    for key in was:
        np.testing.assert_equal(now[key], was[key], err_msg=key)
    with h5py.File(old, "r") as a, h5py.File(new, "r") as b:
        for name in names:
            assert not np.array_equal(a[name][()], b[name][()]), name
