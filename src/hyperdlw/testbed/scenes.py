"""Clean scenes: some made by code, two that come inside other packages, and those of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter

from ..cube import Cube, minmax_range
from ..errors import BadFile, BadOption, DlwError, MissingDependency
from ..io import check_unchanged, identify_files, open_cube
from .datasets import DataSet
from .textured import MADE, make_named_scene

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


PAINTS = (3, 5, 6)
"""Kinds of spectra (see ``_spectrum``) that cover roofs and targets, never whole fields."""


def synthetic(
    bands: int = 31,
    rows: int = 128,
    cols: int = 128,
    *,
    rng: np.random.Generator,
    endmembers: int = 6,
    wavelengths: ArrayLike | None = None,
) -> Cube:
    """A clean scene seen from above: fields, water, roads, roofs and small targets.

    x_b(p) = light(p) sum_k a_k(p) s_k(b), the linear mixing model: spectra s_k of vegetation,
    soil, paints, ...; abundances a_k >= 0 that sum to one. Every band is then scaled to [0, 1],
    which adds a constant per band, so the spectral rank is at most ``endmembers`` + 1.

    Args:
        endmembers: number of materials.
        wavelengths: band centres in nm; evenly spaced from 400 to 700 when None.

    >>> scene = synthetic(8, 32, 40, rng=np.random.default_rng(0))
    >>> scene.shape, float(scene.data.min()), float(scene.data.max())
    ((8, 32, 40), 0.0, 1.0)
    """
    mixed = mix_materials(
        bands, rows, cols, rng=rng, endmembers=endmembers, wavelengths=wavelengths
    )
    unit = crop_centre(mixed.data.astype(np.float32))
    about = {"description": "synthetic scene"}
    return Cube.from_array(unit, wavelengths=mixed.wavelengths, metadata=about)


@dataclass(frozen=True, eq=False)
class MixedScene:
    """A scene x_b(p) = light(p) sum_k a_k(p) s_k(b) and what it is made of.

    Attributes:
        wavelengths: (band,) in nm. ``spectra``: (material, band) reflectances; the first is vegetation.
        abundance: (material, row, col), sums to one. ``light``: (row, col).
    """

    wavelengths: F64
    spectra: F64
    abundance: F64
    light: F64

    @property
    def data(self) -> F64:
        """(band, row, col), in reflectance times light."""
        parts = self.abundance, self.spectra, self.light
        return np.asarray(np.einsum("krc,kb,rc->brc", *parts, optimize=True))


def mix_materials(
    bands: int,
    rows: int,
    cols: int,
    *,
    rng: np.random.Generator,
    endmembers: int = 6,
    wavelengths: ArrayLike | None = None,
) -> MixedScene:
    """The materials of :func:`synthetic`, and where they are."""
    if min(bands, rows, cols, endmembers) < 1:
        raise BadOption(
            f"a scene needs at least one band, row, column and material, not {bands} x {rows} x "
            f"{cols} of {endmembers}"
        )
    nm = np.linspace(400.0, 700.0, bands) if wavelengths is None else np.ravel(wavelengths)
    if nm.shape != (bands,):
        raise BadOption(f"{nm.size} wavelengths for {bands} bands")
    nm = nm.astype(np.float64)
    spectra = np.stack([_spectrum(k, nm, rng) for k in range(endmembers)])
    return MixedScene(
        nm, spectra, _abundances(endmembers, rows, cols, rng), _light(rows, cols, rng)
    )


def indian_pines() -> tuple[Cube, NDArray[np.int64]]:
    """AVIRIS Indian Pines from the tensorly package: 200 bands of 145 x 145, and a class per pixel.

    Returns:
        The cube in sensor counts with wavelengths in nm, and the labels (row, col): 0 is
        unlabelled, 1 to 16 are crops. The data are licensed CC BY 3.0 (doi 10.4231/R7RX991C).
    """
    try:
        from tensorly.datasets import load_indian_pines
    except ImportError:
        raise MissingDependency(
            "Indian Pines comes with tensorly, which is not installed: pip install 'hyperdlw[demo]'"
        ) from None
    stored = load_indian_pines()
    labels, wavelengths = stored["ticks"]
    data = np.asarray(stored["tensor"]).astype(np.uint16)
    about = {"description": "Indian Pines, AVIRIS, 1992", "licence": "CC BY 3.0"}
    cube = Cube.from_array(data, axes="rcb", wavelengths=wavelengths, metadata=about)
    return cube, np.asarray(labels, np.int64)


def picture(size: int = 256) -> Cube:
    """A colour photograph in [0, 1] from the scikit-image package: a square crop of the astronaut.

    Args:
        size: side of the crop in pixels, 1 to 512. Bands are red, green, blue.
    """
    if not 1 <= size <= 512:
        raise BadOption(f"size must lie between 1 and 512 pixels, not {size}")
    try:
        from skimage.data import astronaut
    except ImportError:
        raise MissingDependency(
            "the picture comes with scikit-image, which is not installed: pip install scikit-image"
        ) from None
    # The face is near the upper middle: grow the crop around it, and keep it inside the picture.
    top, left = (min(max(0, centre - size // 2), 512 - size) for centre in (140, 220))
    load: Callable[[], NDArray[np.uint8]] = astronaut
    crop = load()[top : top + size, left : left + size].astype(np.float32) / 255
    return Cube.from_array(crop, axes="rcb", metadata={"description": "astronaut (NASA)"})


@dataclass(frozen=True)
class SceneChoice:
    """Which scenes of a folder are used, and what of them.

    Attributes:
        only: names to take, "made:7" and "roads:7" for scenes made by code among them; all of the
            folder when empty. ``without``: names to leave out.
        bands: only scenes with this many bands; None: any number.
        colour: True: only pictures of three bands, False: no such pictures, None: both.
        first: keep the first good bands only; None: all good bands.
        crop: side of the central crop in pixels, whose bands are scaled to [0, 1] again; smaller
            scenes are taken whole. None: whole scenes.
        dataset: the data set of the paper whose files these are; None: any files.
        key: the variable to read, where a file has several.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    bands: int | None = None
    colour: bool | None = None
    first: int | None = None
    crop: int | None = None
    dataset: DataSet | None = None
    key: str | None = None

    def list_files(self, folder: Path) -> dict[str, Path]:
        """The files of a folder that may be scenes, by the names of these."""
        if self.dataset is not None:
            return self.dataset.list_files(folder)
        return {p.name: p for p in sorted(folder.iterdir()) if not p.name.startswith(".")}

    def open_scene(self, path: Path) -> Cube:
        """The cube of one of them."""
        if self.dataset is not None:
            return self.dataset.open_scene(path, self.key)
        return open_cube(path, key=self.key)

    def refuse(self, cube: Cube) -> str:
        """Why a cube is not used; empty when it is."""
        if self.bands not in (None, cube.bands):
            return f"{cube.bands} bands, not {self.bands}"
        if self.colour not in (None, cube.bands == 3):
            return f"{cube.bands} bands"
        return "" if cube.valid.all() else "has voxels without a value"

    def make_scenes(self) -> dict[str, F32]:
        """The scenes made by code that are named: 31 bands and 128 pixels per side where nothing is said."""
        bands, side = self.bands or self.first or (3 if self.colour else 31), self.crop or 128
        named = [name for name in self.only if name.startswith(MADE)]
        return {name: crop_centre(make_named_scene(name, bands, side)) for name in named}


EVERY_SCENE = SceneChoice()


def load_scenes(
    folder: str | Path | None, choice: SceneChoice = EVERY_SCENE
) -> tuple[dict[str, F32], dict[str, str]]:
    """Clean scenes of a folder, (band, row, col) with every band scaled to [0, 1], by name.

    Args:
        folder: may be None where ``choice.only`` names scenes made by code.

    Returns:
        The scenes by file name without its ending, and the reason for every file that is left out.
    """
    scenes = choice.make_scenes()
    left_out: dict[str, str] = {}
    if scenes and len(scenes) == len(set(choice.only)):
        return scenes, left_out
    if folder is None:
        raise BadOption("no folder with scenes is given, and only made:N is a scene without one")
    folder = Path(folder)
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder} with scenes")
    for file, path in choice.list_files(folder).items():
        name = file if choice.dataset else path.stem
        if choice.only and name not in choice.only:
            continue
        if name in choice.without:
            left_out[file] = "a network was trained with it"
            continue
        try:
            known = identify_files(path)
            cube = choice.open_scene(path)
            check_unchanged(path, known)
        except DlwError as error:
            left_out[file] = str(error)
            continue
        if reason := choice.refuse(cube):
            left_out[file] = reason
            continue
        data = minmax_range(cube.data, cube.valid).to_unit(cube.data)[cube.good_bands]
        data = choice.dataset.cut_bands(data) if choice.dataset else data
        data = data[: choice.first]
        scenes[name] = data if choice.crop is None else crop_centre(data, choice.crop)
    if not scenes:
        why = next(iter(left_out.values()), "it is empty")
        raise BadFile(f"no scene in {folder} can be used ({why})")
    return scenes, left_out


def crop_centre(data: F32, side: int | None = None) -> F32:
    """The central square of an image, scaled to [0, 1] band by band again.

    >>> crop_centre(np.zeros((2, 9, 7), np.float32), 4).shape
    (2, 4, 4)
    """
    _, rows, cols = data.shape
    if side is not None:
        top, left = max(0, rows - side) // 2, max(0, cols - side) // 2
        data = data[:, top : top + side, left : left + side]
    data = np.ascontiguousarray(data)
    return minmax_range(data, np.ones(data.shape, bool)).to_unit(data)


def _spectrum(kind: int, nm: F64, rng: np.random.Generator) -> F64:
    """Reflectance of one material; kinds beyond the list are the same families, shifted further."""
    lap, kind = divmod(kind, 8)
    shift = rng.uniform(-8, 8) + rng.uniform(-25, 25) * lap
    gain = rng.uniform(0.9, 1.1)

    def bump(centre: float, width: float) -> F64:
        return np.exp(-0.5 * ((nm - centre - shift) / width) ** 2)

    def edge(centre: float, width: float) -> F64:
        # tanh is the sigmoid that cannot overflow.
        return 0.5 + 0.5 * np.tanh((nm - centre - shift) / (2 * width))

    water = 1 - 0.5 * bump(1450, 50) - 0.7 * bump(1940, 70)
    if kind == 0:  # vegetation: green peak, chlorophyll at 675, red edge
        s = (0.04 + 0.09 * bump(552, 32) - 0.02 * bump(675, 18) + 0.42 * edge(708, 10)) * water
    elif kind == 1:  # soil: slope with a shallow iron feature
        s = (0.07 + 0.33 * edge(600, 90) - 0.03 * bump(530, 25) + 0.1 * edge(1100, 250)) * water
    elif kind == 2:  # water: blue, black in the infrared
        s = 0.02 + 0.10 * (1 - edge(520, 35)) + 0.04 * bump(500, 30)
    elif kind == 3:  # red roof paint
        s = 0.06 + 0.52 * edge(592, 11) - 0.05 * bump(650, 20)
    elif kind == 4:  # asphalt and concrete: nearly grey
        s = 0.24 + 0.10 * edge(470, 50) - 0.03 * bump(620, 60)
    elif kind == 5:  # blue paint with two absorption features
        s = 0.08 + 0.42 * bump(455, 32) + 0.25 * edge(690, 15) - 0.04 * bump(585, 15)
    elif kind == 6:  # yellow paint
        s = 0.05 + 0.62 * edge(512, 12) - 0.12 * bump(640, 25)
    else:  # dry grass
        s = (0.10 + 0.35 * edge(560, 60) - 0.07 * bump(672, 20) + 0.1 * edge(720, 30)) * water
    return np.asarray(gain * np.maximum(s, 0.01))


def _smooth(rows: int, cols: int, width: float, rng: np.random.Generator) -> F64:
    """A random field of correlation length ``width`` pixels, zero mean, unit standard deviation."""
    # Periodic filtering: reflection at the border would show as a mirror image.
    field = gaussian_filter(rng.standard_normal((rows, cols)), width, mode="wrap", truncate=3)
    spread = float(field.std())
    return np.asarray((field - field.mean()) / (spread if spread > 0 else 1.0))


def _abundances(kinds: int, rows: int, cols: int, rng: np.random.Generator) -> F64:
    side = max(rows, cols)
    unit = min(rows, cols) / 128  # feature sizes below are pixels of a 128 x 128 scene
    r, c = np.mgrid[0:rows, 0:cols].astype(np.float64)
    grounds = [k for k in range(kinds) if k % 8 not in PAINTS]
    paints = [k for k in range(kinds) if k % 8 in PAINTS] or grounds

    # Fields: cells of a Voronoi diagram, straight on one side of the scene, winding on the other.
    wild = 1 / (1 + np.exp(-_smooth(rows, cols, side / 6, rng) * 3))
    bend = 7 * unit * wild
    rr = r + bend * _smooth(rows, cols, 9 * unit + 0.5, rng)
    cc = c + bend * _smooth(rows, cols, 9 * unit + 0.5, rng)
    cells = max(26, 2 * len(grounds))
    seeds = rng.uniform(0, 1, (cells, 2)) * (rows, cols)
    distance = np.stack([(rr - a) ** 2 + (cc - b) ** 2 for a, b in seeds])
    cell = distance.argmin(axis=0)
    # Every other cell is a plant or soil field, the others go through all grounds in turn.
    common, turn = grounds[:2], np.arange(cells) // 2
    cover = [common[t % len(common)] for t in turn[::2]] + [
        grounds[t % len(grounds)] for t in turn[1::2]
    ]
    ground = rng.permutation(cover)
    hard = (ground[cell][None] == np.arange(kinds)[:, None, None]).astype(np.float64)

    # Some borders are mixed pixels, wide where the fields are wild; most stay sharp.
    soft = gaussian_filter(hard, (0, 1.8 * unit, 1.8 * unit))
    mix = np.clip(2 * wild - 0.8, 0, 1)
    out = (1 - mix) * hard + mix * soft

    # Plants and soil are never pure: a few per cent of another material, changing slowly.
    if kinds > 1:
        share = 0.1 * np.clip(_smooth(rows, cols, 4 * unit + 0.5, rng) + 0.8, 0, 3)
        share += 0.08 * np.clip(_smooth(rows, cols, 0.8, rng), 0, 2)
        first, second = out[0] * share, out[1] * share
        out[0] += second - first
        out[1] += first - second

    def paint(kind: int, cover: F64) -> None:
        nonlocal out
        out = out * (1 - cover)
        out[kind] += cover

    for _ in range(3):  # roads, one to three pixels wide
        angle = rng.uniform(0, np.pi)
        across = (r - rng.uniform(0, rows)) * np.cos(angle) + (c - rng.uniform(0, cols)) * np.sin(
            angle
        )
        curve = 3 * unit * np.sin((r * np.sin(angle) - c * np.cos(angle)) / (20 * unit + 1))
        half = rng.uniform(0.5, 1.6) * max(unit, 0.6)
        paint(grounds[-1] if kinds < 5 else 4, np.clip(half + 0.5 - np.abs(across + curve), 0, 1))
    for n in range(max(16, 2 * len(paints))):  # roofs: rotated rectangles with sharp edges
        angle, a, b = rng.uniform(0, np.pi), rng.uniform(2, 8) * unit, rng.uniform(2, 5) * unit
        y, x = r - rng.uniform(0, rows), c - rng.uniform(0, cols)
        u, v = y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)
        inside = (np.abs(u) < a) & (np.abs(v) < b)
        paint(paints[n % len(paints)], inside.astype(np.float64))
    for n in range(12):  # small targets, down to one pixel
        y, x = r - rng.integers(0, rows), c - rng.integers(0, cols)
        paint(paints[n % len(paints)], (np.hypot(y, x) <= rng.uniform(0.3, 2.0)).astype(np.float64))
    return np.asarray(out)


def _light(rows: int, cols: int, rng: np.random.Generator) -> F64:
    """Brightness of every pixel: a gradient, rolling ground, fine texture and cloud shadows."""
    unit = min(rows, cols) / 128
    r, c = np.mgrid[0:rows, 0:cols].astype(np.float64)
    angle = rng.uniform(0, 2 * np.pi)
    slope = (r / rows - 0.5) * np.sin(angle) + (c / cols - 0.5) * np.cos(angle)
    rolling = _smooth(rows, cols, 12 * unit + 0.5, rng)
    texture = _smooth(rows, cols, 0.7, rng) * np.clip(
        0.07 + 0.04 * _smooth(rows, cols, 10 * unit + 0.5, rng), 0.01, 0.12
    )
    cloud = 1 / (1 + np.exp(-6 * (_smooth(rows, cols, 16 * unit + 0.5, rng) - 1.3)))
    light = (1 + 0.35 * slope + 0.08 * rolling + texture) * (1 - 0.35 * cloud)
    return np.asarray(np.maximum(light, 0.1))
