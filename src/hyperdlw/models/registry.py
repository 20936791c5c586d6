"""The one registry of what ``model=`` may name: models of the solver, and published methods.

A model takes weights. A published method is a model with a ``method`` of its own: it takes no weights,
strength or schedule, and is built, solved and reported like any other. A network file
(``x.safetensors``) is a published method too.

Packages add entries through the entry point ``hyperdlw.models``: a function ``build(shape, strength)``;
a module with ``build``, and ``original`` or ``BANDS`` where it has them; or a module with ``run(y)``,
a published method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import BadInput, BadOption
from ..io import Entry, Registry
from ..networks import files, place_network
from ..solver import Model, Problem, Schedule, Solution, State, Watch
from . import ctv, dip, e3dtv, lrtfdfr, lrtv, nn, picture, plain, pnp, svtv, tv, tvs
from .denoisers import DenoiserSpec, find_network, resolve_denoiser, resolve_plane_denoiser
from .presets import PRESETS
from .published import fasthymix, hyres, lrmr, mnf, nmog

Build = Callable[..., Model]
"""(band, row, col) and a strength (1 = the constants of its file, larger = smoother) -> Model.

A model with a rank takes the keyword ``rank``, an int or None (the published value); one that uses a
denoiser takes the keyword ``denoiser``; one that can do more or less takes ``quality``, a name."""

Run = Callable[..., Tensor]
"""(image (band, row, col) with bands in [0, 1], seed=) -> the restored image.

A method with the keyword ``rank`` or ``denoiser`` lets the user choose it."""

Kind = Literal["model", "published", "preset"]
"""A preset is a model with other constants: it can be named, and is not offered by itself."""

FREE = frozenset({"weights", "strength", "schedule"})
"""What every model takes and no published method does."""

REFUSALS = {
    "weights": "takes no weights; leave them out",
    "strength": "has no strength to choose; leave it out",
    "schedule": "has no schedule to choose; leave it out",
    "original": "has no original version; use weights 'uniform', or one of {others}",
    "rank": "has no rank to choose (models that have: {others})",
    "denoiser": "has no denoiser to choose (models that have: {others})",
    "quality": "has no quality to choose (models that have: {others})",
}
"""Why a model is refused that does not take what is asked for."""


@dataclass(frozen=True)
class ModelEntry(Entry):
    """A model or a published method: how it is built, and what it takes.

    Attributes:
        takes: some of "weights", "strength", "schedule", "rank", "denoiser", "quality", "original".
        original: builds the published version of a model, with its own data term; or None.
        summary: what it says about a clean image, in one line.
        bands: the only number of bands it is for, or None.
        denoiser: the denoiser it uses unless another one is chosen; None: it uses none.
        network: name or file of the trained network that it is, or None.
        count_fitted: bands -> number of parameters that are fitted to the image, or None.
        mild: whether eigenimages take its place where the noise is mild.
    """

    original: Build | None = None
    summary: str = ""
    bands: int | None = None
    denoiser: DenoiserSpec | None = None
    network: str | None = None
    count_fitted: Callable[[int], int] | None = None
    mild: bool = False

    def list_networks(self, denoiser: DenoiserSpec | None = None) -> dict[str, str]:
        """SHA-256 of every trained network behind the model, by name."""
        used = self.name if self.network is not None else denoiser or self.denoiser
        stored = self._find_network(denoiser)
        return {str(used): stored.sha256} if stored else {}

    def count_parameters(self, bands: int, denoiser: DenoiserSpec | None = None) -> int:
        """Parameters of the networks behind the model, for images of so many bands.

        >>> [REGISTRY[name].count_parameters(31) for name in ("pnp", "dip", "tv", "hsid-cnn")]
        [128644, 1687531, 0, 399161]
        """
        if self.count_fitted is not None:
            return self.count_fitted(bands)
        if self.network in files.RIVALS:
            rival = files.RIVALS[self.network]
            return files.count_parameters(rival, **rival.sizes_for(bands))
        stored = self._find_network(denoiser)
        return sum(p.numel() for p in stored.net.parameters()) if stored else 0

    def _find_network(self, denoiser: DenoiserSpec | None) -> files.AnyStored | None:
        if self.network is not None:
            return files.load_rival(self.network)
        return find_network(denoiser or self.denoiser)


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network as a method, by the name of its architecture or by its file."""

    name: str

    @property
    def summary(self) -> str:
        if self.name in files.RIVALS:
            return files.RIVALS[self.name].summary
        return f"{files.load_rival(self.name).card['architecture']} from {self.name}"

    def __call__(self, y: Tensor, *, seed: int = 0) -> Tensor:
        net = place_network(files.load_rival(self.name).net, y.device)
        with torch.no_grad():
            out: Tensor = net(y)
        return out


def model_with_method(run: Run) -> Callable[..., Model]:
    """``build`` of a published method; weights, strength and schedule have no part in it."""

    def build(shape: Sequence[int], strength: float = 1.0, **chosen: object) -> Model:
        def method(p: Problem, schedule: Schedule, watch: Watch | None) -> Solution:
            if p.y.dim() != 3 or 0 in p.y.shape:
                raise BadInput(
                    f"a published method wants an image (band, row, col), not shape {tuple(p.y.shape)}"
                )
            x = run(p.y, seed=p.seed, **chosen)
            return Solution(x, State(x, (), (), (), (), schedule.mu, 0), (), True)

        if isinstance(run, TrainedNetwork):
            files.load_rival(run.name)  # a file that is missing or damaged is refused here
        rank = chosen.get("rank")
        return Model(
            terms=(),
            schedule=Schedule(steps=0, mu=1.0),
            rank=rank if isinstance(rank, int) else None,
            method=method,
        )

    return build


def _make_entry(name: str, given: object) -> ModelEntry:
    """An entry from a module, a build function, or a trained network."""
    network = given if isinstance(given, TrainedNetwork) else None
    run: Run | None = network or getattr(given, "run", None)
    function = run or getattr(given, "build", None) or given
    assert callable(function)
    original = getattr(given, "original", None)
    keywords = inspect.signature(function).parameters
    takes = {"rank", "denoiser", "quality"} & set(keywords)
    return ModelEntry(
        name,
        function if run is None else model_with_method(run),
        "published" if run else "preset" if name in PRESETS else "model",
        frozenset(takes | (FREE if run is None else set()) | ({"original"} if original else set())),
        original,
        network.summary if network else (function.__doc__ or "").strip().partition("\n")[0],
        getattr(given, "BANDS", None),
        keywords["denoiser"].default if "denoiser" in takes else None,
        None if network is None else network.name,
        getattr(given, "count_parameters", None),
        getattr(given, "MILD", False),
    )


REGISTRY: Registry[ModelEntry] = Registry(
    "model",
    "hyperdlw.models",
    {
        "plain": plain,
        "nn": nn,
        "tv": tv,
        "tvs": tvs,
        "lrtv": lrtv,
        "e3dtv": e3dtv,
        "lrtfdfr": lrtfdfr,
        "ctv": ctv,
        "svtv": svtv,
        "picture": picture,
        "pnp": pnp,
        "pnp-hqs": pnp.build_hqs,
        "dip": dip,
        **PRESETS,
        "lrmr": lrmr,
        "nmog": nmog,
        "hyres": hyres,
        "fasthymix": fasthymix,
        "mnf": mnf,
        **{name: TrainedNetwork(name) for name in files.RIVALS},
    },
    _make_entry,
)
"""Everything ``model=`` may name, apart from network files."""


def list_models(kind: Kind | None = None) -> dict[str, ModelEntry]:
    """Every entry by name, or those of one kind.

    >>> list(list_models("published"))
    ['lrmr', 'nmog', 'hyres', 'fasthymix', 'mnf', 'hsid-cnn', 'hsi-denet']
    """
    return {name: e for name, e in REGISTRY.items() if kind in (None, e.kind)}


def find_model(
    name: str,
    *,
    original: bool = False,
    rank: int | str | None = None,
    denoiser: DenoiserSpec | None = None,
    given: Collection[str] = (),
) -> ModelEntry:
    """The entry of a name or a network file, after checking that it takes what is asked for.

    Args:
        original: the published version is asked for.
        rank, denoiser: as chosen by the user; None: not chosen.
        given: which of "weights", "strength", "schedule", "quality" the user has chosen.
    """
    if name.endswith(".safetensors") and name not in REGISTRY:
        entry = _make_entry(name, TrainedNetwork(name))
    else:
        entry = REGISTRY.find(name)
    asked = {"original": original, "rank": rank is not None, "denoiser": denoiser is not None}
    for option, refusal in REFUSALS.items():
        if (option in given or asked.get(option)) and option not in entry.takes:
            others = ", ".join(e.name for e in REGISTRY.values() if option in e.takes)
            raise BadOption(f"the model '{name}' {refusal.format(others=others)}")
    if isinstance(rank, str) and (rank != "auto" or entry.kind == "published"):
        also = "" if entry.kind == "published" else " or 'auto'"
        raise BadOption(f"the rank of '{name}' must be a whole number{also}, not '{rank}'")
    if isinstance(rank, int) and rank < 1:
        raise BadOption(f"rank must be at least 1, not {rank}")
    if denoiser is not None and not callable(denoiser):
        # A wrong name is refused before any work is done.
        (resolve_plane_denoiser if entry.kind == "published" else resolve_denoiser)(denoiser)
    return entry


def build_model(
    name: str,
    shape: Sequence[int],
    strength: float = 1.0,
    *,
    original: bool = False,
    rank: int | None = None,
    denoiser: DenoiserSpec | None = None,
    quality: str | None = None,
) -> Model:
    """The model ``name`` for images of ``shape`` (..., band, row, col).

    Args:
        strength: 1 is the constants of its file (the published ones for ``original``); larger is smoother.
        original: the published version with its own data term, to be used with w = 1.
        rank: for models that have one; None is the published value.
        denoiser: for models that use one; None is the shipped one.
        quality: for models that have some; None is the normal one.

    >>> build_model("tv", (31, 64, 64)).schedule.steps
    20
    >>> build_model("lrtv", (31, 64, 64), original=True).fidelity.name
    'l1'
    """
    entry = find_model(name, original=original, rank=rank, denoiser=denoiser)
    if not strength > 0:
        raise BadOption(f"strength must be positive (1 is the usual setting), not {strength}")
    shape = tuple(shape[-3:])
    if entry.bands not in (None, shape[0]):
        raise BadOption(f"the model '{name}' is for {entry.bands} bands, and there are {shape[0]}")
    make = entry.original if original else entry.build
    assert make is not None
    if rank is not None and rank > shape[0]:
        raise BadOption(f"a rank of {rank} is more than the {shape[0]} bands there are")
    chosen = {"rank": rank, "denoiser": denoiser, "quality": quality}
    built: Model = make(shape, strength, **{k: v for k, v in chosen.items() if v is not None})
    return built
