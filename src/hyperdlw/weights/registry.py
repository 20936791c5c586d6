"""Weight sources by name: formulas, networks, files, and those of other packages."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import BadOption, unknown_name
from ..io import Entry, Registry, open_cube
from ..models import Sensor, defaults
from ..networks import GROUP, DLWnet3d, Network, place_network
from ..networks import files as store
from ..testbed import Truth
from .formulas import Given, Mixture, Oracle, Original, Precision, Robust, Uniform
from .source import Product, Sees, Source

DEFAULT = defaults.WEIGHTS
"""The network used when nothing else is asked for."""


@dataclass(frozen=True, eq=False)
class Net(Source):
    """w = softmax of the logits of a DLWnet."""

    net: Network
    name: str
    sha256: str = ""
    logits: bool = True
    sees: Sees = "rows"
    reach: int = field(init=False)
    sensor: Sensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", self.net.radius)

    def raw(self, y: Tensor, valid: Tensor, x: Tensor | None = None) -> Tensor:
        return predict_logits(place_network(self.net, y.device), y)

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        return (self.net,) if self.sensor is None else (self.net, self.sensor.net)

    @property
    def networks(self) -> dict[str, str]:
        return {self.name: self.sha256}


TILE_BYTES = 64 * 2**20
"""Memory of one activation of a tile of a colour network."""

STRIP_BYTES = 20 * 2**20
"""Memory of the rows of one activation that a hyperspectral network works on at a time."""


@torch.no_grad()
def predict_logits(net: Network, y: Tensor, tile: int | None = None) -> Tensor:
    """Logits of an image (band, row, col), tile by tile with a halo: exact, in bounded memory.

    Args:
        tile: side of a tile in pixels. When None it is chosen from the number of bands; tiles of a
            hyperspectral network are then as high as the image, which it reads from top to bottom.
    """
    bands, rows, cols = y.shape
    halo = net.radius
    height, width = (tile, tile) if tile else _choose_tile(net, bands, rows)
    if rows <= height + 2 * halo and cols <= width + 2 * halo:
        whole: Tensor = net(y)
        return whole
    out = torch.empty_like(y)
    for top in range(0, rows, height):
        for left in range(0, cols, width):
            bottom, right = min(top + height, rows), min(left + width, cols)
            a, b = max(0, top - halo), max(0, left - halo)
            part = net(y[:, a : bottom + halo, b : right + halo])
            out[:, top:bottom, left:right] = part[:, top - a : bottom - a, left - b : right - b]
    return out


def _choose_tile(net: Network, bands: int, rows: int) -> tuple[int, int]:
    """Height and width of the tiles of an image, in pixels."""
    voxel = 4 * int(net.config["filters"])
    if isinstance(net, DLWnet3d):
        return rows, max(48, STRIP_BYTES // (voxel * bands * (GROUP + 2)))
    side = max(32, int(math.sqrt(TILE_BYTES / voxel)) - 2 * net.radius)
    return side, side


def load_network(name: str | Path) -> Net:
    """The weights of a network, shipped or in a file; of an adapted one those of the default beside it."""
    if (adapted := store.load_sensor(name)) is not None:
        known = Sensor(adapted.net, **adapted.card["sensor"])
        default = store.load_network(DEFAULT).net
        return Net(default, Path(name).stem, adapted.sha256, sensor=known)
    stored = store.load_network(name)
    return Net(stored.net, str(stored.card.get("name", name)), stored.sha256)


@dataclass(frozen=True)
class SourceEntry(Entry):
    """A weight source that is known by name, a "formula" or a "network", with a line about it.

    It takes "truth" where ``build`` needs the true noise.
    """

    summary: str = ""


def _make_entry(name: str, given: Source | Callable[..., Source]) -> SourceEntry:
    """From a subclass of Source, a function that makes a source, or a source."""
    build = (lambda: given) if isinstance(given, Source) else given
    doc = inspect.getdoc(type(given) if isinstance(given, Source) else given) or ""
    takes = frozenset({"truth"} & set(inspect.signature(build).parameters))
    kind = "network" if name in store.list_networks() else "formula"
    summary = (doc.splitlines() or [""])[0] if kind == "formula" else ""
    return SourceEntry(name, build, kind, takes, summary)


SOURCES: Registry[SourceEntry] = Registry(
    "weight source",
    "hyperdlw.weights",
    {
        "uniform": Uniform,
        "precision": Precision,
        "robust": Robust,
        "mixture": Mixture,
        "original": Original,
        "oracle": Oracle,
        **{name: partial(load_network, name) for name in store.list_networks()},
    },
    _make_entry,
)
"""Every weight source that has a name. Other packages add theirs (entry point ``hyperdlw.weights``)."""


def list_formulas() -> dict[str, SourceEntry]:
    """Sources that need neither a network nor anything but the noisy image, by name.

    >>> list(list_formulas())[:4]
    ['uniform', 'precision', 'robust', 'mixture']
    """
    return {
        name: entry
        for name, entry in SOURCES.items()
        if entry.kind == "formula" and not entry.takes and name != "original"
    }


Spec = str | Path | Source | Tensor | NDArray[np.generic] | Sequence["Spec"]
"""What stands for a source (see :func:`resolve`)."""


def resolve(spec: Spec, truth: Truth | None = None) -> Source:
    """The source a user means.

    Args:
        spec: the name of a formula or of a shipped network, a network file, a file with an array of
            weights or a mask, an array, a source, or several of these (a sequence, or names
            joined by ``*``), which multiply.
        truth: the true noise, which "oracle" needs.

    >>> resolve("uniform * precision").name
    'uniform*precision'
    """
    if isinstance(spec, Source):
        return spec
    if isinstance(spec, np.ndarray):
        spec = torch.as_tensor(np.ascontiguousarray(spec, np.float32))
    if isinstance(spec, Tensor):
        return Given(spec)
    if isinstance(spec, Path):
        return _resolve_name(str(spec), truth)
    if isinstance(spec, str):
        parts = [p.strip() for p in spec.split("*")]
        if not all(parts):
            raise BadOption(
                f"'{spec}' is not a product of weight sources; write for example N+T+TS*mask.npy"
            )
        found = [_resolve_name(p, truth) for p in parts]
        return found[0] if len(found) == 1 else Product(found)
    if not isinstance(spec, Sequence):
        raise BadOption(f"weights are a name, an array or a hyperdlw.weights.Source, not {spec!r}")
    if not spec:
        raise BadOption("the list of weight sources is empty")
    return Product([resolve(s, truth) for s in spec])


def _resolve_name(name: str, truth: Truth | None) -> Source:
    if name in SOURCES:
        entry = SOURCES[name]
        if "truth" in entry.takes and truth is None:
            raise BadOption(
                f"the weights '{name}' need the true noise; they are for benchmarks only"
            )
        made = entry.build(truth=truth) if "truth" in entry.takes else entry.build()
        if not isinstance(made, Source):
            raise BadOption(f"the weight source '{name}' of another package is no Source: {made!r}")
        return made
    path = Path(name)
    if path.suffix and path.suffix not in store.ENDINGS:
        return Given(torch.from_numpy(open_cube(path).data), name=path.name)
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        raise unknown_name("weight source", name, list(SOURCES))
    return load_network(name)
