"""What there is to choose from, without torch, which takes seconds to import.

The built-in models, networks and formulas stand in ``listing.json``, which ``make listing`` writes from
the registries and a test compares with them. Where other packages add some, the registries are asked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

from ..io import scan_entry_points

FILE = Path(__file__).with_name("listing.json")


class ListedModel(TypedDict):
    """A model: what it says about a clean image, its kind, what it takes, its only number of bands."""

    summary: str
    kind: str
    takes: list[str]
    bands: int | None


class ListedNetwork(TypedDict):
    """A network: how it was trained, and its only number of bands."""

    summary: str
    bands: int | None


class Listing(TypedDict):
    """All choices by name; formulas have a line each."""

    models: dict[str, ListedModel]
    networks: dict[str, ListedNetwork]
    formulas: dict[str, str]


def read_listing() -> Listing:
    """The choices of this installation."""
    if scan_entry_points("hyperdlw.models") or scan_entry_points("hyperdlw.weights"):
        return make_listing()
    found: Listing = json.loads(FILE.read_text("utf-8"))
    return found


def make_listing() -> Listing:
    """The choices as the registries have them."""
    from ..models import list_models
    from ..networks import files as store
    from ..weights import list_formulas

    networks: dict[str, ListedNetwork] = {}
    for name in store.list_networks():
        stored = store.load_network(name)
        through = "+".join(map(str, stored.card.get("sources", []))) or "unknown models"
        count = sum(p.numel() for p in stored.net.parameters())
        about = f"trained through {through}, {count} parameters"
        networks[name] = {"summary": about, "bands": stored.net.channels}
    return {
        "models": {
            name: {
                "summary": e.summary,
                "kind": e.kind,
                "takes": sorted(e.takes),
                "bands": e.bands,
            }
            for name, e in list_models().items()
        },
        "networks": networks,
        "formulas": {name: e.summary for name, e in list_formulas().items()},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(make_listing(), indent=1) + "\n", "utf-8")
