"""The word ``hsi`` on the arrays of xarray: ``array.hsi.denoise()``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Unpack

from ..errors import MissingDependency
from .options import Settings
from .run import denoise

NAME = "hsi"


class HsiAccessor:
    """What hyperdlw does with an xarray.DataArray or Dataset; made by xarray as ``array.hsi``."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def denoise(self, axes: str | None = None, **settings: Unpack[Settings]) -> Any:
        """The restored array, with the axes, coordinates, attributes, name and type of the noisy one.

        Args:
            axes: the order of "b", "r" and "c" where the names of the axes do not tell.
            settings: model, weights, strength, ... as for :func:`hyperdlw.denoise`.
        """
        return denoise(self._array, axes=axes, **settings).restored


def register_accessor() -> None:
    """Give every xarray.DataArray and Dataset the word ``hsi``: ``array.hsi.denoise(model="tv")``.

    The result keeps dimensions, coordinates and attributes. A second call changes nothing.

    >>> import numpy as np, xarray
    >>> register_accessor()
    >>> noise = np.random.default_rng(0).standard_normal((12, 16, 4))
    >>> noisy = xarray.DataArray(0.5 + 0.1 * noise, dims=("y", "x", "band"), attrs={"by": "me"})
    >>> clean = noisy.hsi.denoise(model="tv", weights="uniform", range=(0, 1))
    >>> clean.dims, clean.attrs, bool(clean.std() < noisy.std())
    (('y', 'x', 'band'), {'by': 'me'}, True)
    """
    try:
        xarray = import_module("xarray")
    except ImportError as error:
        words = "the accessor needs xarray; install it with: pip install 'hyperdlw[scale]'"
        raise MissingDependency(words) from error
    for kind in ("dataarray", "dataset"):
        holder = xarray.DataArray if kind == "dataarray" else xarray.Dataset
        if getattr(holder, NAME, None) is not HsiAccessor:  # xarray warns of a second one
            getattr(xarray, f"register_{kind}_accessor")(NAME)(HsiAccessor)
