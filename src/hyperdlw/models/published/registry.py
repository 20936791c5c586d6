"""Names of before, until every call is moved to the one registry."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...solver import Problem, solve
from ..denoisers.catalogue import DenoiserSpec as Spec


def is_rival(model: str) -> bool:
    from ..registry import REGISTRY

    if model in REGISTRY:
        return REGISTRY[model].kind == "published"
    return model.endswith(".safetensors")


class Rival:
    """What the benchmark asks of a published method."""

    def __init__(self, model: str) -> None:
        from ..registry import find_model

        self.entry = find_model(model)
        self.name, self.summary = model, self.entry.summary

    @property
    def parameters(self) -> int:
        return self.entry.count_parameters(31)

    @property
    def sha256(self) -> str:
        return self.entry.list_networks().get(self.name, "")

    @property
    def takes_denoiser(self) -> bool:
        return self.entry.takes_denoiser


def registry() -> dict[str, Rival]:
    from ..registry import list_models

    return {name: Rival(name) for name in list_models("published")}


def find(model: str) -> Rival:
    found = Rival(model)
    if found.entry.network is not None:
        found.entry.list_networks()
    return found


def restore(
    model: str,
    y: Tensor,
    *,
    rank: int | None = None,
    seed: int = 0,
    denoiser: Spec | None = None,
) -> Tensor:
    from ..registry import build_model

    built = build_model(model, y.shape, rank=rank, denoiser=denoiser)
    return solve(Problem(built, y, y.new_ones(1), seed)).x


def check_options(
    model: str,
    *,
    weights: Any,
    strength: Any,
    schedule: Any = "paper",
    rank: Any = None,
    denoiser: Any = None,
) -> None:
    from ..defaults import WEIGHTS
    from ..registry import find_model

    given = [] if isinstance(weights, str) and weights == WEIGHTS else ["weights"]
    given += ["strength"] if strength != 1.0 else []
    given += ["schedule"] if schedule != "paper" else []
    find_model(model, rank=rank, denoiser=denoiser, given=given)
