"""CF, the conventions of NetCDF: named dimensions, the wavelength coordinate, the grid mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cube import Metadata
from .metadata import list_neighbours, simplify_value
from .reader import Described

if TYPE_CHECKING:
    import h5py

    from .array_tree import Tree

GRID = "crs"
"""The name of the grid mapping variable of our files."""
BARE = "This is a netCDF dimension but not a netCDF variable."
"""NetCDF's title of an array that only gives a dimension its name and length."""
OWN = ("wavelengths", "wavelength", "fwhm", "good_bands", "metadata", GRID, "x", "y")
"""Variables beside the cube of our files."""


def write_dimensions(file: h5py.File, item: h5py.Dataset, like: Described, axes: str) -> None:
    """Name the axes of the cube, and write what lies along them and the place on the ground."""
    file.attrs["Conventions"] = "CF-1.10"
    beside = list_neighbours(like)
    waves = beside.pop("wavelengths", None)
    names = {"b": "band" if waves is None else "wavelength", "r": "y", "c": "x"}
    along = _list_coordinates(like)
    if waves is not None:
        words = {"units": "nm", "standard_name": "radiation_wavelength"}
        along["wavelength"] = waves, words
    lengths = dict(zip("brc", like.shape, strict=True))
    for at, axis in enumerate(axes):
        name, length = names[axis], lengths[axis]
        values, words = along.get(name, (None, {}))
        scale = file.create_dataset(name, (length,), "f8" if name in along else "f4", data=values)
        scale.make_scale(name if name in along else f"{BARE}{length:10d}")
        scale.attrs.update(words)
        item.dims[at].attach_scale(scale)
    # Metadata are a variable, because attributes have 64 kB at most.
    for name, value in beside.items():
        held = file.create_dataset(name, data=value.view("u1") if name == "good_bands" else value)
        if name != "metadata":
            held.dims[0].attach_scale(file[names["b"]])
        if name == "fwhm":
            held.attrs["units"] = "nm"
    if "crs" in like.metadata:
        item.attrs["grid_mapping"] = GRID
        file.create_dataset(GRID, data=np.int32(0)).attrs.update(_describe_grid(like.metadata))


def _list_coordinates(like: Described) -> dict[str, tuple[Any, dict[str, str]]]:
    """Centres of the columns and rows on a map whose rows run from west to east."""
    from rasterio import CRS

    transform = like.metadata.get("transform")
    if transform is None or transform[1] or transform[3]:
        return {}
    a, _, c, _, e, f = transform
    wkt = like.metadata.get("crs")
    geographic = wkt is not None and CRS.from_wkt(wkt).is_geographic
    found = {}
    for name, start, step, count in (("x", c, a, like.shape[2]), ("y", f, e, like.shape[1])):
        lat_lon = ("longitude", "degrees_east") if name == "x" else ("latitude", "degrees_north")
        word, units = lat_lon if geographic else (f"projection_{name}_coordinate", "m")
        attributes = {"standard_name": word, "units": units} if wkt is not None else {}
        found[name] = start + step * (np.arange(count) + 0.5), attributes
    return found


def _describe_grid(metadata: Metadata) -> dict[str, object]:
    """Attributes of the grid mapping: CF's, and those that GDAL reads."""
    from rasterio import CRS

    wkt = str(metadata["crs"])
    said: dict[str, object] = {"crs_wkt": wkt, "spatial_ref": wkt}
    if "transform" in metadata:
        a, b, c, d, e, f = metadata["transform"]
        said["GeoTransform"] = " ".join(repr(float(v)) for v in (c, a, b, f, d, e))
    crs = CRS.from_wkt(wkt)
    if crs.is_geographic:
        said["grid_mapping_name"] = "latitude_longitude"
    words = crs.to_dict() if crs.is_projected else {}
    if words.get("proj") == "utm":
        said |= {"grid_mapping_name": "transverse_mercator", "latitude_of_projection_origin": 0.0}
        said["longitude_of_central_meridian"] = 6.0 * words["zone"] - 183
        said |= {"scale_factor_at_central_meridian": 0.9996, "false_easting": 500000.0}
        said["false_northing"] = 1e7 if words.get("south") else 0.0
    return said


def read_place(tree: Tree, cube: str, axes: str) -> dict[str, object]:
    """Coordinate system and map coordinates of an array that names its grid mapping."""
    node = tree.nodes[cube]
    mapping = simplify_value(node.attributes.get("grid_mapping"))
    if not isinstance(mapping, str):
        return {}
    about = _find_near(tree, cube, mapping.partition(":")[0].strip())
    found: dict[str, object] = {}
    for word in ("spatial_ref", "crs_wkt"):
        wkt = simplify_value(about.get(word))
        if isinstance(wkt, str) and _is_crs(wkt):
            found["crs"] = wkt
    try:
        numbers = [float(part) for part in str(simplify_value(about.get("GeoTransform"))).split()]
    except ValueError:
        numbers = []
    if len(numbers) == 6:
        c, a, b, f, d, e = numbers
        return found | {"transform": (a, b, c, d, e, f)}
    steps = [_read_steps(tree, cube, node.dimensions, axes.find(axis)) for axis in "cr"]
    if None not in steps:
        (c, a), (f, e) = (s for s in steps if s is not None)
        found["transform"] = (a, 0.0, c, 0.0, e, f)
    return found


def _is_crs(wkt: str) -> bool:
    from rasterio import CRS
    from rasterio.errors import CRSError

    try:
        return bool(CRS.from_wkt(wkt))
    except CRSError:
        return False


def _find_near(tree: Tree, cube: str, name: str) -> Mapping[str, object]:
    """Attributes of the array of a name in the group of the cube or the nearest one above."""
    group = cube
    while group:
        group = group.rpartition("/")[0]
        where = f"{group}/{name}" if group else name
        if where in tree.nodes:
            return tree.nodes[where].attributes
    return {}


def _read_steps(
    tree: Tree, cube: str, names: tuple[str, ...], at: int
) -> tuple[float, float] | None:
    """The border and the step of an evenly spaced coordinate."""
    near = [n for n in tree.nodes if 0 <= at < len(names) and n.rpartition("/")[2] == names[at]]
    inside = [n for n in near if cube.startswith(n.rpartition("/")[0])]
    if not inside or not tree.nodes[inside[-1]].length:
        return None
    values = np.asarray(tree.nodes[inside[-1]].load(), np.float64).reshape(-1)
    steps = np.diff(values)
    if not len(steps) or not np.isfinite(values).all() or not steps[0]:
        return None
    step = float(values[-1] - values[0]) / len(steps)
    even = np.abs(steps - step).max() <= 1e-3 * abs(step)
    return (float(values[0]) - step / 2, step) if even else None
