"""The list of materials: name, version and licence of every package this installation needs.

Walks from hyperdlw along the requirements that hold on this machine; packages that are installed for
other reasons are not listed. ``--extras`` adds optional ones.

    python benchmarks/trust/sbom.py --extras view,scale > out/trust/sbom.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

ROOT = "hyperdlw"


def name_licence(package: Distribution) -> str:
    """The licence as the package tells it: an SPDX expression, a classifier, or a short text."""
    facts = package.metadata
    if facts.get("License-Expression"):
        return str(facts["License-Expression"])
    classes = [
        c.split("::")[-1].strip()
        for c in facts.get_all("Classifier") or []
        if c.startswith("License ::")
    ]
    named = [c for c in classes if c != "OSI Approved"]
    if named:
        return "; ".join(named)
    text = str(facts.get("License") or "").strip()
    return text.splitlines()[0][:80] if text else "not told"


def walk_needs(extras: set[str]) -> dict[str, Distribution | None]:
    """Every package that hyperdlw needs, and what it needs; None if it is not installed."""
    found: dict[str, Distribution | None] = {}
    open_ends = [(ROOT, frozenset(extras))]
    seen = set()
    while open_ends:
        name, wanted = open_ends.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if (key, wanted) in seen:
            continue
        seen.add((key, wanted))
        try:
            found[key] = package = distribution(name)
        except PackageNotFoundError:
            found[key] = None
            continue
        for text in package.requires or ():
            need = Requirement(text)
            if any(
                need.marker is None or need.marker.evaluate({"extra": extra})
                for extra in (*wanted, "")
            ):
                open_ends.append((need.name, frozenset(need.extras)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extras", default="", help="of hyperdlw, separated by commas")
    parser.add_argument("--markdown", action="store_true", help="a table instead of CycloneDX JSON")
    given = parser.parse_args()
    packages = walk_needs({e for e in given.extras.split(",") if e})
    rows = [
        (name, p.version if p else "not installed", name_licence(p) if p else "not told")
        for name, p in sorted(packages.items())
    ]
    if given.markdown:
        print("| package | version | licence |\n|---|---|---|")
        print("\n".join(f"| {a} | {b} | {c} |" for a, b, c in rows))
        return 0
    parts = [
        {
            "type": "library",
            "name": a,
            "version": b,
            "purl": f"pkg:pypi/{a}@{b}",
            "licenses": [{"license": {"name": c}}],
        }
        for a, b, c in rows
    ]
    facts = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts}
    print(json.dumps(facts, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
