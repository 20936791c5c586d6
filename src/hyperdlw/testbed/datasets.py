"""The data sets of the paper: what is downloaded, which part of it the paper takes, and its scaling.

Nothing is fetched. A data set says where its files come from and how they must lie in a folder. The
paper names sizes and numbers of bands but not their place: the centre of the image and of the spectrum
is taken. Every band is scaled to [0, 1] by its minimum and maximum.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..cube import Cube
from ..errors import BadFile, DlwError, unknown_name
from ..io import open_cube

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper.

    Attributes:
        about: what it is, in a few words.
        source: where it can be had.
        files: pattern of its files below the folder; for CAVE the first band of a scene.
        keys: names of its variable in the wild; the first that a file has is read.
        side: of the central square; 0: whole images. ``bands``: in the middle of the spectrum; 0: all.
        affected: bands with impulses, stripes or dead columns in the paper.
        colour: pictures of three bands.
        printed: what the paper's figures for it are of; empty: it has no table.
    """

    name: str
    about: str
    source: str
    files: str
    keys: Sequence[str] = ()
    side: int = 0
    bands: int = 0
    affected: int | None = None
    colour: bool = False
    printed: str = ""

    def list_files(self, folder: str | Path) -> dict[str, Path]:
        """Its scenes in a folder, by name, or a sentence that says what is expected and where to get it."""
        root = Path(folder)
        found = sorted(root.rglob(self.files)) if root.is_dir() else []
        if not found:
            raise BadFile(
                f"there is no file {self.files} of the data set '{self.name}' in {folder}; it is "
                f"{self.about}, to be had from {self.source}"
            )
        if self.name == "cave":  # a scene is a folder of bands
            return {p.parent.name.removesuffix("_ms"): p.parent for p in found}
        return {p.stem: p for p in found}

    def open_scene(self, path: Path, key: str | None = None) -> Cube:
        """The cube of one of its files; ``key``: another variable than the usual one."""
        refused = []
        # A file that does not say its axes is MATLAB's: rows, columns, bands.
        for name, axes in itertools.product((key,) if key else self.keys or (None,), (None, "rcb")):
            try:
                cube = open_cube(path, key=name, axes=axes)
            except DlwError as error:
                refused.append(str(error))
                continue
            if cube.bands > 1:
                return cube
            refused.append(f"{path} holds one band of {cube.shape[1]}x{cube.shape[2]} and no cube")
        raise BadFile(refused[0])

    def cut_bands(self, data: F32) -> F32:
        """The bands of the paper."""
        first = max(0, len(data) - self.bands) // 2 if self.bands else 0
        return data[first : first + (self.bands or len(data))]


FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DATASETS = {name: DataSet(name, **facts) for name, facts in FACTS.items()}
"""Every data set of the paper by name."""


def find_dataset(name: str) -> DataSet:
    """The data set of a name."""
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]
