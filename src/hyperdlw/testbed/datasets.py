"""The data sets of the paper: what is downloaded, which part of it the paper takes, and its scaling.

Nothing is fetched. A data set says where its files come from and how they must lie in a folder. The
paper names sizes and numbers of bands but not their place: the centre of the image and of the spectrum
is taken. Every band is scaled to [0, 1] by its minimum and maximum.
"""

from __future__ import annotations

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
    """

    name: str
    about: str
    source: str
    files: str
    keys: tuple[str, ...] = ()
    side: int = 0
    bands: int = 0
    affected: int | None = None
    colour: bool = False

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
        names = (key,) if key else self.keys or (None,)
        refused = []
        for name in names:
            try:
                return _fold_pixels(path, name) if name == "Y" else open_cube(path, key=name)
            except DlwError as error:
                refused.append(str(error))
        raise BadFile(refused[0])

    def cut_bands(self, data: F32) -> F32:
        """The bands of the paper."""
        first = max(0, len(data) - self.bands) // 2 if self.bands else 0
        return data[first : first + (self.bands or len(data))]


def _fold_pixels(path: Path, key: str) -> Cube:
    """A cube that is stored as (band, pixel), the pixels column by column, with nRow and nCol beside it."""
    rows, cols = (int(open_cube(path, key=name).data.flat[0]) for name in ("nRow", "nCol"))
    flat = open_cube(path, key=key).data[0]
    if flat.shape[-1] != rows * cols:
        raise BadFile(
            f"{path}: {key} has {flat.shape[-1]} pixels, and nRow x nCol is {rows}x{cols}"
        )
    return Cube.from_array(flat.reshape(len(flat), cols, rows).transpose(0, 2, 1))


UNIVERSITY = "https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes"

DATASETS = {
    d.name: d
    for d in (
        DataSet(
            "cave",
            "31 bands of 512 x 512 pixels, a folder of 16-bit PNG bands for every scene",
            "https://www.cs.columbia.edu/CAVE/databases/multispectral/",
            "*_01.png",
            affected=10,
        ),
        DataSet(
            "icvl",
            "MATLAB 7.3 files with 'rad', 31 bands, beside 'rgb'",
            "https://icvl.cs.bgu.ac.il/hyperspectral/",
            "*.mat",
            keys=("rad",),
            side=512,
            affected=10,
        ),
        DataSet(
            "dc",
            "Washington DC Mall, 191 bands of 1280 x 307 pixels, dc.tif or a MATLAB file",
            "https://engineering.purdue.edu/~biehl/MultiSpec/hyperspectral.html",
            "*[dD][cC]*.*",
            side=200,
            bands=152,
            affected=40,
        ),
        DataSet(
            "pavia",
            "PaviaU.mat with 'paviaU', 103 bands of 610 x 340 pixels",
            UNIVERSITY,
            "*[pP]avia*.mat",
            keys=("paviaU",),
            side=340,
            bands=70,
            affected=20,
        ),
        DataSet(
            "urban",
            "HYDICE Urban with its noise, a MATLAB file with 'Y' (210 bands x pixels), 'nRow' and 'nCol'",
            "https://rslab.ut.ac.ir/data",
            "*[uU]rban*.mat",
            keys=("Y",),
        ),
        DataSet(
            "indian-pines",
            "Indian Pines of 145 x 145 pixels with its noise, 'indian_pines' (220 bands) or "
            "'indian_pines_corrected' (200)",
            UNIVERSITY,
            "*[iI]ndian*.mat",
            keys=("indian_pines", "indian_pines_corrected"),
        ),
        DataSet(
            "bsds",
            "photographs, JPEG",
            "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
            "*.jpg",
            affected=3,
            colour=True,
        ),
    )
}
"""Every data set of the paper by name."""


def find_dataset(name: str) -> DataSet:
    """The data set of a name.

    >>> find_dataset("pavia").affected
    20
    """
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]
