"""Hyperspectral cubes in napari: a reader, and a widget that denoises the chosen layer.

A layer is (band, row, col); the cube it was read from goes with it, so that saving keeps its header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hyperdlw
from hyperdlw.errors import DlwError
from hyperdlw.models import defaults

if TYPE_CHECKING:
    from magicgui.widgets import FunctionGui
    from napari.layers import Image
    from napari.types import LayerDataTuple


def find_reader(path: str | list[str]) -> Callable[[str], list[Any]] | None:
    """The reader of one file that hyperdlw can open; None leaves it to other plugins."""
    if not isinstance(path, str):
        return None
    try:
        hyperdlw.io.describe_file(path)
    except DlwError:
        return None
    return read_cube


def read_cube(path: str) -> list[LayerDataTuple]:
    """One image layer (band, row, col)."""
    cube = hyperdlw.open_cube(path)
    low, high = cube.data[cube.valid].min(), cube.data[cube.valid].max()
    about = {"metadata": {"cube": cube}, "contrast_limits": (float(low), float(high))}
    return [(cube.data, about, "image")]


def restore_layer(
    image: Image, model: str = defaults.MODEL, strength: float = 1.0, auto: bool = False
) -> LayerDataTuple:
    """A new layer with the denoised cube."""
    known = image.metadata.get("cube")
    cube = hyperdlw.Cube.from_array(image.data) if known is None else known.with_data(image.data)
    result = hyperdlw.denoise(cube, model=model, strength="auto" if auto else strength)
    about = {"name": f"{image.name} restored", "contrast_limits": image.contrast_limits}
    return (result.cube.data, {**about, "metadata": {"cube": result.cube}}, "image")


def make_widget() -> FunctionGui:
    """Choose a layer, a model and a strength; 'Denoise' adds the restored layer."""
    from magicgui import magicgui

    def denoise(
        image: Image, model: str = defaults.MODEL, strength: float = 1.0, auto: bool = False
    ) -> LayerDataTuple:
        return restore_layer(image, model, strength, auto)

    from napari.layers import Image
    from napari.types import LayerDataTuple

    denoise.__annotations__ |= {"image": Image, "return": LayerDataTuple}
    choices = list(hyperdlw.models.list_models("model"))
    return magicgui(denoise, call_button="Denoise", model={"choices": choices})
